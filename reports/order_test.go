package reports

import (
	"testing"

	"handoff/chaos/history"
	"handoff/chaos/verdict"
)

// If several processes act in one step, the page shows a violation at the event of the process named in it.
func TestViolationEventBelongsToNamedProcess(t *testing.T) {
	events := []history.Event{
		{Step: 6, Kind: history.Transition, Execution: 12, Process: "shell-2"},
		{Step: 7, Kind: history.Hinted, Execution: 12, Process: "shell-2"},
		{Step: 7, Kind: history.Delivered, Execution: 12, Process: "executor-1"},
		{Step: 7, Kind: history.Logged, Execution: 12, Process: "shell-2"},
		{Step: 8, Kind: history.Delivered, Execution: 12, Process: "shell-2"},
	}
	for _, c := range []struct {
		v    verdict.Violation
		want int
	}{
		{verdict.Violation{Step: 7, Execution: 12, Message: "shell-2 reported that execution 12 is completed"}, 1},
		{verdict.Violation{Step: 7, Execution: 12, Message: "execution 12 is completed"}, 2},
		{verdict.Violation{Step: 7, Message: "shell-2 reported"}, 1},
		{verdict.Violation{Step: 7, Execution: 13, Message: "shell-2 reported"}, -1},
		{verdict.Violation{Step: 9, Execution: 12}, -1},
	} {
		if got := eventOf(events, &c.v); got != c.want {
			t.Errorf("%q, step %d, execution %d: event %d, want %d", c.v.Message, c.v.Step, c.v.Execution, got, c.want)
		}
	}
}
