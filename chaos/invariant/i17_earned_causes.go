package invariant

import (
	"time"

	"handoff/core/execution"
)

// earning is what one kind of bad end has to show for itself: a reason, written by a part, and the causes that can
// lead to it. A cause counts if it was there at some time since the beginning of the window.
type earning struct {
	reason execution.Reason
	// by is who writes it; NoPart for whoever has no row of his own.
	by     execution.Part
	causes cause
	from   func(c *ending) time.Duration
	// instead judges an end that no fault explains but something else in the history. It returns what is missing,
	// empty if nothing is.
	instead func(c *ending) string
}

// What can keep a worker from renewing its lease, or from hearing that it has. The database's clock is not among it: a
// step of it ends no lease, because a worker counts its own on its own clock, and an executor watches it on another one.
const noRenewal = standsStill | itsClock | toDatabase | isMute | hasTwin | isWithdrawn | databaseFails

// What can keep a worker from claiming what was dispatched to it. What keeps it from renewing is among it, because a
// worker whose lease is in doubt claims nothing; and so is the database's clock, on which the deadline of a claim is.
const noClaim = noRenewal | toBroker | isDeaf | losesQueue | brokerFails | databaseClock | dispatchesFail

// earnings is the table. Where a reason has several rows, the first that fits is taken.
//
// What only follows from a fault has no row of its own. A retry, a brake or a requeue is in the window of the fault; a
// worker counts as unhealthy for dispatches that were counted against it and for runs that it failed, and each of
// those is judged when it happens (invariant 9 holds its figures against them).
func earnings() []earning {
	return []earning{
		// A dispatch that nobody claimed in time.
		{reason: execution.QueueTimeout, causes: noClaim, from: sinceDispatch},
		{reason: execution.DispatchTimeout, causes: noClaim, from: sinceDispatch},

		// The worker's machine could not start the action. A machine is sick or is not, at that very moment; what
		// remains is the time in which the worker writes it down.
		{reason: execution.WorkerUnavailable, by: execution.Worker, causes: isSick, from: sinceAttempt},
		// The worker went away before it had claimed it.
		{reason: execution.WorkerUnavailable, by: execution.Reconciler, causes: noRenewal, from: sinceRenewal},
		// The broker refused the message, or the queue was full or delivered too often.
		{reason: execution.WorkerUnavailable, causes: noClaim, from: sinceDispatch},

		// No queue was bound: it was deleted, its bindings were, or its worker was not there to declare it.
		{reason: execution.Unroutable, causes: losesQueue | brokerFails | standsStill | toBroker | hasTwin, from: sinceQueue},

		// Every worker that could have taken it, each for itself; see noWorkers. A step of the database's clock takes no worker
		// away: an executor watches the leases on its own clock, too.
		{reason: execution.NoWorkers, causes: noClaim &^ databaseClock, from: sinceFit, instead: (*ending).noWorkers},

		// Its lease is over or it was superseded: by its own successor after it fenced itself or died, or by a twin. Or
		// the database believes it to run what it does not, because the reply to its claim was lost.
		{reason: execution.WorkerLost, causes: noRenewal, from: sinceLoss},
		{reason: execution.HeartbeatStale, causes: noRenewal, from: sinceFence},

		// Only a stop that somebody asked for ends an action so.
		{reason: execution.WorkerShutdown, causes: standsStill | isWithdrawn, from: sinceStop},

		{reason: execution.RunTimeout, causes: standsStill | itsClock | toDatabase | databaseFails | databaseClock, from: sinceClaim, instead: (*ending).ranItsTime},

		// What an action says of itself.
		{reason: execution.Transient, instead: (*ending).ownEnd},
		{reason: execution.Connection, instead: (*ending).ownEnd},
		{reason: execution.Validation, instead: (*ending).ownEnd},
		{reason: execution.Permission, instead: (*ending).ownEnd},
		{reason: execution.ActionNotFound, instead: (*ending).ownEnd},
		{reason: execution.InvalidParameters, instead: (*ending).ownEnd},
		{reason: execution.Rejected, instead: (*ending).ownEnd},
		{reason: execution.Unknown, instead: (*ending).ownEnd},

		// What somebody has asked for, or a parent has brought about.
		{reason: execution.CancelRequested, instead: (*ending).asked},
		{reason: execution.ParentFailed, instead: (*ending).parentEnded},
	}
}

// recovery is how long a worker may be away for a cause that is over: until it is connected to the broker again, its
// next heartbeat says so, and statements of it and of who looks have taken their time. One that has fenced itself
// ends its actions first.
func (c *ending) recovery() time.Duration {
	x := c.s.config
	return x.MessageQueue.RabbitMQ.ReconnectMax + x.Worker.HeartbeatInterval + x.Worker.KillGrace + c.s.bounds.Slack
}

// sinceDispatch: whatever has kept the worker from a claim was there after the dispatch, or the worker was on its way
// back from it until the deadline of the claim.
func sinceDispatch(c *ending) time.Duration {
	return min(c.l.entered, c.l.due-c.s.skew-c.recovery())
}

// sinceQueue: a worker that has lost its queue declares it anew when it is back, and may get work before that.
func sinceQueue(c *ending) time.Duration { return c.l.entered - c.recovery() }

// sinceAttempt: between the start that failed and its result lie two statements.
func sinceAttempt(c *ending) time.Duration { return c.e.At - c.s.bounds.Slack }

// sinceRenewal: from its last renewal on something has kept the worker from the next one, or the reply to this one
// from the worker. Nothing is under way for longer than a lease and still of use.
func sinceRenewal(c *ending) time.Duration {
	if c.t == nil {
		return c.e.At - c.s.bounds.WorkerDead - c.s.bounds.Hold
	}
	return c.t.renewed - c.s.config.Worker.Lease()
}

// sinceLoss: what never began may have been lost with the reply to its claim; for all else the worker must have lost
// its right.
func sinceLoss(c *ending) time.Duration {
	if c.e.By == execution.Worker && c.l.started == 0 {
		return min(sinceClaim(c), sinceRenewal(c))
	}
	return sinceRenewal(c)
}

// sinceFence: a worker fences itself a margin before the end of its lease, as it knows it, ends the action within the
// grace and writes that down.
func sinceFence(c *ending) time.Duration {
	w := c.s.config.Worker
	return c.e.At - w.Lease() - w.KillGrace - c.s.bounds.Slack
}

// sinceClaim: the claim may have been asked for twice before it was answered.
func sinceClaim(c *ending) time.Duration {
	return c.l.entered - 2*c.s.config.Worker.StatementTimeout
}

// sinceStop: a worker waits for the shutdown timeout, ends the rest within the grace, and writes it down.
func sinceStop(c *ending) time.Duration {
	w := c.s.config.Worker
	return c.e.At - w.ShutdownTimeout - w.KillGrace - c.s.bounds.Slack
}

// sinceFit: who looks, looks at workers that had time to come back.
func sinceFit(c *ending) time.Duration {
	return c.e.At - c.recovery()
}
