package sim

// These benchmarks measure the simulator: `make bench` runs them on one core, with all invariants on and the
// garbage collector configured as in the chaos command. Figures per second of processor time (cpu_s) can be
// compared even on a busy machine. These are medians of five alternating runs of the old and the new code, on
// two cores shared with about fourteen other programs:
//
//	                     steady load            one seed of the library
//	                     before     after       before     after
//	executions/cpu_s      9,300    13,500        8,300    10,300
//	best of five         12,100    15,100        9,700    11,200
//	steps/cpu_s         740,000  1,070,000   1,140,000  1,420,000
//	steps/execution        79.3      79.3        138.0     138.0
//	allocations/execution   304       135          432       206
//	bytes/execution      39,200    21,900       39,200    28,500
//
// The same code later, on a mostly idle machine, and a busy load in which executions share messages, passes
// and statements:
//
//	                     steady load   busy load
//	executions/cpu_s          16,700      25,000
//	steps/cpu_s            1,330,000   1,000,000
//	steps/execution             79.4        40.1
//
// The profile before: 37 % of the time went into allocating and collecting, 4 % into matching topics, 6 %
// into the heap of detection. 9 % of all bytes went into moving a grown table of rows, 31 % into the
// workers' rows. No scenario of the library stood out. After: 20 % allocating, 3 % collecting, 20 %
// history, hash and invariants, 6 % timers, 3 % switching between coroutines; the rest is the core and the
// models, with no function above 4 %. Profile-guided optimization made no difference that could be
// measured.
//
// The steps were not reduced. Of the 79 steps of an execution that shares nothing, 50 are timers, that is
// arrivals of calls or replies. The core makes every empty poll also in production, and a second hint of
// one completion tests the guard of its handling.

import (
	"fmt"
	"testing"
	"time"

	"handoff/chaos/scenario"
	"handoff/core/config"
	"handoff/scenarios"
)

// steadyLoad returns a scenario without faults: fifty executions a second, few of which share a message, a
// pass or a statement.
func steadyLoad(executions int) string { return load(executions, 10, 20*time.Millisecond) }

// busyLoad returns a scenario with a thousand executions a second.
func busyLoad(executions int) string { return load(executions, 200, time.Millisecond) }

func load(executions, concurrency int, every time.Duration) string {
	workers := ""
	for i := 1; i <= 10; i++ {
		workers += fmt.Sprintf("    shell-%d: {runtimes: [shell], concurrency: %d}\n", i, concurrency)
	}
	return fmt.Sprintf(`
name: steady-load
about: One executor and ten workers at work, and nothing goes wrong.
cluster:
  executors: 1
  workers:
%s# What is kept only until its retention is over is no growth.
config:
  retention: {executions: 0s, transitions: 0s, refused_results: 0s, expiries: 0s, incarnations: 0s, workers: 0s}
actions:
  core.echo: {runtime: shell, takes: {uniform: [50ms, 2s]}}
workload:
  - {action: core.echo, count: %d, every: %v}
`, workers, executions, every)
}

// benchmarkScenario reports steps and executions per second on one core with all invariants on, and the
// virtual time per second of real time.
func benchmarkScenario(b *testing.B, s *scenario.Scenario) {
	total := measured{cpu: cpuTime()}
	seed := uint64(0)
	for b.Loop() {
		seed++
		total.add(b, Run(s, config.Hardened, Options{Seed: seed}))
	}
	total.report(b)
}

// measured is the total work of a benchmark's runs.
type measured struct {
	cpu         time.Duration // at the beginning
	runs, steps uint64
	executions  int64
	virtual     time.Duration
}

func (m *measured) add(b *testing.B, r *Result) {
	if len(r.Violations) > 0 || r.Panic != "" || r.GaveUp != "" {
		b.Fatalf("%s, seed %d: %v %s %s", r.Scenario, r.Seed, r.Violations, r.Panic, r.GaveUp)
	}
	m.runs++
	m.steps += r.Steps
	m.virtual += r.Virtual
	for _, n := range r.Rows {
		m.executions += n
	}
}

func (m *measured) report(b *testing.B) {
	if cpu := (cpuTime() - m.cpu).Seconds(); cpu > 0 {
		b.ReportMetric(float64(m.steps)/cpu, "steps/cpu_s")
		b.ReportMetric(float64(m.executions)/cpu, "executions/cpu_s")
	}
	seconds := b.Elapsed().Seconds()
	b.ReportMetric(float64(m.steps)/seconds, "steps/s")
	b.ReportMetric(float64(m.executions)/seconds, "executions/s")
	b.ReportMetric(float64(m.steps)/float64(m.executions), "steps/execution")
	b.ReportMetric(float64(m.runs)/seconds, "runs/s")
	b.ReportMetric(m.virtual.Seconds()/seconds, "virtual_s/s")
}

func BenchmarkCrashAfterHeartbeat(b *testing.B) {
	s, err := scenarios.Find("crash-after-heartbeat")
	if err != nil {
		b.Fatal(err)
	}
	benchmarkScenario(b, s)
}

func BenchmarkSteadyLoad(b *testing.B) {
	s, err := scenario.Parse("steady-load.yaml", []byte(steadyLoad(10_000)))
	if err != nil {
		b.Fatal(err)
	}
	benchmarkScenario(b, s)
}

func BenchmarkBusyLoad(b *testing.B) {
	s, err := scenario.Parse("busy-load.yaml", []byte(busyLoad(10_000)))
	if err != nil {
		b.Fatal(err)
	}
	benchmarkScenario(b, s)
}

// BenchmarkNamed runs four scenarios under sixty seeds each. `.ci/bench-beside` compares the
// result with an older commit.
func BenchmarkNamed(b *testing.B) {
	total := measured{cpu: cpuTime()}
	for b.Loop() {
		for _, name := range []string{"crash-after-heartbeat", "network-partition", "ttl-race", "dropped-status-messages"} {
			s, err := scenarios.Find(name)
			if err != nil {
				b.Fatal(err)
			}
			for seed := range uint64(60) {
				total.add(b, Run(s, config.Hardened, Options{Seed: seed + 1}))
			}
		}
	}
	total.report(b)
}

// BenchmarkLibrary runs one seed of every scenario of the library under each of its profiles, like a `chaos
// run` sweep for each seed.
func BenchmarkLibrary(b *testing.B) {
	library, err := scenarios.Library()
	if err != nil {
		b.Fatal(err)
	}
	total := measured{cpu: cpuTime()}
	seed := uint64(0)
	for b.Loop() {
		seed++
		for _, s := range library {
			for _, p := range s.Profiles {
				total.add(b, Run(s, p, Options{Seed: seed}))
			}
		}
	}
	total.report(b)
}
