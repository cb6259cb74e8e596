package scenario_test

import (
	"strings"
	"testing"
	"time"

	"handoff/core/config"
	"handoff/scenarios"
)

func TestEveryDurationIsScaled(t *testing.T) {
	s, err := scenarios.Find("worker-never-picks-up")
	if err != nil {
		t.Fatal(err)
	}
	scaled, err := s.Scaled(0.2, config.Hardened)
	if err != nil {
		t.Fatal(err)
	}
	c, was := scaled.Config(config.Hardened), s.Config(config.Hardened)
	for _, d := range []struct {
		what     string
		is, full time.Duration
	}{
		{"dispatch_timeout", c.Executor.DispatchTimeout, was.Executor.DispatchTimeout},
		{"the lease", c.Worker.Lease(), was.Worker.Lease()},
		{"worker_queue_ttl_ms", c.MessageQueue.RabbitMQ.WorkerQueueTTL(), was.MessageQueue.RabbitMQ.WorkerQueueTTL()},
		{"the second load", scaled.Workload[1].From, s.Workload[1].From},
		{"a fault", scaled.Faults[0].For, s.Faults[0].For},
		{"when a fault begins", scaled.Faults[1].When.Max, s.Faults[1].When.Max},
		{"an action", scaled.Actions[0].TakesMax, s.Actions[0].TakesMax},
		{"an action's default timeout", scaled.Actions[0].Timeout, s.Actions[0].RunTimeout()},
	} {
		if d.full == 0 || d.is*5 != d.full {
			t.Errorf("%s is %v, a fifth of %v is wanted", d.what, d.is, d.full)
		}
	}
	if c.Retry.BaseBackoffSecs != 1 {
		t.Errorf("a backoff of a second became %d s: whole seconds are rounded up", c.Retry.BaseBackoffSecs)
	}
	if s.Faults[0].For != 350*time.Second {
		t.Error("scaling has changed the scenario itself")
	}
}

func TestScalesBelowFloorAreRefused(t *testing.T) {
	s, err := scenarios.Find("ttl-race")
	if err != nil {
		t.Fatal(err)
	}
	for scale, want := range map[float64]string{
		0.1:  "message_queue.rabbitmq.heartbeat would be 500ms, under the floor of 1s",
		0.05: "worker.heartbeat_interval would be 250ms, under the floor of 500ms",
		0:    "above 0 and up to 1",
		1.5:  "above 0 and up to 1",
	} {
		if _, err := s.Scaled(scale, config.Hardened); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("at %v: %v; want %q", scale, err, want)
		}
	}
}

// A worker polls the database once a second for dispatches that are queued behind garbage, at any time scale.
func TestFloodLimitsDispatchTimeoutAtAnyScale(t *testing.T) {
	s, err := scenarios.Find("garbage-before-work")
	if err != nil {
		t.Fatal(err)
	}
	const want = "executor.dispatch_timeout, behind a flood of messages, would be 800ms, under the floor of 1.5s; the floors need a time scale of at least 0.38"
	if _, err := s.Scaled(0.2, config.Hardened); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("at 0.2: %v; want %q", err, want)
	}
	if _, err := s.Scaled(0.38, config.Hardened); err != nil {
		t.Errorf("at 0.38: %v; want no error", err)
	}
	few, err := scenarios.Find("short-dispatch-timeouts")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := few.Scaled(0.2, config.Hardened); err != nil {
		t.Errorf("without a flood: %v; want no error", err)
	}
}
