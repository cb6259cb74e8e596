package explore

import (
	"context"
	"errors"
	"slices"
	"testing"

	"handoff/chaos/history"
	"handoff/chaos/selftest/mutant"
	"handoff/core/config"
	"handoff/sim"
)

// shownMutant returns the failing run of the demo.
func shownMutant(t *testing.T) *Case {
	t.Helper()
	return caseOf(t, "network-partition", 4, "unguarded-claim")
}

func caseOf(t *testing.T, scenario string, seed uint64, planted string) *Case {
	t.Helper()
	c, err := NewCase(t.Context(), find(t, scenario)[0], seed, mutant.Find(planted))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestCaseRerunIsIdentical(t *testing.T) {
	c := shownMutant(t)
	plain := runOnce(c.target, sim.Options{Seed: 4, Mutant: c.mutant})
	again := c.rerunCase(sim.Options{Mutant: c.mutant})
	if plain.Hash != c.Record.Hash || again.Hash != c.Record.Hash {
		t.Errorf("hashes: %x by the seed, %x on the tape, %x beside it", plain.Hash, c.Record.Hash, again.Hash)
	}
}

func TestPassingRunHasNoExplanation(t *testing.T) {
	var passes *ErrPasses
	if _, err := NewCase(t.Context(), find(t, "network-partition")[0], 4, nil); !errors.As(err, &passes) {
		t.Errorf("%v, want that it passes", err)
	}
}

func TestMutantIsComparedWithPlainRun(t *testing.T) {
	c := shownMutant(t)
	x := c.Compare()
	if len(x.Counterparts) != 1 || !x.Counterparts[0].Passes {
		t.Fatalf("%+v, want one that passes", x.Counterparts)
	}
	d := x.Counterparts[0].Difference
	if d.Act == nil || d.Act.Execution != c.Violation.Execution {
		t.Errorf("the act is %+v", d.Act)
	}
	first := d.Pairs[0]
	if first.About != c.Violation.Execution || first.Here == nil || first.Here.Kind != history.ActionStarted || first.There == nil || first.There.Kind != history.StaleWrite {
		t.Errorf("the first difference is %+v", first)
	}
}

// With only the needed faults the run fails, and it passes if any one of them is left out.
func TestNeededFaultsAreMinimal(t *testing.T) {
	c := shownMutant(t)
	if !c.Ablate() {
		t.Fatal("interrupted")
	}
	if x := c.Record.Explained; x.Needed() == 0 || x.Needed() == len(x.Faults) {
		t.Fatalf("%d of %d are needed: this case shows nothing", x.Needed(), len(x.Faults))
	}
	checkNeeded(t, c)
}

// Leaving out a fault does not change when the other faults begin.
func TestOmittingFaultKeepsOtherFaults(t *testing.T) {
	target := find(t, "network-partition")[0]
	all := runOnce(target, sim.Options{Seed: 3})
	for i := range target.Scenario.Faults {
		r := runOnce(target, sim.Options{Seed: 3, LeaveOut: []int{i}})
		for j, f := range r.Faults {
			if (f.Fired == 1) != (j != i && all.Faults[j].Fired == 1) && target.Scenario.Faults[j].When.After == "" {
				t.Errorf("without fault %d: %s fired %d times", i, f.Fault, f.Fired)
			}
		}
	}
}

// A failure counts even if another execution breaks the same rule first.
func TestLaterFailureOfSameRuleCounts(t *testing.T) {
	target := find(t, "prompt-reactions")
	target = slices.DeleteFunc(target, func(t Target) bool { return t.Profile != config.Hardened })
	c, err := NewCase(t.Context(), target[0], 5, mutant.Find("completion-hint-ignored"))
	if err != nil {
		t.Fatal(err)
	}
	if !c.isFollowed() || !c.brokenWithout(nil) {
		t.Errorf("the same run does not have the failure of execution %d: another one hides it", c.Violation.Execution)
	}
}

func TestCaseStopsWhenContextEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := NewCase(ctx, find(t, "network-partition")[0], 4, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

// The record of a sweep's failure contains its explanation, so that the report can begin with it.
func TestSweepExplainsItsFailures(t *testing.T) {
	out, err := Sweep(t.Context(), find(t, "network-partition")[:1], Options{First: 14, Seeds: 1, Mutant: mutant.Find("unguarded-claim")})
	if err != nil || len(out.Records) != 1 {
		t.Fatalf("%d records, %v", len(out.Records), err)
	}
	x := out.Records[0].Explained
	if x == nil || len(x.Counterparts) != 1 || x.Counterparts[0].Difference == nil || x.Needed() != 1 {
		t.Errorf("explained as %+v", x)
	}
}

// twoLosses is a scenario in which each of two workers loses an execution when it crashes.
const twoLosses = `
name: two-losses
about: Two workers crash, and each takes an execution with it.
cluster:
  executors: 2
  workers:
    shell-1: {runtimes: [shell]}
    shell-2: {runtimes: [shell]}
actions:
  core.echo: {runtime: shell, takes: 10s, max_retries: 0}
workload:
  - {action: core.echo, count: 8, every: 6s}
faults:
  - {when: {between: [5s, 20s]}, crash: shell-1, restart_after: 2m}
  - {when: {between: [25s, 50s]}, crash: shell-2, restart_after: 2m}
expect:
  executions: {completed: "100%"}
`
