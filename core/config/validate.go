package config

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Problem is a setting that is invalid, alone or together with another.
type Problem struct {
	// Key is the dotted path of the key to change.
	Key string
	// Why describes the mistake and what would be valid.
	Why string
}

// Error returns Key and Why in one line.
func (p Problem) Error() string { return p.Key + ": " + p.Why }

// Validate returns every problem at once, in the order of the keys; a configuration without any is valid.
func (c Config) Validate() []Problem {
	v := validation{}
	v.requireChoice("profile", string(c.Profile), "a profile")
	v.checkExecutor(c)
	v.checkWorker(c.Worker)
	v.checkMessageQueue(c)
	v.checkRetry(c.Retry)
	v.checkHealth(c.Health)
	v.checkDatabase(c.Database)
	v.checkRetention(c)
	return v.problems
}

type validation struct{ problems []Problem }

func (v *validation) addProblem(key, why string, args ...any) {
	v.problems = append(v.problems, Problem{key, fmt.Sprintf(why, args...)})
}

func (v *validation) requirePositive(key string, d time.Duration) {
	if d <= 0 {
		v.addProblem(key, "is %v, must be longer than 0s", d)
	}
}

func (v *validation) requireAtLeastOne(key string, n int) {
	if n < 1 {
		v.addProblem(key, "is %d, must be at least 1", n)
	}
}

func (v *validation) requireBetween(key string, n, least, most int) {
	if n < least || n > most {
		v.addProblem(key, "is %d, must be between %d and %d", n, least, most)
	}
}

func requireNotNegative[T int | int64 | time.Duration](v *validation, key string, n T) {
	if n < 0 {
		v.addProblem(key, "is %v, must not be negative", n)
	}
}

// requireChoice refuses a name that is not among the key's allowed names. what is the word for such a name.
func (v *validation) requireChoice(key, name, what string) {
	if allowed := (Leaf{Path: key}).allowedNames(); !slices.Contains(allowed, name) {
		v.addProblem(key, "%q is not %s; allowed: %s", name, what, strings.Join(allowed, ", "))
	}
}

func (v *validation) checkExecutor(c Config) {
	e := c.Executor
	v.requirePositive("executor.dispatch_timeout", e.DispatchTimeout)
	v.requirePositive("executor.scheduled_timeout", e.ScheduledTimeout)
	v.requirePositive("executor.timeout_check_interval", e.TimeoutCheckInterval)
	v.requirePositive("executor.reconcile_interval", e.ReconcileInterval)
	v.requirePositive("executor.claim_expiry", e.ClaimExpiry)
	v.requirePositive("executor.confirm_timeout", e.ConfirmTimeout)
	v.requirePositive("executor.statement_timeout", e.StatementTimeout)
	v.requirePositive("executor.health_check_interval", e.HealthCheckInterval)
	v.requirePositive("executor.figures_interval", e.FiguresInterval)
	requireNotNegative(v, "executor.unschedulable_grace", e.UnschedulableGrace)
	v.requireChoice("executor.unclaimed", string(e.Unclaimed), "a policy")
	v.checkModes(c)
	v.requireAtLeastOne("executor.max_dispatches", e.MaxDispatches)
	requireNotNegative(v, "executor.dispatch_ahead", e.DispatchAhead)
	v.requireBetween("executor.dispatches_per_message", e.DispatchesPerMessage, 1, 1000)
	v.requireBetween("executor.batch_size", e.BatchSize, 1, 1000)
	if !(e.BrakeFraction > 0 && e.BrakeFraction <= 1) {
		v.addProblem("executor.brake_fraction", "is %v, must be more than 0 and at most 1; 1 never brakes", e.BrakeFraction)
	}
	v.requireAtLeastOne("executor.brake_min_workers", e.BrakeMinWorkers)
	if e.ReapGrace < c.Worker.KillGrace {
		v.addProblem("executor.reap_grace", "is %v, must be at least worker.kill_grace (%v): an action may still be ending",
			e.ReapGrace, c.Worker.KillGrace)
	}
	if e.ScheduledTimeout < e.DispatchTimeout {
		v.addProblem("executor.scheduled_timeout", "is %v, must not be shorter than executor.dispatch_timeout (%v): the backstop would act before the deadline",
			e.ScheduledTimeout, e.DispatchTimeout)
	}
	if ttl := c.MessageQueue.RabbitMQ.WorkerQueueTTL(); e.QueueRetention < ttl || e.QueueRetention < c.Worker.Lease() {
		v.addProblem("executor.queue_retention", "is %v, must not be shorter than the queue TTL (%v) or a lease (%v): what waits in the queues has to die first, and its worker may be back in a moment",
			e.QueueRetention, ttl, c.Worker.Lease())
	}
	if e.ClaimExpiry <= 2*e.StatementTimeout {
		v.addProblem("executor.claim_expiry", "is %v, must be longer than two statement timeouts (%v): a slow executor would lose its claims",
			e.ClaimExpiry, 2*e.StatementTimeout)
	}
}

// checkModes refuses unknown modes. It also refuses a timeout monitor that only observes without dead
// lettering: then no part would reclaim a confirmed dispatch that a live worker does not claim.
func (v *validation) checkModes(c Config) {
	v.requireChoice("executor.timeout_monitor", string(c.Executor.TimeoutMonitor), "a mode")
	v.requireChoice("executor.health_probes", string(c.Executor.HealthProbes), "a mode")
	if c.Executor.TimeoutMonitor == Observe && !c.MessageQueue.RabbitMQ.DeadLetter.Enabled {
		v.addProblem("executor.timeout_monitor", "is observe, and message_queue.rabbitmq.dead_letter.enabled is false: nobody would take back what no worker claims; let the monitor act, or enable dead lettering")
	}
}

func (v *validation) checkWorker(w Worker) {
	v.requirePositive("worker.heartbeat_interval", w.HeartbeatInterval)
	v.requirePositive("worker.statement_timeout", w.StatementTimeout)
	if w.HeartbeatStalenessMultiplier < 3 {
		v.addProblem("worker.heartbeat_staleness_multiplier", "is %d, must be at least 3: with fewer, one late heartbeat costs the lease",
			w.HeartbeatStalenessMultiplier)
	}
	if w.Concurrency < 1 || w.Concurrency > 2000 {
		v.addProblem("worker.concurrency", "is %d, must be between 1 and 2000: it is the prefetch", w.Concurrency)
	}
	requireNotNegative(v, "worker.shutdown_timeout", w.ShutdownTimeout)
	requireNotNegative(v, "worker.kill_grace", w.KillGrace)
	if least := w.KillGrace + w.Lease()/100 + w.StatementTimeout + ResultWindow; w.FenceMargin < least {
		v.addProblem("worker.fence_margin", "is %v, must be at least %v: kill_grace + 1 %% of the lease + statement_timeout + %v, for which a result waits for others", w.FenceMargin, least, ResultWindow)
	}
	// The worker counts its lease as renewed only when the heartbeat's reply arrives. A worker that fenced
	// itself before that would end its actions although nothing is wrong.
	if most := w.Lease() - w.HeartbeatInterval - w.StatementTimeout; w.FenceMargin > most {
		v.addProblem("worker.fence_margin", "is %v, must be at most %v, the lease (%v) - heartbeat_interval - statement_timeout: the worker would fence itself before the next heartbeat is answered",
			w.FenceMargin, most, w.Lease())
	}
}

func (v *validation) checkDatabase(d Database) {
	v.requireBetween("database.connections", d.Connections, 1, 1000)
	v.requireBetween("database.heartbeat_connections", d.HeartbeatConnections, 0, 10)
	v.requireBetween("database.api_connections", d.APIConnections, LeastAPIConnections, 1000)
	if d.PingTimeout < 0 || d.PingTimeout > LongestPing {
		v.addProblem("database.ping_timeout", "is %v, must be between 0s and %v: a heartbeat has to find out and still be answered in time", d.PingTimeout, LongestPing)
	}
}

func (v *validation) checkMessageQueue(c Config) {
	q := c.MessageQueue.RabbitMQ
	v.requireChoice("message_queue.rabbitmq.queue_type", q.QueueType, "a queue type")
	v.requirePositive("message_queue.rabbitmq.heartbeat", q.Heartbeat)
	v.requirePositive("message_queue.rabbitmq.reconnect_min", q.ReconnectMin)
	if q.ReconnectMax < q.ReconnectMin {
		v.addProblem("message_queue.rabbitmq.reconnect_max", "is %v, must not be shorter than reconnect_min (%v)", q.ReconnectMax, q.ReconnectMin)
	}
	if !q.DeadLetter.Enabled {
		return
	}
	if q.DeadLetter.Exchange == "" {
		v.addProblem("message_queue.rabbitmq.dead_letter.exchange", "is empty; name the dead letter exchange")
	}
	if q.WorkerQueueTTL() < c.Executor.DispatchTimeout {
		v.addProblem("message_queue.rabbitmq.worker_queue_ttl_ms", "is %v, must not be shorter than executor.dispatch_timeout (%v): a message would die while it can still be claimed",
			q.WorkerQueueTTL(), c.Executor.DispatchTimeout)
	}
	if q.WorkerQueueTTL() > c.Executor.ScheduledTimeout {
		v.addProblem("message_queue.rabbitmq.worker_queue_ttl_ms", "is %v, must not be longer than executor.scheduled_timeout (%v), the backstop",
			q.WorkerQueueTTL(), c.Executor.ScheduledTimeout)
	}
}

func (v *validation) checkRetry(r Retry) {
	requireNotNegative(v, "retry.base_backoff_secs", r.BaseBackoffSecs)
	if r.MaxBackoffSecs < r.BaseBackoffSecs {
		v.addProblem("retry.max_backoff_secs", "is %d, must be at least base_backoff_secs (%d)", r.MaxBackoffSecs, r.BaseBackoffSecs)
	}
	if !(r.BackoffMultiplier >= 1) {
		v.addProblem("retry.backoff_multiplier", "is %v, must be at least 1", r.BackoffMultiplier)
	}
	if !(r.JitterFactor >= 0 && r.JitterFactor < 1) {
		v.addProblem("retry.jitter_factor", "is %v, must be at least 0 and less than 1", r.JitterFactor)
	}
	if r.FreeShutdowns < 0 || r.FreeShutdowns > MaxFreeShutdowns {
		v.addProblem("retry.free_shutdowns", "is %d, must be 0 to %d", r.FreeShutdowns, MaxFreeShutdowns)
	}
}
