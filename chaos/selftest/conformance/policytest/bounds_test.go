package policytest

import (
	"reflect"
	"strings"
	"time"

	"handoff/chaos/oracle"
	"handoff/core/config"
)

// tweak moves one setting to one of its bounds: side is -1 for just below it, 0 for the bound, 1
// for just above.
type tweak func(c *config.Config, side int)

// settingBounds are those of "What must hold together" and "What a setting may be" in docs/contract.md. step
// is the distance of a duration from its bound.
func settingBounds(step time.Duration) (all []tweak) {
	number := func(key string, bound func(*config.Config) int64) {
		all = append(all, func(c *config.Config, side int) {
			b, v := bound(c), settingAt(c, key)
			switch {
			case v.Kind() == reflect.Float64:
				v.SetFloat(float64(b) + float64(side)/1000)
			case v.Type() == reflect.TypeFor[time.Duration]():
				v.SetInt(b + int64(side)*int64(step))
			default:
				v.SetInt(b + int64(side))
			}
		})
	}
	for _, f := range []struct {
		bounds []int64
		keys   string
	}{
		{[]int64{0}, "executor.dispatch_timeout executor.scheduled_timeout executor.timeout_check_interval executor.reconcile_interval " +
			"executor.claim_expiry executor.confirm_timeout executor.statement_timeout executor.health_check_interval executor.figures_interval " +
			"executor.unschedulable_grace executor.dispatch_ahead worker.heartbeat_interval worker.statement_timeout worker.shutdown_timeout " +
			"worker.kill_grace message_queue.rabbitmq.heartbeat message_queue.rabbitmq.reconnect_min health.window health.failure_rate_degraded " +
			"retry.base_backoff_secs retention.executions retention.transitions retention.refused_results retention.expiries retention.interval"},
		{[]int64{1}, "executor.max_dispatches executor.brake_min_workers health.degraded_threshold health.queue_depth_degraded " +
			"health.min_samples health.failure_rate_unhealthy retry.backoff_multiplier"},
		{[]int64{0, 1}, "executor.brake_fraction retry.jitter_factor"},
		{[]int64{1, 1000}, "executor.dispatches_per_message executor.batch_size database.connections"},
		{[]int64{3}, "worker.heartbeat_staleness_multiplier"},
		{[]int64{1, 2000}, "worker.concurrency"},
		{[]int64{1, 10000}, "retention.step_size"},
		{[]int64{0, 100}, "retry.free_shutdowns"},
		{[]int64{0, 10}, "database.heartbeat_connections"},
		{[]int64{6, 1000}, "database.api_connections"},
		{[]int64{0, int64(500 * time.Millisecond)}, "database.ping_timeout"},
	} {
		for _, key := range strings.Fields(f.keys) {
			for _, bound := range f.bounds {
				number(key, func(*config.Config) int64 { return bound })
			}
		}
	}
	// Settings that are bounded by others.
	for _, both := range [][2]string{
		{"message_queue.rabbitmq.reconnect_min", "message_queue.rabbitmq.reconnect_max"},
		{"executor.reap_grace", "worker.kill_grace"},
		{"executor.scheduled_timeout", "executor.dispatch_timeout"},
		{"retention.expiries", "health.window"},
		{"retention.workers", "executor.queue_retention"},
		{"health.unhealthy_threshold", "health.degraded_threshold"},
		{"health.queue_depth_unhealthy", "health.queue_depth_degraded"},
		{"retry.max_backoff_secs", "retry.base_backoff_secs"},
	} {
		number(both[0], func(c *config.Config) int64 { return settingAt(c, both[1]).Int() })
	}
	lease := func(c *config.Config) int64 { return int64(oracle.Lease(&c.Worker)) }
	number("retention.incarnations", lease)
	number("executor.claim_expiry", func(c *config.Config) int64 { return 2 * int64(c.Executor.StatementTimeout) })
	number("executor.queue_retention", func(c *config.Config) int64 { return int64(oracle.QueueTTL(&c.MessageQueue.RabbitMQ)) })
	number("executor.queue_retention", func(c *config.Config) int64 {
		c.Worker.HeartbeatStalenessMultiplier *= 40 // otherwise a queue's time to live is the longer one
		return lease(c)
	})
	number("worker.fence_margin", func(c *config.Config) int64 {
		return int64(c.Worker.KillGrace+c.Worker.StatementTimeout+oracle.ResultWindow) + lease(c)/100
	})
	number("worker.fence_margin", func(c *config.Config) int64 {
		return lease(c) - int64(c.Worker.HeartbeatInterval+c.Worker.StatementTimeout)
	})
	const ttl = "message_queue.rabbitmq.worker_queue_ttl_ms"
	number(ttl, func(c *config.Config) int64 { return c.Executor.DispatchTimeout.Milliseconds() })
	number(ttl, func(c *config.Config) int64 { return c.Executor.ScheduledTimeout.Milliseconds() })
	for _, words := range [][4]string{
		{"executor.unclaimed", "fail", "later", ""},
		{"executor.timeout_monitor", "observe", "off", ""},
		{"executor.health_probes", "observe", "off", "on"},
		{"profile", "documented", "default", ""},
		{"message_queue.rabbitmq.queue_type", "classic", "stream", ""},
		{"message_queue.rabbitmq.dead_letter.exchange", "x", "", "y"},
	} {
		all = append(all, func(c *config.Config, side int) { settingAt(c, words[0]).SetString(words[side+2]) })
	}
	return append(all,
		func(c *config.Config, side int) {
			c.Health.FailureRateUnhealthy = c.Health.FailureRateDegraded + float64(side)/1000
		},
		func(c *config.Config, side int) {
			c.MessageQueue.RabbitMQ.DeadLetter.Enabled, c.Executor.TimeoutMonitor = side > 0, []config.Mode{"observe", "act", "observe"}[side+1]
		})
}

// settingAt is the setting with a key.
func settingAt(c *config.Config, key string) reflect.Value {
	v := reflect.ValueOf(c).Elem()
	for name := range strings.SplitSeq(key, ".") {
		is := v.Type()
		for i := range is.NumField() {
			if tag, _, _ := strings.Cut(is.Field(i).Tag.Get("yaml"), ","); tag == name {
				v = v.Field(i)
				break
			}
		}
	}
	return v
}
