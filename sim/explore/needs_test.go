package explore

import (
	"slices"
	"strings"
	"testing"

	"handoff/chaos/explain"
	"handoff/chaos/scenario"
	"handoff/chaos/verdict"
	"handoff/core/config"
	"handoff/core/execution"
)

// explainedCase returns a failing run of a scenario, after comparing it and finding its needed faults.
func explainedCase(t *testing.T, name, text string, seed uint64) (*Case, *explain.Explanation) {
	t.Helper()
	s, err := scenario.Parse(name+".yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	c, err := NewCase(t.Context(), Target{Scenario: s, Profile: config.Hardened}, seed, nil)
	if err != nil {
		t.Fatal(err)
	}
	x := c.Compare()
	if !c.Ablate() {
		t.Fatal("interrupted")
	}
	return c, x
}

// Both crashes break the expectation, but only the first crash lost the execution that the report shows.
func TestShownExecutionDeterminesNeededFaults(t *testing.T) {
	c, x := explainedCase(t, "two-losses", twoLosses, 1)
	if len(c.Violation.Missed) < 2 {
		t.Fatalf("only %d missed: this case shows nothing", c.Violation.Missed)
	}
	if !x.Followed || x.Execution != c.Violation.Execution || !x.Faults[0].Needed || !x.Faults[0].Alone || x.Faults[1].Needed {
		t.Errorf("judged by execution %d (%v): %+v, want only the first crash", x.Execution, x.Followed, x.Faults)
	}
	first := &x.Counterparts[0]
	if !strings.Contains(first.Change, "shell-1") || !first.Passes || !first.Elsewhere {
		t.Errorf("the counterpart is the run %s: %+v", first.Change, first)
	}
}

// cancelledAndLost has two reasons why executions don't complete, and only one of them is a fault.
const cancelledAndLost = `
name: cancelled-and-lost
about: Clients cancel some executions, and a worker takes another one with it.
cluster:
  executors: 2
  workers:
    shell-1: {runtimes: [shell]}
actions:
  core.echo: {runtime: shell, takes: 10s, max_retries: 0}
  core.after: {runtime: shell, takes: 1s}
  core.slow: {runtime: shell, takes: 40s}
workload:
  - {action: core.slow, count: 2, every: 1s}
  - {action: core.echo, count: 1, from: 45s}
  - {action: core.after, count: 1, from: 46s, parent: core.echo}
  - cancel: {action: core.slow, count: 2, after: {uniform: [1s, 2s]}}
faults:
  - {when: {between: [48s, 50s]}, crash: shell-1, restart_after: 2m}
expect:
  executions: {completed: "100%"}
`

// The shown execution misses the expectation without any fault. Another execution misses it because of the
// crash, and so does its skipped child; the explanation names that execution.
func TestExplanationNamesOtherExecutionsFaults(t *testing.T) {
	c, x := explainedCase(t, "cancelled-and-lost", cancelledAndLost, 1)
	if len(c.Violation.Missed) != 4 || x.Needed() != 0 {
		t.Fatalf("missed by %d, %+v: this case shows nothing", c.Violation.Missed, x.Faults)
	}
	if len(x.Elsewhere) != 1 || x.Elsewhere[0] == c.Violation.Execution || len(x.Faults[0].Elsewhere) != 1 || x.Faults[0].Elsewhere[0] != x.Elsewhere[0] {
		t.Errorf("elsewhere %d, the fault %+v", x.Elsewhere, x.Faults[0])
	}
}

// ownError has an action that fails by itself, and a fault that changes which attempts draw an error.
const ownError = `
name: own-error
about: An action fails by itself, also in its retry.
cluster:
  executors: 2
  workers:
    shell-1: {runtimes: [shell]}
actions:
  core.flaky: {runtime: shell, takes: {uniform: [1s, 5s]}, fails: {rate: 50%, reason: connection}, max_retries: 1}
workload:
  - {action: core.flaky, count: 6, every: 2s}
faults:
  - {when: {between: [1s, 6s]}, pause: executor-1, for: 20s}
expect:
  executions: {completed: "100%"}
`

func TestOwnErrorsNeedNoFaults(t *testing.T) {
	_, x := explainedCase(t, "own-error", ownError, 1)
	if x.Own != 2 || x.Needed() != 0 || len(x.Faults) != 1 || !x.Faults[0].Struck {
		t.Errorf("%d own errors, %+v, want 2 attempts and no needed fault", x.Own, x.Faults)
	}
}

// The number of the execution in the other run does not matter. The last attempt counts: if every execution
// has completed, none is reported as failed.
func TestExecutionIsMatchedByKey(t *testing.T) {
	_, x := explainedCase(t, "own-error", ownError, 1)
	kept := 0
	for i := range x.Counterparts {
		p := &x.Counterparts[i]
		if p.Breaks != "" {
			continue
		}
		if kept++; !strings.Contains(p.Ends, execution.Completed.String()) {
			t.Errorf("the run %s breaks no rule, and %s", p.Change, p.Ends)
		}
	}
	if kept == 0 {
		t.Error("no run beside it keeps the rule: this case shows nothing")
	}
}

// The crash is needed to miss the expectation, but not for the end of the shown execution, which clients
// had cancelled. The explanation states this and names the executions that do need it.
func TestFaultsNeededOnlyByOtherExecutions(t *testing.T) {
	text := strings.Replace(cancelledAndLost, `"100%"`, `">= 50%"`, 1)
	text = strings.Replace(text, "  - cancel:", "  - {action: core.after, count: 2, every: 1s}\n  - cancel:", 1)
	c, x := explainedCase(t, "cancelled-and-lost", text, 1)
	if len(c.Violation.Missed) != 4 || x.Needed() != 1 || !c.wasCancelled(x.Execution) {
		t.Fatalf("missed by %d, execution %d, %+v: this case shows nothing", c.Violation.Missed, x.Execution, x.Faults)
	}
	if !x.Same || len(x.Others) != 2 {
		t.Errorf("ends in the same way without any fault: %v; not so: %d; want the one that the crash took, and its child", x.Same, x.Others)
	}
	for _, id := range x.Others {
		if c.wasCancelled(id) && c.ownErrors(id) > 0 || !slices.Contains(c.Violation.Missed, id) {
			t.Errorf("execution %d did not miss the expectation because of the crash", id)
		}
	}
}

// A page begins with the first violation of its run. So the first violation is explained, even if a mutant
// was planted to break another rule.
func TestExplanationCoversFirstViolation(t *testing.T) {
	for _, k := range kills(t) {
		if !k.Killed() || len(k.Violations) < 2 || k.Target.Varied {
			continue
		}
		first := slices.MinFunc(k.Violations, func(a, b verdict.Violation) int { return verdict.Before(&a, &b) })
		if first.Invariant == k.Mutant.Expected {
			continue
		}
		c, err := NewCase(t.Context(), k.Target, k.Seed, k.Mutant)
		if err != nil {
			t.Fatal(err)
		}
		if c.Violation.Rule() != first.Rule() || c.Violation.Step != first.Step {
			t.Errorf("%s in %s breaks first %s, at step %d; explained is %s, at step %d", k.Mutant.Name, k.Target, first.Rule(), first.Step, c.Violation.Rule(), c.Violation.Step)
		}
		return
	}
	t.Error("no mutant breaks another rule first: this test shows nothing")
}
