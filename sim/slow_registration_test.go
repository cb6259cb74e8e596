package sim

import (
	"testing"
	"time"

	"handoff/chaos/history"
	"handoff/chaos/scenario"
	"handoff/core/config"
	"handoff/core/execution"
)

// A worker restarts while the database link is so slow that a registration, with its six round trips, takes
// longer than its statement timeout. It still registers, because each attempt may take longer than the
// previous one. If a connection, which takes four round trips, takes longer than 5 s, no process can connect.
func TestWorkerRegistersOverSlowLink(t *testing.T) {
	s, err := scenario.Parse("slow.yaml", []byte(`
name: slow
about: A worker comes back over a slow path.
cluster: {executors: 1, workers: {shell-1: {runtimes: [shell]}}}
actions: {core.echo: {runtime: shell, takes: 1s}}
workload: [{action: core.echo, count: 2, every: 1s}]
faults:
  - {when: {at: 10s}, latency: {of: shell-1, to: [database], adds: [700ms, 700ms], direction: incoming}, for: 120s}
  - {when: {at: 12s}, crash: shell-1, restart_after: 2s}
expect: {invariants: all}
`))
	if err != nil {
		t.Fatal(err)
	}
	var active activations
	Run(s, config.Hardened, Options{Seed: 1, Record: &active})
	if len(active) < 2 || active[1] > time.Minute {
		t.Errorf("the worker was active from %v on; it came back at 14s, and the path was slow until 2m10s", active)
	}
}

// activations are when workers became active.
type activations []time.Duration

// Observe implements history.Sink.
func (a *activations) Observe(e *history.Event) {
	if e.Kind == history.WorkerLifecycle && e.Lifecycle == execution.Active {
		*a = append(*a, e.At)
	}
}
