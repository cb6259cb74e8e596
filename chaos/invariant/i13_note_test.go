package invariant

import (
	"slices"
	"testing"

	"handoff/chaos/history"
	"handoff/core/execution"
)

// A failed action's message must agree with the machine's report of the failure, and explain a missing retry.
func TestFailureMessageExplainsMissingRetry(t *testing.T) {
	const note = "\nNot retried, with 2 of 2 retries left, because exit code 7 is not retried, unless it is declared: retried_exit_codes: [7]"
	failed := func(reason execution.Reason, code int64) history.Event {
		e := action(3*second, history.ActionEnded, "w", 1)
		e.To, e.Reason, e.Count = execution.Failed, reason, code
		return e
	}
	stored := func(reason execution.Reason, text string) history.Event {
		e := move(3*second, execution.Running, execution.Failed, execution.Worker, 1, 1)
		e.Reason, e.Text = reason, text
		return e
	}
	begin := beginning()
	for i := range begin {
		if begin[i].Kind == history.Created {
			begin[i].Limit = 2
		}
	}
	cancelling := move(3*second, execution.Running, execution.Canceling, execution.API, 1, 1)
	fromCanceling := stored(execution.Unknown, "Action failed: exit status 7")
	fromCanceling.From = execution.Canceling
	for _, c := range []struct {
		name  string
		wrong bool
		story []history.Event
	}{
		{"no retry follows and the message says so", false, []history.Event{failed(execution.Unknown, 7), stored(execution.Unknown, "Action failed: exit status 7: oops"+note)}},
		{"no retry follows and the message omits that", true, []history.Event{failed(execution.Unknown, 7), stored(execution.Unknown, "Action failed: exit status 7: oops")}},
		{"it names another exit code", true, []history.Event{failed(execution.Unknown, 8), stored(execution.Unknown, "Action failed: exit status 8"+note)}},
		{"a retry follows", false, []history.Event{failed(execution.Transient, 7), stored(execution.Transient, "Action failed: exit status 7")}},
		{"a retry follows and the message denies it", true, []history.Event{failed(execution.Transient, 7), stored(execution.Transient, "Action failed: exit status 7"+note)}},
		{"its reason is another one", true, []history.Event{failed(execution.Transient, 7), stored(execution.Unknown, "Action failed: exit status 7"+note)}},
		{"the database has refused the message", false, []history.Event{failed(execution.Unknown, 7), stored(execution.Unknown, "Action failed: the database refused the action's output: no")}},
		{"its cancellation was requested", false, []history.Event{cancelling, failed(execution.Unknown, 7), fromCanceling}},
		{"it was killed", false, []history.Event{stored(execution.HeartbeatStale, "Action was ended at the worker's fence")}},
	} {
		if broken := judge(append(slices.Clone(begin), c.story...)); slices.Contains(broken, 13) != c.wrong {
			t.Errorf("%s: invariants %v are broken; 13 should be: %v", c.name, broken, c.wrong)
		}
	}
}
