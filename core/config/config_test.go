package config

import (
	"strings"
	"testing"
	"testing/quick"
	"time"

	"handoff/core/telemetry"
)

func TestDefaultsAreValid(t *testing.T) {
	for _, p := range Profiles() {
		for _, problem := range Default(p).Validate() {
			t.Errorf("%s: %v", p, problem)
		}
	}
}

// The alert rules count samples, so both profiles must set gauges at the interval that the rules assume.
func TestFiguresIntervalMatchesSampleInterval(t *testing.T) {
	for _, p := range Profiles() {
		if is := Default(p).Executor.FiguresInterval; is != telemetry.SampleInterval {
			t.Errorf("%s: executor.figures_interval is %v, the alert rules count samples of %v", p, is, telemetry.SampleInterval)
		}
	}
}

func TestProfilesDifferAsDocumented(t *testing.T) {
	d, h := Default(Documented), Default(Hardened)
	type row struct {
		key                  string
		documented, hardened any
	}
	for _, r := range []row{
		{"lease", d.Worker.Lease(), h.Worker.Lease()},
		{"dispatch_timeout", d.Executor.DispatchTimeout, h.Executor.DispatchTimeout},
		{"worker_queue_ttl", d.MessageQueue.RabbitMQ.WorkerQueueTTL(), h.MessageQueue.RabbitMQ.WorkerQueueTTL()},
		{"scheduled_timeout", d.Executor.ScheduledTimeout, h.Executor.ScheduledTimeout},
		{"timeout_check_interval", d.Executor.TimeoutCheckInterval, h.Executor.TimeoutCheckInterval},
		{"unschedulable_grace", d.Executor.UnschedulableGrace, h.Executor.UnschedulableGrace},
		{"unclaimed", d.Executor.Unclaimed, h.Executor.Unclaimed},
		{"max_dispatches", d.Executor.MaxDispatches, h.Executor.MaxDispatches},
		{"reconcile_interval", d.Executor.ReconcileInterval, h.Executor.ReconcileInterval},
		{"dispatch_ahead", d.Executor.DispatchAhead, h.Executor.DispatchAhead},
		{"free_shutdowns", d.Retry.FreeShutdowns, h.Retry.FreeShutdowns},
	} {
		want := map[string][2]any{
			"lease":                  {30 * time.Second, 30 * time.Second},
			"dispatch_timeout":       {300 * time.Second, 120 * time.Second},
			"worker_queue_ttl":       {300 * time.Second, 180 * time.Second},
			"scheduled_timeout":      {300 * time.Second, 300 * time.Second},
			"timeout_check_interval": {60 * time.Second, 10 * time.Second},
			"unschedulable_grace":    {time.Duration(0), time.Hour},
			"unclaimed":              {Fail, Reschedule},
			"max_dispatches":         {1, 3},
			"reconcile_interval":     {10 * time.Second, 5 * time.Second},
			"dispatch_ahead":         {0, 2},
			"free_shutdowns":         {0, 10},
		}[r.key]
		if r.documented != want[0] || r.hardened != want[1] {
			t.Errorf("%s is %v and %v, the contract says %v and %v", r.key, r.documented, r.hardened, want[0], want[1])
		}
	}
}

func TestContradictorySettingsAreRefused(t *testing.T) {
	for key, spoil := range map[string]func(*Config){
		"worker.heartbeat_staleness_multiplier":       func(c *Config) { c.Worker.HeartbeatStalenessMultiplier = 2 },
		"worker.fence_margin":                         func(c *Config) { c.Worker.FenceMargin = c.Worker.KillGrace + c.Worker.StatementTimeout },
		"executor.scheduled_timeout":                  func(c *Config) { c.Executor.ScheduledTimeout = c.Executor.DispatchTimeout - 1 },
		"executor.reap_grace":                         func(c *Config) { c.Executor.ReapGrace = c.Worker.KillGrace - 1 },
		"executor.claim_expiry":                       func(c *Config) { c.Executor.ClaimExpiry = 2 * c.Executor.StatementTimeout },
		"executor.unclaimed":                          func(c *Config) { c.Executor.Unclaimed = "retry" },
		"executor.health_probes":                      func(c *Config) { c.Executor.HealthProbes = "on" },
		"message_queue.rabbitmq.worker_queue_ttl_ms":  func(c *Config) { c.MessageQueue.RabbitMQ.WorkerQueueTTLMS = 1 },
		"message_queue.rabbitmq.queue_type":           func(c *Config) { c.MessageQueue.RabbitMQ.QueueType = "stream" },
		"retry.free_shutdowns":                        func(c *Config) { c.Retry.FreeShutdowns = -1 },
		"retry.jitter_factor":                         func(c *Config) { c.Retry.JitterFactor = 1 },
		"retry.max_backoff_secs":                      func(c *Config) { c.Retry.MaxBackoffSecs = 0 },
		"database.connections":                        func(c *Config) { c.Database.Connections = 0 },
		"database.heartbeat_connections":              func(c *Config) { c.Database.HeartbeatConnections = -1 },
		"database.api_connections":                    func(c *Config) { c.Database.APIConnections = LeastAPIConnections - 1 },
		"database.ping_timeout":                       func(c *Config) { c.Database.PingTimeout = LongestPing + 1 },
		"message_queue.rabbitmq.dead_letter.exchange": func(c *Config) { c.MessageQueue.RabbitMQ.DeadLetter.Exchange = "" },
	} {
		c := Default(Hardened)
		spoil(&c)
		var keys []string
		for _, p := range c.Validate() {
			keys = append(keys, p.Key)
		}
		if !strings.Contains(strings.Join(keys, " "), key) {
			t.Errorf("a contradictory %s is not refused (refused: %v)", key, keys)
		}
	}
}

// If the fence margin could begin before the next heartbeat's reply arrives, a healthy worker would fence
// itself.
func TestFenceMarginAllowsHeartbeat(t *testing.T) {
	c := Default(Hardened)
	most := c.Worker.Lease() - c.Worker.HeartbeatInterval - c.Worker.StatementTimeout
	for margin, problems := range map[time.Duration]int{most: 0, most + time.Millisecond: 1} {
		c.Worker.FenceMargin = margin
		if found := c.Validate(); len(found) != problems {
			t.Errorf("a margin of %v: %v", margin, found)
		}
	}
}

// While the timeout monitor only observes, the dead letter handler alone reclaims dispatches that a live
// worker does not claim.
func TestObservingMonitorNeedsDeadLettering(t *testing.T) {
	for _, c := range []struct {
		mode    Mode
		enabled bool
		want    string
	}{{Act, true, ""}, {Act, false, ""}, {Observe, true, ""}, {Observe, false, "nobody would take back"}, {Off, true, "allowed: act, observe"}} {
		is := Default(Hardened)
		is.Executor.TimeoutMonitor, is.MessageQueue.RabbitMQ.DeadLetter.Enabled = c.mode, c.enabled
		var said string
		for _, p := range is.Validate() {
			said += p.Error()
		}
		if (said == "") != (c.want == "") || !strings.Contains(said, c.want) {
			t.Errorf("%s, dead lettering %v: %q, want %q", c.mode, c.enabled, said, c.want)
		}
	}
}

// Jitter stays within ±20 %, the cap applies after the jitter, and no delay is truncated to whole seconds
// (defect D52).
func TestBackoffStaysInWindow(t *testing.T) {
	r := Default(Hardened).Retry
	inWindow := func(n uint8, draw uint64) bool {
		count := int(n % 40)
		d := r.Backoff(count, func(limit uint64) uint64 { return draw % limit })
		nominal := 300 * time.Second
		if count < 9 {
			nominal = min(nominal, time.Second<<count)
		}
		return d >= nominal*8/10 && d <= min(nominal*12/10, 300*time.Second) && d%time.Millisecond == 0
	}
	if err := quick.Check(inWindow, &quick.Config{MaxCount: 20_000}); err != nil {
		t.Error(err)
	}
	if lowest, highest := r.BackoffBounds(0); lowest != 800*time.Millisecond || highest != 1200*time.Millisecond {
		t.Errorf("the first backoff is between %v and %v, want 800ms and 1.2s", lowest, highest)
	}
}
