package oracle

import (
	"time"

	"handoff/core/config"
)

// Unlawful are the keys of a configuration that nothing may be started with, in the order of the sections; empty for one
// that can be run. It is "What must hold together" and "What a setting may be" of docs/contract.md. A key stands there once
// for each rule that it breaks.
func Unlawful(c *config.Config) (keys []string) {
	u := &unlawful{}
	u.unless(c.Profile == "hardened" || c.Profile == "documented", "profile")
	u.executor(c)
	u.worker(&c.Worker)
	u.queue(c)
	u.policies(c)
	return u.keys
}

type unlawful struct{ keys []string }

func (u *unlawful) unless(holds bool, key string) {
	if !holds {
		u.keys = append(u.keys, key)
	}
}

// longer demands of durations that they are longer than nothing.
func (u *unlawful) longer(section string, of ...setting) {
	for _, s := range of {
		u.unless(s.d > 0, section+"."+s.key)
	}
}

// setting is a duration and the last word of its key.
type setting struct {
	key string
	d   time.Duration
}

func (u *unlawful) executor(c *config.Config) {
	x, ttl := &c.Executor, QueueTTL(&c.MessageQueue.RabbitMQ)
	u.longer("executor", setting{"dispatch_timeout", x.DispatchTimeout}, setting{"scheduled_timeout", x.ScheduledTimeout},
		setting{"timeout_check_interval", x.TimeoutCheckInterval}, setting{"reconcile_interval", x.ReconcileInterval},
		setting{"claim_expiry", x.ClaimExpiry}, setting{"confirm_timeout", x.ConfirmTimeout}, setting{"statement_timeout", x.StatementTimeout},
		setting{"health_check_interval", x.HealthCheckInterval}, setting{"figures_interval", x.FiguresInterval})
	u.unless(x.UnschedulableGrace >= 0, "executor.unschedulable_grace")
	u.unless(x.Unclaimed == "fail" || x.Unclaimed == "reschedule", "executor.unclaimed")
	u.unless(x.TimeoutMonitor == "act" || x.TimeoutMonitor == "observe", "executor.timeout_monitor")
	u.unless(x.HealthProbes == "act" || x.HealthProbes == "observe" || x.HealthProbes == "off", "executor.health_probes")
	u.unless(x.TimeoutMonitor != "observe" || c.MessageQueue.RabbitMQ.DeadLetter.Enabled, "executor.timeout_monitor")
	u.unless(x.MaxDispatches >= 1, "executor.max_dispatches")
	u.unless(x.DispatchAhead >= 0, "executor.dispatch_ahead")
	u.unless(x.BatchSize >= 1 && x.BatchSize <= 1000, "executor.batch_size")
	u.unless(share(x.BrakeFraction), "executor.brake_fraction")
	u.unless(x.BrakeMinWorkers >= 1, "executor.brake_min_workers")
	u.unless(x.ReapGrace >= c.Worker.KillGrace, "executor.reap_grace")
	u.unless(x.DispatchTimeout <= x.ScheduledTimeout, "executor.scheduled_timeout")
	u.unless(x.QueueRetention >= ttl && x.QueueRetention >= Lease(&c.Worker), "executor.queue_retention")
	u.unless(x.ClaimExpiry > x.StatementTimeout+x.StatementTimeout, "executor.claim_expiry")
}

// share says that a number is more than 0 and at most 1.
func share(f float64) bool { return f > 0 && f <= 1 }

func (u *unlawful) worker(w *config.Worker) {
	lease := Lease(w)
	u.longer("worker", setting{"heartbeat_interval", w.HeartbeatInterval}, setting{"statement_timeout", w.StatementTimeout})
	u.unless(w.HeartbeatStalenessMultiplier >= 3, "worker.heartbeat_staleness_multiplier")
	u.unless(w.Concurrency >= 1 && w.Concurrency <= 2000, "worker.concurrency")
	u.unless(w.ShutdownTimeout >= 0, "worker.shutdown_timeout")
	u.unless(w.KillGrace >= 0, "worker.kill_grace")
	u.unless(w.FenceMargin >= w.KillGrace+lease/100+w.StatementTimeout, "worker.fence_margin")
	u.unless(w.FenceMargin <= lease-w.HeartbeatInterval-w.StatementTimeout, "worker.fence_margin")
}

func (u *unlawful) queue(c *config.Config) {
	q, ttl := &c.MessageQueue.RabbitMQ, QueueTTL(&c.MessageQueue.RabbitMQ)
	const section = "message_queue.rabbitmq"
	u.unless(q.QueueType == "quorum" || q.QueueType == "classic", section+".queue_type")
	u.longer(section, setting{"heartbeat", q.Heartbeat}, setting{"reconnect_min", q.ReconnectMin})
	u.unless(q.ReconnectMax >= q.ReconnectMin, section+".reconnect_max")
	if q.DeadLetter.Enabled {
		u.unless(q.DeadLetter.Exchange != "", section+".dead_letter.exchange")
		u.unless(c.Executor.DispatchTimeout <= ttl, section+".worker_queue_ttl_ms")
		u.unless(ttl <= c.Executor.ScheduledTimeout, section+".worker_queue_ttl_ms")
	}
}

func (u *unlawful) policies(c *config.Config) {
	r, h := &c.Retry, &c.Health
	u.unless(r.BaseBackoffSecs >= 0, "retry.base_backoff_secs")
	u.unless(r.MaxBackoffSecs >= r.BaseBackoffSecs, "retry.max_backoff_secs")
	u.unless(r.BackoffMultiplier >= 1, "retry.backoff_multiplier")
	u.unless(r.JitterFactor >= 0 && r.JitterFactor < 1, "retry.jitter_factor")
	u.unless(h.DegradedThreshold >= 1, "health.degraded_threshold")
	u.unless(h.UnhealthyThreshold >= h.DegradedThreshold, "health.unhealthy_threshold")
	u.unless(h.QueueDepthDegraded >= 1, "health.queue_depth_degraded")
	u.unless(h.QueueDepthUnhealthy >= h.QueueDepthDegraded, "health.queue_depth_unhealthy")
	u.unless(share(h.FailureRateDegraded), "health.failure_rate_degraded")
	u.unless(share(h.FailureRateUnhealthy), "health.failure_rate_unhealthy")
	u.unless(h.FailureRateUnhealthy >= h.FailureRateDegraded, "health.failure_rate_unhealthy")
	u.unless(h.Window > 0, "health.window")
	u.unless(h.MinSamples >= 1, "health.min_samples")
}
