package invariant

import (
	"time"

	"handoff/chaos/oracle"
	"handoff/core/config"
)

// Bounds are how long each kind of stuck execution may stay undetected while nothing hinders an
// executor. They are computed from the configuration and from nothing else.
type Bounds struct {
	// Slack covers the statements and messages of one pass.
	Slack time.Duration
	// Recovery is how long after a fault processes, links and servers may still be busy with its consequences: a call
	// that was under way ends, a connection that has died is noticed, another one is made, and a pass that has failed is
	// repeated after the reconcile interval.
	Recovery time.Duration
	// Claim: scheduling by an executor that died.
	Claim time.Duration
	// Publish: scheduled, and never handed to the broker.
	Publish time.Duration
	// Unclaimed: scheduled, and not claimed.
	Unclaimed time.Duration
	// DeadLetter: scheduled, after its message has died in a worker's queue.
	DeadLetter time.Duration
	// OwnerGone: scheduled at an incarnation that is gone, counted from its end.
	OwnerGone time.Duration
	// WorkerDead: running on a worker that does not renew its lease, counted from the last renewal.
	WorkerDead time.Duration
	// Hold: how much longer than that, counted from the moment at which most workers were over, while
	// the brake holds; and Trickle, for each of them, when it lets one at a time through.
	Hold    time.Duration
	Trickle time.Duration
	// Warmup: how long the monitors wait after an executor's start and after an outage of the database.
	Warmup time.Duration
	// Overrun: running past its run deadline, counted from the deadline.
	Overrun time.Duration
	// Terminal: terminal and not handled.
	Terminal time.Duration
	// ChildBatch: added to Terminal for each batch of workflow children that a child has to wait for, including
	// its own, after the end of its parent's chain was handled. It is the longest that a batch's two statements
	// may take, so it also covers batches of chains that end later and come in between.
	ChildBatch time.Duration
	// Cancel: canceling, counted from the third renewal of its worker's lease after that: the reply to each of
	// them asks for the end of the run, and two of them may be lost.
	Cancel time.Duration
	// Probes: active, and saying that it receives no dispatches, without an outage that a prober which only observes has
	// recorded. Its endpoint says so at the latest when it has not heard from the database for a lease.
	Probes time.Duration
}

// BoundsOf computes the bounds.
//
// A worker is found dead when its lease is over by the database's clock and a monitor has watched
// one beat for a full lease: it looks every reconcile interval, so it sees the last beat at most one
// interval after it, and the end of the watch at most one interval late. What ran there is taken
// once the lease has been over for the grace, again looked at every interval.
//
// Where most workers are over at once, the brake holds for two leases from the moment at which a
// monitor finds it, and then lets one worker a second through, each with a look at the database.
func BoundsOf(c config.Config) Bounds { return boundsOf(c, 2*c.Executor.StatementTimeout+time.Second) }

// boundsOf computes the bounds for statements and messages of one pass that take that long together.
func boundsOf(c config.Config, slack time.Duration) Bounds {
	e, lease := c.Executor, oracle.Lease(&c.Worker)
	mq := c.MessageQueue.RabbitMQ
	return Bounds{
		Slack:      slack,
		Recovery:   2*e.StatementTimeout + time.Second + e.ReconcileInterval + 3*mq.Heartbeat + mq.ReconnectMax,
		Claim:      e.ClaimExpiry + e.ReconcileInterval + slack,
		Publish:    e.ConfirmTimeout + e.ReconcileInterval + slack,
		Unclaimed:  e.ScheduledTimeout + e.TimeoutCheckInterval + slack,
		DeadLetter: max(slack, heldLetter+time.Second),
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

// heldLetter is the longest pause between two attempts to handle a dead letter while the database can't be reached.
const heldLetter = 10 * time.Second

// probeTimeout is how long a round of probes of a small fleet may take.
const probeTimeout = 2 * time.Second

// settleTrickle is for how many workers, lost at once, Settle leaves room.
const settleTrickle = 40

// Settle bounds the time from the last fault and the last submission to the end of the last
// execution and the last message, for actions that may take up to longest and may be retried up to
// retries times: every attempt of every retry takes its worst way, and then the queues run dry.
func Settle(c config.Config, longest time.Duration, retries int) time.Duration {
	b, e := BoundsOf(c), c.Executor
	backoff := oracle.NewBackoffs(&c.Retry).After(max(retries, e.MaxDispatches)).Most
	dispatch := b.Unclaimed + backoff + e.UnschedulableGrace + 2*e.ReconcileInterval
	// Besides those that count, a dispatch can be lost with its worker or its executor a few times.
	attempt := time.Duration(e.MaxDispatches+2)*dispatch + max(longest+b.Overrun+b.Warmup, b.WorkerDead+b.Hold+settleTrickle*b.Trickle) + b.Terminal + backoff
	drain := oracle.QueueTTL(&c.MessageQueue.RabbitMQ) + b.DeadLetter
	return time.Duration(retries+1)*attempt + drain
}
