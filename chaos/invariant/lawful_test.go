package invariant

import (
	"slices"
	"testing"
	"time"

	"handoff/chaos/history"
	"handoff/core/config"
	"handoff/core/execution"
)

// Each story is lawful, but resembles the unlawful story next to it.
func TestLawfulVariantsBreakNothing(t *testing.T) {
	with := slices.Concat[[]history.Event]
	one := func(e ...history.Event) []history.Event { return e }
	grace := config.Default(config.Hardened).Executor.ReapGrace

	// The worker renews its lease, but does not end the execution as requested.
	asked := func(at time.Duration, by execution.Part) []history.Event {
		canceling := move(3*second, execution.Running, execution.Canceling, execution.API, 1, 1)
		canceling.Due = 302 * second
		story := with(beginning(), one(history.Event{At: 3 * second, Kind: history.CancelRequested, Execution: 1, Chain: 1}, canceling))
		for beats := 10 * second; beats < at; beats += 10 * second {
			story = append(story, beat(beats, 1))
		}
		return append(story, move(at, execution.Canceling, execution.Cancelled, by, 1, 1))
	}

	// A child becomes due while the database's clock is behind.
	child := func(scheduled time.Duration) []history.Event {
		parent, waiting := handled(), created(second)
		waiting.Execution, waiting.Chain, waiting.Related = 2, 2, 1
		parent = append(parent, waiting,
			history.Event{At: 3 * second, Kind: history.ClockStepped, Process: "database", Due: -20 * second},
			history.Event{At: 4 * second, Kind: history.ChildStarted, Execution: 2, Related: 1})
		e := move(scheduled, execution.Requested, execution.Scheduling, execution.Scheduler, 0, 0)
		e.Execution, e.Chain = 2, 2
		return append(parent, e)
	}

	// A cordoned worker re-registers and is idle while executions are due.
	cordon := history.Event{At: second, Kind: history.WorkerCordoned, Worker: 1, Count: 1}
	again := func(cordoned bool) []history.Event {
		story := workerPair()[:6]
		for i := range story {
			if story[i].Worker == 2 {
				story[i].Kind = history.Logged
			}
		}
		if cordoned {
			story = append(story, cordon)
		}
		second := registered(1, 4, "shell")
		second.At, second.Incarnation, second.Due = 2*time.Second, 3, 90*time.Second
		active := worker(2*time.Second, execution.Active)
		active.Incarnation = 3
		consuming := beat(2*time.Second, 1)
		consuming.Incarnation, consuming.Due = 3, 90*time.Second
		return append(story, second, consuming, active, created(3*time.Second), history.Event{At: 80 * time.Second, Kind: history.Logged})
	}

	// Messages are returned and their dispatches reclaimed repeatedly, for longer than a worker may be idle.
	returned := func(taken bool) []history.Event {
		story := workerPair()
		for at := second; at < 60*second; at += 10 * second {
			epoch := execution.Epoch(at / (10 * second) * 2)
			story = append(story, beat(at, 1), beat(at, 2))
			if taken {
				back := move(at+second, execution.Scheduled, execution.Requested, execution.Scheduler, epoch+1, epoch+2)
				back.Due = at + 9*second
				there := move(at, execution.Scheduling, execution.Scheduled, execution.Scheduler, epoch, epoch+1)
				// The execution alternates between the two workers, because it avoids the worker from which
				// it was reclaimed.
				n := epoch / 2 % 2
				there.Worker, there.Incarnation = execution.WorkerID(n+1), execution.Incarnation(n+1)
				back.Worker, back.Incarnation = there.Worker, there.Incarnation
				story = append(story, move(at, execution.Requested, execution.Scheduling, execution.Scheduler, epoch, epoch), there, back)
			}
		}
		return story
	}

	// A worker was asked to end an execution. The database has stored the worker's renewals, but a fault
	// delays the replies.
	unheard := func(kind string) []history.Event {
		canceling := move(3*second, execution.Running, execution.Canceling, execution.API, 1, 1)
		canceling.Due = 302 * second
		story := with(one(history.Event{At: second, Kind: history.FaultBegan, Fault: "f", Text: kind}), beginning(),
			one(history.Event{At: 3 * second, Kind: history.CancelRequested, Execution: 1, Chain: 1}, canceling))
		for at := 4 * second; at < 50*second; at += 3 * second {
			story = append(story, beat(at, 1))
		}
		return story
	}

	// These histories don't show which process acknowledged an unreadable message, or when.
	unread := func(kinds ...history.Kind) []history.Event {
		story := handled()
		for i, kind := range kinds {
			e := history.Event{At: 4 * second, Kind: kind, Process: "executor-1"}
			if kind == history.Acked {
				e.Message, e.Queue, e.Process, e.Fault = uint64(i+2), "q", "", "corrupt"
				arrived, sent := e, e
				arrived.Kind, sent.Kind, sent.Queue, sent.Count = history.Enqueued, history.Published, "", 1
				story = append(story, sent, arrived)
			}
			story = append(story, e)
		}
		return story
	}

	// Two of an attacker's messages die, one after the other.
	forged := func(ends ...history.Kind) []history.Event {
		story := handled()
		tell := func(n uint64, kind history.Kind, queue string, count int64) {
			story = append(story, history.Event{At: 4 * second, Kind: kind, Message: n, Queue: queue, Count: count})
		}
		for n := uint64(2); n < 4; n++ {
			tell(n, history.Published, "", 1)
			tell(n, history.Enqueued, "worker.1.executions", 0)
		}
		for _, kind := range ends {
			tell(2, kind, "worker.1.executions", 0)
			tell(3, kind, "worker.1.executions", 0)
		}
		return story
	}

	for _, c := range []struct {
		name      string
		invariant int
		broken    bool
		story     []history.Event
	}{
		{"canceling is ended after its deadline and grace", 2, false, asked(302*second+grace, execution.TimeoutMonitor)},
		{"canceling is ended before that", 2, true, asked(302*second+grace-second, execution.TimeoutMonitor)},
		{"canceling is ended by a part that does not check deadlines", 2, true, asked(302*second+grace, execution.Reconciler)},
		{"a child is due by the clock of the database", 8, false, child(5 * second)},
		{"a new incarnation of a cordoned worker waits", 9, false, again(true)},
		{"a new incarnation of an uncordoned worker waits", 9, true, again(false)},
		{"an execution whose dispatches are returned is not left waiting", 9, false, returned(true)},
		{"an execution without dispatches is left waiting", 9, true, returned(false)},
		{"an unreadable message is stored before its acknowledgement", 6, false, unread(history.DeadLetterStored, history.Acked)},
		{"an unreadable message is stored after its acknowledgement", 6, false, unread(history.Acked, history.DeadLetterStored)},
		{"one unreadable message is stored, and two were acknowledged", 6, true, unread(history.Acked, history.DeadLetterStored, history.Acked)},
		{"an attacker's message expires, and its queue is deleted", 6, false, forged(history.Expired, history.Dropped)},
		{"an attacker's message is dropped before its time", 6, true, forged(history.Dropped)},
		{"a worker does not learn of a cancellation", 12, false, unheard("partition")},
		{"a worker learns of a cancellation", 12, true, unheard("crash")},
	} {
		if got := slices.Contains(judge(c.story), c.invariant); got != c.broken {
			t.Errorf("%s: invariant %d broken is %v, want %v", c.name, c.invariant, got, c.broken)
		}
	}
}

// Without dead-lettering, dead messages are dropped, as configured.
func TestDisabledDeadLetteringAllowsDroppedMessages(t *testing.T) {
	for enabled, want := range map[bool]bool{true: true, false: false} {
		c := config.Default(config.Hardened)
		c.MessageQueue.RabbitMQ.DeadLetter.Enabled = enabled
		s := New(c, nil)
		for _, e := range append(beginning()[:8], message(9*second, history.Rejected, "worker.1.executions", 0), message(9*second, history.Dropped, "worker.1.executions", 0)) {
			s.Observe(&e)
		}
		lost := slices.ContainsFunc(s.End(false), func(v Finding) bool { return v.Invariant.Number == 6 })
		if lost != want {
			t.Errorf("dead lettering %v: lost is %v", enabled, lost)
		}
	}
}
