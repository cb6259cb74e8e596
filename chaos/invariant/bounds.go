package invariant

import (
	"time"

	"handoff/chaos/oracle"
	"handoff/core/config"
)

// Bounds limit how long each kind of stuck execution may stay undetected while nothing hinders an
// executor. They are computed from the configuration alone.
type Bounds struct {
	// Slack covers the statements and messages of one pass.
	Slack time.Duration
	// Recovery is how long processes, links and servers may be busy with the consequences of a fault after
	// its end: a call under way ends, the process detects the dead connection and opens another, and the
	// failed pass is repeated after the reconcile interval.
	Recovery time.Duration
	// Claim: claimed for scheduling by an executor that died.
	Claim time.Duration
	// Publish: scheduled, but never published to the broker.
	Publish time.Duration
	// Unclaimed: scheduled, but not claimed by its worker.
	Unclaimed time.Duration
	// DeadLetter: scheduled, counted from the death of its message in a worker's queue. An attempt that is
	// under way when the database returns ends with its timeout, and a pause follows.
	DeadLetter time.Duration
	// OwnerGone: scheduled to an incarnation that is gone, counted from the incarnation's end.
	OwnerGone time.Duration
	// WorkerDead: running on a worker that does not renew its lease, counted from the last renewal.
	WorkerDead time.Duration
	// Hold: the extra time for WorkerDead while the brake holds, counted from the moment at which most leases
	// were over. Trickle: the further time for each of these workers, because the brake then lets only one at
	// a time through.
	Hold    time.Duration
	Trickle time.Duration
	// Warmup: how long the monitors wait after an executor's start and after an outage of the
	// database.
	Warmup time.Duration
	// Overrun: running past its run deadline, counted from the deadline.
	Overrun time.Duration
	// Terminal: terminal and not handled.
	Terminal time.Duration
	// ChildBatch: added to Terminal for each batch of workflow children that precedes a child, its
	// own batch included, after the end of its parent's chain was handled. It is the longest time
	// for the two statements of a batch, so it also covers batches of chains that end later but are
	// handled in between.
	ChildBatch time.Duration
	// Cancel: canceling, counted from the third later renewal of its worker's lease. The reply to
	// each renewal asks the worker to end the run, and two replies may be lost.
	Cancel time.Duration
	// Probes: active and reporting that it receives no dispatches, without a recorded outage, while
	// the prober only observes. The health endpoint reports this after a lease without contact to
	// the database at the latest.
	Probes time.Duration
}

// BoundsOf computes the bounds.
//
// A worker counts as dead when its lease is over by the database's clock and a monitor has seen no new
// heartbeat for a full lease. The monitor looks every reconcile interval, so it detects the last heartbeat,
// and the end of the lease, each up to one interval late. It reclaims the worker's executions once the lease
// has been over for the grace, with another delay of up to one interval.
//
// If most leases are over at once, the brake holds for two leases from when a monitor detects that. Then it
// lets one worker per second through, each with a look at the database.
func BoundsOf(c config.Config) Bounds { return boundsOf(c, 2*c.Executor.StatementTimeout+time.Second) }

// boundsOf computes the bounds. slack is the time for all statements and messages of one pass.
func boundsOf(c config.Config, slack time.Duration) Bounds {
	e, lease := c.Executor, oracle.Lease(&c.Worker)
	mq := c.MessageQueue.RabbitMQ
	return Bounds{
		Slack:      slack,
		Recovery:   2*e.StatementTimeout + time.Second + e.ReconcileInterval + 3*mq.Heartbeat + mq.ReconnectMax,
		Claim:      e.ClaimExpiry + e.ReconcileInterval + slack,
		Publish:    e.ConfirmTimeout + e.ReconcileInterval + slack,
		Unclaimed:  e.ScheduledTimeout + e.TimeoutCheckInterval + slack,
		DeadLetter: max(slack, heldLetter+e.StatementTimeout+time.Second),
		OwnerGone:  e.ReconcileInterval + slack,
		WorkerDead: lease + max(2*e.ReconcileInterval, e.ReapGrace+e.ReconcileInterval) + e.ReconcileInterval + slack,
		Hold:       oracle.HeldFor(&c.Worker),
		Trickle:    1500 * time.Millisecond,
		Warmup:     lease,
		Overrun:    e.ReapGrace + e.TimeoutCheckInterval + slack,
		Terminal:   2*e.ReconcileInterval + slack,
		ChildBatch: 2 * e.StatementTimeout,
		Probes:     lease + 4*(e.HealthCheckInterval+probeTimeout) + slack,
		Cancel:     c.Worker.KillGrace + 5*c.Worker.StatementTimeout + slack,
	}
}

// heldLetter is the longest pause between two attempts to handle a dead letter while the database
// can't be reached.
const heldLetter = 10 * time.Second

// probeTimeout is the longest time for one round of probes of a small fleet.
const probeTimeout = 2 * time.Second

// settleTrickle is the number of workers, lost at once, for which Settle allows time.
const settleTrickle = 40

// Settle bounds the time from the last fault and the last submission to the end of the last execution and the
// last message. longest bounds the run time of an action, retries the number of its retries. It assumes the
// slowest path for each attempt of each retry, and adds the time in which the queues drain.
func Settle(c config.Config, longest time.Duration, retries int) time.Duration {
	b, e := BoundsOf(c), c.Executor
	backoff := oracle.NewBackoffs(&c.Retry).After(max(retries, e.MaxDispatches)).Most
	dispatch := b.Unclaimed + backoff + 2*e.ReconcileInterval
	// A few dispatches beyond the counted ones can be lost with their worker or executor. A dispatched
	// execution has had a worker, so only one wait for a worker reaches the full grace.
	attempt := e.UnschedulableGrace + time.Duration(e.MaxDispatches+2)*dispatch + max(longest+b.Overrun+b.Warmup, b.WorkerDead+b.Hold+settleTrickle*b.Trickle) + b.Terminal + backoff
	drain := oracle.QueueTTL(&c.MessageQueue.RabbitMQ) + b.DeadLetter
	return time.Duration(retries+1)*attempt + drain
}
