package sim

import (
	"fmt"
	"testing"
	"time"

	"handoff/core/config"
	"handoff/scenarios"
)

// steadyLoad is a cluster at work and nothing going wrong.
func steadyLoad(executions int) string {
	workers := ""
	for i := 1; i <= 10; i++ {
		workers += fmt.Sprintf("    shell-%d: {runtimes: [shell]}\n", i)
	}
	return fmt.Sprintf(`
name: steady-load
about: One executor and ten workers at work, and nothing goes wrong.
cluster:
  executors: 1
  workers:
%sactions:
  core.echo: {runtime: shell, takes: {uniform: [50ms, 2s]}}
workload:
  - {action: core.echo, count: %d, every: 20ms}
`, workers, executions)
}

// benchmarkScenario reports steps and executions a second on one core with all invariants on, and how
// much virtual time passes in a second of real time.
func benchmarkScenario(b *testing.B, s *scenarios.Scenario) {
	var steps uint64
	var executions int64
	var virtual time.Duration
	seed := uint64(0)
	for b.Loop() {
		seed++
		r := Run(s, config.Hardened, Options{Seed: seed})
		if len(r.Violations) > 0 || r.Panic != "" || r.GaveUp != "" {
			b.Fatalf("seed %d: %v %s %s", seed, r.Violations, r.Panic, r.GaveUp)
		}
		steps += r.Steps
		virtual += r.Virtual
		for _, n := range r.Rows {
			executions += n
		}
	}
	seconds := b.Elapsed().Seconds()
	b.ReportMetric(float64(steps)/seconds, "steps/s")
	b.ReportMetric(float64(executions)/seconds, "executions/s")
	b.ReportMetric(virtual.Seconds()/seconds, "virtual_s/s")
}

func BenchmarkCrashAfterHeartbeat(b *testing.B) {
	s, err := scenarios.Find("crash-after-heartbeat")
	if err != nil {
		b.Fatal(err)
	}
	benchmarkScenario(b, s)
}

func BenchmarkSteadyLoad(b *testing.B) {
	s, err := scenarios.Parse("steady-load.yaml", []byte(steadyLoad(10_000)))
	if err != nil {
		b.Fatal(err)
	}
	benchmarkScenario(b, s)
}
