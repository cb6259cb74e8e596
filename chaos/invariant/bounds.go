package invariant

import (
	"time"

	"handoff/chaos/oracle"
	"handoff/core/config"
)

// Bounds holds limits: how long each kind of stuck execution may stay undetected if nothing hinders an
// executor. They are computed from the configuration alone.
type Bounds struct {
	// Slack covers the statements and messages of one pass.
	Slack time.Duration
	// Recovery is how long processes, links and servers may be busy with the consequences of a fault after
	// its end: a call under way ends, the process detects the dead connection and opens another, and the
	// failed pass is repeated after the reconcile interval.
	Recovery time.Duration
	// Claim is for an execution that was claimed for scheduling by an executor that died.
	Claim time.Duration
	// Publish is for an execution that is scheduled, but was never published to the broker.
	Publish time.Duration
	// Unclaimed is for an execution that is scheduled, but that its worker does not claim.
	Unclaimed time.Duration
	// DeadLetter is for a scheduled execution whose message died in a worker's queue, counted from that
	// death. An attempt under way when the database returns ends with its timeout, and a pause follows.
	DeadLetter time.Duration
	// OwnerGone is for an execution scheduled to an incarnation that is gone, counted from its end.
	OwnerGone time.Duration
	// WorkerDead is for an execution on a worker that stopped renewing its lease, counted from the last
	// renewal.
	WorkerDead time.Duration
	// Hold is added to WorkerDead while the brake holds, counted from the moment at which most leases were
	// over. Trickle is added once for each of these workers, because the brake then lets them through one by
	// one.
	Hold    time.Duration
	Trickle time.Duration
	// Warmup is how long the monitors wait after an executor's start and after a database outage.
	Warmup time.Duration
	// Overrun is for an execution that runs past its run deadline, counted from the deadline.
	Overrun time.Duration
	// Terminal is for an execution that has ended and whose end is not handled.
	Terminal time.Duration
	// ChildBatch is added to Terminal for a workflow child whose parent's end was handled, once for each
	// batch of children up to its own. It is the longest time for a batch's two statements, so it also covers
	// batches of chains that end later but are handled in between.
	ChildBatch time.Duration
	// Cancel is for a canceling execution, counted from the third renewal of its worker's lease after the
	// request. The reply to each renewal asks the worker to end the run, and two replies may be lost.
	Cancel time.Duration
	// Probes is for an active worker that reports that it receives no dispatches, while the prober only
	// observes: the prober must record an outage. The worker's health endpoint reports its state at the
	// latest after a lease without contact to the database.
	Probes time.Duration
}

// BoundsOf computes the bounds.
//
// A monitor declares a worker dead when its lease is over by the database's clock and the monitor has seen no
// new heartbeat for a full lease. The monitor looks every reconcile interval, so it detects the last
// heartbeat, and the end of the lease, each up to one interval late. It reclaims the worker's executions once
// the lease has been over for the grace, with another delay of up to one interval.
//
// If most leases end at the same time, the brake holds for two leases after a monitor detects that. Then it
// lets one worker per second through, each after a new look at the database.
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

// probeTimeout is the maximum duration of one round of probes in a small fleet.
const probeTimeout = 2 * time.Second

// settleTrickle is the number of simultaneously lost workers for which Settle allows time.
const settleTrickle = 40

// Settle bounds the time from the last fault and the last submission to the end of the last execution and the
// last message. longest bounds the run time of an action, retries the number of its retries. It assumes the
// slowest path for each attempt of each retry, and adds the time in which the queues drain.
func Settle(c config.Config, longest time.Duration, retries int) time.Duration {
	b, e := BoundsOf(c), c.Executor
	backoff := oracle.NewBackoffs(&c.Retry).After(max(retries, e.MaxDispatches)).Most
	dispatch := b.Unclaimed + backoff + 2*e.ReconcileInterval
	// Besides the counted dispatches, a few can be lost with their worker or executor. A dispatched execution
	// has had a worker, so only one wait for a worker reaches the full grace.
	attempt := e.UnschedulableGrace + time.Duration(e.MaxDispatches+2)*dispatch + max(longest+b.Overrun+b.Warmup, b.WorkerDead+b.Hold+settleTrickle*b.Trickle) + b.Terminal + backoff
	drain := oracle.QueueTTL(&c.MessageQueue.RabbitMQ) + b.DeadLetter
	return time.Duration(retries+1)*attempt + drain
}
