package invariant

import (
	"strings"
	"testing"
	"time"

	"handoff/chaos/history"
	"handoff/core/config"
	"handoff/core/execution"
)

// conductFindings returns the findings of invariants 29 and 30 about what behave reports.
func conductFindings(behave func(c *Conduct, s *Suite)) string {
	s := New(config.Default(config.Hardened), []int{29, 30})
	behave(s.Conduct(), s)
	var found []string
	for _, f := range s.End(true) {
		found = append(found, f.Message)
	}
	return strings.Join(found, "; ")
}

var scheduling = Part{Process: "executor-1", Name: "scheduler", Task: 7}

func TestFailedCallIsLoggedOrRepeated(t *testing.T) {
	const refused = "database unavailable: out of memory (53200)"
	const unknown = "database outcome unknown: connection reset"
	for name, c := range map[string]struct {
		behave func(c *Conduct, s *Suite)
		want   string
	}{
		"nothing failed": {func(c *Conduct, _ *Suite) { c.Waits(scheduling, 0, 0) }, ""},
		"logged": {func(c *Conduct, _ *Suite) {
			c.CallFailed(scheduling, 1, "Workers", refused, false)
			c.Logged(scheduling, Line{Text: "scheduling pass failed", Warns: true, Error: "pass: " + refused})
			c.Waits(scheduling, 0, 0)
		}, ""},
		"repeated": {func(c *Conduct, _ *Suite) {
			c.CallFailed(scheduling, 1, "Dispatch", refused, false)
			c.CallAnswered(scheduling, 1, "Dispatch")
			c.Waits(scheduling, 0, 0)
		}, ""},
		"repeated once, and unknown in part": {func(c *Conduct, _ *Suite) {
			c.CallFailed(scheduling, 1, "Dispatch", unknown, true)
			c.CallFailed(scheduling, 2, "Dispatch", refused, false)
			c.CallAnswered(scheduling, 2, "Dispatch")
			c.CallFailed(scheduling, 2, "Dispatch", unknown, true)
			c.Logged(scheduling, Line{Text: "scheduling pass failed", Warns: true, Error: unknown})
			c.Waits(scheduling, 0, 0)
		}, ""},
		"unknown in part and not repeated": {func(c *Conduct, _ *Suite) {
			c.CallFailed(scheduling, 1, "Dispatch", refused, false)
			c.CallFailed(scheduling, 1, "Dispatch", unknown, true)
			c.CallAnswered(scheduling, 1, "Dispatch")
			c.Logged(scheduling, Line{Text: "scheduling pass failed", Warns: true, Error: unknown})
			c.Waits(scheduling, 0, 0)
		}, "has not repeated its call Dispatch"},
		"repeated, and another one unknown and not repeated": {func(c *Conduct, _ *Suite) {
			c.CallFailed(scheduling, 1, "Dispatch", unknown, true)
			c.CallAnswered(scheduling, 2, "Dispatch")
			c.CallFailed(scheduling, 3, "Dispatch", unknown, true)
			c.Logged(scheduling, Line{Text: "scheduling pass failed", Warns: true, Error: unknown})
			c.Waits(scheduling, 0, 0)
		}, "has not repeated its call Dispatch"},
		"suppressed by the rate limit": {func(c *Conduct, _ *Suite) {
			c.CallFailed(scheduling, 1, "Claim", refused, false)
			c.Suppressed(scheduling)
			c.Waits(scheduling, 0, 0)
		}, ""},
		"swallowed": {func(c *Conduct, _ *Suite) {
			c.CallFailed(scheduling, 1, "Dispatch", refused, false)
			c.CallAnswered(scheduling, 1, "Workers")
			c.Waits(scheduling, 0, 0)
		}, "executor-1: scheduler waits for its next pass, but its call Dispatch failed"},
		"logged with another error": {func(c *Conduct, _ *Suite) {
			c.CallFailed(scheduling, 1, "Dispatch", refused, false)
			c.Logged(scheduling, Line{Text: "scheduling pass failed", Warns: true, Error: "no such thing"})
			c.Waits(scheduling, 0, 0)
		}, "its call Dispatch failed"},
		"logged by another part": {func(c *Conduct, _ *Suite) {
			c.CallFailed(scheduling, 1, "Dispatch", refused, false)
			c.Logged(Part{Process: "executor-1", Name: "figures", Task: 8}, Line{Text: "figures", Warns: true, Error: refused})
			c.Waits(scheduling, 0, 0)
		}, "its call Dispatch failed"},
		"counted as successful": {func(c *Conduct, _ *Suite) {
			c.CallFailed(scheduling, 1, "Find", refused, false)
			c.Counted(scheduling, "scheduler", false)
			c.Waits(scheduling, 0, 0)
		}, "executor-1: a pass of scheduler counts as successful, but its call Find failed"},
		"counted as failed without a failed call": {func(c *Conduct, _ *Suite) { c.Counted(scheduling, "scheduler", true) }, "counts as failed, but no call of that process has failed"},
		"logged without a failed call": {func(c *Conduct, _ *Suite) {
			c.Logged(scheduling, Line{Text: "scheduling pass failed", Warns: true, Error: "no workers"})
		}, `logs "scheduling pass failed" with the error "no workers"`},
		"logged while a fault lasts": {func(c *Conduct, s *Suite) {
			s.Observe(&history.Event{Kind: history.FaultBegan})
			c.Logged(scheduling, Line{Text: "scheduling pass failed", Warns: true, Error: "no connection"})
		}, ""},
		"logged without an error": {func(c *Conduct, _ *Suite) {
			c.Logged(scheduling, Line{Text: "scheduling pass failed", Warns: true, Empty: true})
		}, `logs "scheduling pass failed" with an empty error field`},
		"the change that was made": {func(c *Conduct, s *Suite) {
			s.Observe(&history.Event{Kind: history.Transition, Process: "executor-1", Execution: 7, OldEpoch: 1, Epoch: 2, From: execution.Scheduled, To: execution.Requested, By: execution.TimeoutMonitor})
			c.Says(scheduling, Line{Text: "execution has been scheduled too long, dispatching again", Execution: 7, Epoch: 1})
		}, ""},
		"another status": {func(c *Conduct, s *Suite) {
			s.Observe(&history.Event{Kind: history.Created, Execution: 7, To: execution.Requested})
			s.Observe(&history.Event{Kind: history.Observed, Process: "executor-1", Execution: 7, Epoch: 1, To: execution.Requested, By: execution.TimeoutMonitor})
			c.Says(scheduling, Line{Text: "execution has been scheduled too long, would mark it requested (observe only)", Execution: 7, Epoch: 1})
		}, "but it was recorded that it would become requested"},
		"a change that was only recorded": {func(c *Conduct, s *Suite) {
			s.Observe(&history.Event{Kind: history.Created, Execution: 7, To: execution.Requested})
			s.Observe(&history.Event{Kind: history.Observed, Process: "executor-1", Execution: 7, Epoch: 1, To: execution.Timeout, By: execution.TimeoutMonitor})
			c.Says(scheduling, Line{Text: "execution has run past its deadline, marking timeout", Execution: 7, Epoch: 1})
		}, "but it was recorded that it would become timeout"},
		"no change was made": {func(c *Conduct, s *Suite) {
			s.Observe(&history.Event{Kind: history.Created, Execution: 7, To: execution.Requested})
			c.Says(scheduling, Line{Text: "received dead letter", Outcome: "reclaimed", Execution: 7, Epoch: 1})
		}, "but nothing of the kind was done"},
		"another outcome": {func(c *Conduct, _ *Suite) {
			c.Says(scheduling, Line{Text: "received dead letter", Outcome: "running", Execution: 7, Epoch: 1})
		}, ""},
		"a part may end after a failed call": {func(c *Conduct, _ *Suite) {
			c.CallFailed(scheduling, 1, "Find", refused, false)
			c.Ends(scheduling, 0)
		}, ""},
	} {
		if got := conductFindings(c.behave); (c.want == "") != (got == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: found %q, want %q", name, got, c.want)
		}
	}
}

func TestHeldResourcesStayBounded(t *testing.T) {
	for name, c := range map[string]struct {
		behave func(c *Conduct, s *Suite)
		want   string
	}{
		"lawful": {func(c *Conduct, _ *Suite) {
			c.Waits(scheduling, 0, mostPlainContexts)
			c.Ends(scheduling, 0)
			c.Sessions("executor-1", mostSessions)
			c.Consumers("executor-1", "q", 1)
			c.Starts(scheduling, true, 10, mostParts+20)
			c.Starts(scheduling, false, 0, mostParts+mostProbes)
		}, ""},
		"a deadline":         {func(c *Conduct, _ *Suite) { c.Waits(scheduling, 1, 0) }, "holds 1 contexts with a deadline"},
		"contexts":           {func(c *Conduct, _ *Suite) { c.Waits(scheduling, 0, mostPlainContexts+1) }, "holds 5 contexts without a deadline"},
		"at the end":         {func(c *Conduct, _ *Suite) { c.Ends(scheduling, 1) }, "has not ended 1 contexts"},
		"called too late":    {func(c *Conduct, _ *Suite) { c.CalledTooLate(scheduling, "DeleteIdle", second) }, "makes the call DeleteIdle under a context with a deadline that it made itself and had already ended at 1s"},
		"sessions":           {func(c *Conduct, _ *Suite) { c.Sessions("shell-1", mostSessions+1) }, "shell-1 has 4 sessions"},
		"consumers":          {func(c *Conduct, _ *Suite) { c.Consumers("shell-1", "q", 2) }, "consumes the queue q 2 times"},
		"tasks":              {func(c *Conduct, _ *Suite) { c.Starts(scheduling, true, 1, mostParts+3) }, "has 43 tasks"},
		"tasks of executors": {func(c *Conduct, _ *Suite) { c.Starts(scheduling, false, 0, mostParts+mostProbes+1) }, "has 57 tasks"},
	} {
		if got := conductFindings(c.behave); (c.want == "") != (got == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: found %q, want %q", name, got, c.want)
		}
	}
	if New(config.Default(config.Hardened), []int{1}).Conduct() != nil {
		t.Error("a suite without rules about conduct judges conduct")
	}
}

func TestDoneContextOrUndeclaredQueueBreaksInvariant(t *testing.T) {
	for name, c := range map[string]struct {
		behave func(c *Conduct, s *Suite)
		want   string
	}{
		"waits under a done context": {func(c *Conduct, _ *Suite) { c.GoesOn(scheduling, "waits", 7*second) }, "executor-1: scheduler waits under a context, although it saw at 7s that this context was done"},
		"consumes an undeclared queue": {
			func(c *Conduct, _ *Suite) { c.Undeclared("shell-1", "worker.1.executions", false) },
			"shell-1 consumes queue worker.1.executions over a session on which it has not declared this queue since the session was opened",
		},
		"consumes after a cancellation without declaring": {
			func(c *Conduct, _ *Suite) { c.Undeclared("shell-1", "worker.1.executions", true) },
			"has not declared this queue since the broker cancelled a consumer of the session",
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := conductFindings(c.behave); !strings.Contains(got, c.want) {
				t.Errorf("found %q, want %q", got, c.want)
			}
		})
	}
}

// A probe's result applies to the incarnation that its round read from the database. If the process was
// halted, its round may have used an old list, so a failure doesn't count for a worker registered since.
func TestHaltedRoundMayProbeEarlierIncarnation(t *testing.T) {
	const url = "sim://w/readyz"
	registers := func(at time.Duration) history.Event {
		e := registered(1, 1, "shell")
		e.At, e.Incarnation = at, execution.Incarnation(at/second)+1
		return e
	}
	// halted returns the events of a worker that re-registers while a process is halted.
	halted := func(process string, began, ended history.Kind, from, again, until time.Duration) []history.Event {
		return []history.Event{
			registers(0),
			{At: from, Kind: began, Process: process},
			registers(again),
			{At: until, Kind: ended, Process: process},
		}
	}
	rounds := func(from time.Duration) []time.Duration {
		return []time.Duration{from, from + 30*second, from + 60*second, from + 90*second}
	}
	const untold = "did not log this before it probed again"
	for _, x := range []struct {
		name   string
		events []history.Event
		probes []time.Duration
		want   string
	}{
		{"three failures that are not logged", []history.Event{registers(0)}, rounds(30 * second), untold},
		{"a worker that registers between two rounds", []history.Event{registers(0), registers(45 * second)}, rounds(30 * second), ""},
		{"a worker that registers while the first round is paused", halted("executor-1", history.ProcessPaused, history.ProcessResumed, 31*second, 100*second, 300*second), rounds(300 * second), ""},
		{"a worker that registers while the first round is frozen", halted("executor-1", history.ProcessFrozen, history.ProcessThawed, 31*second, 100*second, 300*second), rounds(300 * second), ""},
		{"a worker that registers while another process is paused", halted("executor-2", history.ProcessPaused, history.ProcessResumed, 31*second, 100*second, 300*second), rounds(300 * second), untold},
		{"a process that was paused long before", halted("executor-1", history.ProcessPaused, history.ProcessResumed, 31*second, 100*second, 300*second), rounds(330 * second), untold},
		{"a worker that registers while the first list is read", []history.Event{registers(24 * second)}, rounds(30 * second), ""},
		{"a worker that registers before the first list is read", []history.Event{registers(21 * second)}, rounds(30 * second), untold},
	} {
		got := conductFindings(func(c *Conduct, s *Suite) {
			s.Observe(&history.Event{Kind: history.ProcessStarted, Process: "executor-1"})
			s.Observe(&history.Event{Kind: history.ProcessStarted, Process: "executor-2"})
			events := x.events
			for _, at := range x.probes {
				for len(events) > 0 && events[0].At <= at {
					s.Observe(&events[0])
					events = events[1:]
				}
				c.Probed(1, "executor-1", url, at, true)
			}
		})
		if (got == "") != (x.want == "") || !strings.Contains(got, x.want) {
			t.Errorf("%s: %q, want %q", x.name, got, x.want)
		}
	}
}
