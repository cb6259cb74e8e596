package invariant

import (
	"slices"
	"testing"
	"time"

	"handoff/chaos/history"
	"handoff/core/config"
	"handoff/core/execution"
)

// An execution whose row is unreadable must be left alone and must not affect other executions. Once the row
// becomes readable, the execution must run like any other.
func TestUnreadableRowIsLeftAlone(t *testing.T) {
	submitted := func(at time.Duration, id execution.ID) history.Event {
		return history.Event{At: at, Kind: history.Created, Execution: id, Chain: id, To: execution.Requested, Action: "a", Text: "shell", Process: "client"}
	}
	hidden := func(at time.Duration, count int64) history.Event {
		return history.Event{At: at, Kind: history.RowUnreadable, Execution: 1, Count: count}
	}
	later := func(at time.Duration) history.Event { return history.Event{At: at, Kind: history.Quiescent} }
	beat := func(at time.Duration) history.Event {
		return history.Event{At: at, Kind: history.HeartbeatRenewed, Worker: 1, Incarnation: 1, Process: "shell-1", Count: 13, Due: at + 10*minute, Limit: 1}
	}
	claimed := to(4*minute, execution.Requested, execution.Scheduling, "executor-1")
	claimed.By = execution.Scheduler
	cancelled := to(4*minute, execution.Requested, execution.Cancelled, "executor-1")
	cancelled.By = execution.API
	begin := calmStory(submitted(3*minute, 1), hidden(3*minute, 1))
	ended := append(slices.Clone(begin), history.Event{At: 4 * minute, Kind: history.CancelRequested, Execution: 1, Chain: 1}, cancelled)
	handled := history.Event{At: 8*minute + 5*second, Kind: history.Orchestrated, Execution: 1, Chain: 1, From: execution.Cancelled, Process: "executor-1"}
	for _, x := range []struct {
		name   string
		story  []history.Event
		breaks []int
	}{
		{"it waits", append(slices.Clone(begin), beat(4*minute), later(8*minute)), nil},
		{"it is scheduled", append(slices.Clone(begin), claimed), []int{2}},
		{"it is cancelled", append(slices.Clone(begin), history.Event{At: 4 * minute, Kind: history.CancelRequested, Execution: 1, Chain: 1}, cancelled), nil},
		{"its end is not handled", append(slices.Clone(ended), later(4*minute+5*second), later(8*minute)), nil},
		{"its end is handled when its row is readable", append(slices.Clone(ended), hidden(8*minute, 0), handled), nil},
		{"its end is not handled although its row is readable", append(slices.Clone(ended), hidden(8*minute, 0), later(8*minute+30*second), later(10*minute)), []int{12}},
		{"another one waits", append(slices.Clone(begin), submitted(3*minute+second, 2), later(3*minute+5*second), later(8*minute)), []int{9, 26}},
		{"it is scheduled when its row is readable", append(slices.Clone(begin), hidden(4*minute-second, 0), claimed), nil},
		{"it waits although its row is readable", append(slices.Clone(begin), hidden(4*minute, 0), later(6*minute), later(8*minute)), []int{9}},
	} {
		t.Run(x.name, func(t *testing.T) {
			s := New(config.Default(config.Hardened), []int{2, 5, 9, 12, 26})
			s.SetPatience(time.Hour)
			var broken []int
			for i := range x.story {
				s.Observe(&x.story[i])
			}
			for _, f := range s.End(false) {
				broken = append(broken, f.Invariant.Number)
			}
			if slices.Sort(broken); !slices.Equal(broken, x.breaks) {
				t.Errorf("broken are %v, want %v: %+v", broken, x.breaks, s.Findings())
			}
		})
	}
}
