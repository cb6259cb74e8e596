package explore

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"testing"
	"time"

	"handoff/chaos/explain"
	"handoff/chaos/history"
	"handoff/chaos/scenario"
	"handoff/chaos/selftest/mutant"
	"handoff/core/config"
	"handoff/sim"
	"handoff/sim/kernel"
)

// shownMutant is the failing run of the demo.
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

func TestACaseRunsAgainAsItWas(t *testing.T) {
	c := shownMutant(t)
	plain := once(c.target, sim.Options{Seed: 4, Mutant: c.mutant})
	again := c.again(kernel.Redraw{}, sim.Options{Mutant: c.mutant})
	if plain.Hash != c.Record.Hash || again.Hash != c.Record.Hash {
		t.Errorf("hashes: %x by the seed, %x on the tape, %x beside it", plain.Hash, c.Record.Hash, again.Hash)
	}
}

func TestOfARunThatPassesNothingIsExplained(t *testing.T) {
	var passes *ErrPasses
	if _, err := NewCase(t.Context(), find(t, "network-partition")[0], 4, nil); !errors.As(err, &passes) {
		t.Errorf("%v, want that it passes", err)
	}
}

func TestTheCounterpartOfAMutantIsTheRunWithoutIt(t *testing.T) {
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

// A failure needs its faults: with them alone it is broken, and without any one of them it is not.
func TestTheNeededFaultsAreAMinimalSet(t *testing.T) {
	c := shownMutant(t)
	if !c.Ablate() {
		t.Fatal("interrupted")
	}
	var out, needed []int
	for i, f := range c.Record.Explained.Faults {
		if f.Needed {
			needed = append(needed, i)
		} else {
			out = append(out, i)
		}
	}
	if len(needed) == 0 || len(out) == 0 {
		t.Fatalf("%d needed, %d not: this case shows nothing", len(needed), len(out))
	}
	c.tried = nil // anew
	broken := c.brokenWithout
	if !broken(out) {
		t.Errorf("with the faults %d alone the rule is kept", needed)
	}
	for _, f := range needed {
		if broken(slices.Sorted(slices.Values(append(slices.Clone(out), f)))) {
			t.Errorf("without fault %d of %d the rule is still broken", f, needed)
		}
	}
}

// A fault that is left out takes nothing with it: the others begin when they begin with it.
func TestALeftOutFaultLeavesTheOthers(t *testing.T) {
	target := find(t, "network-partition")[0]
	all := once(target, sim.Options{Seed: 3})
	for i := range target.Scenario.Faults {
		r := once(target, sim.Options{Seed: 3, LeaveOut: []int{i}})
		for j, f := range r.Faults {
			if (f.Fired == 1) != (j != i && all.Faults[j].Fired == 1) && target.Scenario.Faults[j].When.After == "" {
				t.Errorf("without fault %d: %s fired %d times", i, f.Fault, f.Fired)
			}
		}
	}
}

// Whatever is drawn anew after a point, everything before it stays: a fault that has not begun then
// begins after it. And something does change.
func TestARedrawKeepsWhatWasBefore(t *testing.T) {
	c := shownMutant(t)
	v := &curver{Case: c, o: DefaultCurve(), story: c.story(), began: c.began(), curve: &explain.Curve{}}
	others := 0
	for _, at := range []int{0, 1, len(v.story) / 3, len(v.story) / 2, len(v.story)} {
		for what := range explain.Redraws {
			for nth := range 3 {
				redraw := v.redraw(what, at, nth)
				var kept events
				r := c.again(redraw, sim.Options{Mutant: c.mutant, Record: &kept})
				if r.Hash != c.Record.Hash {
					others++
				}
				for i := 0; i < len(kept) && c.Record.Events[i].Step <= redraw.After; i++ {
					if kept[i] != c.Record.Events[i] {
						t.Fatalf("from event %d on, redraw %d: event %d of step %d is another one, and steps up to %d are kept", at, what, i, kept[i].Step, redraw.After)
					}
				}
			}
		}
	}
	if others < 40 {
		t.Errorf("only %d of 45 runs are others", others)
	}
}

// The curve of the demo's failure rises from nearly never to always, is the same on one and on two
// processors, and ends with the violation.
func TestTheCurveOfAFailure(t *testing.T) {
	var curves []*explain.Curve
	for workers := 1; workers <= 2; workers++ {
		c := shownMutant(t)
		curves = append(curves, c.Curve(CurveOptions{Runs: 20, Steps: 4_000_000, Workers: workers}))
	}
	if !reflect.DeepEqual(curves[0], curves[1]) {
		t.Errorf("one processor draws another curve than two: %+v, %+v", curves[0], curves[1])
	}
	c := curves[0]
	first, last := c.Points[0].This[explain.All], c.Points[len(c.Points)-1].This[explain.All]
	if first.Of() > 0.5 || last.Of() != 1 {
		t.Errorf("it begins with %+v and ends with %+v", first, last)
	}
	if jump, rises := c.Steepest(explain.All); !rises || jump.From.At >= jump.To.At {
		t.Errorf("it does not rise: %+v", jump)
	}
}

// A failure counts where another execution fails by the same rule first. Once the mutant has
// ignored this completion, this execution's next step is late in every run.
func TestAFailureCountsBehindAnotherOne(t *testing.T) {
	target := find(t, "prompt-reactions")
	target = slices.DeleteFunc(target, func(t Target) bool { return t.Profile != config.Hardened })
	c, err := NewCase(t.Context(), target[0], 5, mutant.Find("completion-hint-ignored"))
	if err != nil {
		t.Fatal(err)
	}
	v := &curver{Case: c, o: DefaultCurve(), story: c.story(), began: c.began(), curve: &explain.Curve{}}
	v.o.Workers = 2
	acts := actsOf(c)
	at := numberOf(v.story, acts[len(acts)-1])
	v.measure(explain.All, 12, 0, at)
	if got := v.point(at).This[explain.All]; got.Runs != 12 || got.Failed < 11 {
		t.Errorf("drawn anew from the act on, %d of %d runs have this failure: another one hides it", got.Failed, got.Runs)
	}
}

// A curve stays within its bound, roughly: a batch that has begun is ended.
func TestACurveIsBounded(t *testing.T) {
	c := shownMutant(t)
	if curve := c.Curve(CurveOptions{Runs: 100, Steps: 500_000, Workers: 2}); curve.Steps > 900_000 {
		t.Errorf("%d steps, bounded by 500000", curve.Steps)
	}
}

// What is left of a bound may be too little for one run. Then the search is over.
func TestTheSearchEndsWhereTheBoundLeavesLessThanARun(t *testing.T) {
	c := shownMutant(t)
	v := &curver{Case: c, o: DefaultCurve(), story: c.story(), began: c.began(), curve: &explain.Curve{}}
	v.o.Workers = 2
	v.measure(explain.All, 5, 0, 0, len(v.story))
	v.o.Steps = v.steps + 1
	if r := v.highest(); r == nil || v.over(0) {
		t.Fatalf("there is nothing left to look for: %+v", r)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	c.ctx = ctx
	if v.narrow(0); ctx.Err() != nil {
		t.Errorf("after %d runs it looks for ever for one that a single step allows", v.runs)
	}
}

func TestACaseStopsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := NewCase(ctx, find(t, "network-partition")[0], 4, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

// The record of a failure in a sweep says why, so that the report can begin with it.
func TestASweepExplainsItsFailures(t *testing.T) {
	out, err := Sweep(t.Context(), find(t, "network-partition")[:1], Options{First: 14, Seeds: 1, Mutant: mutant.Find("unguarded-claim")})
	if err != nil || len(out.Records) != 1 {
		t.Fatalf("%d records, %v", len(out.Records), err)
	}
	x := out.Records[0].Explained
	if x == nil || len(x.Counterparts) != 1 || x.Counterparts[0].Difference == nil || x.Needed() != 1 || x.Curve != nil {
		t.Errorf("explained as %+v", x)
	}
}

// twoLosses loses an execution with each of two workers.
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

// The failure of an expectation is that this execution misses it. Which execution the violation names
// depends on how many others miss it later: that decides nothing about this one.
func TestAMissedExpectationIsJudgedByItsExecution(t *testing.T) {
	s, err := scenario.Parse("two-losses.yaml", []byte(twoLosses))
	if err != nil {
		t.Fatal(err)
	}
	c, err := NewCase(t.Context(), Target{Scenario: s, Profile: config.Hardened}, 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	v := &curver{Case: c, o: DefaultCurve(), story: c.story(), began: c.began(), curve: &explain.Curve{}}
	v.o.Workers = 2
	lost := slices.IndexFunc(v.story, func(e *history.Event) bool { return e.Kind == history.ProcessCrashed })
	if lost < 0 || c.Violation.Execution == 0 {
		t.Fatalf("this case shows nothing: execution %d, crash %d", c.Violation.Execution, lost)
	}
	v.measure(explain.All, 24, 0, lost+1)
	if got := v.point(lost + 1).This[explain.All]; got.Failed != 24 {
		t.Errorf("once the worker of execution %d has crashed, %d of %d runs have this failure, want all", c.Violation.Execution, got.Failed, got.Runs)
	}
}
