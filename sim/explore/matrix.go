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

// Matrix says which scenario kills which flaw: after how many runs the named invariant was broken, over both
// profiles in turn; 0 for never.
type Matrix struct {
	Flaws     []*flaw.Flaw
	Scenarios []*scenarios.Scenario
	// Seeds is how many seeds each pair got under each profile.
	Seeds int
	// Runs is by flaw and scenario.
	Runs [][]int
}

// Cross runs every flaw through every scenario. It tells what a library is worth: a scenario that kills nothing
// guards against nothing that is known, and a flaw that only one scenario kills hangs by a thread. When ctx ends,
// what was not run counts as not killed.
func Cross(ctx context.Context, flaws []*flaw.Flaw, library []*scenarios.Scenario, seeds int) *Matrix {
	m := &Matrix{Flaws: flaws, Scenarios: library, Seeds: seeds, Runs: make([][]int, len(flaws))}
	for i := range m.Runs {
		m.Runs[i] = make([]int, len(library))
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
			if broken(once(t, sim.Options{Seed: seed, Flaw: f}).Failures(), f.Killer) {
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

// Kills is how many flaws each scenario kills, and Killers how many scenarios kill each flaw.
func (m *Matrix) Kills() (kills, killers []int) {
	kills, killers = make([]int, len(m.Scenarios)), make([]int, len(m.Flaws))
	for i := range m.Flaws {
		for j := range m.Scenarios {
			if m.Runs[i][j] > 0 {
				kills[j]++
				killers[i]++
			}
		}
	}
	return kills, killers
}
