package oracle

import (
	"time"

	"handoff/core/config"
)

// Refusal is a setting that must be refused because it breaks a rule.
type Refusal struct {
	Key string
	// Tells holds the values that the error message must contain: the setting's value and its bounds.
	Tells []any
}

// Unlawful returns the invalid settings of a configuration, in the order of the sections; empty if the
// configuration is valid. It implements "What must hold together" and "What a setting may be" of
// docs/contract.md. A key appears once for each rule that it breaks.
func Unlawful(c *config.Config) []Refusal {
	u := &refusals{}
	u.refuseUnless(c.Profile == "hardened" || c.Profile == "documented", "profile", c.Profile)
	u.checkExecutor(c)
	u.checkWorker(&c.Worker)
	u.checkQueue(c)
	u.checkPolicies(c)
	u.checkDatabase(&c.Database)
	u.checkRetention(c)
	return u.refused
}

type refusals struct{ refused []Refusal }

func (re *refusals) refuseUnless(holds bool, key string, tells ...any) {
	if !holds {
		re.refused = append(re.refused, Refusal{key, tells})
	}
}

// refuseNonPositive adds a refusal for each duration that is not greater than zero.
func (re *refusals) refuseNonPositive(section string, of ...setting) {
	for _, s := range of {
		if s.d <= 0 {
			re.refuseUnless(false, section+"."+s.key, s.d)
		}
	}
}

// setting holds a duration and the last part of its key.
type setting struct {
	key string
	d   time.Duration
}

func (re *refusals) checkExecutor(c *config.Config) {
	x, ttl := &c.Executor, QueueTTL(&c.MessageQueue.RabbitMQ)
	re.refuseNonPositive("executor", setting{"dispatch_timeout", x.DispatchTimeout}, setting{"scheduled_timeout", x.ScheduledTimeout},
		setting{"timeout_check_interval", x.TimeoutCheckInterval}, setting{"reconcile_interval", x.ReconcileInterval},
		setting{"claim_expiry", x.ClaimExpiry}, setting{"confirm_timeout", x.ConfirmTimeout}, setting{"statement_timeout", x.StatementTimeout},
		setting{"health_check_interval", x.HealthCheckInterval}, setting{"figures_interval", x.FiguresInterval})
	re.refuseUnless(x.UnschedulableGrace >= 0, "executor.unschedulable_grace", x.UnschedulableGrace)
	re.refuseUnless(x.Unclaimed == "fail" || x.Unclaimed == "reschedule", "executor.unclaimed", x.Unclaimed)
	re.refuseUnless(x.TimeoutMonitor == "act" || x.TimeoutMonitor == "observe", "executor.timeout_monitor", x.TimeoutMonitor)
	re.refuseUnless(x.HealthProbes == "act" || x.HealthProbes == "observe" || x.HealthProbes == "off", "executor.health_probes", x.HealthProbes)
	re.refuseUnless(x.TimeoutMonitor != "observe" || c.MessageQueue.RabbitMQ.DeadLetter.Enabled, "executor.timeout_monitor", x.TimeoutMonitor)
	re.refuseUnless(x.MaxDispatches >= 1, "executor.max_dispatches", x.MaxDispatches, 1)
	re.refuseUnless(x.DispatchAhead >= 0, "executor.dispatch_ahead", x.DispatchAhead)
	re.refuseUnless(x.DispatchesPerMessage >= 1 && x.DispatchesPerMessage <= 1000, "executor.dispatches_per_message", x.DispatchesPerMessage, 1, 1000)
	re.refuseUnless(x.BatchSize >= 1 && x.BatchSize <= 1000, "executor.batch_size", x.BatchSize, 1, 1000)
	re.refuseUnless(isShare(x.BrakeFraction), "executor.brake_fraction", x.BrakeFraction, 0, 1)
	re.refuseUnless(x.BrakeMinWorkers >= 1, "executor.brake_min_workers", x.BrakeMinWorkers, 1)
	re.refuseUnless(x.ReapGrace >= c.Worker.KillGrace, "executor.reap_grace", x.ReapGrace, c.Worker.KillGrace)
	re.refuseUnless(x.DispatchTimeout <= x.ScheduledTimeout, "executor.scheduled_timeout", x.ScheduledTimeout, x.DispatchTimeout)
	re.refuseUnless(x.QueueRetention >= ttl && x.QueueRetention >= Lease(&c.Worker), "executor.queue_retention", x.QueueRetention, ttl, Lease(&c.Worker))
	re.refuseUnless(x.ClaimExpiry > x.StatementTimeout+x.StatementTimeout, "executor.claim_expiry", x.ClaimExpiry, x.StatementTimeout+x.StatementTimeout)
}

// isShare reports whether a number is more than 0 and at most 1.
func isShare(f float64) bool { return f > 0 && f <= 1 }

func (re *refusals) checkWorker(w *config.Worker) {
	lease := Lease(w)
	re.refuseNonPositive("worker", setting{"heartbeat_interval", w.HeartbeatInterval}, setting{"statement_timeout", w.StatementTimeout})
	re.refuseUnless(w.HeartbeatStalenessMultiplier >= 3, "worker.heartbeat_staleness_multiplier", w.HeartbeatStalenessMultiplier, 3)
	re.refuseUnless(w.Concurrency >= 1 && w.Concurrency <= 2000, "worker.concurrency", w.Concurrency, 1, 2000)
	re.refuseUnless(w.ShutdownTimeout >= 0, "worker.shutdown_timeout", w.ShutdownTimeout)
	re.refuseUnless(w.KillGrace >= 0, "worker.kill_grace", w.KillGrace)
	least, most := w.KillGrace+lease/100+w.StatementTimeout+ResultWindow, lease-w.HeartbeatInterval-w.StatementTimeout
	re.refuseUnless(w.FenceMargin >= least, "worker.fence_margin", w.FenceMargin, least)
	re.refuseUnless(w.FenceMargin <= most, "worker.fence_margin", w.FenceMargin, most, lease)
}

func (re *refusals) checkQueue(c *config.Config) {
	q, ttl := &c.MessageQueue.RabbitMQ, QueueTTL(&c.MessageQueue.RabbitMQ)
	const section = "message_queue.rabbitmq"
	re.refuseUnless(q.QueueType == "quorum" || q.QueueType == "classic", section+".queue_type", q.QueueType)
	re.refuseNonPositive(section, setting{"heartbeat", q.Heartbeat}, setting{"reconnect_min", q.ReconnectMin})
	re.refuseUnless(q.ReconnectMax >= q.ReconnectMin, section+".reconnect_max", q.ReconnectMax, q.ReconnectMin)
	if q.DeadLetter.Enabled {
		re.refuseUnless(q.DeadLetter.Exchange != "", section+".dead_letter.exchange")
		re.refuseUnless(c.Executor.DispatchTimeout <= ttl, section+".worker_queue_ttl_ms", ttl, c.Executor.DispatchTimeout)
		re.refuseUnless(ttl <= c.Executor.ScheduledTimeout, section+".worker_queue_ttl_ms", ttl, c.Executor.ScheduledTimeout)
	}
}

func (re *refusals) checkPolicies(c *config.Config) {
	r, h := &c.Retry, &c.Health
	re.refuseUnless(r.BaseBackoffSecs >= 0, "retry.base_backoff_secs", r.BaseBackoffSecs)
	re.refuseUnless(r.MaxBackoffSecs >= r.BaseBackoffSecs, "retry.max_backoff_secs", r.MaxBackoffSecs, r.BaseBackoffSecs)
	re.refuseUnless(r.BackoffMultiplier >= 1, "retry.backoff_multiplier", r.BackoffMultiplier, 1)
	re.refuseUnless(r.JitterFactor >= 0 && r.JitterFactor < 1, "retry.jitter_factor", r.JitterFactor, 0, 1)
	re.refuseUnless(0 <= r.FreeShutdowns && r.FreeShutdowns <= 100, "retry.free_shutdowns", r.FreeShutdowns, 0, 100)
	re.refuseUnless(h.DegradedThreshold >= 1, "health.degraded_threshold", h.DegradedThreshold, 1)
	re.refuseUnless(h.UnhealthyThreshold >= h.DegradedThreshold, "health.unhealthy_threshold", h.UnhealthyThreshold, h.DegradedThreshold)
	re.refuseUnless(h.QueueDepthDegraded >= 1, "health.queue_depth_degraded", h.QueueDepthDegraded, 1)
	re.refuseUnless(h.QueueDepthUnhealthy >= h.QueueDepthDegraded, "health.queue_depth_unhealthy", h.QueueDepthUnhealthy, h.QueueDepthDegraded)
	re.refuseUnless(isShare(h.FailureRateDegraded), "health.failure_rate_degraded", h.FailureRateDegraded, 0, 1)
	re.refuseUnless(isShare(h.FailureRateUnhealthy), "health.failure_rate_unhealthy", h.FailureRateUnhealthy, 0, 1)
	re.refuseUnless(h.FailureRateUnhealthy >= h.FailureRateDegraded, "health.failure_rate_unhealthy", h.FailureRateUnhealthy, h.FailureRateDegraded)
	re.refuseUnless(h.Window > 0, "health.window", h.Window)
	re.refuseUnless(h.MinSamples >= 1, "health.min_samples", h.MinSamples, 1)
}

func (re *refusals) checkDatabase(d *config.Database) {
	re.refuseUnless(d.Connections >= 1 && d.Connections <= 1000, "database.connections", d.Connections, 1, 1000)
	re.refuseUnless(d.HeartbeatConnections >= 0 && d.HeartbeatConnections <= 10, "database.heartbeat_connections", d.HeartbeatConnections, 0, 10)
	re.refuseUnless(d.APIConnections >= 6 && d.APIConnections <= 1000, "database.api_connections", d.APIConnections, 6, 1000)
	re.refuseUnless(d.PingTimeout >= 0 && d.PingTimeout <= 500*time.Millisecond, "database.ping_timeout", d.PingTimeout, 500*time.Millisecond)
}

func (re *refusals) checkRetention(c *config.Config) {
	r := &c.Retention
	re.refuseUnless(r.Executions >= 0, "retention.executions", r.Executions)
	re.refuseUnless(r.Transitions >= 0, "retention.transitions", r.Transitions)
	re.refuseUnless(r.RefusedResults >= 0, "retention.refused_results", r.RefusedResults)
	re.refuseUnless(r.Expiries == 0 || r.Expiries > 0 && r.Expiries >= c.Health.Window, "retention.expiries", r.Expiries)
	re.refuseUnless(r.Incarnations == 0 || r.Incarnations > 0 && r.Incarnations >= Lease(&c.Worker), "retention.incarnations", r.Incarnations)
	re.refuseUnless(r.Workers == 0 || r.Workers > 0 && r.Workers >= c.Executor.QueueRetention, "retention.workers", r.Workers)
	re.refuseUnless(r.StepSize >= 1 && r.StepSize <= 10000, "retention.step_size", r.StepSize, 1, 10000)
	re.refuseNonPositive("retention", setting{"interval", r.Interval})
}
