package invariant

import (
	"time"

	"handoff/chaos/history"
	"handoff/core/config"
)

// awayServers returns invariant 23 (defect D57): a server that returns must not meet a crowd of clients. A
// process that calls a dead server without pauses wastes its machine and fills its log.
func awayServers() *Invariant {
	i := &Invariant{
		Number: 23, Name: "left in peace", Conduct: true,
		Statement: "While a server is away, each process calls it at a bounded rate. The process connects with growing pauses. Its loops try once a period. Every retry of a call waits for a growing pause. After any other error, too, a worker waits for such a pause before it repeats a call for an execution.",
		Needs:     []history.Kind{history.DatabaseDown, history.DatabaseUp, history.BrokerDown, history.BrokerUp},
	}
	i.make = func(s *Suite) checker { return &awayChecker{i: i, s: s} }
	return i
}

// Numbers of the contract that no configuration key changes.
const (
	// awayWindow is the length of the windows for which calls are counted.
	awayWindow = 10 * time.Second
	// clients is the number of broker connections that a process may open: one for its work, and one for its
	// notifications or its test of the dead letter path. A worker that re-registers opens a third.
	clients = 3
	// heldLetters is the prefetch of the dead letter queue.
	heldLetters = 50
	// hintsASecond and looksASecond limit a worker's queries per second for cancellations and for dispatches.
	hintsASecond, looksASecond = 5, 1
)

// Connections counts each process's attempts so far to connect to the broker. A [Work] may implement it.
type Connections interface {
	// Connections calls visit for each process in a fixed order. worker reports whether it is a worker.
	Connections(visit func(process string, worker bool, made uint64))
}

// serverOutage describes a server's outage. It holds each process's number of calls at the start of the
// present window.
type serverOutage struct {
	down  bool
	since time.Duration
	made  map[string]uint64
}

type awayChecker struct {
	i                *Invariant
	s                *Suite
	database, broker serverOutage
	// most is the largest capacity that any worker has had so far.
	most int64
}

// observedKinds implements selective.
func (ac *awayChecker) observedKinds() []history.Kind {
	return []history.Kind{
		history.WorkerRegistered, history.ProcessStarted, history.DatabaseDown, history.BrokerDown, history.DatabaseUp,
		history.BrokerUp,
	}
}

func (ac *awayChecker) isTimedChecker() {}

func (ac *awayChecker) observeEvent(e *history.Event, _ *life) {
	switch e.Kind {
	case history.WorkerRegistered:
		ac.most = max(ac.most, e.Limit)
	case history.ProcessStarted:
		// A new process of this name starts with the shortest pauses.
		ac.judgeReplacedProcess(&ac.database, ac.visitStatements, "database statements", e)
		ac.judgeReplacedProcess(&ac.broker, ac.visitConnections, "connections to the broker", e)
	case history.DatabaseDown:
		ac.beginWindow(&ac.database, ac.visitStatements, e.At)
	case history.BrokerDown:
		ac.beginWindow(&ac.broker, ac.visitConnections, e.At)
	case history.DatabaseUp:
		ac.judgeWindow(&ac.database, ac.visitStatements, "database statements", e.At)
		ac.database.down = false
	case history.BrokerUp:
		ac.judgeWindow(&ac.broker, ac.visitConnections, "connections to the broker", e.At)
		ac.broker.down = false
	default:
		if ac.database.down && e.At-ac.database.since >= awayWindow {
			ac.judgeWindow(&ac.database, ac.visitStatements, "database statements", e.At)
			ac.beginWindow(&ac.database, ac.visitStatements, e.At)
		}
		if ac.broker.down && e.At-ac.broker.since >= awayWindow {
			ac.judgeWindow(&ac.broker, ac.visitConnections, "connections to the broker", e.At)
			ac.beginWindow(&ac.broker, ac.visitConnections, e.At)
		}
	}
	if ac.database.down {
		ac.s.wakeAt(ac.database.since + awayWindow)
	}
	if ac.broker.down {
		ac.s.wakeAt(ac.broker.since + awayWindow)
	}
}

// callVisitor calls visit with each process's number of calls to one server, and with a function that returns
// the bound on it for a given time.
type callVisitor func(visit func(process string, made uint64, bound func(took time.Duration) int64))

// beginWindow begins a window of an outage.
func (ac *awayChecker) beginWindow(a *serverOutage, read callVisitor, at time.Duration) {
	if ac.s.work == nil {
		return
	}
	if a.made == nil {
		a.made = make(map[string]uint64)
	}
	a.down, a.since = true, at
	read(func(process string, made uint64, _ func(time.Duration) int64) { a.made[process] = made })
}

// judgeWindow judges the number of each process's calls in the window that ends.
func (ac *awayChecker) judgeWindow(a *serverOutage, read callVisitor, what string, at time.Duration) {
	if !a.down || ac.s.work == nil {
		return
	}
	took := at - a.since
	read(func(process string, made uint64, bound func(time.Duration) int64) {
		ac.s.countOccasion(ac.i)
		ac.judgeCount(process, made-a.made[process], what, took, bound)
	})
}

// judgeReplacedProcess judges the calls of a process that is replaced by another process of its name, and
// starts a new window for that name.
func (ac *awayChecker) judgeReplacedProcess(a *serverOutage, read callVisitor, what string, e *history.Event) {
	if !a.down || ac.s.work == nil {
		return
	}
	read(func(process string, made uint64, bound func(time.Duration) int64) {
		if process == e.Process {
			ac.judgeCount(process, made-a.made[process], what, e.At-a.since, bound)
			a.made[process] = made
		}
	})
}

func (ac *awayChecker) judgeCount(process string, made uint64, what string, took time.Duration, bound func(time.Duration) int64) {
	if n, most := int64(made), bound(took); n > most {
		ac.s.recordViolation(ac.i, 0, "%s made %d %s within %v while that server was away; the bound is %d", process, n, what, took, most)
	}
}

func (ac *awayChecker) visitStatements(visit func(string, uint64, func(time.Duration) int64)) {
	ac.s.work.Statements(func(process string, worker bool, made uint64) {
		visit(process, made, func(took time.Duration) int64 {
			if worker {
				return ac.workerStatements(took)
			}
			return ac.executorStatements(took)
		})
	})
}

func (ac *awayChecker) visitConnections(visit func(string, uint64, func(time.Duration) int64)) {
	w, counts := ac.s.work.(Connections)
	if !counts {
		return
	}
	r := ac.s.config.MessageQueue.RabbitMQ
	w.Connections(func(process string, _ bool, made uint64) {
		visit(process, made, func(took time.Duration) int64 { return clients * attemptsWithin(took, r.ReconnectMin, r.ReconnectMax) })
	})
}

// workerStatements returns the maximum number of a worker's statements in took: heartbeats, which are ten
// times as frequent after a failure; attempts to register, two statements each; the steps of a stop; the
// calls of each claim and result; and the queries for cancellations and dispatches.
func (ac *awayChecker) workerStatements(took time.Duration) int64 {
	w := ac.s.config.Worker
	n := int64(took/max(w.HeartbeatInterval/10, 100*time.Millisecond)) + 2
	n += 2 * attemptsWithin(took, 200*time.Millisecond, 5*time.Second)
	n += 3 * attemptsWithin(took, 100*time.Millisecond, time.Second)
	n += 2 * ac.most * attemptsWithin(took, 100*time.Millisecond, 2*time.Second)
	return n + (hintsASecond+looksASecond)*(int64(took/time.Second)+1)
}

// executorStatements returns the maximum number of an executor's statements in took. Each loop fails at its
// first statement, or at that statement's second attempt, and retries after its period. Each held dead letter
// is retried separately.
func (ac *awayChecker) executorStatements(took time.Duration) (n int64) {
	loop := func(statements int64, period time.Duration) { n += statements * (int64(took/period) + 2) }
	x := ac.s.config.Executor
	loop(10, x.ReconcileInterval)
	loop(4, x.TimeoutCheckInterval)
	loop(2, x.FiguresInterval)
	if x.HealthProbes != config.Off {
		loop(2, x.HealthCheckInterval)
	}
	loop(6, time.Minute)
	if x := ac.s.config.Retention; x.Any() {
		loop(2, x.Interval)
	}
	// While the brake lets one worker at a time through, the lease monitor looks every second.
	loop(2, time.Second)
	return n + heldLetters*attemptsWithin(took, 200*time.Millisecond, 10*time.Second)
}

// attemptsWithin returns how many attempts fit into took, if the pause between two attempts doubles from
// least to most and each pause is drawn from the upper half of its range.
func attemptsWithin(took, least, most time.Duration) (n int64) {
	n = 1
	for pause := least; took >= pause/2; pause = min(2*pause, most) {
		took -= pause / 2
		n++
		if pause == most {
			return n + int64(took/(most/2))
		}
	}
	return n
}

func (ac *awayChecker) endRun(bool) {}
