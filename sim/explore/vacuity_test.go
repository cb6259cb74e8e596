package explore

import (
	"context"
	"strings"
	"testing"

	"handoff/chaos/invariant"
	"handoff/chaos/verdict"
	"handoff/scenarios"
	"handoff/sim"
	"handoff/sim/flaw"
)

// A harness that can't go red proves nothing. These tests take one part of it away at a time, and
// demand that it is missed.

// skipShort keeps thousands of runs out of the race detector's pass, where they take minutes and show
// nothing that a few runs do not.
func skipShort(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("thousands of runs")
	}
}

func library(t *testing.T) []*scenarios.Scenario {
	t.Helper()
	all, err := scenarios.Library()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// Without its injector, a fault does not strike, and no scenario that has one may pass.
func TestEveryInjectorIsMissed(t *testing.T) {
	skipShort(t)
	all := library(t)
	for _, kind := range scenarios.Faults() {
		var affected []*scenarios.Scenario
		for _, s := range all {
			for i := range s.Faults {
				if s.Faults[i].Kind == kind.Kind {
					affected = append(affected, s)
					break
				}
			}
		}
		if len(affected) == 0 {
			t.Errorf("no scenario of the library has the fault %q", kind.Kind)
			continue
		}
		out, err := Sweep(context.Background(), Targets(affected), Options{
			First: 1, Seeds: verdict.SweepSeeds,
			run: func(target Target, o sim.Options) *sim.Result {
				o.Without = []scenarios.FaultKind{kind.Kind}
				return once(target, o)
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		for i, result := range out.Sweep.Scenarios {
			why := strings.Join(result.Why, "; ")
			if result.Verdict == verdict.Pass {
				t.Errorf("%s (%s) passes without the injector of %q", result.Name, result.Profile, kind.Kind)
			}
			for _, f := range Targets(affected)[i].Scenario.Faults {
				if f.Kind == kind.Kind && !strings.Contains(why, f.Name) {
					t.Errorf("%s (%s) without the injector of %q does not say that %q never struck: %s", result.Name, result.Profile, kind.Kind, f.Name, why)
				}
			}
		}
	}
}

// hunted bounds the seeds of a hunt whose end is known: with an invariant left out, its flaws survive
// or are found by another one, early or not at all.
const hunted = 25

// Without one invariant, at least one planted flaw loses the killer that it names.
func TestEveryInvariantIsMissed(t *testing.T) {
	skipShort(t)
	all := library(t)
	for _, i := range invariant.All() {
		var named []*flaw.Flaw
		for _, f := range flaw.All() {
			if f.Killer == i.Number {
				named = append(named, f)
			}
		}
		if len(named) == 0 {
			t.Errorf("no planted flaw names invariant %d (%s) as its killer", i.Number, i.Name)
			continue
		}
		var own []*scenarios.Scenario
		for _, s := range all {
			for _, f := range named {
				if f.Scenario == s.Name {
					own = append(own, s)
					break
				}
			}
		}
		kills, err := Flaws(context.Background(), named, own, FlawOptions{Seeds: hunted, Without: i.Number})
		if err != nil {
			t.Fatal(err)
		}
		for _, k := range kills {
			if k.Killed() {
				t.Errorf("%s still counts as killed by invariant %d, which was left out", k.Flaw.Name, i.Number)
			}
		}
	}
}

// Every flaw is killed within 500 seeds, by the invariant that it names.
func TestEveryFlawIsKilled(t *testing.T) {
	kills, err := Flaws(context.Background(), flaw.All(), library(t), FlawOptions{Seeds: 500})
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range kills {
		if !k.Killed() {
			t.Errorf("%s: %s", k.Flaw.Name, k.Summary())
		}
	}
}
