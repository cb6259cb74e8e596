package sim

import (
	"runtime"
	"slices"
	"sync"
	"testing"

	"handoff/chaos/mutant"
	"handoff/chaos/scenario"
	"handoff/core/config"
	"handoff/sim/kernel"
)

// TestCrashAtEveryYieldPoint lists the yield points of the clean run. It runs the scenario again
// with each process crashed at each of them: before the call has any effect, and after its effect
// but before its reply. The process comes back three seconds later.
func TestCrashAtEveryYieldPoint(t *testing.T) {
	for _, s := range smallScenarios(t) {
		for _, profile := range config.Profiles() {
			clean := Run(s, profile, Options{Seed: 1})
			if len(clean.Violations) > 0 || clean.Panic != "" {
				t.Fatalf("%s (%s): the clean run fails: %v %s", s.Name, profile, clean.Violations, clean.Panic)
			}
			var points []kernel.CrashPoint
			for _, p := range clean.Points {
				for n := uint64(1); n <= p.N; n++ {
					points = append(points, kernel.CrashPoint{Process: p.Process, N: n}, kernel.CrashPoint{Process: p.Process, N: n, After: true})
				}
			}
			if len(points) > 2*mostPoints {
				t.Errorf("%s (%s) has %d yield points, at most %d are meant", s.Name, profile, len(points)/2, mostPoints)
			}
			points = sampled(points)
			fired := crashAtEach(t, s, profile, points)
			t.Logf("%s (%s): %v yield points, %d crash points, %d crashes", s.Name, profile, clean.Points, len(points), fired)
			if len(clean.Points) < 3 || fired < len(points)/2 {
				t.Errorf("%s (%s): %d of %d crash points were reached in %d processes: the sweep proves little", s.Name, profile, fired, len(points), len(clean.Points))
			}
		}
	}
}

// TestCrashSweepFindsWhatItIsFor plants mutants that only a crash at the right moment reveals, and
// requires that the sweep finds them.
func TestCrashSweepFindsWhatItIsFor(t *testing.T) {
	s := smallScenarios(t)[0]
	for _, name := range []string{"no-republish", "no-claim-sweep"} {
		planted := mutant.Find(name)
		found := false
		for n := uint64(1); n < 150 && !found; n++ {
			for _, after := range []bool{false, true} {
				r := Run(s, config.Hardened, Options{Seed: 1, Mutant: planted, CrashAt: &kernel.CrashPoint{Process: "executor-1", N: n, After: after}})
				for _, v := range r.Violations {
					found = found || v.Invariant == planted.Expected
				}
			}
		}
		if !found {
			t.Errorf("%s: no crash of the executor at any yield point showed it by invariant %d", name, planted.Expected)
		}
	}
}

func crashAtEach(t *testing.T, s *scenario.Scenario, profile config.Profile, points []kernel.CrashPoint) (fired int) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	for chunk := range slices.Chunk(points, len(points)/runtime.GOMAXPROCS(0)+1) {
		wg.Go(func() {
			for _, point := range chunk {
				r := Run(s, profile, Options{Seed: 1, CrashAt: &point})
				mu.Lock()
				if r.CrashFired {
					fired++
				}
				for _, v := range r.Violations {
					t.Errorf("%s (%s), crash of %s at yield point %d (after the effect: %v): invariant %d: %s", s.Name, profile, point.Process, point.N, point.After, v.Invariant, v.Message)
				}
				if r.Panic != "" || r.GaveUp != "" {
					t.Errorf("%s (%s), crash of %s at yield point %d (after the effect: %v): %s%s", s.Name, profile, point.Process, point.N, point.After, r.Panic, r.GaveUp)
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return fired
}
