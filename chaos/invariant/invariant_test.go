package invariant

import (
	"slices"
	"strings"
	"testing"
	"time"

	"handoff/chaos/history"
	"handoff/core/config"
	"handoff/core/execution"
)

const second = time.Second

// These return events of execution 1 and of worker 1 (incarnation 1, process "w"). A test's story is lawful
// up to its last event.

func created(at time.Duration) history.Event {
	return history.Event{At: at, Kind: history.Created, Execution: 1, Chain: 1, To: execution.Requested, By: execution.API, Limit: 1, Text: "shell"}
}

func move(at time.Duration, from, to execution.Status, by execution.Part, old, now execution.Epoch) history.Event {
	e := history.Event{
		At: at, Kind: history.Transition, Execution: 1, Chain: 1, From: from, To: to, By: by, OldEpoch: old, Named: old, Epoch: now,
		Process: "executor-1",
	}
	if from == execution.Scheduled || from.Claimed() || to == execution.Scheduled {
		e.Worker, e.Incarnation = 1, 1
	}
	if by == execution.Worker {
		e.Process, e.Writer = "w", 1
	}
	switch to {
	case execution.Scheduled:
		e.Due = at + 120*second
	case execution.Running:
		e.Due = at + 300*second
	default:
	}
	return e
}

func worker(at time.Duration, to execution.Lifecycle) history.Event {
	return history.Event{At: at, Kind: history.WorkerLifecycle, Worker: 1, Incarnation: 1, Lifecycle: to, Process: "w"}
}

func message(at time.Duration, kind history.Kind, queue string, count int64) history.Event {
	return history.Event{At: at, Kind: kind, Message: 1, Queue: queue, Count: count, Execution: 1, Epoch: 1}
}

func action(at time.Duration, kind history.Kind, machine string, epoch execution.Epoch) history.Event {
	e := history.Event{At: at, Kind: kind, Execution: 1, Epoch: epoch, Worker: 1, Incarnation: 1, Process: machine}
	if kind == history.ActionEnded {
		e.To = execution.Completed
	}
	return e
}

func registered(w execution.WorkerID, capacity int64, runtimes string) history.Event {
	return history.Event{
		Kind: history.WorkerRegistered, Worker: w, Incarnation: execution.Incarnation(w), Process: "w", Due: 30 * second, Limit: capacity, Text: runtimes,
	}
}

// beat returns a heartbeat of a worker that consumes.
func beat(at time.Duration, w execution.WorkerID) history.Event {
	return history.Event{At: at, Kind: history.HeartbeatRenewed, Worker: w, Incarnation: execution.Incarnation(w), Process: "w", Due: at + 30*second, Limit: 1}
}

// beginning returns the events of an active worker and of an execution that the worker claims at 2 s.
func beginning() []history.Event {
	return []history.Event{
		registered(1, 1, "shell"),
		beat(0, 1),
		worker(0, execution.Active),
		created(second),
		move(second, execution.Requested, execution.Scheduling, execution.Scheduler, 0, 0),
		move(second, execution.Scheduling, execution.Scheduled, execution.Scheduler, 0, 1),
		message(second, history.Published, "", 1),
		message(second, history.Enqueued, "worker.1.executions", 0),
		message(2*second, history.PublishedMarked, "", 0),
		move(2*second, execution.Scheduled, execution.Running, execution.Worker, 1, 1),
		message(2*second, history.Acked, "worker.1.executions", 0),
		action(2*second, history.ActionStarted, "w", 1),
	}
}

func finished() []history.Event {
	return append(beginning(),
		action(3*second, history.ActionEnded, "w", 1),
		move(3*second, execution.Running, execution.Completed, execution.Worker, 1, 1))
}

func handled() []history.Event {
	return append(finished(), history.Event{At: 3 * second, Kind: history.Orchestrated, Execution: 1, Chain: 1, From: execution.Completed})
}

func judge(events []history.Event) []int { return judgeUnder(config.Default(config.Hardened), events) }

func judgeUnder(c config.Config, events []history.Event) []int {
	s := New(c, nil)
	for i := range events {
		events[i].Step = uint64(i)
		s.Observe(&events[i])
	}
	var broken []int
	for _, f := range s.End(true) {
		broken = append(broken, f.Invariant.Number)
	}
	slices.Sort(broken)
	return broken
}

func TestLawfulStoryBreaksNothing(t *testing.T) {
	if broken := judge(handled()); len(broken) > 0 {
		t.Errorf("invariants %v are broken", broken)
	}
}

func TestUnlawfulStoryBreaksItsInvariant(t *testing.T) {
	keyed := func(at time.Duration, id execution.ID) history.Event {
		e := created(at)
		e.Execution, e.Chain, e.Key = id, id, "k"
		return e
	}
	with := func(story []history.Event, more ...history.Event) []history.Event { return append(story, more...) }
	lost := worker(40*second, execution.Lost)
	lost.Process = "executor-1"
	abandon := func(at time.Duration) history.Event {
		e := move(at, execution.Running, execution.Abandoned, execution.Reconciler, 1, 1)
		e.Reason = execution.WorkerLost
		return e
	}
	retry := func(count int64, reason execution.Reason, due time.Duration) history.Event {
		return history.Event{
			At: 51 * second, Kind: history.Created, Execution: 2, Chain: 1, To: execution.Requested, By: execution.RetryManager,
			Count: count, Limit: 1, Reason: reason, Due: due,
		}
	}
	drainEnd := move(5*second, execution.Running, execution.Failed, execution.Worker, 1, 1)
	drainEnd.Reason = execution.HeartbeatStale
	foreign := move(3*second, execution.Running, execution.Completed, execution.Worker, 1, 1)
	foreign.Writer = 2
	stale := move(3*second, execution.Running, execution.Completed, execution.Worker, 1, 1)
	stale.Named = 0
	unread := func(by string, stored ...string) []history.Event {
		hint := func(kind history.Kind, count int64) history.Event {
			return history.Event{At: 4 * second, Kind: kind, Message: 2, Queue: "q", Count: count, Process: by}
		}
		acked := hint(history.Acked, 0)
		acked.Fault = "corrupt"
		story := with(handled(), hint(history.Published, 1), hint(history.Enqueued, 0), acked)
		for _, p := range stored {
			story = append(story, history.Event{At: 5 * second, Kind: history.DeadLetterStored, Process: p})
		}
		return story
	}
	for _, c := range []struct {
		name  string
		want  int
		story []history.Event
	}{
		{"a terminal status is changed", 1, with(handled(), move(4*second, execution.Completed, execution.Failed, execution.TimeoutMonitor, 1, 1))},
		{"a status is skipped", 1, with(beginning()[:3:3], move(second, execution.Requested, execution.Running, execution.Worker, 0, 0))},
		{"the monitor fails a running execution", 2, with(beginning(), move(4*second, execution.Running, execution.Failed, execution.TimeoutMonitor, 1, 1))},
		{"another incarnation writes the result", 2, with(beginning(), foreign)},
		{"running work is reclaimed before lease and grace are over", 2, with(beginning(), lost, abandon(39*second))},
		{"a worker is marked lost while its lease is valid", 2, with(beginning(), history.Event{At: 29 * second, Kind: history.WorkerLifecycle, Worker: 1, Incarnation: 1, Lifecycle: execution.Lost, Process: "executor-1"})},
		{"unclaimed work is reclaimed too early by the monitor", 2, with(beginning()[:7:7], move(100*second, execution.Scheduled, execution.Requested, execution.TimeoutMonitor, 1, 2))},
		{"unclaimed work is reclaimed although no message died", 2, with(beginning()[:7:7], move(100*second, execution.Scheduled, execution.Requested, execution.DeadLetterHandler, 1, 2))},
		{"a write that names an old epoch takes effect", 3, with(beginning(), stale)},
		{"a reclaim keeps the epoch", 3, with(beginning()[:7:7], move(301*second, execution.Scheduled, execution.Requested, execution.TimeoutMonitor, 1, 1))},
		{"an epoch is claimed twice", 4, with(beginning(), move(3*second, execution.Scheduled, execution.Running, execution.Worker, 1, 1))},
		{"an action is started twice", 4, with(beginning(), action(3*second, history.ActionStarted, "v", 1))},
		{"an action starts that nobody has claimed", 4, with(beginning()[:7:7], action(3*second, history.ActionStarted, "w", 1))},
		{"an execution is never ended", 5, beginning()},
		{"a dead letter goes nowhere", 6, with(beginning()[:7:7], message(200*second, history.Expired, "worker.1.executions", 0), message(200*second, history.Dropped, "worker.1.executions", 0))},
		{"a message leaves a queue twice", 6, with(handled(), message(4*second, history.Acked, "worker.1.executions", 0))},
		{"an unreadable message is acknowledged and not stored", 6, unread("executor-1")},
		{"an unreadable message is acknowledged before it is stored", 6, unread("executor-1", "executor-1")},
		{"an unreadable message is acknowledged by an unknown process and not stored", 6, unread("")},
		{"an end is handled twice", 7, with(handled(), history.Event{At: 4 * second, Kind: history.Orchestrated, Execution: 1, Chain: 1})},
		{"an end is never handled", 7, finished()},
		{"a second retry of one number is created", 7, with(beginning(), retry(1, execution.WorkerLost, 52*second), func() history.Event {
			e := retry(1, execution.WorkerLost, 52*second)
			e.Execution = 3
			return e
		}())},
		{"more retries than allowed", 8, with(beginning(), retry(2, execution.WorkerLost, 53*second))},
		{"a retry for a reason that is not retriable", 8, with(beginning(), retry(1, execution.Validation, 52*second))},
		{"a retry without backoff", 8, with(beginning(), retry(1, execution.WorkerLost, 51*second))},
		{"a draining worker's run ends as stale", 10, with(beginning(), worker(3*second, execution.Draining), drainEnd)},
		{"a worker stops with work running", 10, with(beginning(), worker(3*second, execution.Draining), worker(4*second, execution.Stopped))},
		{"a stopped worker claims", 10, with(beginning()[:7:7], worker(second, execution.Stopped), move(2*second, execution.Scheduled, execution.Running, execution.Worker, 1, 1))},
		{"a dead worker is not detected", 12, with(beginning(), history.Event{At: 120 * second, Kind: history.Quiescent})},
		{"an execution is scheduled and never published", 12, with(beginning()[:5:5], history.Event{At: 60 * second, Kind: history.Quiescent})},
		{"a queue is not empty", 14, with(handled(), history.Event{At: 4 * second, Kind: history.Published, Message: 2, Count: 1}, history.Event{At: 4 * second, Kind: history.Enqueued, Message: 2, Queue: "q"})},
		{"an action outlives its lease", 4, with(beginning(), action(31*second, history.ActionEnded, "w", 1))},
		{"running work is ended by the executor while its action runs", 4, with(beginning(), lost, abandon(41*second))},
		{"a message is requeued endlessly", 6, with(beginning(), slices.Repeat([]history.Event{message(3*second, history.Requeued, "worker.1.executions", 0)}, mostRounds+1)...)},
		{"a reclaim without backoff", 8, with(beginning()[:7:7], move(301*second, execution.Scheduled, execution.Requested, execution.TimeoutMonitor, 1, 2))},
		{"a stop never ends", 10, with(handled(), history.Event{At: 60 * second, Kind: history.ProcessStopping, Process: "w"}, history.Event{At: 200 * second, Kind: history.ProcessStopped, Process: "w"})},
		{"a key creates two executions", 16, []history.Event{keyed(second, 1), keyed(11*time.Hour, 2)}},
		{"a result that no run computed", 13, with(beginning(), move(3*second, execution.Running, execution.Completed, execution.Worker, 1, 1))},
		{"a completed run is reported as lost by its worker", 13, with(beginning(), action(3*second, history.ActionEnded, "w", 1), func() history.Event {
			e := move(3*second, execution.Running, execution.Failed, execution.Worker, 1, 1)
			e.Reason = execution.WorkerLost
			return e
		}())},
	} {
		if broken := judge(c.story); !slices.Contains(broken, c.want) {
			t.Errorf("%s: invariants %v are broken, %d should be among them", c.name, broken, c.want)
		}
	}
}

// After a day, a key can create another execution.
func TestOldKeyCanBeReused(t *testing.T) {
	for _, first := range []time.Duration{0, 11 * time.Hour, 13 * time.Hour} {
		one, two := created(first), created(first+24*time.Hour)
		one.Key, two.Key = "k", "k"
		two.Execution, two.Chain = 2, 2
		if broken := judge([]history.Event{one, two}); slices.Contains(broken, 16) {
			t.Errorf("a key of %v was reused a day later, and invariants %v are broken", first, broken)
		}
	}
}

// Executors hindered by a fault need not detect anything. The bounds count from the fault's end.
func TestHindrancePostponesDetection(t *testing.T) {
	hindered := append(beginning(),
		history.Event{At: 5 * second, Kind: history.FaultBegan, Fault: "restart database", Text: "database_restart", Count: 1},
		history.Event{At: 110 * second, Kind: history.FaultEnded, Fault: "restart database", Text: "database_restart", Count: 1},
		history.Event{At: 140 * second, Kind: history.Quiescent})
	if broken := judge(hindered); slices.Contains(broken, 12) {
		t.Errorf("invariants %v are broken; 12 may not be, 30 s after a fault that hindered the executors", broken)
	}
}

// The violation's message says since when the execution has been stuck, why, and the bound.
func TestDetectionReportsTimeAndReason(t *testing.T) {
	s := New(config.Default(config.Hardened), []int{12})
	for _, e := range append(beginning(), history.Event{At: 120 * second, Kind: history.Quiescent}) {
		s.Observe(&e)
	}
	found := s.End(true)
	if len(found) == 0 {
		t.Fatal("a dead worker is not detected")
	}
	const want = "execution 1, epoch 1: since 0s its worker has not renewed its lease; the bound for that is "
	if m := found[0].Message; !strings.HasPrefix(m, want) {
		t.Errorf("%q does not begin with %q", m, want)
	}
}

// Two actions of one chain must not run at the same time. A frozen machine is exempt, because its clocks were
// stopped, so its fences could not work.
func TestOnlyFrozenMachineExcusesOverlappingActions(t *testing.T) {
	overlap := func(frozen bool) []int {
		story := beginning()
		if frozen {
			story = append(story, history.Event{At: 3 * second, Kind: history.ProcessFrozen, Process: "w"})
		}
		second2 := func(e history.Event) history.Event {
			e.Execution, e.Incarnation, e.Worker = 2, 2, 2
			if e.Writer != 0 {
				e.Writer = 2
			}
			return e
		}
		story = append(story,
			history.Event{At: 4 * second, Kind: history.WorkerRegistered, Worker: 2, Incarnation: 2, Process: "v", Due: 60 * second},
			history.Event{At: 51 * second, Kind: history.Created, Execution: 2, Chain: 1, To: execution.Requested, Count: 1, Limit: 1, Reason: execution.WorkerLost, Due: 52 * second},
			second2(move(52*second, execution.Requested, execution.Scheduling, execution.Scheduler, 0, 0)),
			second2(move(52*second, execution.Scheduling, execution.Scheduled, execution.Scheduler, 0, 1)),
			second2(move(53*second, execution.Scheduled, execution.Running, execution.Worker, 1, 1)),
			second2(action(53*second, history.ActionStarted, "v", 1)))
		return judge(story)
	}
	if broken := overlap(false); !slices.Contains(broken, 4) {
		t.Errorf("two actions of one chain run at a time, and invariants %v are broken", broken)
	}
	if broken := overlap(true); slices.Contains(broken, 4) {
		t.Errorf("the machine of one of two overlapping actions was frozen, and invariants %v are broken", broken)
	}
}

// A suite keeps state only for unfinished executions.
func TestFinishedExecutionsAreForgotten(t *testing.T) {
	s := New(config.Default(config.Hardened), nil)
	for id := execution.ID(1); id <= 1000; id++ {
		for _, e := range handled() {
			if e.Execution != 0 {
				e.Execution, e.Chain, e.Message = id, id, uint64(id)
			}
			s.Observe(&e)
		}
	}
	if s.lives.Len() != 0 {
		t.Errorf("%d finished executions are remembered", s.lives.Len())
	}
	for _, c := range s.checkers {
		if x, is := c.(*conservationChecker); is && x.letters.Len() != 0 {
			t.Errorf("%d settled messages are remembered", x.letters.Len())
		}
		if x, is := c.(*singleRunChecker); is && x.running.Len() != 0 {
			t.Errorf("%d ended actions are remembered", x.running.Len())
		}
	}
}

// Only a rule's first finding is recorded; with EachExecution, the first finding about each execution.
func TestEachExecutionModeRecordsEveryExecution(t *testing.T) {
	for _, each := range []bool{false, true} {
		s := New(config.Default(config.Hardened), []int{5})
		if each {
			s.EachExecution()
		}
		for id := execution.ID(1); id <= 2; id++ {
			for range 2 {
				e := created(second)
				e.Execution, e.Chain = id, id
				s.Observe(&e)
			}
		}
		var about []execution.ID
		for _, f := range s.End(true) {
			about = append(about, f.Execution)
		}
		if want := map[bool][]execution.ID{false: {1}, true: {1, 2}}[each]; !slices.Equal(about, want) {
			t.Errorf("each execution: %v: findings about %d, want %d", each, about, want)
		}
	}
}
