package invariant

import (
	"slices"
	"testing"
	"time"

	"handoff/chaos/history"
	"handoff/core/config"
	"handoff/core/execution"
)

// A pass handles a limited number of batches of ends. The remaining ends may wait for the next pass.
func TestEndsBeyondPassLimitWaitForNext(t *testing.T) {
	const ended = 100 * second
	for _, c := range []struct {
		name    string
		ends    int
		batch   int
		handled time.Duration
		broken  bool
	}{
		{"the last one of a pass, in time", 200, 1, ended + 11*second, false},
		{"the last one of a pass, by the next one", 200, 1, ended + 12*second, true},
		{"the first one of the next pass", 201, 1, ended + 16*second, false},
		{"the first one of the next pass, by the one after it", 201, 1, ended + 17*second, true},
		{"as many in larger batches", 201, 2, ended + 12*second, true},
	} {
		story := []history.Event{{Kind: history.ProcessStarted, Process: "executor-1"}, registered(1, 1, "shell"), beat(0, 1), worker(0, execution.Active), beat(ended-second, 1)}
		of := func(id int, e history.Event) history.Event {
			e.Execution, e.Chain = execution.ID(id), execution.ID(id)
			return e
		}
		for id := 1; id <= c.ends; id++ {
			story = append(story,
				of(id, created(ended-second)),
				of(id, move(ended-second, execution.Requested, execution.Scheduling, execution.Scheduler, 0, 0)),
				of(id, move(ended-second, execution.Scheduling, execution.Scheduled, execution.Scheduler, 0, 1)),
				of(id, move(ended-second, execution.Scheduled, execution.Running, execution.Worker, 1, 1)),
				of(id, move(ended, execution.Running, execution.Completed, execution.Worker, 1, 1)))
		}
		for id := 1; id <= c.ends; id++ {
			at := ended + second
			if id == c.ends {
				at = c.handled
			}
			story = append(story, of(id, history.Event{At: at, Kind: history.Orchestrated, From: execution.Completed}))
		}
		slices.SortStableFunc(story, func(a, b history.Event) int { return int(a.At - b.At) })
		x := config.Default(config.Hardened)
		x.Executor.BatchSize = c.batch
		if got := slices.Contains(judgeUnder(x, story), 12); got != c.broken {
			t.Errorf("%s: broken is %v, want %v", c.name, got, c.broken)
		}
	}
}

// An executor also measures a run by its own clock, which is stopped while its machine is frozen. A run may
// last longer by that time.
func TestFrozenExecutorExtendsRunDeadline(t *testing.T) {
	// The claim in beginning is at 2 s, and the run may take 300 s.
	const deadline, bound = 302 * second, 21 * second
	halted := func(began, ended history.Kind, process string) []history.Event {
		return []history.Event{{At: 100 * second, Kind: began, Process: process}, {At: 200 * second, Kind: ended, Process: process}}
	}
	frozen := halted(history.ProcessFrozen, history.ProcessThawed, "executor-1")
	for _, c := range []struct {
		name   string
		over   time.Duration
		broken bool
		halts  []history.Event
	}{
		{"in time", deadline + bound, false, nil},
		{"late", deadline + bound + second, true, nil},
		{"late, having been frozen", deadline + 100*second + bound, false, frozen},
		{"later than that", deadline + 101*second + bound, true, frozen},
		{"late, having been paused", deadline + bound + second, true, halted(history.ProcessPaused, history.ProcessResumed, "executor-1")},
		{"late, the worker having been frozen", deadline + bound + second, true, halted(history.ProcessFrozen, history.ProcessThawed, "w")},
		{"late, another executor not having been frozen", deadline + bound + second, true, slices.Concat([]history.Event{{At: 10 * second, Kind: history.ProcessStarted, Process: "executor-2"}}, frozen)},
	} {
		over := move(c.over, execution.Running, execution.Timeout, execution.TimeoutMonitor, 1, 2)
		over.Reason = execution.RunTimeout
		story := slices.Concat([]history.Event{{Kind: history.ProcessStarted, Process: "executor-1"}}, beginning(), c.halts, []history.Event{over})
		for at := 10 * second; at < c.over; at += 10 * second {
			story = append(story, beat(at, 1))
		}
		slices.SortStableFunc(story, func(a, b history.Event) int { return int(a.At - b.At) })
		if got := slices.Contains(judgeUnder(config.Default(config.Hardened), story), 12); got != c.broken {
			t.Errorf("%s: broken is %v, want %v", c.name, got, c.broken)
		}
	}
}

// A worker must end a cancelled execution while it is up and can write the end. Otherwise the executors must
// detect the execution once the worker's lease is over.
func TestLiveWorkerMustEndCancelledExecution(t *testing.T) {
	// The third renewal after the request is at 40 s. The kill grace, five statements and the calls
	// of an undisturbed pass take 13 s.
	const asked, heard, bound = 12 * second, 40 * second, 13 * second
	stops := func(at time.Duration) history.Event { return worker(at, execution.Stopped) }
	lost := func(at time.Duration) history.Event {
		e := worker(at, execution.Lost)
		e.Process = "executor-1"
		return e
	}
	succeeded := func(at time.Duration) history.Event {
		e := registered(1, 1, "shell")
		e.At, e.Incarnation, e.Process, e.Due = at, 2, "v", at+30*second
		return e
	}
	of := func(kind history.Kind) func(at time.Duration) history.Event {
		return func(at time.Duration) history.Event { return history.Event{At: at, Kind: kind, Process: "w"} }
	}
	link := func(kind history.Kind) func(at time.Duration) history.Event {
		return func(at time.Duration) history.Event {
			return history.Event{At: at, Kind: kind, Fault: "cut", Text: "slow_link", Process: "w", Queue: "database"}
		}
	}
	type happens struct {
		at  time.Duration
		one func(at time.Duration) history.Event
	}
	for _, x := range []struct {
		name string
		// renews is when the worker last renews its lease.
		renews, over time.Duration
		broken       bool
		happens      []happens
	}{
		{"ended in time", 100 * second, heard + bound, false, nil},
		{"ended late", 100 * second, heard + bound + second, true, nil},
		{"ended late by a worker that drains", 100 * second, heard + bound + second, true, []happens{{45 * second, func(at time.Duration) history.Event { return worker(at, execution.Draining) }}}},
		{"the worker has stopped", 40 * second, heard + bound + second, false, []happens{{45 * second, stops}}},
		{"the worker has stopped, and its lease is long over", 40 * second, 150 * second, true, []happens{{45 * second, stops}}},
		{"the worker stopped too late", 60 * second, heard + bound + 2*second, true, []happens{{heard + bound + second, stops}}},
		{"the worker was declared lost", 40 * second, heard + bound + second, false, []happens{{45 * second, lost}}},
		{"the worker has a successor", 40 * second, heard + bound + second, false, []happens{{45 * second, succeeded}}},
		{"its process has crashed", 40 * second, heard + bound + second, false, []happens{{45 * second, of(history.ProcessCrashed)}}},
		{"its process is paused", 40 * second, heard + bound + second, false, []happens{{45 * second, of(history.ProcessPaused)}}},
		{"its process resumes, and ends it in time", 100 * second, 50*second + bound, false, []happens{{45 * second, of(history.ProcessPaused)}, {50 * second, of(history.ProcessResumed)}}},
		{"its process resumes, and does not end it", 100 * second, 51*second + bound, true, []happens{{45 * second, of(history.ProcessPaused)}, {50 * second, of(history.ProcessResumed)}}},
		{"its link to the database is slow", 100 * second, heard + bound + second, false, []happens{{45 * second, link(history.FaultBegan)}}},
		{"its link was slow before", 100 * second, heard + bound + second, true, []happens{{13 * second, link(history.FaultBegan)}, {15 * second, link(history.FaultEnded)}}},
		{"another process has crashed", 100 * second, heard + bound + second, true, []happens{{45 * second, func(at time.Duration) history.Event {
			return history.Event{At: at, Kind: history.ProcessCrashed, Process: "v"}
		}}}},
	} {
		story := slices.Concat([]history.Event{{Kind: history.ProcessStarted, Process: "executor-1"}, {Kind: history.ProcessStarted, Process: "w"}}, beginning())
		canceling := move(asked, execution.Running, execution.Canceling, execution.API, 1, 1)
		canceling.Due = 302 * second
		story = append(story, canceling)
		for at := 10 * second; at <= min(x.renews, x.over); at += 10 * second {
			story = append(story, beat(at, 1))
		}
		for _, h := range x.happens {
			story = append(story, h.one(h.at))
		}
		over := move(x.over, execution.Canceling, execution.Cancelled, execution.Worker, 1, 1)
		story = append(story, over, history.Event{At: x.over, Kind: history.Orchestrated, Execution: 1, Chain: 1, From: execution.Cancelled})
		slices.SortStableFunc(story, func(a, b history.Event) int { return int(a.At - b.At) })
		if got := slices.Contains(judgeUnder(config.Default(config.Hardened), story), 12); got != x.broken {
			t.Errorf("%s: broken is %v, want %v", x.name, got, x.broken)
		}
	}
}
