package explore

import (
	"context"
	"runtime"
	"sync"

	"handoff/chaos/verdict"
	"handoff/scenarios"
	"handoff/sim"
	"handoff/sim/flaw"
)

// Cross runs every flaw through every scenario, up to the first run that kills it. When ctx ends, what was not
// run counts as not killed.
func Cross(ctx context.Context, flaws []*flaw.Flaw, library []*scenarios.Scenario, seeds int) *verdict.Matrix {
	m := &verdict.Matrix{Seeds: seeds, Runs: make([][]int, len(flaws))}
	for i, f := range flaws {
		m.Flaws = append(m.Flaws, verdict.MatrixFlaw{Name: f.Name, Source: f.Source, About: f.About, Killer: f.Killer, Own: f.Scenario})
		m.Runs[i] = make([]int, len(library))
	}
	for _, s := range library {
		m.Scenarios = append(m.Scenarios, s.Name)
	}
	pairs := make(chan [2]int)
	var group sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		group.Go(func() {
			for pair := range pairs {
				m.Runs[pair[0]][pair[1]] = killedAfter(ctx, flaws[pair[0]], library[pair[1]], seeds)
			}
		})
	}
	for i := range flaws {
		for j := range library {
			pairs <- [2]int{i, j}
		}
	}
	close(pairs)
	group.Wait()
	return m
}

func killedAfter(ctx context.Context, f *flaw.Flaw, s *scenarios.Scenario, seeds int) (runs int) {
	for seed := uint64(1); seed <= uint64(seeds) && ctx.Err() == nil; seed++ {
		for _, t := range Targets([]*scenarios.Scenario{s}) {
			runs++
			if broken(once(t, sim.Options{Seed: seed, Flaw: f, Interrupted: ended(ctx)}).Failures(), f.Killer) {
				return runs
			}
		}
	}
	return 0
}

func broken(violations []verdict.Violation, invariant int) bool {
	for i := range violations {
		if violations[i].Invariant == invariant {
			return true
		}
	}
	return false
}
