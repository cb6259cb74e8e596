package sim

import (
	"testing"
	"time"

	"handoff/chaos/history"
	"handoff/chaos/scenario"
	"handoff/core/config"
	"handoff/core/execution"
)

// heldDeliveries measures how long dispatches stay unacknowledged at workers.
type heldDeliveries struct {
	since    map[uint64]time.Duration
	longest  time.Duration
	rejected int
}

// Observe implements history.Sink.
func (h *heldDeliveries) Observe(e *history.Event) {
	if e.Execution == 0 {
		return
	}
	switch e.Kind {
	case history.Delivered:
		h.since[e.Message] = e.At
	case history.Acked, history.Rejected, history.Requeued:
		if since, known := h.since[e.Message]; known {
			h.longest = max(h.longest, e.At-since)
		}
		if e.Kind == history.Rejected {
			h.rejected++
		}
		delete(h.since, e.Message)
	default:
	}
}

// A worker that is full for an hour holds no delivery longer than its dispatch timeout; RabbitMQ would
// close its channel after half an hour. Each waiting delivery has its own deadline. An execution whose
// delivery is rejected still completes, and the dispatch counts against no worker.
func TestFullWorkerRejectsDeliveriesAfterDispatchTimeout(t *testing.T) {
	s, err := scenario.Parse("held.yaml", []byte(`
name: held
about: Runs of an hour on ten slots, and ten more dispatched ahead.
worlds: [sim]
cluster:
  executors: 1
  workers:
    shell-1: {runtimes: [shell], concurrency: 10}
profile: [hardened]
config:
  executor: {dispatch_ahead: 10}
actions:
  core.long: {runtime: shell, takes: 1h, timeout: 2h}
workload:
  - {action: core.long, count: 20, every: 10ms}
settle: {within: 6h}
expect:
  invariants: all
  executions: {completed: "= 100%", stuck: 0}
`))
	if err != nil {
		t.Fatal(err)
	}
	h := &heldDeliveries{since: make(map[uint64]time.Duration)}
	r := Run(s, config.Hardened, Options{Seed: 1, Record: h})
	for _, v := range r.Violations {
		t.Errorf("%s: %s", v.Name, v.Message)
	}
	limit := s.Config(config.Hardened).Executor.DispatchTimeout + time.Second
	if h.longest > limit {
		t.Errorf("a delivery stayed unacknowledged for %v, want at most %v", h.longest, limit)
	}
	if h.rejected == 0 {
		t.Error("no delivery waited for its whole time: the test does not reach the situation that it is about")
	}
	if n := r.Chains[execution.Completed]; n != 20 {
		t.Errorf("%d of 20 executions completed", n)
	}
}
