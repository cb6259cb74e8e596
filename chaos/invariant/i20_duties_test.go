package invariant

import (
	"slices"
	"testing"
	"time"

	"handoff/chaos/fault"
	"handoff/chaos/history"
	"handoff/core/config"
	"handoff/core/execution"
)

// beginFault returns the beginning of a fault of worker 1's process or, unless server is empty, of its link
// to it.
func beginFault(at time.Duration, kind, server string) history.Event {
	return history.Event{At: at, Kind: history.FaultBegan, Fault: "f", Text: kind, Process: "w", Queue: server}
}

// quietEvent returns an event without a meaning: it only advances the time to at.
func quietEvent(at time.Duration) history.Event { return history.Event{At: at, Kind: history.Logged} }

// Each story is about a duty of an unhindered worker. Only its last events may be unlawful.
func TestOnlyNeglectedWorkerDutyBreaksInvariant(t *testing.T) {
	with := slices.Concat[[]history.Event]
	one := func(es ...history.Event) []history.Event { return es }
	beats := func(every, until time.Duration) (all []history.Event) {
		for at := every; at <= until; at += every {
			all = append(all, beat(at, 1))
		}
		return all
	}
	silenced := func(at time.Duration) history.Event { return beginFault(at, "silent_connections", "database") }
	from := func(at time.Duration, story []history.Event) (all []history.Event) {
		for _, e := range story {
			e.At += at
			all = append(all, e)
		}
		return all
	}
	claimed := beginning()[:len(beginning())-1]
	lost := move(5*second, execution.Running, execution.Failed, execution.Worker, 1, 1)
	lost.Reason = execution.WorkerLost
	starting := one(registered(1, 1, "shell"))
	unready := beat(2*second, 1)
	unready.Limit = 0
	second2 := func() (all []history.Event) {
		for _, e := range beginning()[3:] {
			e.Execution, e.Chain = 2, 2
			all = append(all, e)
		}
		return all
	}()
	dispatched := beginning()[:8]
	late := func(counts int64) history.Event {
		e := move(190*second, execution.Scheduled, execution.Requested, execution.DeadLetterHandler, 1, 2)
		e.Reason, e.Count, e.Due = execution.QueueTimeout, counts, 191*second
		return e
	}
	refused := history.Event{At: 122 * second, Kind: history.StaleWrite, Execution: 1, Epoch: 1, To: execution.Running, By: execution.Worker, Process: "w"}
	sent := func(at time.Duration, kind history.Kind) history.Event {
		e := message(at, kind, "worker.1.executions", 0)
		e.Process = "w"
		return e
	}
	unread := sent(3*second, history.Acked)
	unread.Fault = "corrupt"
	asked := history.Event{At: 3 * second, Kind: history.EndAsked, Execution: 1, Epoch: 1, Incarnation: 1, Process: "w"}
	graceful := asked
	graceful.Due = 2 * second
	killed := action(3*second, history.ActionEnded, "w", 1)
	killed.To = execution.Cancelled
	shutdown := move(3*second, execution.Running, execution.Failed, execution.Worker, 1, 1)
	shutdown.Reason = execution.WorkerShutdown
	again := registered(1, 1, "shell")
	again.At, again.Incarnation, again.Due = 4*second, 2, 34*second
	keptBack := history.Event{At: 3 * second, Kind: history.RefusedResult, Execution: 1, Epoch: 1, Incarnation: 1, To: execution.Completed, Process: "w"}
	drain := beginFault(3*second, "drain", "")
	cordoned := history.Event{At: 3 * second, Kind: history.WorkerCordoned, Worker: 1, Count: 1}
	restored := cordoned
	restored.Process = fault.Database
	anew := again
	anew.Incarnation = 1
	twin := registered(1, 2, "shell")
	twin.At, twin.Incarnation, twin.Process = 2*second, 2, "w twin 2"
	twinActive := worker(2*second, execution.Active)
	twinActive.Incarnation, twinActive.Process = 2, twin.Process
	twinBeats := beats(5*second, 30*second)
	for i := range twinBeats {
		twinBeats[i].Process, twinBeats[i].Incarnation = twin.Process, 2
	}
	twinEnded := history.Event{At: 3 * second, Kind: history.ProcessStopped, Process: twin.Process}
	later, laterBeats := again, beats(10*second, 40*second)
	later.Incarnation = 3
	for i := range laterBeats {
		laterBeats[i].Incarnation = 3
	}
	laterActive := worker(5*second, execution.Active)
	laterActive.Incarnation = 3
	lifted, cordonedLater := cordoned, cordoned
	lifted.At, lifted.Count, cordonedLater.At = 5*second, 0, 6*second
	ended := history.Event{At: 2 * second, Kind: history.ProcessStopped, Process: "w"}
	lostAt := func(at time.Duration) history.Event {
		e := worker(at, execution.Lost)
		e.Process = "executor-1"
		return e
	}
	cut := func(since, until time.Duration) []history.Event {
		from := beginFault(since, "partition", "database")
		to := from
		to.At, to.Kind = until, history.FaultEnded
		return one(from, to)
	}
	idle := one(registered(1, 1, "shell"), beat(0, 1), worker(0, execution.Active))
	// The worker could learn of its drain at 8 s, and the database stores the drain at 15 s.
	drains := one(drain, cordoned, beat(8*second, 1), beat(12*second, 1), worker(15*second, execution.Draining))
	endedAt := func(at time.Duration) history.Event {
		e := shutdown
		e.At = at
		return e
	}
	stopped := history.Event{At: 20 * second, Kind: history.ProcessStopped, Process: "w"}
	slowed := func() []history.Event {
		slow := history.Event{At: 3 * second, Kind: history.FaultBegan, Fault: "f", Text: "database_slow", Process: "database"}
		ends := slow
		ends.At, ends.Kind = 4*second, history.FaultEnded
		return one(slow, ends)
	}()
	for _, c := range []struct {
		name      string
		invariant int
		broken    bool
		story     []history.Event
	}{
		{"a claimed execution is started", 20, false, handled()},
		{"a claimed execution is forgotten", 20, true, with(claimed, beats(3*second, 12*second))},
		{"a claimed execution waits for an unreachable database", 20, false, with(claimed, one(beginFault(3*second, "partition", "database")), beats(3*second, 12*second))},
		{"a claimed execution waits for a connection attempt from a slow period of the database", 20, false, with(claimed, slowed, beats(5*second, 10*second), one(beat(14500*time.Millisecond, 1)))},
		{"a claimed execution is forgotten, and the database was slow before", 20, true, with(claimed, slowed, beats(5*second, 15*second), one(beat(15500*time.Millisecond, 1)))},
		{"a claimed execution is not started by a worker whose lease is over", 20, false, with(claimed, one(quietEvent(40*second)))},
		{"a claimed execution is reported as lost", 20, true, with(claimed, one(lost))},
		{"a worker is active when it consumes", 21, false, idle},
		{"a worker consumes and stays starting", 21, true, with(starting, beats(10*second, 30*second))},
		{"a worker does not consume", 21, false, with(starting, one(unready, beat(10*second, 1), beat(20*second, 1)))},
		{"a worker can't report that it consumes", 21, false, with(starting, one(beginFault(second, "partition", "database")), beats(10*second, 30*second))},
		{"a worker could not report that it consumes until its fence, and is declared lost long after", 21, false, with(starting, one(beat(0, 1)), cut(second, 20*second), one(lostAt(60*second)))},
		{"a worker could report that it consumes before its fence, and is declared lost", 21, true, with(starting, one(beat(0, 1)), cut(second, 10*second), one(lostAt(60*second)))},
		{"a worker could report that it consumes, and becomes active long after", 21, true, with(starting, one(beat(0, 1)), cut(second, 20*second), one(worker(60*second, execution.Active)))},
		{"a heartbeat over a connection that went silent delays that a worker is active", 21, false, with(starting, one(beat(0, 1), silenced(second/2), beat(20*second, 1)))},
		{"a worker is not active for longer than such a heartbeat takes", 21, true, with(starting, one(beat(0, 1), silenced(second/2), beat(25*second, 1)))},
		{"a worker is not active, and a connection had gone silent long before", 21, true, with(one(silenced(0)), from(5*second, starting), one(beat(5*second, 1), beat(25*second, 1)))},
		{"as many actions as slots", 22, false, beginning()},
		{"more actions than slots", 22, true, with(beginning(), second2)},
		{"a dispatch was left unclaimed and counts", 24, false, with(dispatched, one(late(1)))},
		{"a dispatch was left unclaimed and does not count", 24, true, with(dispatched, one(late(0)))},
		{"a dispatch waited at a worker that ran something", 24, false, with(second2[:0], dispatched, second2, one(late(0)))},
		{"a dispatch was lost before the broker had it", 24, false, with(dispatched[:6], one(late(0)))},
		{"a claim came too late and its message is not rejected", 24, true, with(dispatched, beats(10*second, 120*second), one(sent(2*second, history.Delivered)), one(refused, beat(129*second, 1)))},
		{"a claim came too late and its message is rejected", 24, false, with(dispatched, beats(10*second, 120*second), one(sent(2*second, history.Delivered)), one(refused, sent(122*second, history.Rejected), beat(129*second, 1)))},
		{"a claim came too late whose message could not be read", 24, false, with(dispatched, beats(10*second, 120*second), one(sent(2*second, history.Delivered), unread), one(refused, beat(129*second, 1)))},
		{"a claim came too late whose message was lost with its queue", 24, false, with(dispatched, beats(10*second, 120*second), one(sent(2*second, history.Delivered), sent(3*second, history.Dropped)), one(refused, beat(129*second, 1)))},
		{"a delivery is rejected before its time", 24, true, with(dispatched, one(sent(2*second, history.Delivered), sent(60*second, history.Rejected)))},
		{"a delivery is rejected after its time", 24, false, with(dispatched, one(sent(2*second, history.Delivered), sent(122*second, history.Rejected)))},
		{"an action is ended with its grace", 13, false, with(beginning(), one(graceful, killed, shutdown))},
		{"an action is ended without grace", 13, true, with(beginning(), one(asked, killed, shutdown))},
		{"a result is refused while its row waits for it", 13, true, with(beginning(), one(keptBack))},
		{"a process re-registers and has not written a result", 13, true, with(beginning(), one(action(3*second, history.ActionEnded, "w", 1), again))},
		{"a process re-registers and has written its results", 13, false, with(finished(), one(again))},
		{"an operator's drain is obeyed", 10, false, with(idle, one(drain, cordoned, beat(8*second, 1), worker(9*second, execution.Draining), worker(10*second, execution.Stopped), stopped))},
		{"an operator's drain is ignored", 10, true, with(idle, one(drain, cordoned), beats(5*second, 30*second))},
		{"an operator drains a worker that has not registered yet", 10, false, with(one(drain), idle, beats(5*second, 30*second))},
		{"an operator drains a process that has ended", 10, false, with(idle, one(ended, drain, cordoned, anew), beats(5*second, 30*second))},
		{"an operator drains the twin of a process, which ends, and then cordons another process of the name", 10, false, with(idle, one(twin, drain, cordoned, twinEnded, later, laterActive, lifted, cordonedLater), laterBeats)},
		{"an operator drains the twin of a process, which ignores it", 10, true, with(idle, one(twin, twinActive, drain, cordoned), twinBeats)},
		{"an operator tries to drain a worker, and a standby takes over that still has it cordoned", 10, false, with(idle, one(drain, restored), beats(5*second, 30*second))},
		{"an operator has only cordoned a worker", 10, false, with(idle, one(cordoned), beats(5*second, 30*second))},
		{"a process that an operator drains re-registers", 10, true, with(idle, one(drain, cordoned, anew, worker(4*second, execution.Active)), beats(5*second, 30*second))},
		{"a drained run has its time since its worker could learn of the drain, and the link was cut", 10, false, with(beginning(), cut(3*second, 14*second), drains, one(endedAt(38*second)))},
		{"a drained run has less time than that", 10, true, with(beginning(), cut(3*second, 14*second), drains, one(endedAt(36*second)))},
		{"a drained run has its time only since then, and the link was not cut", 10, true, with(beginning(), drains, one(endedAt(38*second)))},
		{"an operator's drain does not end the process", 10, true, with(idle, one(drain, cordoned, worker(9*second, execution.Draining), worker(10*second, execution.Stopped), quietEvent(200*second)))},
	} {
		if got := slices.Contains(judge(c.story), c.invariant); got != c.broken {
			t.Errorf("%s: invariant %d broken is %v, want %v", c.name, c.invariant, got, c.broken)
		}
	}
}

func TestRepeatedReclaimsWaitLonger(t *testing.T) {
	// story returns a story with two reclaims. After the second, the execution waits for wait.
	story := func(wait time.Duration, counted int64) []history.Event {
		back := func(at, wait time.Duration, old execution.Epoch, count int64) history.Event {
			e := move(at, execution.Scheduled, execution.Requested, execution.Reconciler, old, old+1)
			e.Due, e.Count, e.Reason = at+wait, count, execution.Transient
			return e
		}
		return []history.Event{
			created(second),
			move(second, execution.Requested, execution.Scheduling, execution.Scheduler, 0, 0),
			move(second, execution.Scheduling, execution.Scheduled, execution.Scheduler, 0, 1),
			back(2*second, second, 1, counted),
			move(4*second, execution.Requested, execution.Scheduling, execution.Scheduler, 2, 2),
			move(4*second, execution.Scheduling, execution.Scheduled, execution.Scheduler, 2, 3),
			back(5*second, wait, 3, counted),
		}
	}
	for _, c := range []struct {
		wait   time.Duration
		broken bool
	}{{2 * second, false}, {1600 * time.Millisecond, false}, {second, true}, {3 * second, true}} {
		if got := slices.Contains(judge(story(c.wait, 0)), 8); got != c.broken {
			t.Errorf("the second take-back waits for %v: broken is %v, want %v", c.wait, got, c.broken)
		}
	}
}

// callWorld is a world that reports the numbers of calls set by the test.
type callWorld struct{ statements, connections uint64 }

func (c *callWorld) Statements(visit func(string, bool, uint64)) {
	visit("executor-1", false, c.statements)
}

func (c *callWorld) Connections(visit func(string, bool, uint64)) {
	visit("executor-1", false, c.connections)
}

func TestCallsToDownServerAreBounded(t *testing.T) {
	for _, c := range []struct {
		name                    string
		statements, connections uint64
		down                    history.Kind
		broken                  bool
	}{
		{"a few statements", 200, 0, history.DatabaseDown, false},
		{"thousands of statements", 5000, 0, history.DatabaseDown, true},
		{"thousands of statements to a database that is up", 5000, 0, history.BrokerDown, false},
		{"a few attempts to connect", 0, 20, history.BrokerDown, false},
		{"ten attempts to connect in a second", 0, 100, history.BrokerDown, true},
	} {
		s, w := New(config.Default(config.Hardened), []int{23}), new(callWorld)
		s.SetWork(w)
		for i, e := range []history.Event{{At: second, Kind: c.down}, quietEvent(5 * second), quietEvent(11 * second)} {
			if i == 1 {
				w.statements, w.connections = c.statements, c.connections
			}
			s.Observe(&e)
		}
		if got := len(s.End(true)) > 0; got != c.broken {
			t.Errorf("%s: broken is %v, want %v", c.name, got, c.broken)
		}
	}
}

// A worker that gets no replies to its stored heartbeats fences itself. It then abandons its claims, and its
// next heartbeat reports that. Any fault of a link to the database can lose all replies during a lease.
func TestOnlyUnansweredWorkerMayAbandonClaim(t *testing.T) {
	of := func(at time.Duration, kind history.Kind, what, process, server string) history.Event {
		return history.Event{At: at, Kind: kind, Fault: "f", Text: what, Process: process, Queue: server}
	}
	// The worker claims at 39 s and ends its claim as lost at 42 s. Its lease is 30 s, its margin 5 s.
	broken := func(faults ...history.Event) bool {
		story := slices.Concat(beginning()[:3], faults)
		for at := 10 * second; at <= 40*second; at += 10 * second {
			story = append(story, beat(at, 1))
		}
		for _, e := range beginning()[3:11] {
			e.At += 37 * second
			if e.Kind == history.Transition {
				e.Due += 37 * second
			}
			story = append(story, e)
		}
		lost := move(42*second, execution.Running, execution.Failed, execution.Worker, 1, 1)
		lost.Reason = execution.WorkerLost
		story = append(story, lost)
		slices.SortStableFunc(story, func(a, b history.Event) int { return int(a.At - b.At) })
		return slices.Contains(judge(story), 20)
	}
	if !broken() {
		t.Error("a worker that gets its replies abandons a claim, and no finding")
	}
	for _, kind := range fault.Kinds() {
		if slices.Contains(kind.Excuses, fault.LinkToDatabase) && broken(of(3*second, history.FaultBegan, kind.Name, "w", "database")) {
			t.Errorf("%s: a finding, although the worker may have got no reply for a lease", kind.Name)
		}
	}
	const began, over = history.FaultBegan, history.FaultEnded
	for _, x := range []struct {
		name   string
		faults []history.Event
		broken bool
	}{
		{"for less than a lease", []history.Event{of(20*second, began, "reset", "w", "database")}, true},
		{"on another link", []history.Event{of(3*second, began, "reset", "w", "broker")}, true},
		{"on that link and another", []history.Event{of(3*second, began, "reset", "w", "broker,database")}, false},
		{"of another process", []history.Event{of(3*second, began, "reset", "executor-1", "database")}, true},
		{"until just before", []history.Event{of(3*second, began, "reset", "w", "database"), of(39*second, over, "reset", "w", "database")}, false},
		{"until long before", []history.Event{of(second, began, "reset", "w", "database"), of(29*second, over, "reset", "w", "database")}, true},
		{"of two kinds, of which one has ended", []history.Event{
			of(3*second, began, "reset", "w", "database"), of(5*second, began, "latency", "w", "database"), of(8*second, over, "latency", "w", "database"),
		}, false},
		{"twice, both times for less than a lease", []history.Event{
			of(3*second, began, "reset", "w", "database"), of(20*second, over, "reset", "w", "database"), of(22*second, began, "reset", "w", "database"),
		}, true},
	} {
		if got := broken(x.faults...); got != x.broken {
			t.Errorf("no answers %s: broken is %v, want %v", x.name, got, x.broken)
		}
	}
}
