package sim

import (
	"runtime"
	"slices"
	"sync"
	"testing"

	"handoff/chaos/history"
	"handoff/chaos/scenario"
	"handoff/chaos/selftest/mutant"
	"handoff/core/config"
	"handoff/sim/kernel"
)

// TestCrashAtEveryYieldPoint lists the yield points of a run without crashes. It repeats the scenario with
// each process crashed at each of them: before the call has any effect, and after its effect but before its
// reply. The process restarts three seconds later.
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

// shortMemory is a configuration that deletes rows about a day after their last use, in steps of two rows. Of
// executions, it deletes a retry and its first row, a parent and its child, and others. Of the fleet, it
// deletes three incarnations of a worker, and two workers with their only incarnation. It also deletes
// records of paused workers: unclaimed dispatches and late results. A later execution is created after the
// deletions. The parts poll rarely, so that a day has few yield points.
const shortMemory = `
name: short-memory
about: Whatever a retention deletes leaves in small steps after a day, and the executor may crash at any of them.
worlds: [sim]
cluster:
  executors: 1
  workers:
    shell-1: {runtimes: [shell], concurrency: 3}
    gone-1: {runtimes: [other], concurrency: 1}
    gone-2: {runtimes: [other], concurrency: 1}
    slow-1: {runtimes: [slow], concurrency: 2}
    late-1: {runtimes: [late], concurrency: 3}
config:
  executor:
    reconcile_interval: 10m
    timeout_check_interval: 10m
    health_check_interval: 12h
    figures_interval: 12h
    queue_retention: 22h
    dispatch_timeout: 20s
    scheduled_timeout: 40s
  message_queue: {rabbitmq: {heartbeat: 5m, worker_queue_ttl_ms: 25000}}
  worker: {heartbeat_interval: 30m, fence_margin: 1m}
  retention: {executions: 5s, refused_results: 22h10m, expiries: 24h, incarnations: 22h35m, workers: 22h35m, step_size: 2, interval: 10m}
actions:
  core.retried: {runtime: shell, takes: 300ms, fails: {rate: 100%, reason: connection reset}, max_retries: 1}
  core.parent: {runtime: shell, takes: 1s}
  core.child: {runtime: shell, takes: 500ms}
  core.late: {runtime: shell, takes: 200ms}
  core.slow: {runtime: slow, takes: 500ms, max_retries: 1}
  core.overdue: {runtime: late, takes: 10s, timeout: 20s, max_retries: 0}
workload:
  - {action: core.retried, count: 1, from: 1s}
  - {action: core.parent, count: 1, from: 1s}
  - {action: core.child, count: 1, from: 1500ms, parent: core.parent}
  - {action: core.slow, count: 2, from: 40s}
  - {action: core.overdue, count: 3, from: 40s}
  - {action: core.late, count: 1, from: 24h21m}
faults:
  - {when: {at: 10s}, crash: shell-1, restart_after: 2s}
  - {when: {at: 20s}, crash: shell-1, restart_after: 2s}
  - {when: {at: 30s}, crash: shell-1, restart_after: 2s}
  - {when: {at: 10s}, crash: gone-1}
  - {when: {at: 12s}, crash: gone-2}
  - {when: {at: 35s}, pause: slow-1, for: 40s}
  - {when: {at: 45s}, pause: late-1, for: 1h50m}
`

// TestCrashAtEveryYieldPointOfPurge crashes the executor at each of its last yield points: keys and
// retained rows are deleted in the twenty minutes before the end of the run.
func TestCrashAtEveryYieldPointOfPurge(t *testing.T) {
	const last = 450
	s := parsed(t, shortMemory)
	for _, profile := range config.Profiles() {
		var points []kernel.CrashPoint
		var events recording
		clean := Run(s, profile, Options{Seed: 1, Record: &events})
		chains, rows, incarnations := purged(events)
		if chains < 6 || rows < chains+1 || incarnations != 5 {
			t.Fatalf("%s: %d chains left with %d rows, and %d incarnations: want the retried chain with two, the parent, the child and others, and five incarnations",
				profile, chains, rows, incarnations)
		}
		for _, p := range clean.Points {
			if p.Process != "executor-1" {
				continue
			}
			var first recording
			Run(s, profile, Options{Seed: 1, Record: &first, CrashAt: &kernel.CrashPoint{Process: p.Process, N: p.N - last}})
			crash := slices.IndexFunc(first, func(e history.Event) bool { return e.Kind == history.ProcessCrashed && e.Process == p.Process })
			if before, _, of := purged(first[:crash+1]); crash < 0 || before != 0 || of != 0 {
				t.Fatalf("%s: %d chains and %d incarnations had left at the first crash (event %d), so the sweep misses their calls", profile, before, of, crash)
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

// purged counts deleted chains, their rows, and deleted incarnations.
func purged(events recording) (chains, rows, incarnations int) {
	for i := range events {
		switch e := &events[i]; e.Kind {
		case history.Purged:
			chains, rows = chains+1, rows+int(e.Count)
		case history.WorkerPurged:
			incarnations++
		default:
		}
	}
	return chains, rows, incarnations
}

// TestCrashSweepFindsItsMutants plants mutants that only a crash at the right yield point reveals, and
// requires that the sweep detects them.
func TestCrashSweepFindsItsMutants(t *testing.T) {
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
