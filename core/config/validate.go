package config

import (
	"fmt"
	"time"
)

// Problem is one setting that makes no sense, alone or together with another.
type Problem struct {
	// Key is the dotted path of the key to change.
	Key string
	// Why says what is wrong and what would be right.
	Why string
}

// Error is Key and Why in one line.
func (p Problem) Error() string { return p.Key + ": " + p.Why }

// Validate returns every problem at once, in the order of the keys; none means that the
// configuration can be run.
func (c Config) Validate() []Problem {
	v := validation{}
	if c.Profile != Hardened && c.Profile != Documented {
		v.refuse("profile", "%q is not a profile; allowed: hardened, documented", c.Profile)
	}
	v.executor(c)
	v.worker(c.Worker)
	v.queue(c)
	v.retry(c.Retry)
	v.health(c.Health)
	v.database(c.Database)
	v.retention(c)
	return v.problems
}

type validation struct{ problems []Problem }

func (v *validation) refuse(key, why string, args ...any) {
	v.problems = append(v.problems, Problem{key, fmt.Sprintf(why, args...)})
}

func (v *validation) positive(key string, d time.Duration) {
	if d <= 0 {
		v.refuse(key, "is %v, must be longer than 0s", d)
	}
}

func (v *validation) executor(c Config) {
	e := c.Executor
	v.positive("executor.dispatch_timeout", e.DispatchTimeout)
	v.positive("executor.scheduled_timeout", e.ScheduledTimeout)
	v.positive("executor.timeout_check_interval", e.TimeoutCheckInterval)
	v.positive("executor.reconcile_interval", e.ReconcileInterval)
	v.positive("executor.claim_expiry", e.ClaimExpiry)
	v.positive("executor.confirm_timeout", e.ConfirmTimeout)
	v.positive("executor.statement_timeout", e.StatementTimeout)
	v.positive("executor.health_check_interval", e.HealthCheckInterval)
	v.positive("executor.figures_interval", e.FiguresInterval)
	if e.UnschedulableGrace < 0 {
		v.refuse("executor.unschedulable_grace", "is %v, must not be negative", e.UnschedulableGrace)
	}
	if e.Unclaimed != Fail && e.Unclaimed != Reschedule {
		v.refuse("executor.unclaimed", "%q is not a policy; allowed: fail, reschedule", e.Unclaimed)
	}
	v.modes(c)
	if e.MaxDispatches < 1 {
		v.refuse("executor.max_dispatches", "is %d, must be at least 1", e.MaxDispatches)
	}
	if e.DispatchAhead < 0 {
		v.refuse("executor.dispatch_ahead", "is %d, must not be negative", e.DispatchAhead)
	}
	if e.DispatchesPerMessage < 1 || e.DispatchesPerMessage > 1000 {
		v.refuse("executor.dispatches_per_message", "is %d, must be between 1 and 1000", e.DispatchesPerMessage)
	}
	if e.BatchSize < 1 || e.BatchSize > 1000 {
		v.refuse("executor.batch_size", "is %d, must be between 1 and 1000", e.BatchSize)
	}
	if !(e.BrakeFraction > 0 && e.BrakeFraction <= 1) {
		v.refuse("executor.brake_fraction", "is %v, must be more than 0 and at most 1; 1 never brakes", e.BrakeFraction)
	}
	if e.BrakeMinWorkers < 1 {
		v.refuse("executor.brake_min_workers", "is %d, must be at least 1", e.BrakeMinWorkers)
	}
	if e.ReapGrace < c.Worker.KillGrace {
		v.refuse("executor.reap_grace", "is %v, must be at least worker.kill_grace (%v): an action may still be ending",
			e.ReapGrace, c.Worker.KillGrace)
	}
	if e.ScheduledTimeout < e.DispatchTimeout {
		v.refuse("executor.scheduled_timeout", "is %v, must not be shorter than executor.dispatch_timeout (%v): the backstop would act before the deadline",
			e.ScheduledTimeout, e.DispatchTimeout)
	}
	if ttl := c.MessageQueue.RabbitMQ.WorkerQueueTTL(); e.QueueRetention < ttl || e.QueueRetention < c.Worker.Lease() {
		v.refuse("executor.queue_retention", "is %v, must not be shorter than the queue TTL (%v) or a lease (%v): what waits in the queues has to die first, and its worker may be back in a moment",
			e.QueueRetention, ttl, c.Worker.Lease())
	}
	if e.ClaimExpiry <= 2*e.StatementTimeout {
		v.refuse("executor.claim_expiry", "is %v, must be longer than two statement timeouts (%v): a slow executor would lose its claims",
			e.ClaimExpiry, 2*e.StatementTimeout)
	}
}

// modes refuses unknown modes. It also refuses a timeout monitor that only observes if dead lettering
// is disabled: then no part would take back a confirmed dispatch that a live worker does not claim.
func (v *validation) modes(c Config) {
	if m := c.Executor.TimeoutMonitor; m != Act && m != Observe {
		v.refuse("executor.timeout_monitor", "%q is not a mode; allowed: act, observe", m)
	}
	if m := c.Executor.HealthProbes; m != Act && m != Observe && m != Off {
		v.refuse("executor.health_probes", "%q is not a mode; allowed: act, observe, off", m)
	}
	if c.Executor.TimeoutMonitor == Observe && !c.MessageQueue.RabbitMQ.DeadLetter.Enabled {
		v.refuse("executor.timeout_monitor", "is observe, and message_queue.rabbitmq.dead_letter.enabled is false: nobody would take back what no worker claims; let the monitor act, or enable dead lettering")
	}
}

func (v *validation) worker(w Worker) {
	v.positive("worker.heartbeat_interval", w.HeartbeatInterval)
	v.positive("worker.statement_timeout", w.StatementTimeout)
	if w.HeartbeatStalenessMultiplier < 3 {
		v.refuse("worker.heartbeat_staleness_multiplier", "is %d, must be at least 3: with fewer, one late heartbeat costs the lease",
			w.HeartbeatStalenessMultiplier)
	}
	if w.Concurrency < 1 || w.Concurrency > 2000 {
		v.refuse("worker.concurrency", "is %d, must be between 1 and 2000: it is the prefetch", w.Concurrency)
	}
	if w.ShutdownTimeout < 0 {
		v.refuse("worker.shutdown_timeout", "is %v, must not be negative", w.ShutdownTimeout)
	}
	if w.KillGrace < 0 {
		v.refuse("worker.kill_grace", "is %v, must not be negative", w.KillGrace)
	}
	if least := w.KillGrace + w.Lease()/100 + w.StatementTimeout + ResultWindow; w.FenceMargin < least {
		v.refuse("worker.fence_margin", "is %v, must be at least %v: kill_grace + 1 %% of the lease + statement_timeout + %v, for which a result waits for others", w.FenceMargin, least, ResultWindow)
	}
	// A heartbeat renews the lease when its reply arrives. A worker that fences itself before that
	// ends its actions although nothing is wrong.
	if most := w.Lease() - w.HeartbeatInterval - w.StatementTimeout; w.FenceMargin > most {
		v.refuse("worker.fence_margin", "is %v, must be at most %v, the lease (%v) - heartbeat_interval - statement_timeout: the worker would fence itself before the next heartbeat is answered",
			w.FenceMargin, most, w.Lease())
	}
}

func (v *validation) database(d Database) {
	for _, n := range []struct {
		key             string
		is, least, most int
	}{
		{"database.connections", d.Connections, 1, 1000},
		{"database.heartbeat_connections", d.HeartbeatConnections, 0, 10},
		{"database.api_connections", d.APIConnections, LeastAPIConnections, 1000},
	} {
		if n.is < n.least || n.is > n.most {
			v.refuse(n.key, "is %d, must be between %d and %d", n.is, n.least, n.most)
		}
	}
	if d.PingTimeout < 0 || d.PingTimeout > LongestPing {
		v.refuse("database.ping_timeout", "is %v, must be between 0s and %v: a heartbeat has to find out and still be answered in time", d.PingTimeout, LongestPing)
	}
}

func (v *validation) queue(c Config) {
	q := c.MessageQueue.RabbitMQ
	if q.QueueType != "quorum" && q.QueueType != "classic" {
		v.refuse("message_queue.rabbitmq.queue_type", "%q is not a queue type; allowed: quorum, classic", q.QueueType)
	}
	v.positive("message_queue.rabbitmq.heartbeat", q.Heartbeat)
	v.positive("message_queue.rabbitmq.reconnect_min", q.ReconnectMin)
	if q.ReconnectMax < q.ReconnectMin {
		v.refuse("message_queue.rabbitmq.reconnect_max", "is %v, must not be shorter than reconnect_min (%v)", q.ReconnectMax, q.ReconnectMin)
	}
	if !q.DeadLetter.Enabled {
		return
	}
	if q.DeadLetter.Exchange == "" {
		v.refuse("message_queue.rabbitmq.dead_letter.exchange", "is empty; name the dead letter exchange")
	}
	if q.WorkerQueueTTL() < c.Executor.DispatchTimeout {
		v.refuse("message_queue.rabbitmq.worker_queue_ttl_ms", "is %v, must not be shorter than executor.dispatch_timeout (%v): a message would die while it can still be claimed",
			q.WorkerQueueTTL(), c.Executor.DispatchTimeout)
	}
	if q.WorkerQueueTTL() > c.Executor.ScheduledTimeout {
		v.refuse("message_queue.rabbitmq.worker_queue_ttl_ms", "is %v, must not be longer than executor.scheduled_timeout (%v), the backstop",
			q.WorkerQueueTTL(), c.Executor.ScheduledTimeout)
	}
}

func (v *validation) retry(r Retry) {
	if r.BaseBackoffSecs < 0 {
		v.refuse("retry.base_backoff_secs", "is %d, must not be negative", r.BaseBackoffSecs)
	}
	if r.MaxBackoffSecs < r.BaseBackoffSecs {
		v.refuse("retry.max_backoff_secs", "is %d, must be at least base_backoff_secs (%d)", r.MaxBackoffSecs, r.BaseBackoffSecs)
	}
	if !(r.BackoffMultiplier >= 1) {
		v.refuse("retry.backoff_multiplier", "is %v, must be at least 1", r.BackoffMultiplier)
	}
	if !(r.JitterFactor >= 0 && r.JitterFactor < 1) {
		v.refuse("retry.jitter_factor", "is %v, must be at least 0 and less than 1", r.JitterFactor)
	}
	if r.FreeShutdowns < 0 || r.FreeShutdowns > MaxFreeShutdowns {
		v.refuse("retry.free_shutdowns", "is %d, must be 0 to %d", r.FreeShutdowns, MaxFreeShutdowns)
	}
}
