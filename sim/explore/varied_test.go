package explore

import (
	"slices"
	"testing"

	"handoff/chaos/selftest/mutant"
	"handoff/chaos/verdict"
	"handoff/sim"
)

// A varied run is reproducible, lists its changes, and is bounded. It does not change the plain seeds.
func TestVariedRunsLeavePlainRunsUnchanged(t *testing.T) {
	plain := find(t, "ttl-race")[:1]
	o := Options{First: 1, Seeds: 4, Varied: Beside(4)}
	alone, err := Sweep(t.Context(), plain, Options{First: 1, Seeds: 4})
	if err != nil {
		t.Fatal(err)
	}
	both, err := Sweep(t.Context(), append(plain[:1:1], Varied(plain)...), o)
	if err != nil {
		t.Fatal(err)
	}
	if a, b := alone.Sweep.Scenarios[0], both.Sweep.Scenarios[0]; a.Hash != b.Hash || b.Strategy != verdict.Random {
		t.Errorf("the plain runs are others beside varied ones: %016x and %016x", a.Hash, b.Hash)
	}
	varied := both.Sweep.Scenarios[1]
	if varied.Seeds != 1 || varied.Strategy != verdict.Varied || varied.Verdict != verdict.Pass {
		t.Errorf("%d varied runs, %s: %v %q", varied.Seeds, varied.Strategy, varied.Verdict, varied.Why)
	}
	target := Varied(plain)[0]
	a, b := runOnce(target, sim.Options{Seed: 3}), runOnce(target, sim.Options{Seed: 3})
	if a.Hash != b.Hash || len(a.Varied) == 0 || !slices.Equal(a.Varied, b.Varied) {
		t.Errorf("one seed has the histories %016x and %016x, drawn as %q and %q", a.Hash, b.Hash, a.Varied, b.Varied)
	}
	if want := "bin/chaos replay ttl-race --profile hardened --seed 3 --varied"; target.Reproduce(3, nil) != want {
		t.Errorf("reproduced by %q, want %q", target.Reproduce(3, nil), want)
	}
}

func TestSweepAdvancesAllTargetsTogether(t *testing.T) {
	plain := find(t, "ttl-race")
	targets := slices.Concat(plain, Varied(plain))
	o := Options{Seeds: 10, Varied: 3}
	seen := make(map[int][]int)
	var at turn
	for target, n, left := at.nextRun(targets, o); left; target, n, left = at.nextRun(targets, o) {
		seen[target] = append(seen[target], n)
	}
	if len(seen[0]) != 10 || len(seen[3]) != 3 || !slices.IsSorted(seen[0]) || !slices.Equal(seen[3], []int{0, 1, 2}) || Runs(targets, o) != 26 {
		t.Errorf("%v of %d runs", seen, Runs(targets, o))
	}
}

// A shrunk varied run fails as before, and keeps the needed settings and few others.
func TestVariedRunIsShrunkToItsSettings(t *testing.T) {
	skipShort(t)
	f := mutant.Find("backoff-by-habit")
	target := Varied(find(t, f.Scenario))[0]
	small, err := Shrink(t.Context(), target, 6, f, "small.yaml") // the first seed that fails
	if err != nil {
		t.Fatal(err)
	}
	if small.Invariant != f.Expected || small.Faults > 1 || small.Executions > 5 {
		t.Errorf("invariant %d, %d faults, %d executions:\n%s", small.Invariant, small.Faults, small.Executions, small.File)
	}
}
