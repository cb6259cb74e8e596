package explore

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"

	"handoff/chaos/scenario"
	"handoff/chaos/selftest/mutant"
	"handoff/chaos/verdict"
	"handoff/sim"
)

// Kill is the result for one mutant.
type Kill struct {
	Mutant *mutant.Mutant
	// Violations are the violations of the first failing seed, or none if the mutant survived.
	Violations []verdict.Violation
	Target     Target
	Seed       uint64
	// Runs is the number of runs up to the kill, or the number of runs that the mutant survived. GaveUp is
	// the number of them that could not be judged.
	Runs   int
	GaveUp int
	Wall   time.Duration
	// Stopped reports whether the search was interrupted.
	Stopped bool
}

// Found reports whether a rule was violated.
func (k *Kill) Found() bool { return len(k.Violations) > 0 }

// Killed reports whether the first failing seed violated the expected invariant. A violation of another
// rule is not a kill: it shows that the mutant does harm, but not that the suite recognises it.
func (k *Kill) Killed() bool {
	return slices.ContainsFunc(k.Violations, func(v verdict.Violation) bool { return v.Invariant == k.Mutant.Expected && v.Invariant != 0 })
}

// Violation returns the violation of the expected invariant if there is one, else the first violation; nil if
// the mutant survived.
func (k *Kill) Violation() *verdict.Violation {
	for i := range k.Violations {
		if k.Violations[i].Invariant == k.Mutant.Expected {
			return &k.Violations[i]
		}
	}
	if k.Found() {
		return &k.Violations[0]
	}
	return nil
}

// MutantOptions configure the search.
type MutantOptions struct {
	// Seeds is the number of seeds for each scenario and profile.
	Seeds int
	// Workers is the number of goroutines; 0 means GOMAXPROCS.
	Workers int
	// Progress is called after each mutant, by one goroutine at a time, with the number of mutants
	// done and their total; nil for none.
	Progress func(k *Kill, done, total int)
	Patience time.Duration
	// Without leaves out some invariants, to test that their mutants then survive.
	Without []int
	// Own lists the rules that the scenarios break without a mutant; see FailsAnyway.
	Own []OwnFailure
}

// Mutants runs every mutant in the scenarios, beginning with the mutant's own scenario, seed by seed under
// each profile, up to the first failing seed. The results are in the order of the mutants.
func Mutants(ctx context.Context, mutants []*mutant.Mutant, library []*scenario.Scenario, o MutantOptions) ([]*Kill, error) {
	if o.Workers == 0 {
		o.Workers = runtime.GOMAXPROCS(0)
	}
	hung := make(chan *Hung, o.Workers)
	w := newWatch(o.Patience, func(h *Hung) { hung <- h })
	kills := make([]*Kill, len(mutants))
	var mu sync.Mutex
	next, done, closed := 0, 0, false
	claim := func() int {
		mu.Lock()
		defer mu.Unlock()
		next++
		return next - 1
	}
	finish := func(i int, k *Kill) {
		mu.Lock()
		defer mu.Unlock()
		if closed {
			return
		}
		kills[i] = k
		done++
		if o.Progress != nil {
			o.Progress(k, done, len(mutants))
		}
	}
	over := make(chan struct{})
	var group sync.WaitGroup
	for range min(o.Workers, len(mutants)) {
		group.Go(func() {
			for i := claim(); i < len(mutants); i = claim() {
				finish(i, huntMutant(ctx, mutants[i], library, o, w))
			}
		})
	}
	go func() {
		group.Wait()
		close(over)
	}()
	select {
	case <-over:
		w.dog.Close()
		return kills, nil
	case h := <-hung:
		mu.Lock()
		defer mu.Unlock()
		closed = true
		return slices.DeleteFunc(kills, func(k *Kill) bool { return k == nil }), h
	}
}

// huntMutant runs one mutant until a rule is violated.
func huntMutant(ctx context.Context, f *mutant.Mutant, library []*scenario.Scenario, o MutantOptions, w *watch) *Kill {
	begin := time.Now()
	k := &Kill{Mutant: f}
	defer func() { k.Wall = time.Since(begin) }()
	for _, s := range ownScenarioFirst(f, library) {
		targets := Targets([]*scenario.Scenario{s})
		if f.Varied {
			targets = Varied(targets)
		}
		for seed := uint64(1); seed <= uint64(o.Seeds); seed++ {
			for _, t := range targets {
				if ctx.Err() != nil {
					k.Stopped = true
					return k
				}
				r := runOnce(t, sim.Options{Seed: seed, Mutant: f, WithoutInvariants: o.Without, Watch: w.watchRun(t, seed, f), Interrupted: interruptOn(ctx)})
				if r.Interrupted {
					k.Stopped = true
					return k
				}
				k.Runs++
				if r.GaveUp != "" {
					k.GaveUp++
				}
				if k.Violations = withoutOwnFailures(o.Own, t, r.Failures()); k.Found() {
					k.Target, k.Seed = t, seed
					return k
				}
			}
		}
	}
	return k
}

// ownScenarioFirst returns the scenarios, with the mutant's own scenario first.
func ownScenarioFirst(f *mutant.Mutant, library []*scenario.Scenario) []*scenario.Scenario {
	first := slices.Clone(library)
	slices.SortStableFunc(first, func(a, b *scenario.Scenario) int {
		rank := map[bool]int{true: 0, false: 1}
		return rank[a.Name == f.Scenario] - rank[b.Name == f.Scenario]
	})
	return first
}

// Summary returns the result in one line.
func (k *Kill) Summary() string {
	v := k.Violation()
	switch {
	case k.Stopped:
		return fmt.Sprintf("stopped after %d runs", k.Runs)
	case v == nil:
		return fmt.Sprintf("survived %d runs", k.Runs)
	case !k.Killed():
		return fmt.Sprintf("found by %s, and not by invariant %d", v.Rule(), k.Mutant.Expected)
	default:
		return "killed by " + v.Rule()
	}
}
