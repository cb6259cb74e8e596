package invariant

import (
	"slices"
	"testing"
	"time"

	"handoff/chaos/history"
	"handoff/core/config"
	"handoff/core/execution"
)

// limitFindings returns invariant 19's findings for a history whose request set a run timeout of 5 s, a
// dispatch timeout of 7 s and one retry.
func limitFindings(events ...history.Event) []string {
	s := New(config.Default(config.Hardened), []int{19})
	s.SetRequests(func(key string) (execution.Action, bool) {
		return execution.Action{Timeout: 5 * second, DispatchTimeout: 7 * second, MaxRetries: 1}, key == "k"
	})
	for i := range events {
		s.Observe(&events[i])
	}
	var found []string
	for _, f := range s.End(true) {
		found = append(found, f.Message)
	}
	return found
}

// asked returns the creation of the requested execution, modified by change.
func asked(change func(*history.Event)) history.Event {
	e := created(second)
	e.Key, e.RunTimeout, e.DispatchTimeout = "k", 5*second, 7*second
	if change != nil {
		change(&e)
	}
	return e
}

func TestExecutionHasLimitsOfItsRequest(t *testing.T) {
	for want, e := range map[string]history.Event{
		"": asked(nil),
		"execution 1 was created with 2 retries, and 1 were requested":                asked(func(e *history.Event) { e.Limit = 2 }),
		"execution 1 was created with a run timeout of 5m0s, and 5s was requested":    asked(func(e *history.Event) { e.RunTimeout = 5 * time.Minute }),
		"execution 1 was created with a dispatch timeout of 0s, and 7s was requested": asked(func(e *history.Event) { e.DispatchTimeout = 0 }),
	} {
		if found := limitFindings(e); (want == "") != (len(found) == 0) || want != "" && !slices.Contains(found, want) {
			t.Errorf("found %q, want %q", found, want)
		}
	}
	if found := limitFindings(asked(func(e *history.Event) { e.Key, e.Limit = "of somebody else", 9 })); len(found) > 0 {
		t.Errorf("for an unknown request: %q", found)
	}
}

func TestDeadlinesFollowLimits(t *testing.T) {
	until := func(e history.Event, d time.Duration) history.Event {
		e.Due = e.At + d
		return e
	}
	scheduling := move(2*second, execution.Requested, execution.Scheduling, execution.Scheduler, 0, 0)
	scheduled := until(move(3*second, execution.Scheduling, execution.Scheduled, execution.Scheduler, 0, 1), 7*second)
	running := until(move(4*second, execution.Scheduled, execution.Running, execution.Worker, 1, 1), 5*second)
	if found := limitFindings(asked(nil), scheduling, scheduled, running); len(found) > 0 {
		t.Errorf("by its own limits: %q", found)
	}
	if found := limitFindings(asked(nil), scheduling, until(scheduled, 120*second)); !slices.Equal(found, []string{"execution 1 may be claimed for 2m0s at epoch 1, and its limit is 7s"}) {
		t.Errorf("dispatched by the configuration: %q", found)
	}
	if found := limitFindings(asked(nil), scheduling, scheduled, until(running, 4*second)); !slices.Equal(found, []string{"execution 1 may run for 4s at epoch 1, and its limit is 5s"}) {
		t.Errorf("run by another timeout: %q", found)
	}
	// An audit has no run timeout, so there is nothing to judge.
	if found := limitFindings(created(second), scheduling, until(scheduled, second), until(running, second)); len(found) > 0 {
		t.Errorf("for unknown limits: %q", found)
	}
}

func TestRetryHasLimitsOfItsChain(t *testing.T) {
	retry := func(change func(*history.Event)) []history.Event {
		next := asked(func(e *history.Event) { e.At, e.Execution, e.Count, e.Key = 5*second, 2, 1, "" })
		if change != nil {
			change(&next)
		}
		failed := move(4*second, execution.Running, execution.Failed, execution.Worker, 1, 1)
		handled := history.Event{At: 5 * second, Kind: history.Orchestrated, Execution: 1, Chain: 1, From: execution.Failed, Related: 2}
		return []history.Event{asked(nil), failed, next, handled}
	}
	if found := limitFindings(retry(nil)...); len(found) > 0 {
		t.Errorf("with the same limits: %q", found)
	}
	for want, change := range map[string]func(*history.Event){
		"execution 2 retries execution 1 with 3 retries allowed instead of 1":         func(e *history.Event) { e.Limit = 3 },
		"execution 2 retries execution 1 with a run timeout of 10s instead of 5s":     func(e *history.Event) { e.RunTimeout = 10 * second },
		"execution 2 retries execution 1 with a dispatch timeout of 0s instead of 7s": func(e *history.Event) { e.DispatchTimeout = 0 },
	} {
		if found := limitFindings(retry(change)...); !slices.Equal(found, []string{want}) {
			t.Errorf("found %q, want %q", found, want)
		}
	}
}
