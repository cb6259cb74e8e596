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

// key is a key of the configuration, with the way to draw it. draw ignores the other keys; fit then
// makes the keys fit each other.
type key struct {
	path string
	draw func(d *draw, c *config.Config)
}

// group holds keys that are drawn together: a run exaggerates some keys of one kind, and not
// everything a little.
type group []key

// lasting draws a duration from least to most, each doubling as often as the others.
func lasting(path string, least, most time.Duration, field func(c *config.Config) *time.Duration) key {
	return key{path, func(d *draw, c *config.Config) { *field(c) = d.Within(least, most) }}
}

// number draws one of a few whole numbers. Most are small, because small limits show most.
func number[T int | int64](path string, field func(c *config.Config) *T, of ...T) key {
	return key{path, func(d *draw, c *config.Config) { *field(c) = of[d.Choose(len(of))] }}
}

// share draws one of a few fractions or factors.
func share(path string, field func(c *config.Config) *float64, of ...float64) key {
	return key{path, func(d *draw, c *config.Config) { *field(c) = of[d.Choose(len(of))] }}
}

// groups lists every key that a scenario can set. TestEveryKeyIsDrawn checks that none is missing.
func groups() []group {
	return []group{batches(), deadlines(), patience(), pace(), leases(), brake(), capacity(), queues(), retries(), health(), modes(), connections(), keeping()}
}

func batches() group {
	return group{
		number("executor.batch_size", func(c *config.Config) *int { return &c.Executor.BatchSize }, 1, 1, 2, 3, 5, 20, 1000),
	}
}

func deadlines() group {
	return group{
		lasting("executor.dispatch_timeout", 2*time.Second, 10*time.Minute, func(c *config.Config) *time.Duration { return &c.Executor.DispatchTimeout }),
		lasting("executor.scheduled_timeout", 2*time.Second, 20*time.Minute, func(c *config.Config) *time.Duration { return &c.Executor.ScheduledTimeout }),
		lasting("executor.timeout_check_interval", 500*time.Millisecond, 2*time.Minute, func(c *config.Config) *time.Duration { return &c.Executor.TimeoutCheckInterval }),
		{"message_queue.rabbitmq.worker_queue_ttl_ms", func(d *draw, c *config.Config) {
			c.MessageQueue.RabbitMQ.WorkerQueueTTLMS = d.Within(2*time.Second, 15*time.Minute).Milliseconds()
		}},
		lasting("executor.confirm_timeout", time.Second, time.Minute, func(c *config.Config) *time.Duration { return &c.Executor.ConfirmTimeout }),
		lasting("executor.claim_expiry", 2*time.Second, 2*time.Minute, func(c *config.Config) *time.Duration { return &c.Executor.ClaimExpiry }),
	}
}

func patience() group {
	return group{
		{"executor.unschedulable_grace", func(d *draw, c *config.Config) {
			c.Executor.UnschedulableGrace = 0
			if !d.one(3) {
				c.Executor.UnschedulableGrace = d.Within(time.Second, 10*time.Minute)
			}
		}},
		{"executor.unclaimed", func(d *draw, c *config.Config) {
			c.Executor.Unclaimed = config.Unclaimed(d.Of(string(config.Fail), string(config.Reschedule)))
		}},
		number("executor.max_dispatches", func(c *config.Config) *int { return &c.Executor.MaxDispatches }, 1, 2, 3, 6),
		number("executor.dispatches_per_message", func(c *config.Config) *int { return &c.Executor.DispatchesPerMessage }, 1, 2, 3, 100),
		{"executor.direct_dispatch", func(d *draw, c *config.Config) { c.Executor.DirectDispatch = !d.one(3) }},
		number("executor.dispatch_ahead", func(c *config.Config) *int { return &c.Executor.DispatchAhead }, 0, 1, 2, 5, 20),
	}
}

func pace() group {
	return group{
		lasting("executor.reconcile_interval", time.Second, 2*time.Minute, func(c *config.Config) *time.Duration { return &c.Executor.ReconcileInterval }),
		lasting("executor.statement_timeout", 500*time.Millisecond, 20*time.Second, func(c *config.Config) *time.Duration { return &c.Executor.StatementTimeout }),
		lasting("executor.health_check_interval", time.Second, 5*time.Minute, func(c *config.Config) *time.Duration { return &c.Executor.HealthCheckInterval }),
		lasting("executor.figures_interval", time.Second, 5*time.Minute, func(c *config.Config) *time.Duration { return &c.Executor.FiguresInterval }),
	}
}

func leases() group {
	return group{
		lasting("worker.heartbeat_interval", 2*time.Second, time.Minute, func(c *config.Config) *time.Duration { return &c.Worker.HeartbeatInterval }),
		number("worker.heartbeat_staleness_multiplier", func(c *config.Config) *int { return &c.Worker.HeartbeatStalenessMultiplier }, 3, 4, 6),
		lasting("worker.fence_margin", time.Second, time.Minute, func(c *config.Config) *time.Duration { return &c.Worker.FenceMargin }),
		lasting("worker.kill_grace", 0, 10*time.Second, func(c *config.Config) *time.Duration { return &c.Worker.KillGrace }),
		lasting("worker.statement_timeout", 200*time.Millisecond, 10*time.Second, func(c *config.Config) *time.Duration { return &c.Worker.StatementTimeout }),
		lasting("executor.reap_grace", 0, time.Minute, func(c *config.Config) *time.Duration { return &c.Executor.ReapGrace }),
	}
}

func brake() group {
	return group{
		share("executor.brake_fraction", func(c *config.Config) *float64 { return &c.Executor.BrakeFraction }, 0.1, 0.25, 0.5, 0.9, 1),
		number("executor.brake_min_workers", func(c *config.Config) *int { return &c.Executor.BrakeMinWorkers }, 1, 2, 3, 10),
	}
}

func capacity() group {
	return group{
		number("worker.concurrency", func(c *config.Config) *int { return &c.Worker.Concurrency }, 1, 1, 2, 3, 5, 30),
		lasting("worker.shutdown_timeout", 0, 5*time.Minute, func(c *config.Config) *time.Duration { return &c.Worker.ShutdownTimeout }),
	}
}

func queues() group {
	return group{
		{"message_queue.rabbitmq.queue_type", func(d *draw, c *config.Config) { c.MessageQueue.RabbitMQ.QueueType = d.Of("quorum", "classic") }},
		{"message_queue.rabbitmq.dead_letter.enabled", func(d *draw, c *config.Config) { c.MessageQueue.RabbitMQ.DeadLetter.Enabled = !d.one(3) }},
		{"message_queue.rabbitmq.dead_letter.exchange", func(d *draw, c *config.Config) {
			c.MessageQueue.RabbitMQ.DeadLetter.Exchange = d.Of("attune.dlx", "another.dlx")
		}},
		{"message_queue.rabbitmq.dead_letter.ttl_ms", func(d *draw, c *config.Config) {
			c.MessageQueue.RabbitMQ.DeadLetter.TTLMS = d.Within(time.Minute, 24*time.Hour).Milliseconds()
		}},
		lasting("executor.queue_retention", time.Second, 24*time.Hour, func(c *config.Config) *time.Duration { return &c.Executor.QueueRetention }),
		lasting("message_queue.rabbitmq.heartbeat", time.Second, time.Minute, func(c *config.Config) *time.Duration { return &c.MessageQueue.RabbitMQ.Heartbeat }),
		lasting("message_queue.rabbitmq.reconnect_min", 10*time.Millisecond, 5*time.Second, func(c *config.Config) *time.Duration { return &c.MessageQueue.RabbitMQ.ReconnectMin }),
		lasting("message_queue.rabbitmq.reconnect_max", 100*time.Millisecond, 30*time.Second, func(c *config.Config) *time.Duration { return &c.MessageQueue.RabbitMQ.ReconnectMax }),
	}
}

func retries() group {
	return group{
		{"retry.enabled", func(d *draw, c *config.Config) { c.Retry.Enabled = !d.one(3) }},
		number("retry.base_backoff_secs", func(c *config.Config) *int64 { return &c.Retry.BaseBackoffSecs }, 0, 1, 2, 10, 60),
		number("retry.max_backoff_secs", func(c *config.Config) *int64 { return &c.Retry.MaxBackoffSecs }, 0, 1, 5, 60, 300),
		share("retry.backoff_multiplier", func(c *config.Config) *float64 { return &c.Retry.BackoffMultiplier }, 1, 1.5, 2, 10),
		number("retry.free_shutdowns", func(c *config.Config) *int { return &c.Retry.FreeShutdowns }, 0, 1, 3, 10),
		share("retry.jitter_factor", func(c *config.Config) *float64 { return &c.Retry.JitterFactor }, 0, 0.1, 0.5, 0.9),
	}
}

func health() group {
	return group{
		{"health.enabled", func(d *draw, c *config.Config) { c.Health.Enabled = !d.one(3) }},
		number("health.degraded_threshold", func(c *config.Config) *int { return &c.Health.DegradedThreshold }, 1, 2, 5),
		number("health.unhealthy_threshold", func(c *config.Config) *int { return &c.Health.UnhealthyThreshold }, 1, 2, 3, 20),
		number("health.queue_depth_degraded", func(c *config.Config) *int { return &c.Health.QueueDepthDegraded }, 1, 3, 10),
		number("health.queue_depth_unhealthy", func(c *config.Config) *int { return &c.Health.QueueDepthUnhealthy }, 1, 5, 20),
		share("health.failure_rate_degraded", func(c *config.Config) *float64 { return &c.Health.FailureRateDegraded }, 0.01, 0.1, 0.5),
		share("health.failure_rate_unhealthy", func(c *config.Config) *float64 { return &c.Health.FailureRateUnhealthy }, 0.05, 0.3, 1),
		lasting("health.window", time.Second, 20*time.Minute, func(c *config.Config) *time.Duration { return &c.Health.Window }),
		number("health.min_samples", func(c *config.Config) *int { return &c.Health.MinSamples }, 1, 2, 5),
	}
}

func modes() group {
	return group{
		{"executor.timeout_monitor", func(d *draw, c *config.Config) {
			c.Executor.TimeoutMonitor = config.Mode(d.Of(string(config.Act), string(config.Observe)))
		}},
		{"executor.health_probes", func(d *draw, c *config.Config) {
			c.Executor.HealthProbes = config.Mode(d.Of(string(config.Act), string(config.Observe), string(config.Off)))
		}},
	}
}

// keeping draws how long rows are kept. A run is judged by its rows at the end, so executions,
// transitions and workers are kept longer than most runs last. A scenario of its own tests what is
// removed before.
func keeping() group {
	return group{
		lasting("retention.executions", 24*time.Hour, 96*time.Hour, func(c *config.Config) *time.Duration { return &c.Retention.Executions }),
		lasting("retention.transitions", 24*time.Hour, 96*time.Hour, func(c *config.Config) *time.Duration { return &c.Retention.Transitions }),
		lasting("retention.refused_results", time.Minute, 24*time.Hour, func(c *config.Config) *time.Duration { return &c.Retention.RefusedResults }),
		lasting("retention.expiries", time.Minute, 24*time.Hour, func(c *config.Config) *time.Duration { return &c.Retention.Expiries }),
		lasting("retention.incarnations", time.Hour, 96*time.Hour, func(c *config.Config) *time.Duration { return &c.Retention.Incarnations }),
		lasting("retention.workers", 24*time.Hour, 96*time.Hour, func(c *config.Config) *time.Duration { return &c.Retention.Workers }),
		number("retention.step_size", func(c *config.Config) *int { return &c.Retention.StepSize }, 1, 2, 10, 1000),
		lasting("retention.interval", time.Second, 5*time.Minute, func(c *config.Config) *time.Duration { return &c.Retention.Interval }),
	}
}

func connections() group {
	return group{
		number("database.connections", func(c *config.Config) *int { return &c.Database.Connections }, 1, 2, 4, 32),
		number("database.heartbeat_connections", func(c *config.Config) *int { return &c.Database.HeartbeatConnections }, 1, 2, 4),
		number("database.api_connections", func(c *config.Config) *int { return &c.Database.APIConnections }, 6, 16),
		lasting("database.ping_timeout", 10*time.Millisecond, config.LongestPing, func(c *config.Config) *time.Duration { return &c.Database.PingTimeout }),
	}
}

func configDimensions() (all []dimension) {
	for _, g := range groups() {
		all = append(all, dimension{
			leaveOut: func(d *draw) {
				fallback := config.Default(d.profile)
				d.configured(func(c *config.Config) { g.copy(c, &fallback) })
			},
			exaggerate: func(d *draw) {
				d.configured(func(c *config.Config) {
					sure := d.Choose(len(g))
					for i, k := range g {
						if i == sure || d.one(2) {
							k.draw(d, c)
						}
					}
				})
			},
		})
	}
	return all
}

// copy copies the values of the group's keys from one configuration into another.
func (g group) copy(into, from *config.Config) {
	for _, l := range config.Leaves() {
		if slices.ContainsFunc(g, func(k key) bool { return k.path == l.Path }) {
			reflect.ValueOf(into).Elem().FieldByIndex(l.Index).Set(reflect.ValueOf(from).Elem().FieldByIndex(l.Index))
		}
	}
}

// configured changes the configuration and makes it consistent. If that is impossible, it leaves
// the configuration alone.
func (d *draw) configured(change func(c *config.Config)) {
	next := d.config
	change(&next)
	d.fit(&next)
	if len(next.Validate()) == 0 {
		d.config = next
	}
}

// fit raises and lowers drawn values until validation accepts them beside the others.
func (d *draw) fit(c *config.Config) {
	w, e, q := &c.Worker, &c.Executor, &c.MessageQueue.RabbitMQ
	// Validation allows a fence margin so large that a worker has no time for a second heartbeat if the
	// first gets no answer. Such a margin is never drawn: one silent connection would end all actions of
	// the worker, which would be correct and would show nothing.
	room := w.Lease() - w.HeartbeatInterval - w.HeartbeatPause()
	w.KillGrace, w.StatementTimeout = min(w.KillGrace, room/5), min(w.StatementTimeout, room/5)
	w.FenceMargin = min(max(w.FenceMargin, up(w.KillGrace+w.Lease()/100+w.StatementTimeout+config.ResultWindow)), room-2*w.StatementTimeout)
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

// fitTime raises a retention time to the least that is allowed; 0, which means for ever, stays.
func fitTime(d, least time.Duration) time.Duration {
	if d == 0 {
		return 0
	}
	return max(d, least)
}

// up rounds up to whole milliseconds, the unit in files.
func up(d time.Duration) time.Duration {
	return (d + time.Millisecond - 1).Truncate(time.Millisecond)
}

// ownDispatchTimeout is the longest dispatch timeout that an action or a step of the workload sets.
func (d *draw) ownDispatchTimeout() (longest time.Duration) {
	for _, a := range d.s.Actions {
		longest = max(longest, a.DispatchTimeout)
	}
	for i := range d.s.Workload {
		longest = max(longest, d.s.Workload[i].Limits.DispatchTimeout)
	}
	return longest
}

// writeConfig adds one edit with all keys that differ from the scenario's configuration, because the
// keys are consistent only together.
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
		values[l.Path] = written(is)
		whole.texts = append(whole.texts, fmt.Sprintf("%s %s instead of %s", l.Path, written(is), written(was)))
	}
	whole.make = func(doc *scenario.Document) {
		for _, k := range keys {
			doc.PutConfig(k, values[k])
		}
	}
	if len(keys) > 0 {
		d.edits = slices.Insert(d.edits, 0, whole) // comes first: an action's own deadline was drawn to fit the new configuration
	}
}

// written formats a value as in a scenario file.
func written(v reflect.Value) string {
	switch value := v.Interface().(type) {
	case time.Duration:
		return yamlfile.Short(value.Truncate(time.Millisecond))
	case string:
		return strconv.Quote(value)
	default:
		return fmt.Sprint(value)
	}
}
