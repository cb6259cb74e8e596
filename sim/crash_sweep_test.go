package sim

import (
	"runtime"
	"slices"
	"sync"
	"testing"

	"handoff/chaos/history"
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

// shortMemory are chains that leave as soon as their keys do, in steps of two rows: a retry and its
// first row, a parent and its child. Another execution is created when they have left. The parts
// look seldom, so that a day has few yield points.
const shortMemory = `
name: short-memory
about: Ended chains leave in small steps after a day, and the executor may crash at any of them.
worlds: [sim]
cluster:
  executors: 1
  workers:
    shell-1: {runtimes: [shell], concurrency: 3}
config:
  executor: {reconcile_interval: 10m, timeout_check_interval: 10m, health_check_interval: 12h, figures_interval: 12h}
  message_queue: {rabbitmq: {heartbeat: 5m}}
  worker: {heartbeat_interval: 30m, fence_margin: 1m}
  retention: {executions: 5s, step_size: 2, interval: 10m}
actions:
  core.retried: {runtime: shell, takes: 300ms, fails: {rate: 100%, reason: connection reset}, max_retries: 1}
  core.parent: {runtime: shell, takes: 1s}
  core.child: {runtime: shell, takes: 500ms}
  core.late: {runtime: shell, takes: 200ms}
workload:
  - {action: core.retried, count: 1, from: 1s}
  - {action: core.parent, count: 1, from: 1s}
  - {action: core.child, count: 1, from: 1500ms, parent: core.parent}
  - {action: core.late, count: 1, from: 24h21m}
`

// TestCrashAtEveryYieldPointOfADeletion crashes the executor at each of its last yield points: keys
// and chains leave in the twenty minutes before the end of the run.
func TestCrashAtEveryYieldPointOfADeletion(t *testing.T) {
	const last = 400
	s := parsed(t, shortMemory)
	for _, profile := range config.Profiles() {
		var points []kernel.CrashPoint
		var events recording
		clean := Run(s, profile, Options{Seed: 1, Record: &events})
		chains, rows := purged(events)
		if chains != 3 || rows != 4 {
			t.Fatalf("%s: %d chains left with %d rows, want the retried one with two, the parent and its child", profile, chains, rows)
		}
		for _, p := range clean.Points {
			if p.Process != "executor-1" {
				continue
			}
			var first recording
			Run(s, profile, Options{Seed: 1, Record: &first, CrashAt: &kernel.CrashPoint{Process: p.Process, N: p.N - last}})
			crash := slices.IndexFunc(first, func(e history.Event) bool { return e.Kind == history.ProcessCrashed })
			if before, _ := purged(first[:crash+1]); crash < 0 || before != 0 {
				t.Fatalf("%s: %d chains had left at the first crash (event %d), so the sweep misses their calls", profile, before, crash)
			}
			for n := p.N - last; n <= p.N; n++ {
				points = append(points, kernel.CrashPoint{Process: p.Process, N: n}, kernel.CrashPoint{Process: p.Process, N: n, After: true})
			}
		}
		points = sampled(points)
		if fired := crashAtEach(t, s, profile, points); fired < len(points)/2 {
			t.Errorf("%s: %d of %d crash points were reached", profile, fired, len(points))
		}
	}
}

// purged counts the chains and rows that left.
func purged(events recording) (chains, rows int) {
	for i := range events {
		if e := &events[i]; e.Kind == history.Purged {
			chains, rows = chains+1, rows+int(e.Count)
		}
	}
	return chains, rows
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
