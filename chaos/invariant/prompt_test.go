package invariant

import (
	"slices"
	"testing"
	"time"

	"handoff/chaos/history"
	"handoff/core/config"
	"handoff/core/execution"
)

const minute = time.Minute

// calmStory returns a story with two executors and a worker, followed by more, long after their start.
func calmStory(more ...history.Event) []history.Event {
	return append([]history.Event{
		{At: second, Kind: history.ProcessStarted, Process: "executor-1"},
		{At: second, Kind: history.ProcessStarted, Process: "executor-2"},
		{At: second, Kind: history.ProcessStarted, Process: "shell-1"},
		{At: second, Kind: history.WorkerRegistered, Worker: 1, Incarnation: 1, Process: "shell-1", Due: 31 * second, Limit: 2, Text: "shell"},
		{At: second, Kind: history.WorkerLifecycle, Worker: 1, Incarnation: 1, Lifecycle: execution.Active},
		{At: 2 * minute, Kind: history.HeartbeatRenewed, Worker: 1, Incarnation: 1, Count: 12, Due: 10 * minute, Limit: 1},
	}, more...)
}

// to returns a transition of execution 1.
func to(at time.Duration, from, to execution.Status, process string) history.Event {
	return history.Event{At: at, Kind: history.Transition, Execution: 1, Chain: 1, From: from, To: to, Process: process, Epoch: 1, OldEpoch: 1, Worker: 1, Incarnation: 1}
}

func TestOnlyLateReactionBreaksInvariant(t *testing.T) {
	submitted := history.Event{At: 3 * minute, Kind: history.Created, Execution: 1, Chain: 1, To: execution.Requested, Action: "a", Text: "shell", Process: "client"}
	claimed := to(3*minute, execution.Requested, execution.Scheduling, "executor-1")
	dispatched := to(3*minute, execution.Scheduling, execution.Scheduled, "executor-1")
	published := history.Event{At: 3 * minute, Kind: history.Published, Execution: 1, Epoch: 1, Count: 1}
	running := to(3*minute, execution.Scheduled, execution.Running, "shell-1")
	refused := history.Event{At: 3 * minute, Kind: history.StaleWrite, Execution: 1, Epoch: 1, To: execution.Running, By: execution.Worker, Process: "shell-1"}
	marked := func(epoch execution.Epoch) history.Event {
		return history.Event{At: 3 * minute, Kind: history.PublishedMarked, Execution: 1, Epoch: epoch, Process: "executor-1"}
	}
	ended := to(3*minute, execution.Running, execution.Completed, "shell-1")
	canceling := to(3*minute, execution.Running, execution.Canceling, "client")
	lost := history.Event{At: 3 * minute, Kind: history.WorkerLifecycle, Worker: 1, Incarnation: 1, Lifecycle: execution.Lost, Process: "executor-1"}
	superseded := lost
	superseded.Process = "shell-1"
	later := func(d time.Duration) history.Event { return history.Event{At: 3*minute + d, Kind: history.Quiescent} }
	fault := func(process string) history.Event {
		return history.Event{At: 170 * second, Kind: history.FaultBegan, Fault: "f", Text: "latency", Process: process, Queue: "database", Count: 1}
	}
	// Worker 2 has another runtime than execution 1, so it can't get that execution.
	beside := func(more ...history.Event) []history.Event {
		return calmStory(append([]history.Event{
			{At: 2 * minute, Kind: history.ProcessStarted, Process: "python-1"},
			{At: 2 * minute, Kind: history.WorkerRegistered, Worker: 2, Incarnation: 2, Process: "python-1", Due: 10 * minute, Limit: 2, Text: "python"},
		}, more...)...)
	}
	hangs := func(at time.Duration, kind history.Kind) history.Event {
		return history.Event{At: at, Kind: kind, Fault: "f", Text: "stuck_queue", Process: "python-1", Count: 1}
	}
	// then is a claim by a later pass.
	then := claimed
	then.At += second / 2
	// earlier returns an event, moved half a second earlier.
	earlier := func(e history.Event) history.Event {
		e.At -= second / 2
		return e
	}
	// sent returns a dispatch of execution 2 to worker 2.
	sent := func(process string) []history.Event {
		of := func(e history.Event) history.Event {
			e.Execution, e.Chain, e.Worker, e.Incarnation, e.Process = 2, 2, 2, 2, process
			return e
		}
		other := of(submitted)
		other.Text, other.Worker = "python", 0
		return []history.Event{other, of(claimed), of(dispatched), of(published)}
	}
	// passing returns a pass with a claim of execution 1 and a dispatch to worker 2.
	passing := func(process string, more ...history.Event) []history.Event {
		return beside(slices.Concat([]history.Event{hangs(170*second, history.FaultBegan), submitted, claimed}, sent(process), more)...)
	}
	// unsent returns a dispatch of execution 2 to worker 2 whose message is not sent.
	unsent := func(process string) []history.Event { return sent(process)[:3] }
	// answersAgain returns such a dispatch at 3 minutes. The queue hung until again, and the executor waited
	// sent a dispatch there meanwhile.
	answersAgain := func(waited string, at, again time.Duration, process string) []history.Event {
		var before []history.Event
		for _, e := range sent(waited) {
			if e.Execution, e.Chain, e.At = 1, 1, at; waited != "" {
				before = append(before, e)
			}
		}
		return beside(slices.Concat([]history.Event{hangs(at-second, history.FaultBegan)}, before, []history.Event{hangs(again, history.FaultEnded)}, unsent(process), []history.Event{later(2 * second)})...)
	}
	for _, x := range []struct {
		name   string
		rule   int
		story  []history.Event
		breaks bool
	}{
		{"a claim that is kept", 25, calmStory(submitted, claimed, later(2*second)), true},
		{"a claim that is young", 25, calmStory(submitted, claimed, later(second/2)), false},
		{"a claim of an executor on a slow link", 25, calmStory(fault("executor-1"), submitted, claimed, later(2*second)), false},
		{"a claim while another executor's link is slow", 25, calmStory(fault("executor-2"), submitted, claimed, later(2*second)), true},
		{"a claim that is kept while its pass waits for the queue of another worker", 25, passing("executor-1", later(2*second)), false},
		{"a claim that is kept for longer than a pass waits for a queue", 25, passing("executor-1", later(2*second), later(3*second)), true},
		{"a claim that is kept while another executor waits for a queue", 25, passing("executor-2", later(2*second)), true},
		{"a claim that is kept while a queue hangs to which nothing was sent", 25, beside(hangs(170*second, history.FaultBegan), submitted, claimed, later(2*second)), true},
		{"a claim that is kept after a dispatch to a queue that hangs", 25, beside(slices.Concat([]history.Event{hangs(170*second, history.FaultBegan)}, sent("executor-1"), []history.Event{submitted, then, later(2 * second)})...), true},
		{"a dispatch that is not marked while its pass waits for the queue of another worker", 25, passing("executor-1", dispatched, published, later(3*second)), false},
		{"a dispatch that is not marked for longer than a pass waits for a queue", 25, passing("executor-1", dispatched, published, later(3*second), later(4*second)), true},
		{"a dispatch that is not marked while another executor waits for a queue", 25, passing("executor-2", dispatched, published, later(3*second)), true},
		{"a dispatch that is not marked, of a pass before the one that waits for a queue", 25, beside(slices.Concat([]history.Event{hangs(170*second, history.FaultBegan), earlier(submitted), earlier(claimed), earlier(dispatched), earlier(published)}, sent("executor-1"), []history.Event{later(2 * second)})...), true},
		{"a dispatch that is not sent to a queue that hangs", 25, beside(slices.Concat([]history.Event{hangs(170*second, history.FaultBegan)}, unsent("executor-1"), []history.Event{later(2 * second)})...), false},
		{"a dispatch that is not sent, before its executor can know that the queue answers", 25, answersAgain("executor-1", 150*second, 3*minute-5*time.Millisecond, "executor-1"), false},
		{"a dispatch that is not sent, long after the queue answers", 25, answersAgain("executor-1", 150*second, 179*second-time.Millisecond, "executor-1"), true},
		{"a dispatch that is not sent, and another executor waited for the queue", 25, answersAgain("executor-2", 150*second, 3*minute-5*time.Millisecond, "executor-1"), true},
		{"a dispatch that is not sent, and no executor waited for the queue", 25, answersAgain("", 150*second, 3*minute-5*time.Millisecond, "executor-1"), true},
		{"a dispatch that is not sent, and its executor must have given up its session", 25, answersAgain("executor-1", 145*second, 3*minute-5*time.Millisecond, "executor-1"), true},
		{"a dispatch that is not sent", 25, calmStory(submitted, claimed, dispatched, later(2*second)), true},
		{"a dispatch that is sent", 25, calmStory(submitted, claimed, dispatched, published, later(2*second)), false},
		{"a dispatch that is sent and not marked", 25, calmStory(submitted, claimed, dispatched, published, later(3*second)), true},
		{"a dispatch that is marked in time", 25, calmStory(submitted, claimed, dispatched, published, marked(1), later(3*second)), false},
		{"a dispatch that is not marked by an executor on a slow link", 25, calmStory(fault("executor-1"), submitted, claimed, dispatched, published, later(3*second)), false},
		{"a dispatch that is claimed and not marked", 25, calmStory(submitted, claimed, dispatched, published, running), true},
		{"a refused claim of a dispatch that is not marked", 25, calmStory(submitted, claimed, dispatched, published, refused), false},
		{"a dispatch that is claimed and marked", 25, calmStory(submitted, claimed, dispatched, published, marked(1), running, later(3*second)), false},
		{"a mark of an execution that is not scheduled", 25, calmStory(submitted, claimed, marked(1)), true},
		{"a mark of another epoch", 25, calmStory(submitted, claimed, dispatched, published, marked(3)), true},
		{"due, with a worker that has room", 26, calmStory(submitted, later(3*second)), true},
		{"due, while an executor that may hold the hint is on a slow link", 26, calmStory(fault("executor-2"), submitted, later(3*second)), false},
		{"due, while a pass waits for the queue of another worker", 26, beside(hangs(170*second, history.FaultBegan), submitted, later(2*second)), false},
		{"due, longer than a pass waits for a queue", 26, beside(hangs(170*second, history.FaultBegan), submitted, later(2*second), later(4*second)), true},
		{"due, after the queue of another worker hung", 26, beside(hangs(170*second, history.FaultBegan), hangs(175*second, history.FaultEnded), submitted, later(2*second)), true},
		{"an end that is not handled", 26, calmStory(submitted, claimed, dispatched, running, ended, later(2*second)), true},
		{"an end whose writer is on a slow link", 26, calmStory(fault("shell-1"), submitted, claimed, dispatched, running, ended, later(2*second)), false},
		{"canceling beyond the kill grace", 27, calmStory(submitted, claimed, dispatched, running, canceling, later(4*second)), true},
		{"canceling within it", 27, calmStory(submitted, claimed, dispatched, running, canceling, later(2*second)), false},
		{"canceling at a worker on a slow link", 27, calmStory(fault("shell-1"), submitted, claimed, dispatched, running, canceling, later(4*second)), false},
		{"scheduled at a worker that was declared lost", 28, calmStory(submitted, claimed, dispatched, published, lost, later(2*second)), true},
		{"scheduled at a worker that has re-registered", 28, calmStory(submitted, claimed, dispatched, published, superseded, later(2*second)), false},
		{"running there, within the grace", 28, calmStory(submitted, claimed, dispatched, published, running, lost, later(2*second)), false},
	} {
		t.Run(x.name, func(t *testing.T) {
			s := New(config.Default(config.Hardened), []int{x.rule})
			for i := range x.story {
				s.Observe(&x.story[i])
			}
			found := s.End(false)
			if broken := slices.ContainsFunc(found, func(f Finding) bool { return f.Invariant.Number == x.rule }); broken != x.breaks {
				t.Errorf("broken is %v, want %v: %+v", broken, x.breaks, found)
			}
		})
	}
}

// An executor that has waited too long for a hanging queue's confirm ends its session. Its unsent messages
// are then not sent, and the messages that it has just sent are not confirmed. The end of another executor's
// session explains neither.
func TestGivenUpSessionExcusesUnsentDispatch(t *testing.T) {
	claimed, dispatched := to(3*minute, execution.Requested, execution.Scheduling, "executor-1"), to(3*minute, execution.Scheduling, execution.Scheduled, "executor-1")
	published := history.Event{At: 3 * minute, Kind: history.Published, Execution: 1, Epoch: 1, Count: 1}
	submitted := history.Event{At: 3 * minute, Kind: history.Created, Execution: 1, Chain: 1, To: execution.Requested, Action: "a", Text: "shell", Process: "client"}
	for _, x := range []struct {
		name   string
		sent   bool
		by     string
		at     time.Duration
		breaks bool
	}{
		{"not sent", false, "executor-1", 3 * minute, false},
		{"not sent, and the pass began before that", false, "executor-1", 3*minute - second/2, false},
		{"not sent, and it had reconnected long before", false, "executor-1", 3*minute - 2*second, true},
		{"not sent, and another executor gave up its session", false, "executor-2", 3 * minute, true},
		{"sent, not confirmed", true, "executor-1", 3 * minute, false},
		{"sent, not confirmed, and it had reconnected before", true, "executor-1", 3*minute - second/2, true},
	} {
		t.Run(x.name, func(t *testing.T) {
			s := New(config.Default(config.Hardened), []int{25})
			story := calmStory(submitted, claimed, dispatched)
			if x.sent {
				story = append(story, published)
			}
			s.GivenUp(x.by, x.at)
			for _, e := range append(story, history.Event{At: 3*minute + 3*second, Kind: history.Quiescent}) {
				s.Observe(&e)
			}
			if found := s.End(false); len(found) > 0 != x.breaks {
				t.Errorf("broken is %v, want %v: %+v", len(found) > 0, x.breaks, found)
			}
		})
	}
}

// The executor that got the hint about an execution may have no session for a while.
func TestGivenUpSessionExcusesWaitingExecution(t *testing.T) {
	submitted := history.Event{At: 3 * minute, Kind: history.Created, Execution: 1, Chain: 1, To: execution.Requested, Action: "a", Text: "shell", Process: "client"}
	again := New(config.Default(config.Hardened), nil).reconnectBound()
	for _, x := range []struct {
		name       string
		by         string
		gaveUp, at time.Duration
		breaks     bool
	}{
		{"one of them gave it up", "executor-2", 3 * minute, 3*minute + again, false},
		{"it had reconnected long before", "executor-2", 3*minute - again - second, 3*minute + 3*second, true},
		{"it waits for longer than that", "executor-2", 3 * minute, 3*minute + again + 2*second, true},
		{"a worker gave it up", "shell-1", 3 * minute, 3*minute + 3*second, true},
	} {
		t.Run(x.name, func(t *testing.T) {
			s := New(config.Default(config.Hardened), []int{26})
			story := calmStory(submitted, history.Event{At: 3*minute + 2*second, Kind: history.Quiescent}, history.Event{At: x.at, Kind: history.Quiescent})
			for i := range story {
				if i == len(story)-2 {
					s.GivenUp(x.by, x.gaveUp)
				}
				s.Observe(&story[i])
			}
			if found := s.End(false); len(found) > 0 != x.breaks {
				t.Errorf("broken is %v, want %v: %+v", len(found) > 0, x.breaks, found)
			}
		})
	}
}

// An executor handles ends in batches, so an end may wait for earlier batches.
func TestEndMayWaitForEarlierEnds(t *testing.T) {
	const executions, each = 30, 50 * time.Millisecond
	for _, x := range []struct {
		name           string
		batch, handled int
		breaks         bool
	}{
		{"one by one", 1, executions, false},
		{"one by one, and it stops in between", 1, executions / 2, true},
		{"in full batches", 100, executions, true},
	} {
		t.Run(x.name, func(t *testing.T) {
			c := config.Default(config.Hardened)
			c.Executor.BatchSize = x.batch
			s := New(c, []int{26})
			story := calmStory()
			for id := execution.ID(1); id <= executions; id++ {
				story = append(story, history.Event{
					At: 3 * minute, Kind: history.Created, Execution: id, Chain: id, To: execution.Requested, Action: "a", Text: "shell", Process: "client",
				})
			}
			for id := execution.ID(1); id <= executions; id++ {
				cancelled := to(3*minute, execution.Requested, execution.Cancelled, "client")
				cancelled.Execution, cancelled.Chain = id, id
				story = append(story, cancelled)
			}
			for i := range x.handled {
				id := execution.ID(i + 1)
				story = append(story, history.Event{
					At: 3*minute + time.Duration(i)*each, Kind: history.Orchestrated, Execution: id, Chain: id, From: execution.Cancelled, Process: "executor-1",
				})
			}
			story = append(story, history.Event{At: 4 * minute, Kind: history.Quiescent})
			for i := range story {
				s.Observe(&story[i])
			}
			if found := s.End(false); len(found) > 0 != x.breaks {
				t.Errorf("found %+v, want %v", found, x.breaks)
			}
		})
	}
}

// Invariant 26 requires no dispatch to a worker that executors consider unhealthy for its many waiting
// dispatches, unless the execution is pinned to it. Executors detect the end of that state with their next
// periodic look.
func TestDeepQueueExcusesWaitingExecution(t *testing.T) {
	waiting := []history.Event{
		{At: 150 * second, Kind: history.Created, Execution: 2, Chain: 2, To: execution.Requested, Action: "a", Text: "shell", Process: "client"},
		to(150*second, execution.Requested, execution.Scheduling, "executor-1"),
		to(150*second, execution.Scheduling, execution.Scheduled, "executor-1"),
	}
	taken := to(3*minute, execution.Scheduled, execution.Running, "shell-1")
	taken.Execution, taken.Chain = 2, 2
	for i := range waiting {
		waiting[i].Execution, waiting[i].Chain = 2, 2
	}
	submitted := history.Event{At: 3 * minute, Kind: history.Created, Execution: 1, Chain: 1, To: execution.Requested, Action: "a", Text: "shell", Process: "client"}
	pinned := submitted
	pinned.Worker = 1
	later := func(d time.Duration) history.Event { return history.Event{At: 3*minute + d, Kind: history.Quiescent} }
	for _, x := range []struct {
		name   string
		deep   int
		story  []history.Event
		breaks bool
	}{
		{"too much waits there", 1, []history.Event{submitted, later(3 * second), later(minute)}, false},
		{"it is pinned there", 1, []history.Event{pinned, later(3 * second), later(minute)}, true},
		{"not too much", 2, []history.Event{submitted, later(3 * second)}, true},
		{"until now", 1, []history.Event{taken, submitted, later(3 * second)}, false},
	} {
		t.Run(x.name, func(t *testing.T) {
			c := config.Default(config.Hardened)
			c.Health.QueueDepthUnhealthy = x.deep
			s := New(c, []int{26})
			for _, e := range calmStory(slices.Concat(waiting, x.story)...) {
				s.Observe(&e)
			}
			found := slices.ContainsFunc(s.End(false), func(f Finding) bool { return f.Execution == 1 })
			if found != x.breaks {
				t.Errorf("broken is %v, want %v: %+v", found, x.breaks, s.Findings())
			}
		})
	}
}
