package invariant

import (
	"math/bits"
	"slices"
	"strings"
	"time"

	"handoff/chaos/fault"
	"handoff/chaos/history"
	"handoff/core/broker"
	"handoff/core/execution"
)

// cause is a set of possible causes of a bad end. Causes that strike one worker come first, then
// those that strike every worker.
type cause uint32

const (
	// standsStill: the process crashed, was asked to stop, was paused or frozen, or has not come
	// back yet.
	standsStill cause = 1 << iota
	// itsClock: the clock of its machine was moved.
	itsClock
	// toDatabase and toBroker: the worker's link to that server was cut, slow or reset, or the broker
	// ended its session because of an unacknowledged delivery.
	toDatabase
	toBroker
	isDeaf
	isMute
	isSick
	// isWithdrawn: an operator has cordoned or drained the worker.
	isWithdrawn
	// hasTwin: another process took its name.
	hasTwin
	// losesQueue: its queue was deleted, unbound or hangs, or its consumers were cancelled or
	// blocked.
	losesQueue

	brokerFails
	databaseFails
	// renewalFails: the database fails, or a stranger has locked a table that a heartbeat needs.
	renewalFails
	databaseClock
	// dispatchesFail: messages with dispatches were lost, late, unreadable or out of order.
	dispatchesFail
	// executorFails: an executor stopped or was paused, its clock was moved, or its links failed.
	executorFails
	// makesNoQueue: the broker creates no queue, because a message with a hostile header has died
	// in one.
	makesNoQueue

	causes = 17
)

// servers are the causes that strike every worker.
const servers = brokerFails | databaseFails | renewalFails | databaseClock | dispatchesFail | executorFails | makesNoQueue

// causeNames describes each cause; %s stands for the worker.
var causeNames = [causes]string{ //detlint:ok a constant table, never written
	"a stop, crash or standstill of %s", "its clock", "its link to the database", "its link to the broker", "deafness", "muteness",
	"a machine that starts nothing", "a cordon or drain by an operator", "a twin under its name", "its queue",
	"the broker", "the database", "the tables that leases need", "the database's clock", "lost or late dispatches", "an executor or its links", "a broker that makes no queue",
}

// describe lists the causes of a set in words.
func (c cause) describe(worker string) string {
	var words []string
	for i, name := range causeNames {
		if c&(1<<i) != 0 {
			words = append(words, strings.ReplaceAll(name, "%s", worker))
		}
	}
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:len(words)-1], ", ") + " or " + words[len(words)-1]
}

// trouble records whether a cause is present now, and when it last was. That is enough to tell
// whether it was present at any time since a given moment, and it takes constant space.
type trouble struct {
	lasting int16
	seen    bool
	last    time.Duration
}

func (t *trouble) begin(at time.Duration) { t.lasting, t.seen, t.last = t.lasting+1, true, at }
func (t *trouble) end(at time.Duration)   { t.lasting, t.last = max(0, t.lasting-1), at }

// strike notes a momentary cause, such as a clock step.
func (t *trouble) strike(at time.Duration) { t.seen, t.last = true, at }

// since says whether the cause was present at from or later.
func (t *trouble) since(from time.Duration) bool { return t.lasting > 0 || t.seen && t.last >= from }

// afflicted is a process with the causes that have struck it.
type afflicted struct {
	name string
	// worker is the last worker as which the process registered, 0 for an executor.
	worker execution.WorkerID
	of     [causes]trouble
	// held is the trouble of being paused or frozen. A restarted process is no longer held.
	held trouble
	// silent is the trouble of connections to the database that went silent. A process notices that
	// within the time of a statement, so it is no cause by itself.
	silent trouble
}

// had says whether a cause was present at any time since a moment.
func (a *afflicted) had(c cause, from time.Duration) bool {
	return a.of[c.at()].since(from) || c == standsStill && a.held.since(from)
}

// ledger records which causes struck which process. It prefers observed events to announced faults:
// processes that end or pause, servers that are down, clocks that jump. Links, slow servers and
// sick workers leave no events of their own; for these the ledger relies on the announcement of the
// fault.
type ledger struct {
	processes []*afflicted
	byName    map[string]*afflicted
	// common holds the causes that strike every worker.
	common [causes]trouble
	// noQueueFrom is the time since which the broker has created no queue.
	noQueueFrom time.Duration
	// cordoned holds the cordons of each worker.
	cordoned map[execution.WorkerID]*trouble
}

func newLedger() *ledger {
	return &ledger{byName: make(map[string]*afflicted), cordoned: make(map[execution.WorkerID]*trouble)}
}

func (l *ledger) process(name string) *afflicted {
	p := l.byName[name]
	if p == nil {
		p = &afflicted{name: name}
		l.byName[name] = p
		l.processes = append(l.processes, p)
	}
	return p
}

// at is the index of a single cause in the arrays.
func (c cause) at() int { return bits.TrailingZeros32(uint32(c)) }

// hear observes an event, except the frequent kinds that hold no information about causes.
func (l *ledger) hear(e *history.Event) {
	switch e.Kind {
	case history.Transition, history.Published, history.Enqueued, history.Delivered, history.Acked, history.Created, history.HeartbeatRenewed,
		history.ActionStarted, history.ActionEnded, history.PublishedMarked, history.Orchestrated:
	default:
		l.observe(e)
	}
}

// observe learns from events of processes, servers and clocks, and from announced faults.
func (l *ledger) observe(e *history.Event) {
	switch e.Kind {
	case history.ProcessStarted:
		p, known := l.byName[e.Process]
		if !known {
			// Its first start ends no cause.
			l.process(e.Process)
			return
		}
		// The process was away until now.
		p.of[standsStill.at()], p.held.lasting = trouble{seen: true, last: e.At}, 0
	case history.ProcessCrashed, history.ProcessStopped, history.ProcessStopping:
		// The process is away until it starts again.
		l.process(e.Process).of[standsStill.at()] = trouble{lasting: 1, seen: true, last: e.At}
	case history.ProcessPaused, history.ProcessFrozen:
		l.process(e.Process).held.begin(e.At)
	case history.ProcessResumed, history.ProcessThawed:
		l.process(e.Process).held.end(e.At)
	case history.WorkerRegistered:
		l.process(e.Process).worker = e.Worker
	case history.WorkerCordoned:
		t := l.cordoned[e.Worker]
		if t == nil {
			t = new(trouble)
			l.cordoned[e.Worker] = t
		}
		*t = trouble{lasting: int16(min(e.Count, 1)), seen: true, last: e.At}
	case history.DatabaseDown:
		l.common[databaseFails.at()].begin(e.At)
		l.common[renewalFails.at()].begin(e.At)
	case history.DatabaseUp:
		l.common[databaseFails.at()].end(e.At)
		l.common[renewalFails.at()].end(e.At)
	case history.BrokerDown:
		l.common[brokerFails.at()].begin(e.At)
	case history.BrokerUp:
		l.common[brokerFails.at()].end(e.At)
		if t := &l.common[makesNoQueue.at()]; t.lasting > 0 && e.Count == 0 {
			t.end(e.At)
		}
	case history.Expired, history.Rejected, history.ReturnedTooOften:
		if t := &l.common[makesNoQueue.at()]; t.lasting == 0 && e.Count > 0 {
			l.noQueueFrom = e.At
			t.begin(e.At)
		}
	case history.ConsumerTimedOut:
		// The worker is without a consumer until it has connected or subscribed again.
		c := toBroker
		if e.Count > 0 {
			c = losesQueue
		}
		l.process(e.Process).of[c.at()].strike(e.At)
	case history.ClockStepped:
		l.common[databaseClock.at()].strike(e.At)
	case history.FaultBegan:
		l.announced(e, (*trouble).begin)
	case history.FaultEnded:
		l.announced(e, (*trouble).end)
	default:
	}
}

// dispatchType is the type of the messages that carry dispatches.
var dispatchType = broker.ExecutionScheduled.String() //detlint:ok a constant, never written

// tablesOfLeases are the tables that a heartbeat needs.
var tablesOfLeases = []string{"worker", "worker_incarnation", "execution_work"} //detlint:ok a constant table, never written

// announced notes the beginning or end of a fault that leaves no events of its own: the causes that
// its kind can excuse, for the targets that it strikes.
func (l *ledger) announced(e *history.Event, note func(*trouble, time.Duration)) {
	kind := fault.Find(e.Text)
	if kind == nil {
		return
	}
	common := func(c cause) { note(&l.common[c.at()], e.At) }
	each := func(c cause) {
		for name := range strings.SplitSeq(e.Process, ",") {
			note(&l.process(name).of[c.at()], e.At)
		}
	}
	ends := func(server string) bool { return slices.Contains(strings.Split(e.Queue, ","), server) }
	if kind.Name == "silent_connections" && ends(fault.Database) {
		for name := range strings.SplitSeq(e.Process, ",") {
			note(&l.process(name).silent, e.At)
		}
	}
	for _, c := range kind.Excuses {
		switch c {
		case fault.LinkToDatabase:
			if ends(fault.Database) {
				each(toDatabase)
			}
		case fault.LinkToBroker:
			if ends(fault.Broker) {
				each(toBroker)
			}
		case fault.ClockOfProcess:
			if e.Process != fault.Database {
				each(itsClock)
			}
		case fault.ClockOfDatabase:
			if e.Process == fault.Database {
				common(databaseClock)
			}
		case fault.DispatchesFail:
			if e.Queue == dispatchType || e.Queue == fault.EveryMessage {
				common(dispatchesFail)
			}
		case fault.BrokerFails:
			common(brokerFails)
		case fault.DatabaseFails:
			common(databaseFails)
			if kind.Name != "locked_table" || slices.Contains(tablesOfLeases, e.Queue) {
				common(renewalFails)
			}
		case fault.WorkerDeaf:
			each(isDeaf)
		case fault.WorkerMute:
			each(isMute)
		case fault.WorkerSick:
			each(isSick)
		case fault.WorkerWithdrawn:
			each(isWithdrawn)
		case fault.WorkerTwin:
			each(hasTwin)
		case fault.WorkerQueue, fault.WorkerQueueStuck:
			each(losesQueue)
		}
	}
}

// lasts says that a cause has struck a process and has not ended. It is a cause of processes.
func (l *ledger) lasts(c cause, process string) bool {
	p := l.byName[process]
	return p != nil && p.of[c.at()].lasting > 0
}

// struck says whether one of the causes was present since a moment, for a worker or for the process
// that runs its incarnation. worker is 0 if the caller knows only the process.
func (l *ledger) struck(of cause, process string, worker execution.WorkerID, from time.Duration) bool {
	for i := range causes {
		c := cause(1) << i
		switch {
		case of&c == 0:
		case c == executorFails:
			if l.executors(from) {
				return true
			}
		case c&servers != 0:
			if l.common[i].since(from) {
				return true
			}
		default:
			if p := l.byName[process]; p != nil && p.had(c, from) {
				return true
			}
		}
	}
	if t := l.cordoned[worker]; of&isWithdrawn != 0 && t != nil && t.since(from) {
		return true
	}
	if of&hasTwin == 0 {
		return false
	}
	// A twin is announced for the process whose name it takes. All processes that registered as
	// that worker are affected, among them two twins that follow each other.
	if p := l.byName[process]; worker == 0 && p != nil {
		worker = p.worker
	}
	return worker != 0 && slices.ContainsFunc(l.processes, func(p *afflicted) bool {
		return p.worker == worker && p.of[hasTwin.at()].since(from)
	})
}

// last is when one of the causes was last present for a process, 0 if it never was, and whether one
// still is.
func (l *ledger) last(of cause, process string) (at time.Duration, lasts bool) {
	note := func(t *trouble) {
		if t.seen {
			at, lasts = max(at, t.last), lasts || t.lasting > 0
		}
	}
	p := l.byName[process]
	for i := range causes {
		switch c := cause(1) << i; {
		case of&c == 0:
		case c&servers != 0:
			note(&l.common[i])
		case p != nil:
			note(&p.of[i])
		}
	}
	if p != nil && of&standsStill != 0 {
		note(&p.held)
	}
	return at, lasts
}

// executors says whether an executor or its links had trouble since a moment.
func (l *ledger) executors(from time.Duration) bool {
	return slices.ContainsFunc(l.processes, func(p *afflicted) bool {
		if p.worker != 0 {
			return false
		}
		return p.had(standsStill, from) || p.had(itsClock, from) || p.had(toDatabase, from) || p.had(toBroker, from)
	})
}
