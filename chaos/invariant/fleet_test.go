package invariant

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"handoff/chaos/history"
	"handoff/core/config"
	"handoff/core/execution"
)

// Examinations of the fleet are always a second apart, so unrelated events don't change their results.
func TestFleetExaminationsAreOneSecondApart(t *testing.T) {
	f := newFleet(config.Default(config.Hardened))
	for _, now := range []time.Duration{0, 1900 * time.Millisecond, 2300 * time.Millisecond, 5 * second} {
		f.examineUntil(now)
		if f.next <= now || f.next > now+examineInterval || f.next%examineInterval != 0 {
			t.Errorf("after %v the next look is at %v", now, f.next)
		}
	}
}

// An executor started after workers were lost has never seen these alive, so they don't trigger its brake.
func TestRestartedExecutorCountsOnlySeenWorkers(t *testing.T) {
	for _, c := range []struct {
		started time.Duration
		by      string
		broken  bool
	}{
		{0, "executor-2", true},
		{45 * second, "executor-2", true},
		{59 * second, "executor-2", false},
		{72 * second, "executor-2", false},
		{59 * second, "executor-1", true},
		{72 * second, "executor-1", false},
	} {
		story := []history.Event{{Kind: history.ProcessStarted, Process: "executor-2"}, {Kind: history.ProcessStarted, Process: "executor-1"}}
		name := func(w int, e history.Event) history.Event {
			e.Worker, e.Incarnation, e.Process = execution.WorkerID(w), execution.Incarnation(w), fmt.Sprintf("w-%d", w)
			return e
		}
		for w := 1; w <= 7; w++ {
			story = append(story, name(w, registered(1, 1, "shell")), name(w, beat(0, 1)), name(w, worker(0, execution.Active)))
			until := 110 * second
			switch {
			case w <= 3:
				until = 30 * second
			case w == 4:
				until = 35 * second
			}
			for at := 5 * second; at <= until; at += 5 * second {
				story = append(story, name(w, beat(at, 1)))
			}
		}
		lost := func(w int, at time.Duration, by string) history.Event {
			e := name(w, worker(at, execution.Lost))
			e.Process = by
			return e
		}
		if c.started > 0 {
			story = append(story, history.Event{At: c.started, Kind: history.ProcessStopped, Process: "executor-1"}, history.Event{At: c.started, Kind: history.ProcessStarted, Process: "executor-1"})
		}
		story = append(story, lost(1, 61*second, c.by), lost(2, 62*second, c.by), lost(3, 63*second, c.by), lost(4, 104*second, "executor-1"))
		slices.SortStableFunc(story, func(a, b history.Event) int { return int(a.At - b.At) })
		x := config.Default(config.Hardened)
		x.Executor.StatementTimeout, x.Executor.ReconcileInterval = second, second
		if got := slices.Contains(judgeUnder(x, story), 2); got != c.broken {
			t.Errorf("started at %v, the others marked by %s: broken is %v, want %v", c.started, c.by, got, c.broken)
		}
	}
}

// A database outage releases the brake, which then forgets the workers lost before the outage.
func TestBrakeForgetsWorkersLostBeforeDatabaseOutage(t *testing.T) {
	for _, c := range []struct {
		name   string
		down   time.Duration
		lost   time.Duration
		broken bool
	}{
		{"no outage", 0, 158 * second, true},
		{"an outage before", 123500 * time.Millisecond, 158 * second, false},
		{"a lease has not passed since they were lost", 123500 * time.Millisecond, 151 * second, true},
		{"an outage before the first of them", 110 * second, 158 * second, true},
	} {
		story := []history.Event{{Kind: history.ProcessStarted, Process: "executor-1"}, {Kind: history.ProcessStarted, Process: "executor-2"}}
		name := func(w int, e history.Event) history.Event {
			e.Worker, e.Incarnation, e.Process = execution.WorkerID(w), execution.Incarnation(w), fmt.Sprintf("w-%d", w)
			return e
		}
		for w := 1; w <= 7; w++ {
			story = append(story, name(w, registered(1, 1, "shell")), name(w, beat(0, 1)), name(w, worker(0, execution.Active)))
			until := 200 * second
			if w <= 4 {
				until = 30 * second
			}
			for at := 5 * second; at <= until; at += 5 * second {
				story = append(story, name(w, beat(at, 1)))
			}
		}
		lost := func(w int, at time.Duration, by string) history.Event {
			e := name(w, worker(at, execution.Lost))
			e.Process, e.Step = by, uint64(at)
			return e
		}
		if c.down > 0 {
			story = append(story, history.Event{At: c.down, Kind: history.DatabaseDown}, history.Event{At: c.down + second, Kind: history.DatabaseUp})
		}
		story = append(story, lost(1, 122*second, "executor-1"), lost(2, 123*second, "executor-2"), lost(3, c.lost, "executor-1"), lost(4, c.lost, "executor-1"))
		slices.SortStableFunc(story, func(a, b history.Event) int { return int(a.At - b.At) })
		x := config.Default(config.Hardened)
		x.Worker.HeartbeatStalenessMultiplier = 3
		x.Executor.StatementTimeout, x.Executor.ReconcileInterval = second, second
		rules := New(x, []int{2})
		for i := range story {
			rules.Observe(&story[i])
		}
		found := rules.End(true)
		if broken := len(found) > 0; broken != c.broken {
			t.Errorf("%s: broken is %v, want %v: %+v", c.name, broken, c.broken, found)
		}
	}
}
