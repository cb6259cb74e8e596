package explore

import (
	"context"
	"runtime"
	"sync"

	"handoff/chaos/scenario"
	"handoff/chaos/selftest/mutant"
	"handoff/chaos/shard"
	"handoff/chaos/verdict"
	"handoff/sim"
)

// Cross runs every mutant in every scenario, up to the first run that kills it. When ctx ends, the
// remaining pairs count as not killed, like the pairs of other shares.
func Cross(ctx context.Context, mutants []*mutant.Mutant, library []*scenario.Scenario, seeds int, share shard.Share) *verdict.Matrix {
	m := &verdict.Matrix{Seeds: seeds, Runs: make([][]int, len(mutants))}
	for i, f := range mutants {
		m.Mutants = append(m.Mutants, verdict.MatrixMutant{Name: f.Name, Source: f.Source, About: f.About, Expected: f.Expected, Own: f.Scenario})
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
				m.Runs[pair[0]][pair[1]] = killedAfter(ctx, mutants[pair[0]], library[pair[1]], seeds)
			}
		})
	}
	for i := range mutants {
		for j := range library {
			if share.Has(i + j) {
				pairs <- [2]int{i, j}
			}
		}
	}
	close(pairs)
	group.Wait()
	return m
}

func killedAfter(ctx context.Context, f *mutant.Mutant, s *scenario.Scenario, seeds int) (runs int) {
	for seed := uint64(1); seed <= uint64(seeds) && ctx.Err() == nil; seed++ {
		for _, t := range Targets([]*scenario.Scenario{s}) {
			runs++
			if breaksInvariant(runOnce(t, sim.Options{Seed: seed, Mutant: f, Interrupted: interruptOn(ctx)}).Failures(), f.Expected) {
				return runs
			}
		}
	}
	return 0
}

func breaksInvariant(violations []verdict.Violation, invariant int) bool {
	for i := range violations {
		if violations[i].Invariant == invariant {
			return true
		}
	}
	return false
}
