package explore

import (
	"fmt"

	"handoff/chaos/vary"
	"handoff/chaos/verdict"
	"handoff/sim"
)

// Beside returns the number of varied seeds that accompany a number of plain seeds: one for every fifteen,
// rounded up. `chaos run --varied` runs as many varied seeds as plain ones.
func Beside(seeds int) int { return (seeds + 14) / 15 }

// Varied returns the same targets, varied.
func Varied(targets []Target) []Target {
	varied := make([]Target, len(targets))
	for i, t := range targets {
		t.Varied = true
		varied[i] = t
	}
	return varied
}

// seedCount returns the number of seeds of a target.
func (t Target) seedCount(o Options) int {
	if t.Varied {
		return o.Varied
	}
	return o.Seeds
}

// Runs returns the number of runs in a sweep of the targets.
func Runs(targets []Target, o Options) (runs int) {
	for _, t := range targets {
		runs += t.seedCount(o)
	}
	return runs
}

// turn is the position of a sweep in the order of its runs. In each round every target has one run.
// A target with fewer seeds has a run only in some rounds, so that all targets advance together.
type turn struct{ round, target int }

// nextRun returns the next run: the index of its target, and the index of its seed among that target's seeds,
// counted from 0. left is false if there is none.
func (t *turn) nextRun(targets []Target, o Options) (target, n int, left bool) {
	rounds := max(o.Seeds, o.Varied)
	for ; t.round < rounds; t.round, t.target = t.round+1, 0 {
		for t.target < len(targets) {
			target, own := t.target, targets[t.target].seedCount(o)
			t.target++
			if n := t.round * own / rounds; (t.round+1)*own/rounds > n {
				return target, n, true
			}
		}
	}
	return 0, 0, false
}

// Plain returns a plain target with the scenario that a varied target draws for a seed, and the
// changes. It returns a plain target unchanged.
func (t Target) Plain(seed uint64) (Target, []string, error) {
	if !t.Varied {
		return t, nil, nil
	}
	v, err := vary.Of(t.Scenario, t.Profile, seed)
	if err != nil {
		return t, nil, err
	}
	return Target{Scenario: v.Scenario, Profile: t.Profile}, v.Changes, nil
}

// runSeed runs one seed of the target.
func (t Target) runSeed(o sim.Options) *sim.Result {
	plain, changes, err := t.Plain(o.Seed)
	if err != nil {
		return &sim.Result{Run: verdict.Run{Scenario: t.Scenario.Name, Profile: t.Profile, Seed: o.Seed, GaveUp: fmt.Sprintf("the draw failed: %v", err)}}
	}
	if t.Varied && o.MaxSteps == 0 {
		o.CutAt = vary.MostSteps
	}
	r := sim.Run(plain.Scenario, t.Profile, o)
	if t.Varied {
		r.Varied = append([]string{}, changes...) // Changes is not nil, even if it is empty
	}
	return r
}

// strategyName returns the name, as used in results, of the strategy that generates the target's runs.
func (t Target) strategyName() string {
	if t.Varied {
		return verdict.Varied
	}
	return verdict.Random
}
