package explore

import (
	"context"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"handoff/chaos/fault"
	"handoff/chaos/invariant"
	"handoff/chaos/scenario"
	"handoff/chaos/selftest/mutant"
	"handoff/chaos/verdict"
	"handoff/core/testenv"
	"handoff/scenarios"
	"handoff/sim"
)

// A harness that can't fail proves nothing. These tests remove one part of the harness at a time, and require
// that some check then fails.

// skipShort skips tests with thousands of runs under -short, as in the pass of the race detector: there they
// take minutes and show no more than a few runs do.
func skipShort(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("thousands of runs")
	}
}

func library(t *testing.T) []*scenario.Scenario {
	t.Helper()
	all, err := scenarios.Library()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// hunted returns the results of all mutants in the library, computed once for all tests.
var hunted = sync.OnceValues(func() ([]*Kill, error) { //nolint:gochecknoglobals // what is hunted once is shared
	all, err := scenarios.Library()
	if err != nil {
		return nil, err
	}
	return Mutants(context.Background(), mutant.All(), all, MutantOptions{Seeds: 500})
})

func kills(t *testing.T) []*Kill {
	t.Helper()
	skipShort(t)
	list, err := hunted()
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// sampledKills returns all kills in make test-all and every sixth in make test, for slow checks of each
// kill.
func sampledKills(t *testing.T) []*Kill {
	t.Helper()
	all := kills(t)
	if testenv.All() {
		return all
	}
	var sample []*Kill
	for i := 0; i < len(all); i += 6 {
		sample = append(sample, all[i])
	}
	return sample
}

// Every mutant is killed within 500 seeds, half of them within 50, by its expected invariant.
func TestEveryMutantIsKilled(t *testing.T) {
	var runs []int
	for _, k := range kills(t) {
		runs = append(runs, k.Runs)
		switch {
		case !k.Killed():
			t.Errorf("%s: %s", k.Mutant.Name, k.Summary())
		case k.Target.Scenario.Name != k.Mutant.Scenario:
			t.Errorf("%s is killed by %s, and not by its own scenario %s", k.Mutant.Name, k.Target, k.Mutant.Scenario)
		}
	}
	if m := median(runs); m > 50 {
		t.Errorf("the median mutant takes %d runs, want at most 50", m)
	}
}

// Without its injector a fault has no effect, so no scenario with that fault may pass. Which check detects
// this does not depend on the seed, so one run is enough, except in make test-all.
func TestEveryMissingInjectorIsDetected(t *testing.T) {
	skipShort(t)
	all := library(t)
	for _, kind := range fault.Kinds() {
		var affected []*scenario.Scenario
		for _, s := range all {
			if slices.ContainsFunc(s.Faults, func(f scenario.Fault) bool { return f.Kind == kind }) {
				affected = append(affected, s)
			}
		}
		if len(affected) == 0 {
			t.Errorf("no scenario of the library has the fault %s", kind.Name)
			continue
		}
		out, err := Sweep(context.Background(), Targets(affected), Options{First: 1, Seeds: verdict.SweepSeeds, run: without(kind)})
		if err != nil {
			t.Fatal(err)
		}
		for i, result := range out.Sweep.Scenarios {
			checkMissed(t, kind, Targets(affected)[i].Scenario, result)
		}
	}
}

// without runs the first seed of each scenario without one injector.
func without(kind *fault.Kind) func(Target, sim.Options) *sim.Result {
	var mu sync.Mutex
	first := make(map[Target]*sim.Result)
	return func(target Target, o sim.Options) *sim.Result {
		o.Without = []string{kind.Name}
		if testenv.All() {
			return runOnce(target, o)
		}
		mu.Lock()
		defer mu.Unlock()
		if first[target] == nil {
			first[target] = runOnce(target, o)
		}
		again := *first[target]
		again.Seed = o.Seed
		return &again
	}
}

func checkMissed(t *testing.T, kind *fault.Kind, s *scenario.Scenario, result *verdict.Scenario) {
	t.Helper()
	why := strings.Join(result.Why, "; ")
	if result.Verdict == verdict.Pass {
		t.Errorf("%s (%s) passes without the injector of %s", result.Name, result.Profile, kind.Name)
	}
	for _, f := range s.Faults {
		if f.Kind == kind && !strings.Contains(why, f.Name) {
			t.Errorf("%s (%s) without the injector of %s does not say that %q never struck: %s", result.Name, result.Profile, kind.Name, f.Name, why)
		}
	}
}

// Without one invariant, every mutant that expects it survives the run that killed it. Each invariant has
// such a mutant.
func TestEveryMissingInvariantIsDetected(t *testing.T) {
	named := make(map[int]int)
	for _, k := range kills(t) {
		if !k.Killed() {
			continue // TestEveryMutantIsKilled reports this
		}
		named[k.Mutant.Expected]++
		r := runOnce(k.Target, sim.Options{Seed: k.Seed, Mutant: k.Mutant, WithoutInvariants: []int{k.Mutant.Expected}})
		survivor := Kill{Mutant: k.Mutant, Violations: r.Failures()}
		if survivor.Killed() {
			t.Errorf("%s still counts as killed by invariant %d, which was left out", k.Mutant.Name, k.Mutant.Expected)
		}
	}
	for _, i := range invariant.All() {
		if named[i.Number] == 0 {
			t.Errorf("no mutant is killed by invariant %d (%s)", i.Number, i.Name)
		}
	}
}

// vacuitySeeds is the number of seeds in which a scenario must kill a mutant that it guards against.
const vacuitySeeds = 25

// Every scenario kills a mutant that it guards against: a mutant that names the scenario, or whose defect
// number is in the scenario's `about`. A scenario that kills none does not prove its `about`.
func TestNoScenarioIsVacuous(t *testing.T) {
	done := make(map[string]bool)
	for _, k := range kills(t) {
		if k.Killed() {
			done[k.Target.Scenario.Name] = true
		}
	}
	for _, s := range library(t) {
		if done[s.Name] {
			continue
		}
		own := guarded(s)
		if killsOne(s, own, vacuitySeeds) {
			continue
		}
		t.Errorf("%s kills none of the mutants that it guards against within %d seeds: %s", s.Name, vacuitySeeds, mutantNames(own))
	}
}

// guarded returns the mutants that a scenario guards against.
func guarded(s *scenario.Scenario) []*mutant.Mutant {
	var list []*mutant.Mutant
	for _, f := range mutant.All() {
		if !f.Varied && (f.Scenario == s.Name || slices.Contains(sources(s), f.Source)) {
			list = append(list, f)
		}
	}
	return list
}

// sources returns the defect numbers in a scenario's `about`.
func sources(s *scenario.Scenario) []string {
	return regexp.MustCompile(`\bD\d+\b`).FindAllString(s.About, -1)
}

// killsOne tries all mutants with one seed before the next seed, so that it soon finds the mutant that is
// easiest to kill.
func killsOne(s *scenario.Scenario, mutants []*mutant.Mutant, seeds int) bool {
	for seed := uint64(1); seed <= uint64(seeds); seed++ {
		for _, f := range mutants {
			for _, target := range Targets([]*scenario.Scenario{s}) {
				if breaksInvariant(runOnce(target, sim.Options{Seed: seed, Mutant: f}).Failures(), f.Expected) {
					return true
				}
			}
		}
	}
	return false
}

func mutantNames(mutants []*mutant.Mutant) string {
	var list []string
	for _, f := range mutants {
		list = append(list, f.Name)
	}
	return strings.Join(list, ", ")
}
