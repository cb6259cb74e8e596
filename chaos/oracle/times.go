package oracle

import (
	"time"

	"handoff/core/config"
	"handoff/core/execution"
)

// Lease returns how long a heartbeat keeps a worker alive (docs/contract.md:
// `worker.heartbeat_staleness_multiplier` times the interval).
func Lease(w *config.Worker) (lease time.Duration) {
	return time.Duration(w.HeartbeatStalenessMultiplier) * w.HeartbeatInterval
}

// ResultWindow is how long the result of a run may wait for other results ("Numbers that no key changes").
const ResultWindow = 2 * time.Millisecond

// QueueTTL returns how long a message may wait in a worker's queue
// (`message_queue.rabbitmq.worker_queue_ttl_ms`).
func QueueTTL(r *config.RabbitMQ) time.Duration {
	return time.Duration(r.WorkerQueueTTLMS) * time.Millisecond
}

// DeadLettersKept returns how long dead letters and observations are kept
// (`message_queue.rabbitmq.dead_letter.ttl_ms`).
func DeadLettersKept(r *config.RabbitMQ) time.Duration {
	return time.Duration(r.DeadLetter.TTLMS) * time.Millisecond
}

// DefaultRunTimeout is the run timeout of an action that sets none ("Numbers that no key changes").
const DefaultRunTimeout = 5 * time.Minute

// RunTimeout returns how long an execution of an action may run.
func RunTimeout(a *execution.Action) time.Duration {
	if a.Timeout == 0 {
		return DefaultRunTimeout
	}
	return a.Timeout
}

// MarkedWithin returns how long a confirmed dispatch may wait for its published mark while no worker claims
// it ("Numbers that no key changes"): a second, and at most a quarter of executor.confirm_timeout and of
// executor.scheduled_timeout.
func MarkedWithin(c *config.Config) time.Duration {
	return min(time.Second, c.Executor.ConfirmTimeout/4, c.Executor.ScheduledTimeout/4)
}

// DispatchTimeout returns how long a dispatch of an action may wait for its claim: the action's own
// timeout, or the configuration's (`executor.dispatch_timeout`).
func DispatchTimeout(x *config.Executor, own time.Duration) time.Duration {
	if own > 0 {
		return own
	}
	return x.DispatchTimeout
}

// UnreachableAfter is the number of consecutive failed probes after which a worker counts as
// unreachable ("Numbers that no key changes").
const UnreachableAfter = 3

// KeyLifetime is how long an idempotency key belongs to its execution ("Numbers that no key changes").
const KeyLifetime = 24 * time.Hour

// Limited returns the action with the limits that apply to an execution whose request sets its own limits:
// timeout_seconds, dispatch_timeout_seconds and max_retries of a request replace the action's
// (docs/contract.md).
func Limited(a execution.Action, own execution.Limits) execution.Action {
	limited := a
	if own.OwnRetries {
		limited.MaxRetries = own.MaxRetries
	}
	if own.Timeout > 0 {
		limited.Timeout = own.Timeout
	}
	if own.DispatchTimeout > 0 {
		limited.DispatchTimeout = own.DispatchTimeout
	}
	return limited
}

// MayRetry reports whether a retry may follow an execution that has ended. It must have ended as failed,
// timeout or abandoned, for a retriable reason and with attempts left (docs/retries.md).
func MayRetry(ended execution.Status, why execution.Reason, retries, most int) bool {
	return (ended == execution.Failed || ended == execution.Timeout || ended == execution.Abandoned) && Retriable(why) && retries < most
}

// FreeRetry reports whether the execution may be retried without counting the retry. Either its worker was
// stopped and its request allowed retries (first is their number), or it was claimed and its action could not
// be started. In addition, fewer than free earlier retries must have been uncounted. Each of these raised the
// next row's limit, most, by one (retry.free_shutdowns; docs/actions.md).
func FreeRetry(ended execution.Status, why execution.Reason, claimed bool, first, most, free int) bool {
	stopped := why == execution.WorkerShutdown && first > 0
	return ended == execution.Failed && (stopped || why == execution.WorkerUnavailable && claimed) && most-first < free
}

// heldAtMost is the maximum time for which a worker keeps a delivery if rejected deliveries are dead-lettered
// (docs/contract.md).
const heldAtMost = 25 * time.Minute

// WaitForSlot returns how long a delivery waits for a free run slot. own is the dispatch timeout of the
// action or the request, 0 for none.
func WaitForSlot(c *config.Config, own time.Duration) time.Duration {
	wait := DispatchTimeout(&c.Executor, own)
	if c.MessageQueue.RabbitMQ.DeadLetter.Enabled {
		return min(wait, heldAtMost)
	}
	return wait
}
