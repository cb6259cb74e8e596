package sim

import (
	"runtime"
	"slices"
	"sync"
	"testing"

	"handoff/core/config"
	"handoff/scenarios"
	"handoff/sim/flaw"
	"handoff/sim/kernel"
)

// lifeOfOne is one execution's whole life: created, dispatched, claimed, failed, retried, completed,
// orchestrated; with a second worker to take over.
const lifeOfOne = `
name: life-of-one
about: One execution from its creation to the end of its retry.
cluster:
  executors: 1
  workers:
    shell-1: {runtimes: [shell], concurrency: 1}
    shell-2: {runtimes: [shell], concurrency: 1}
actions:
  core.echo: {runtime: shell, takes: 700ms, fails: {rate: 100%, reason: connection reset}, max_retries: 1}
workload:
  - {action: core.echo, count: 1, from: 1s}
`

// TestCrashAtEveryYieldPoint enumerates the yield points of the clean run and runs it again with each
// process crashed at each of them: before the call has any effect, and after its effect but before its
// reply. The process comes back three seconds later.
func TestCrashAtEveryYieldPoint(t *testing.T) {
	s, err := scenarios.Parse("life-of-one.yaml", []byte(lifeOfOne))
	if err != nil {
		t.Fatal(err)
	}
	for _, profile := range config.Profiles() {
		clean := Run(s, profile, Options{Seed: 1})
		if len(clean.Violations) > 0 || clean.Panic != "" {
			t.Fatalf("%s: the clean run fails: %v %s", profile, clean.Violations, clean.Panic)
		}
		var points []kernel.CrashPoint
		for _, p := range clean.Points {
			for n := uint64(1); n <= p.N; n++ {
				points = append(points, kernel.CrashPoint{Process: p.Process, N: n}, kernel.CrashPoint{Process: p.Process, N: n, After: true})
			}
		}
		fired := crashAtEach(t, s, profile, points)
		t.Logf("%s: %v yield points, %d crash points, %d crashes", profile, clean.Points, len(points), fired)
		if len(clean.Points) < 4 || fired < len(points)/2 {
			t.Errorf("%s: %d of %d crash points were reached in %d processes: the sweep proves little", profile, fired, len(points), len(clean.Points))
		}
	}
}

// TestCrashSweepFindsWhatItIsFor plants the flaws that only a crash at the right moment shows, and
// demands that the sweep finds them.
func TestCrashSweepFindsWhatItIsFor(t *testing.T) {
	s, err := scenarios.Parse("life-of-one.yaml", []byte(lifeOfOne))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"no-republish", "no-claim-sweep"} {
		planted := flaw.Find(name)
		found := false
		for n := uint64(1); n < 150 && !found; n++ {
			for _, after := range []bool{false, true} {
				r := Run(s, config.Hardened, Options{Seed: 1, Flaw: planted, CrashAt: &kernel.CrashPoint{Process: "executor-1", N: n, After: after}})
				for _, v := range r.Violations {
					found = found || v.Invariant == planted.Killer
				}
			}
		}
		if !found {
			t.Errorf("%s: no crash of the executor at any yield point showed it by invariant %d", name, planted.Killer)
		}
	}
}

func crashAtEach(t *testing.T, s *scenarios.Scenario, profile config.Profile, points []kernel.CrashPoint) (fired int) {
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
					t.Errorf("%s, crash of %s at yield point %d (after the effect: %v): invariant %d: %s", profile, point.Process, point.N, point.After, v.Invariant, v.Message)
				}
				if r.Panic != "" || r.GaveUp != "" {
					t.Errorf("%s, crash of %s at yield point %d (after the effect: %v): %s%s", profile, point.Process, point.N, point.After, r.Panic, r.GaveUp)
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return fired
}
