package vary

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"time"

	"handoff/chaos/scenario"
	"handoff/core/config"
	"handoff/core/config/yamlfile"
)

// configKey is a key of the configuration and the function that draws it. draw ignores the other keys;
// fitConfig then makes the keys consistent.
type configKey struct {
	path string
	draw func(d *draw, c *config.Config)
}

// group holds keys that are drawn together, so that a run changes related keys a lot rather than all keys a
// little.
type group []configKey

// durationKey draws a duration from least to most, log-uniformly.
func durationKey(path string, least, most time.Duration, field func(c *config.Config) *time.Duration) configKey {
	return configKey{path, func(d *draw, c *config.Config) { *field(c) = d.Within(least, most) }}
}

// numberKey draws one of a few whole numbers, most of them small, because small limits have the largest
// effects.
func numberKey[T int | int64](path string, field func(c *config.Config) *T, of ...T) configKey {
	return configKey{path, func(d *draw, c *config.Config) { *field(c) = of[d.Choose(len(of))] }}
}

// shareKey draws one of a few fractions or factors.
func shareKey(path string, field func(c *config.Config) *float64, of ...float64) configKey {
	return configKey{path, func(d *draw, c *config.Config) { *field(c) = of[d.Choose(len(of))] }}
}

// keyGroups lists every key that a scenario can set. TestEveryKeyIsDrawn checks that none is missing.
func keyGroups() []group {
	return []group{batchKeys(), deadlineKeys(), patienceKeys(), paceKeys(), leaseKeys(), brakeKeys(), capacityKeys(), queueKeys(), retryKeys(), healthKeys(), modeKeys(), connectionKeys(), retentionKeys()}
}

func batchKeys() group {
	return group{
		numberKey("executor.batch_size", func(c *config.Config) *int { return &c.Executor.BatchSize }, 1, 1, 2, 3, 5, 20, 1000),
	}
}

func deadlineKeys() group {
	return group{
		durationKey("executor.dispatch_timeout", 2*time.Second, 10*time.Minute, func(c *config.Config) *time.Duration { return &c.Executor.DispatchTimeout }),
		durationKey("executor.scheduled_timeout", 2*time.Second, 20*time.Minute, func(c *config.Config) *time.Duration { return &c.Executor.ScheduledTimeout }),
		durationKey("executor.timeout_check_interval", 500*time.Millisecond, 2*time.Minute, func(c *config.Config) *time.Duration { return &c.Executor.TimeoutCheckInterval }),
		{"message_queue.rabbitmq.worker_queue_ttl_ms", func(d *draw, c *config.Config) {
			c.MessageQueue.RabbitMQ.WorkerQueueTTLMS = d.Within(2*time.Second, 15*time.Minute).Milliseconds()
		}},
		durationKey("executor.confirm_timeout", time.Second, time.Minute, func(c *config.Config) *time.Duration { return &c.Executor.ConfirmTimeout }),
		durationKey("executor.claim_expiry", 2*time.Second, 2*time.Minute, func(c *config.Config) *time.Duration { return &c.Executor.ClaimExpiry }),
	}
}

func patienceKeys() group {
	return group{
		{"executor.unschedulable_grace", func(d *draw, c *config.Config) {
			c.Executor.UnschedulableGrace = 0
			if !d.oneIn(3) {
				c.Executor.UnschedulableGrace = d.Within(time.Second, 10*time.Minute)
			}
		}},
		{"executor.unclaimed", func(d *draw, c *config.Config) {
			c.Executor.Unclaimed = config.Unclaimed(d.Of(string(config.Fail), string(config.Reschedule)))
		}},
		numberKey("executor.max_dispatches", func(c *config.Config) *int { return &c.Executor.MaxDispatches }, 1, 2, 3, 6),
		numberKey("executor.dispatches_per_message", func(c *config.Config) *int { return &c.Executor.DispatchesPerMessage }, 1, 2, 3, 100),
		{"executor.direct_dispatch", func(d *draw, c *config.Config) { c.Executor.DirectDispatch = !d.oneIn(3) }},
		numberKey("executor.dispatch_ahead", func(c *config.Config) *int { return &c.Executor.DispatchAhead }, 0, 1, 2, 5, 20),
	}
}

func paceKeys() group {
	return group{
		durationKey("executor.reconcile_interval", time.Second, 2*time.Minute, func(c *config.Config) *time.Duration { return &c.Executor.ReconcileInterval }),
		durationKey("executor.statement_timeout", 500*time.Millisecond, 20*time.Second, func(c *config.Config) *time.Duration { return &c.Executor.StatementTimeout }),
		durationKey("executor.health_check_interval", time.Second, 5*time.Minute, func(c *config.Config) *time.Duration { return &c.Executor.HealthCheckInterval }),
		durationKey("executor.figures_interval", time.Second, 5*time.Minute, func(c *config.Config) *time.Duration { return &c.Executor.FiguresInterval }),
	}
}

func leaseKeys() group {
	return group{
		durationKey("worker.heartbeat_interval", 2*time.Second, time.Minute, func(c *config.Config) *time.Duration { return &c.Worker.HeartbeatInterval }),
		numberKey("worker.heartbeat_staleness_multiplier", func(c *config.Config) *int { return &c.Worker.HeartbeatStalenessMultiplier }, 3, 4, 6),
		durationKey("worker.fence_margin", time.Second, time.Minute, func(c *config.Config) *time.Duration { return &c.Worker.FenceMargin }),
		durationKey("worker.kill_grace", 0, 10*time.Second, func(c *config.Config) *time.Duration { return &c.Worker.KillGrace }),
		durationKey("worker.statement_timeout", 200*time.Millisecond, 10*time.Second, func(c *config.Config) *time.Duration { return &c.Worker.StatementTimeout }),
		durationKey("executor.reap_grace", 0, time.Minute, func(c *config.Config) *time.Duration { return &c.Executor.ReapGrace }),
	}
}

func brakeKeys() group {
	return group{
		shareKey("executor.brake_fraction", func(c *config.Config) *float64 { return &c.Executor.BrakeFraction }, 0.1, 0.25, 0.5, 0.9, 1),
		numberKey("executor.brake_min_workers", func(c *config.Config) *int { return &c.Executor.BrakeMinWorkers }, 1, 2, 3, 10),
	}
}

func capacityKeys() group {
	return group{
		numberKey("worker.concurrency", func(c *config.Config) *int { return &c.Worker.Concurrency }, 1, 1, 2, 3, 5, 30),
		durationKey("worker.shutdown_timeout", 0, 5*time.Minute, func(c *config.Config) *time.Duration { return &c.Worker.ShutdownTimeout }),
	}
}

func queueKeys() group {
	return group{
		{"message_queue.rabbitmq.queue_type", func(d *draw, c *config.Config) { c.MessageQueue.RabbitMQ.QueueType = d.Of("quorum", "classic") }},
		{"message_queue.rabbitmq.dead_letter.enabled", func(d *draw, c *config.Config) { c.MessageQueue.RabbitMQ.DeadLetter.Enabled = !d.oneIn(3) }},
		{"message_queue.rabbitmq.dead_letter.exchange", func(d *draw, c *config.Config) {
			c.MessageQueue.RabbitMQ.DeadLetter.Exchange = d.Of("attune.dlx", "another.dlx")
		}},
		{"message_queue.rabbitmq.dead_letter.ttl_ms", func(d *draw, c *config.Config) {
			c.MessageQueue.RabbitMQ.DeadLetter.TTLMS = d.Within(time.Minute, 24*time.Hour).Milliseconds()
		}},
		durationKey("executor.queue_retention", time.Second, 24*time.Hour, func(c *config.Config) *time.Duration { return &c.Executor.QueueRetention }),
		durationKey("message_queue.rabbitmq.heartbeat", time.Second, time.Minute, func(c *config.Config) *time.Duration { return &c.MessageQueue.RabbitMQ.Heartbeat }),
		durationKey("message_queue.rabbitmq.reconnect_min", 10*time.Millisecond, 5*time.Second, func(c *config.Config) *time.Duration { return &c.MessageQueue.RabbitMQ.ReconnectMin }),
		durationKey("message_queue.rabbitmq.reconnect_max", 100*time.Millisecond, 30*time.Second, func(c *config.Config) *time.Duration { return &c.MessageQueue.RabbitMQ.ReconnectMax }),
	}
}

func retryKeys() group {
	return group{
		{"retry.enabled", func(d *draw, c *config.Config) { c.Retry.Enabled = !d.oneIn(3) }},
		numberKey("retry.base_backoff_secs", func(c *config.Config) *int64 { return &c.Retry.BaseBackoffSecs }, 0, 1, 2, 10, 60),
		numberKey("retry.max_backoff_secs", func(c *config.Config) *int64 { return &c.Retry.MaxBackoffSecs }, 0, 1, 5, 60, 300),
		shareKey("retry.backoff_multiplier", func(c *config.Config) *float64 { return &c.Retry.BackoffMultiplier }, 1, 1.5, 2, 10),
		numberKey("retry.free_shutdowns", func(c *config.Config) *int { return &c.Retry.FreeShutdowns }, 0, 1, 3, 10),
		shareKey("retry.jitter_factor", func(c *config.Config) *float64 { return &c.Retry.JitterFactor }, 0, 0.1, 0.5, 0.9),
	}
}

func healthKeys() group {
	return group{
		{"health.enabled", func(d *draw, c *config.Config) { c.Health.Enabled = !d.oneIn(3) }},
		numberKey("health.degraded_threshold", func(c *config.Config) *int { return &c.Health.DegradedThreshold }, 1, 2, 5),
		numberKey("health.unhealthy_threshold", func(c *config.Config) *int { return &c.Health.UnhealthyThreshold }, 1, 2, 3, 20),
		numberKey("health.queue_depth_degraded", func(c *config.Config) *int { return &c.Health.QueueDepthDegraded }, 1, 3, 10),
		numberKey("health.queue_depth_unhealthy", func(c *config.Config) *int { return &c.Health.QueueDepthUnhealthy }, 1, 5, 20),
		shareKey("health.failure_rate_degraded", func(c *config.Config) *float64 { return &c.Health.FailureRateDegraded }, 0.01, 0.1, 0.5),
		shareKey("health.failure_rate_unhealthy", func(c *config.Config) *float64 { return &c.Health.FailureRateUnhealthy }, 0.05, 0.3, 1),
		durationKey("health.window", time.Second, 20*time.Minute, func(c *config.Config) *time.Duration { return &c.Health.Window }),
		numberKey("health.min_samples", func(c *config.Config) *int { return &c.Health.MinSamples }, 1, 2, 5),
	}
}

func modeKeys() group {
	return group{
		{"executor.timeout_monitor", func(d *draw, c *config.Config) {
			c.Executor.TimeoutMonitor = config.Mode(d.Of(string(config.Act), string(config.Observe)))
		}},
		{"executor.health_probes", func(d *draw, c *config.Config) {
			c.Executor.HealthProbes = config.Mode(d.Of(string(config.Act), string(config.Observe), string(config.Off)))
		}},
	}
}

// retentionKeys draws retention times. A run is judged by its rows at the end, so executions, transitions and
// workers are kept longer than most runs last. A separate scenario tests earlier removal.
func retentionKeys() group {
	return group{
		durationKey("retention.executions", 24*time.Hour, 96*time.Hour, func(c *config.Config) *time.Duration { return &c.Retention.Executions }),
		durationKey("retention.transitions", 24*time.Hour, 96*time.Hour, func(c *config.Config) *time.Duration { return &c.Retention.Transitions }),
		durationKey("retention.refused_results", time.Minute, 24*time.Hour, func(c *config.Config) *time.Duration { return &c.Retention.RefusedResults }),
		durationKey("retention.expiries", time.Minute, 24*time.Hour, func(c *config.Config) *time.Duration { return &c.Retention.Expiries }),
		durationKey("retention.incarnations", time.Hour, 96*time.Hour, func(c *config.Config) *time.Duration { return &c.Retention.Incarnations }),
		durationKey("retention.workers", 24*time.Hour, 96*time.Hour, func(c *config.Config) *time.Duration { return &c.Retention.Workers }),
		numberKey("retention.step_size", func(c *config.Config) *int { return &c.Retention.StepSize }, 1, 2, 10, 1000),
		durationKey("retention.interval", time.Second, 5*time.Minute, func(c *config.Config) *time.Duration { return &c.Retention.Interval }),
	}
}

func connectionKeys() group {
	return group{
		numberKey("database.connections", func(c *config.Config) *int { return &c.Database.Connections }, 1, 2, 4, 32),
		numberKey("database.heartbeat_connections", func(c *config.Config) *int { return &c.Database.HeartbeatConnections }, 1, 2, 4),
		numberKey("database.api_connections", func(c *config.Config) *int { return &c.Database.APIConnections }, 6, 16),
		durationKey("database.ping_timeout", 10*time.Millisecond, config.LongestPing, func(c *config.Config) *time.Duration { return &c.Database.PingTimeout }),
	}
}

func configDimensions() (all []dimension) {
	for _, g := range keyGroups() {
		all = append(all, dimension{
			leaveOut: func(d *draw) {
				fallback := config.Default(d.profile)
				d.changeConfig(func(c *config.Config) { g.copyKeys(c, &fallback) })
			},
			exaggerate: func(d *draw) {
				d.changeConfig(func(c *config.Config) {
					sure := d.Choose(len(g))
					for i, k := range g {
						if i == sure || d.oneIn(2) {
							k.draw(d, c)
						}
					}
				})
			},
		})
	}
	return all
}

// copyKeys copies the values of the group's keys from one configuration to another.
func (g group) copyKeys(into, from *config.Config) {
	for _, l := range config.Leaves() {
		if slices.ContainsFunc(g, func(k configKey) bool { return k.path == l.Path }) {
			reflect.ValueOf(into).Elem().FieldByIndex(l.Index).Set(reflect.ValueOf(from).Elem().FieldByIndex(l.Index))
		}
	}
}

// changeConfig changes the configuration and makes it consistent. If that is impossible, the configuration
// stays as it was.
func (d *draw) changeConfig(change func(c *config.Config)) {
	next := d.config
	change(&next)
	d.fitConfig(&next)
	if len(next.Validate()) == 0 {
		d.config = next
	}
}

// fitConfig adjusts drawn values until the whole configuration is valid.
func (d *draw) fitConfig(c *config.Config) {
	w, e, q := &c.Worker, &c.Executor, &c.MessageQueue.RabbitMQ
	// Validation allows a fence margin so large that a worker has no time for a second heartbeat after an
	// unanswered heartbeat. Such a margin is never drawn: one silent connection would end all actions of the
	// worker, correctly and without showing anything.
	room := w.Lease() - w.HeartbeatInterval - w.HeartbeatPause()
	w.KillGrace, w.StatementTimeout = min(w.KillGrace, room/5), min(w.StatementTimeout, room/5)
	w.FenceMargin = min(max(w.FenceMargin, roundUpToMillis(w.KillGrace+w.Lease()/100+w.StatementTimeout+config.ResultWindow)), room-2*w.StatementTimeout)
	e.ReapGrace = max(e.ReapGrace, w.KillGrace)
	e.ClaimExpiry = max(e.ClaimExpiry, 2*e.StatementTimeout+time.Second)
	if q.DeadLetter.Enabled {
		q.WorkerQueueTTLMS = max(q.WorkerQueueTTLMS, e.DispatchTimeout.Milliseconds(), d.ownDispatchTimeout().Milliseconds())
		e.ScheduledTimeout = max(e.ScheduledTimeout, q.WorkerQueueTTL())
	} else {
		e.TimeoutMonitor = config.Act
	}
	e.ScheduledTimeout = max(e.ScheduledTimeout, e.DispatchTimeout)
	e.QueueRetention = max(e.QueueRetention, q.WorkerQueueTTL(), w.Lease())
	q.ReconnectMax = max(q.ReconnectMax, q.ReconnectMin)
	r := &c.Retention
	r.Workers, r.Incarnations, r.Expiries = fitTime(r.Workers, e.QueueRetention), fitTime(r.Incarnations, w.Lease()), fitTime(r.Expiries, c.Health.Window)
	c.Retry.MaxBackoffSecs = max(c.Retry.MaxBackoffSecs, c.Retry.BaseBackoffSecs)
	h := &c.Health
	h.UnhealthyThreshold = max(h.UnhealthyThreshold, h.DegradedThreshold)
	h.QueueDepthUnhealthy = max(h.QueueDepthUnhealthy, h.QueueDepthDegraded)
	h.FailureRateUnhealthy = max(h.FailureRateUnhealthy, h.FailureRateDegraded)
}

// fitTime raises a retention time to the allowed minimum; it keeps 0, which means permanently.
func fitTime(d, least time.Duration) time.Duration {
	if d == 0 {
		return 0
	}
	return max(d, least)
}

// roundUpToMillis rounds up to whole milliseconds, the unit of scenario files.
func roundUpToMillis(d time.Duration) time.Duration {
	return (d + time.Millisecond - 1).Truncate(time.Millisecond)
}

// ownDispatchTimeout returns the longest dispatch timeout that an action or a workload step sets.
func (d *draw) ownDispatchTimeout() (longest time.Duration) {
	for _, a := range d.s.Actions {
		longest = max(longest, a.DispatchTimeout)
	}
	for i := range d.s.Workload {
		longest = max(longest, d.s.Workload[i].Limits.DispatchTimeout)
	}
	return longest
}

// writeConfig adds one edit with all keys that differ from the scenario's configuration, because the keys are
// consistent only together.
func (d *draw) writeConfig() {
	before, whole := d.s.Config(d.profile), edit{}
	values := make(map[string]string)
	var keys []string
	for _, l := range config.Leaves() {
		was, is := reflect.ValueOf(before).FieldByIndex(l.Index), reflect.ValueOf(d.config).FieldByIndex(l.Index)
		if l.Path == "profile" || was.Equal(is) {
			continue
		}
		keys = append(keys, l.Path)
		values[l.Path] = formatValue(is)
		whole.texts = append(whole.texts, fmt.Sprintf("%s %s instead of %s", l.Path, formatValue(is), formatValue(was)))
	}
	whole.make = func(doc *scenario.Document) {
		for _, k := range keys {
			doc.PutConfig(k, values[k])
		}
	}
	if len(keys) > 0 {
		d.edits = slices.Insert(d.edits, 0, whole) // apply first, because the actions' own deadlines were drawn to fit the new configuration
	}
}

// formatValue formats a value for a scenario file.
func formatValue(v reflect.Value) string {
	switch value := v.Interface().(type) {
	case time.Duration:
		return yamlfile.Short(value.Truncate(time.Millisecond))
	case string:
		return strconv.Quote(value)
	default:
		return fmt.Sprint(value)
	}
}
