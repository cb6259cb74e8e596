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

// Execution 1 runs from 2 s. At 10 s the database's clock is set past its deadline, and much later executor-1
// ends it while its action still runs. That is lawful for an executor that had not read the clock before.
func TestMissedClockStepExcusesExecutor(t *testing.T) {
	event := func(at time.Duration, kind history.Kind) history.Event {
		return history.Event{At: at, Kind: kind, Process: "executor-1"}
	}
	cut := func(at time.Duration, kind history.Kind) history.Event {
		return history.Event{At: at, Kind: kind, Fault: "f", Text: "partition", Process: "executor-1", Queue: "database", Count: 1}
	}
	stepped := history.Event{At: 10 * second, Kind: history.ClockStepped, Process: "database", Due: 10 * minute}
	ended := move(50*second, execution.Running, execution.Timeout, execution.TimeoutMonitor, 1, 1)
	for _, x := range []struct {
		name   string
		story  []history.Event
		breaks bool
	}{
		{"it had read the clock", []history.Event{event(0, history.ProcessStarted), stepped}, true},
		{"it started after the step", []history.Event{event(0, history.ProcessStarted), event(3*second, history.ProcessCrashed), stepped, event(11*second, history.ProcessStarted)}, false},
		{"it was cut off from its start until after the step", []history.Event{event(2*second, history.ProcessStarted), cut(2*second, history.FaultBegan), stepped, cut(11*second, history.FaultEnded)}, false},
		{"it was cut off until just before the step", []history.Event{event(2*second, history.ProcessStarted), cut(2*second, history.FaultBegan), cut(9*second, history.FaultEnded), stepped}, false},
		{"it was cut off after its first reading", []history.Event{event(2*second, history.ProcessStarted), cut(4*second, history.FaultBegan), stepped, cut(11*second, history.FaultEnded)}, true},
		{"it knew only of a second step", []history.Event{stepped, event(11*second, history.ProcessStarted), {At: 20 * second, Kind: history.ClockStepped, Process: "database", Due: second}}, false},
		{"nobody knows when it started", []history.Event{stepped}, true},
	} {
		t.Run(x.name, func(t *testing.T) {
			s := New(config.Default(config.Hardened), []int{4})
			for _, e := range slices.Concat(beginning(), x.story, []history.Event{ended}) {
				s.Observe(&e)
			}
			if found := s.Findings(); len(found) > 0 != x.breaks {
				t.Errorf("broken is %v, want %v: %+v", len(found) > 0, x.breaks, found)
			}
		})
	}
}

// A dispatch is rejected after a wait of only three seconds, because the database's clock was set forwards.
// That is lawful if the clock had been set back shortly before the dispatch.
func TestUndoneClockStepExcusesExecutor(t *testing.T) {
	step := func(at, by time.Duration) history.Event {
		return history.Event{At: at, Kind: history.ClockStepped, Process: "database", Due: by}
	}
	x := config.Default(config.Hardened)
	for _, c := range []struct {
		name    string
		back    time.Duration // when the clock is set back
		by      time.Duration
		forward time.Duration
		breaks  bool
	}{
		{"no step back", 0, 0, 100 * second, true},
		{"a step back by nearly the whole wait", 38 * second, 110 * second, 125 * second, false},
		{"a step back by less", 38 * second, 50 * second, 125 * second, true},
		{"a step back that was not undone", 38 * second, 200 * second, 100 * second, true},
		{"a step back before a reading", 20 * second, 110 * second, 125 * second, true},
		{"a step back after the dispatch", 41 * second, 110 * second, 240 * second, true},
	} {
		dispatch := dispatchEvents(40 * second)
		dispatch[1].Due = 40*second - c.by + x.Executor.DispatchTimeout
		taken := move(43*second, execution.Scheduled, execution.Requested, execution.DeadLetterHandler, 1, 1)
		taken.Count, taken.Reason = 1, execution.DispatchTimeout
		story := slices.Concat(workerPair(), heartbeats(10*second, 40*second), dispatch, []history.Event{step(42*second, c.forward), taken})
		if c.by > 0 {
			story = append(story, step(c.back, -c.by))
		}
		slices.SortStableFunc(story, func(a, b history.Event) int { return int(a.At - b.At) })
		s := New(x, []int{2})
		var found []string
		for i := range story {
			s.Observe(&story[i])
		}
		for _, f := range s.Findings() {
			if strings.Contains(f.Message, "only a step of the database's clock") {
				found = append(found, f.Message)
			}
		}
		if len(found) > 0 != c.breaks {
			t.Errorf("%s: broken is %v, want %v: %+v", c.name, len(found) > 0, c.breaks, s.Findings())
		}
	}
}

// Execution 1 is ended at 50 s by an executor that started after a step of the database's clock. Its worker
// still runs the action when the retry starts. The worker must learn of the end within a lease.
func TestMissedClockStepAllowsOverlappingRetry(t *testing.T) {
	retry := func(at time.Duration) []history.Event {
		story := []history.Event{
			created(50 * second),
			move(50*second, execution.Requested, execution.Scheduling, execution.Scheduler, 0, 0),
			move(50*second, execution.Scheduling, execution.Scheduled, execution.Scheduler, 0, 1),
			move(at, execution.Scheduled, execution.Running, execution.Worker, 1, 1),
			action(at, history.ActionStarted, "v", 1),
		}
		for i := range story {
			story[i].Execution = 2
		}
		return story
	}
	stepped := history.Event{At: 10 * second, Kind: history.ClockStepped, Process: "database", Due: 10 * minute}
	restarted := history.Event{At: 11 * second, Kind: history.ProcessStarted, Process: "executor-1"}
	ended := move(50*second, execution.Running, execution.Timeout, execution.TimeoutMonitor, 1, 1)
	for _, x := range []struct {
		name   string
		at     time.Duration
		breaks bool
	}{
		{"at once", 51 * second, false},
		{"at the end of a lease", 80 * second, false},
		{"long after a lease", 85 * second, true},
	} {
		t.Run(x.name, func(t *testing.T) {
			s := New(config.Default(config.Hardened), []int{4})
			for _, e := range slices.Concat(beginning(), []history.Event{stepped, restarted, beat(49*second, 1), ended}, retry(x.at)) {
				s.Observe(&e)
			}
			if found := s.Findings(); len(found) > 0 != x.breaks {
				t.Errorf("broken is %v, want %v: %+v", len(found) > 0, x.breaks, found)
			}
		})
	}
}
