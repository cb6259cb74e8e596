package invariant

import (
	"slices"
	"testing"
	"time"

	"handoff/chaos/history"
	"handoff/core/config"
	"handoff/core/execution"
)

// A pass handles no more ends than it may take batches. The others wait for the next pass.
func TestEndsBeyondAPassWaitForTheNext(t *testing.T) {
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

// An executor counts a run on its own clock, too, which stands still while its machine is frozen.
func TestAFrozenExecutorCountsARunForLonger(t *testing.T) {
	// The claim of beginning is at 2 s, and the run may take 300 s.
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
