package sim

import (
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"handoff/chaos/scenario"
	"handoff/chaos/selftest/mutant"
	"handoff/core/config"
	"handoff/core/testenv"
)

// pauses returns the lengths of the pauses in the sweep. One is longer than the lease, so that the process
// has lost the right to continue. The other ends between the fence and the end of the lease, so that the
// process resumes while it kills its own runs.
func pauses(c config.Config) []time.Duration {
	return []time.Duration{c.Worker.Lease() + c.Executor.ReapGrace + 2*time.Second, c.Worker.Lease() - c.Worker.FenceMargin}
}

// TestPauseAtEveryYieldPoint lists the yield points of a run without pauses, and repeats the scenario with a
// pause at each of them.
func TestPauseAtEveryYieldPoint(t *testing.T) {
	for _, small := range smallScenarios(t) {
		for _, profile := range small.Profiles {
			points := sampled(yieldPoints(t, small, profile, nil))
			fired := pauseAtEach(t, small, profile, points)
			t.Logf("%s (%s): %d pauses at %d yield points", small.Name, profile, fired, len(points))
			if fired < len(points) {
				t.Errorf("%s (%s): %d of %d pauses were reached", small.Name, profile, fired, len(points))
			}
		}
	}
}

// yieldPoints lists the yield points of a run without pauses, each with every length of pause.
func yieldPoints(t *testing.T, s *scenario.Scenario, profile config.Profile, planted *mutant.Mutant) []Pause {
	t.Helper()
	clean := Run(s, profile, Options{Seed: 1, Mutant: planted})
	if planted == nil && (len(clean.Violations) > 0 || clean.Panic != "") {
		t.Fatalf("%s (%s): the clean run fails: %v %s", s.Name, profile, clean.Violations, clean.Panic)
	}
	var points []Pause
	total := uint64(0)
	for _, p := range clean.Points {
		total += p.N
		for n := uint64(1); n <= p.N; n++ {
			for _, d := range pauses(s.Config(profile)) {
				points = append(points, Pause{Process: p.Process, N: n, For: d})
			}
		}
	}
	if total > mostPoints {
		t.Errorf("%s (%s) has %d yield points, at most %d are meant", s.Name, profile, total, mostPoints)
	}
	return points
}

// sampled returns all points in make test-all, every eleventh in make test and every 97th in make
// check. Both strides are prime and greater than the number of lengths of pause that a point has,
// so each length is sampled.
func sampled[P any](points []P) []P {
	stride := 11
	switch {
	case testenv.All():
		return points
	case testing.Short():
		stride = 97
	}
	var sample []P
	for i := 0; i < len(points); i += stride {
		sample = append(sample, points[i])
	}
	return sample
}

// mostPoints bounds the yield points of a scenario, so that the sweep can try each of them.
const mostPoints = 2000

func pauseAtEach(t *testing.T, s *scenario.Scenario, profile config.Profile, points []Pause) (fired int) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	for chunk := range slices.Chunk(points, len(points)/runtime.GOMAXPROCS(0)+1) {
		wg.Go(func() {
			for _, point := range chunk {
				r := Run(s, profile, Options{Seed: 1, PauseAt: &point})
				mu.Lock()
				if r.PauseFired {
					fired++
				}
				for _, v := range r.Violations {
					t.Errorf("%s (%s), pause of %s at yield point %d for %v: invariant %d: %s", s.Name, profile, point.Process, point.N, point.For, v.Invariant, v.Message)
				}
				if r.Panic != "" || r.GaveUp != "" {
					t.Errorf("%s (%s), pause of %s at yield point %d for %v: %s%s", s.Name, profile, point.Process, point.N, point.For, r.Panic, r.GaveUp)
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return fired
}

// TestPauseSweepFindsItsMutants plants mutants that only a pause of a worker at the right yield point
// reveals, and requires that the sweep detects them.
func TestPauseSweepFindsItsMutants(t *testing.T) {
	s := smallScenarios(t)[0]
	for _, name := range []string{"no-self-fence", "unguarded-finish"} {
		planted := mutant.Find(name)
		found := slices.ContainsFunc(yieldPoints(t, s, config.Hardened, planted), func(point Pause) bool {
			r := Run(s, config.Hardened, Options{Seed: 1, Mutant: planted, PauseAt: &point})
			for _, v := range r.Violations {
				if v.Invariant == planted.Expected {
					return true
				}
			}
			return false
		})
		if !found {
			t.Errorf("%s: no pause at any yield point showed it by invariant %d", name, planted.Expected)
		}
	}
}
