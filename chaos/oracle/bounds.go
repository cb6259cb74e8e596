package oracle

import (
	"time"

	"handoff/core/config"
)

// Refusal is a setting that breaks a rule.
type Refusal struct {
	Key string
	// Tells are the values that a reader of the message needs: that of the setting, and those that
	// bound it.
	Tells []any
}

// Unlawful returns the settings of a configuration with which nothing may start, in the order of
// the sections; empty if the configuration is valid. It implements "What must hold together" and
// "What a setting may be" of docs/contract.md. A key appears once for each rule that it breaks.
func Unlawful(c *config.Config) []Refusal {
	u := &unlawful{}
	u.unless(c.Profile == "hardened" || c.Profile == "documented", "profile", c.Profile)
	u.executor(c)
	u.worker(&c.Worker)
	u.queue(c)
	u.policies(c)
	u.database(&c.Database)
	u.retention(c)
	return u.refused
}

type unlawful struct{ refused []Refusal }

func (u *unlawful) unless(holds bool, key string, tells ...any) {
	if !holds {
		u.refused = append(u.refused, Refusal{key, tells})
	}
}

// longer demands that durations are greater than zero.
func (u *unlawful) longer(section string, of ...setting) {
	for _, s := range of {
		if s.d <= 0 {
			u.unless(false, section+"."+s.key, s.d)
		}
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
	u.unless(x.UnschedulableGrace >= 0, "executor.unschedulable_grace", x.UnschedulableGrace)
	u.unless(x.Unclaimed == "fail" || x.Unclaimed == "reschedule", "executor.unclaimed", x.Unclaimed)
	u.unless(x.TimeoutMonitor == "act" || x.TimeoutMonitor == "observe", "executor.timeout_monitor", x.TimeoutMonitor)
	u.unless(x.HealthProbes == "act" || x.HealthProbes == "observe" || x.HealthProbes == "off", "executor.health_probes", x.HealthProbes)
	u.unless(x.TimeoutMonitor != "observe" || c.MessageQueue.RabbitMQ.DeadLetter.Enabled, "executor.timeout_monitor", x.TimeoutMonitor)
	u.unless(x.MaxDispatches >= 1, "executor.max_dispatches", x.MaxDispatches, 1)
	u.unless(x.DispatchAhead >= 0, "executor.dispatch_ahead", x.DispatchAhead)
	u.unless(x.DispatchesPerMessage >= 1 && x.DispatchesPerMessage <= 1000, "executor.dispatches_per_message", x.DispatchesPerMessage, 1, 1000)
	u.unless(x.BatchSize >= 1 && x.BatchSize <= 1000, "executor.batch_size", x.BatchSize, 1, 1000)
	u.unless(share(x.BrakeFraction), "executor.brake_fraction", x.BrakeFraction, 0, 1)
	u.unless(x.BrakeMinWorkers >= 1, "executor.brake_min_workers", x.BrakeMinWorkers, 1)
	u.unless(x.ReapGrace >= c.Worker.KillGrace, "executor.reap_grace", x.ReapGrace, c.Worker.KillGrace)
	u.unless(x.DispatchTimeout <= x.ScheduledTimeout, "executor.scheduled_timeout", x.ScheduledTimeout, x.DispatchTimeout)
	u.unless(x.QueueRetention >= ttl && x.QueueRetention >= Lease(&c.Worker), "executor.queue_retention", x.QueueRetention, ttl, Lease(&c.Worker))
	u.unless(x.ClaimExpiry > x.StatementTimeout+x.StatementTimeout, "executor.claim_expiry", x.ClaimExpiry, x.StatementTimeout+x.StatementTimeout)
}

// share says whether a number is more than 0 and at most 1.
func share(f float64) bool { return f > 0 && f <= 1 }

func (u *unlawful) worker(w *config.Worker) {
	lease := Lease(w)
	u.longer("worker", setting{"heartbeat_interval", w.HeartbeatInterval}, setting{"statement_timeout", w.StatementTimeout})
	u.unless(w.HeartbeatStalenessMultiplier >= 3, "worker.heartbeat_staleness_multiplier", w.HeartbeatStalenessMultiplier, 3)
	u.unless(w.Concurrency >= 1 && w.Concurrency <= 2000, "worker.concurrency", w.Concurrency, 1, 2000)
	u.unless(w.ShutdownTimeout >= 0, "worker.shutdown_timeout", w.ShutdownTimeout)
	u.unless(w.KillGrace >= 0, "worker.kill_grace", w.KillGrace)
	least, most := w.KillGrace+lease/100+w.StatementTimeout+ResultWindow, lease-w.HeartbeatInterval-w.StatementTimeout
	u.unless(w.FenceMargin >= least, "worker.fence_margin", w.FenceMargin, least)
	u.unless(w.FenceMargin <= most, "worker.fence_margin", w.FenceMargin, most, lease)
}

func (u *unlawful) queue(c *config.Config) {
	q, ttl := &c.MessageQueue.RabbitMQ, QueueTTL(&c.MessageQueue.RabbitMQ)
	const section = "message_queue.rabbitmq"
	u.unless(q.QueueType == "quorum" || q.QueueType == "classic", section+".queue_type", q.QueueType)
	u.longer(section, setting{"heartbeat", q.Heartbeat}, setting{"reconnect_min", q.ReconnectMin})
	u.unless(q.ReconnectMax >= q.ReconnectMin, section+".reconnect_max", q.ReconnectMax, q.ReconnectMin)
	if q.DeadLetter.Enabled {
		u.unless(q.DeadLetter.Exchange != "", section+".dead_letter.exchange")
		u.unless(c.Executor.DispatchTimeout <= ttl, section+".worker_queue_ttl_ms", ttl, c.Executor.DispatchTimeout)
		u.unless(ttl <= c.Executor.ScheduledTimeout, section+".worker_queue_ttl_ms", ttl, c.Executor.ScheduledTimeout)
	}
}

func (u *unlawful) policies(c *config.Config) {
	r, h := &c.Retry, &c.Health
	u.unless(r.BaseBackoffSecs >= 0, "retry.base_backoff_secs", r.BaseBackoffSecs)
	u.unless(r.MaxBackoffSecs >= r.BaseBackoffSecs, "retry.max_backoff_secs", r.MaxBackoffSecs, r.BaseBackoffSecs)
	u.unless(r.BackoffMultiplier >= 1, "retry.backoff_multiplier", r.BackoffMultiplier, 1)
	u.unless(r.JitterFactor >= 0 && r.JitterFactor < 1, "retry.jitter_factor", r.JitterFactor, 0, 1)
	u.unless(0 <= r.FreeShutdowns && r.FreeShutdowns <= 100, "retry.free_shutdowns", r.FreeShutdowns, 0, 100)
	u.unless(h.DegradedThreshold >= 1, "health.degraded_threshold", h.DegradedThreshold, 1)
	u.unless(h.UnhealthyThreshold >= h.DegradedThreshold, "health.unhealthy_threshold", h.UnhealthyThreshold, h.DegradedThreshold)
	u.unless(h.QueueDepthDegraded >= 1, "health.queue_depth_degraded", h.QueueDepthDegraded, 1)
	u.unless(h.QueueDepthUnhealthy >= h.QueueDepthDegraded, "health.queue_depth_unhealthy", h.QueueDepthUnhealthy, h.QueueDepthDegraded)
	u.unless(share(h.FailureRateDegraded), "health.failure_rate_degraded", h.FailureRateDegraded, 0, 1)
	u.unless(share(h.FailureRateUnhealthy), "health.failure_rate_unhealthy", h.FailureRateUnhealthy, 0, 1)
	u.unless(h.FailureRateUnhealthy >= h.FailureRateDegraded, "health.failure_rate_unhealthy", h.FailureRateUnhealthy, h.FailureRateDegraded)
	u.unless(h.Window > 0, "health.window", h.Window)
	u.unless(h.MinSamples >= 1, "health.min_samples", h.MinSamples, 1)
}

func (u *unlawful) database(d *config.Database) {
	u.unless(d.Connections >= 1 && d.Connections <= 1000, "database.connections", d.Connections, 1, 1000)
	u.unless(d.HeartbeatConnections >= 0 && d.HeartbeatConnections <= 10, "database.heartbeat_connections", d.HeartbeatConnections, 0, 10)
	u.unless(d.APIConnections >= 6 && d.APIConnections <= 1000, "database.api_connections", d.APIConnections, 6, 1000)
	u.unless(d.PingTimeout >= 0 && d.PingTimeout <= 500*time.Millisecond, "database.ping_timeout", d.PingTimeout, 500*time.Millisecond)
}

func (u *unlawful) retention(c *config.Config) {
	r := &c.Retention
	u.unless(r.Executions >= 0, "retention.executions", r.Executions)
	u.unless(r.Transitions >= 0, "retention.transitions", r.Transitions)
	u.unless(r.RefusedResults >= 0, "retention.refused_results", r.RefusedResults)
	u.unless(r.Expiries == 0 || r.Expiries > 0 && r.Expiries >= c.Health.Window, "retention.expiries", r.Expiries)
	u.unless(r.Incarnations == 0 || r.Incarnations > 0 && r.Incarnations >= Lease(&c.Worker), "retention.incarnations", r.Incarnations)
	u.unless(r.Workers == 0 || r.Workers > 0 && r.Workers >= c.Executor.QueueRetention, "retention.workers", r.Workers)
	u.unless(r.StepSize >= 1 && r.StepSize <= 10000, "retention.step_size", r.StepSize, 1, 10000)
	u.longer("retention", setting{"interval", r.Interval})
}
