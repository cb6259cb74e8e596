package invariant

import (
	"time"

	"handoff/chaos/oracle"
	"handoff/core/execution"
)

// causeRow lists the possible causes of one kind of bad end: a reason and the part that writes it. A cause
// counts if it was present at or after the time that from returns.
type causeRow struct {
	reason execution.Reason
	// by is the part that writes the reason. NoPart means every part that has no separate row.
	by     execution.Part
	causes cause
	from   func(c *badEnd) time.Duration
	// instead looks for an explanation other than a fault. It returns a complaint if it finds none.
	instead func(c *badEnd) string
}

// noRenewal can keep a worker from renewing its lease, or from learning that the renewal succeeded.
// The database's clock is not included: a step can't end a lease, because the worker and the executor that
// watches it measure the lease by their own clocks.
const noRenewal = standsStill | itsClock | toDatabase | isMute | hasTwin | isWithdrawn | renewalFails

// noClaim can keep a worker from claiming a dispatch. It includes noRenewal, because a worker
// claims nothing while its lease is in doubt. It includes the database's clock, because the claim
// deadline is a time of that clock.
const noClaim = noRenewal | databaseFails | toBroker | isDeaf | losesQueue | brokerFails | databaseClock | dispatchesFail

// causeTable returns the causes of bad ends. Of several rows for a reason, the first that fits is used.
//
// Indirect consequences of a fault have no row. A retry, a brake or a requeue falls within the fault's
// window. A worker becomes unhealthy because of counted dispatches and failed runs. Each of these is judged
// when it happens, and invariant 9 compares the worker's reports with them.
func causeTable() []causeRow {
	return []causeRow{
		// No worker claimed the dispatch in time.
		{reason: execution.QueueTimeout, causes: noClaim, from: sinceDispatch},
		{reason: execution.DispatchTimeout, causes: noClaim, from: sinceDispatch, instead: (*badEnd).silentClaim},

		// The worker's machine could not start the action. A machine is sick at that time or not; the window
		// only covers the time until the worker has written the result.
		{reason: execution.WorkerUnavailable, by: execution.Worker, causes: isSick, from: sinceAttempt},
		// The worker left before it claimed the execution.
		{reason: execution.WorkerUnavailable, by: execution.Reconciler, causes: noRenewal, from: sinceRenewal},
		// The broker refused the message, the queue was full, or the message reached its delivery limit.
		{reason: execution.WorkerUnavailable, causes: noClaim, from: sinceDispatch},

		// No queue was bound: it was deleted or unbound, or its worker was not up to declare it.
		{reason: execution.Unroutable, causes: losesQueue | brokerFails | standsStill | toBroker | hasTwin, from: sinceQueue},

		// Each worker that could have taken the execution is judged separately; see noWorkers. A step of the
		// database's clock removes no worker, because executors watch the leases on their own clocks too. A
		// broker that creates no queue affects only workers without a queue.
		{reason: execution.NoWorkers, causes: noClaim&^databaseClock | makesNoQueue, from: sinceFit, instead: (*badEnd).noWorkers},

		// The worker's lease is over, or the worker was superseded: by its own successor after it fenced
		// itself or died, or by a twin. Or the reply to a claim was lost, so the database lists a run that
		// the worker doesn't have.
		{reason: execution.WorkerLost, causes: noRenewal, from: sinceLoss},
		{reason: execution.HeartbeatStale, causes: noRenewal, from: sinceFence},

		// Only a requested stop ends an action with this reason.
		{reason: execution.WorkerShutdown, causes: standsStill | isWithdrawn, from: sinceStop},

		{reason: execution.RunTimeout, causes: standsStill | itsClock | toDatabase | databaseFails | databaseClock, from: sinceClaim, instead: (*badEnd).ranItsTime},

		// Reasons that an action gives itself.
		{reason: execution.Transient, instead: (*badEnd).ownEnd},
		{reason: execution.Connection, instead: (*badEnd).ownEnd},
		{reason: execution.Validation, instead: (*badEnd).ownEnd},
		{reason: execution.Permission, instead: (*badEnd).ownEnd},
		{reason: execution.ActionNotFound, instead: (*badEnd).ownEnd},
		{reason: execution.InvalidParameters, instead: (*badEnd).ownEnd},
		{reason: execution.Rejected, instead: (*badEnd).ownEnd},
		{reason: execution.Unknown, instead: (*badEnd).ownEnd},

		// Ends that are due to a request or to the parent's end.
		{reason: execution.CancelRequested, instead: (*badEnd).cancelAsked},
		{reason: execution.ParentFailed, instead: (*badEnd).parentEnded},
	}
}

// recoveryTime returns how long a worker may be unavailable after a cause is over: it reconnects to the
// broker, its next heartbeat reports that, and the statements of worker and executor take time. A worker that
// has fenced itself ends its actions first.
func (en *badEnd) recoveryTime() time.Duration {
	x := en.s.config
	return x.MessageQueue.RabbitMQ.ReconnectMax + x.Worker.HeartbeatInterval + x.Worker.KillGrace + en.s.bounds.Slack
}

// sinceDispatch returns the start of the window for an unclaimed dispatch: a cause that kept the worker from
// claiming was present after the dispatch, or the worker was still recovering from it at the claim deadline.
func sinceDispatch(c *badEnd) time.Duration {
	return min(c.l.entered, c.l.due-c.s.skew-c.recoveryTime())
}

// sinceQueue returns the start of the window for a missing queue: a worker that lost its queue redeclares it
// when it recovers, and may get work before that. A worker cut off from the database can't recover meanwhile,
// although a renewal under way may make it look alive. A worker that is deaf to the broker does not learn
// that its queue is gone. In both cases every fault of its queue since its registration counts.
func sinceQueue(c *badEnd) time.Duration {
	since := c.l.entered - c.recoveryTime()
	if c.t != nil && c.s.ledger.hasStruck(toDatabase|databaseFails|isDeaf, c.t.process, c.t.worker, since) {
		return min(since, c.t.joined)
	}
	return since
}

// sinceAttempt returns the start of the window for a failed start: at most two statements lie between the
// failed start and its result. A worker that could not reach the database since the claim may have written
// the result long after the start.
func sinceAttempt(c *badEnd) time.Duration {
	since := c.e.At - c.s.bounds.Slack
	if c.t != nil && c.s.ledger.hasStruck(toDatabase|databaseFails|standsStill, c.t.process, c.t.worker, c.l.entered) {
		return min(since, c.l.entered)
	}
	return since
}

// sinceRenewal returns the start of the window for a lost lease: after the last renewal, a cause prevented
// the next one, or kept the reply to the last one from the worker. A renewal may be under way for a lease
// before it is useless, so the window begins one lease earlier.
func sinceRenewal(c *badEnd) time.Duration {
	if c.t == nil {
		return c.e.At - c.s.bounds.WorkerDead - c.s.bounds.Hold
	}
	return c.t.renewed - oracle.Lease(&c.s.config.Worker)
}

// sinceLoss returns the start of the window for a lost run. If the action never began, the reply to the claim
// may have been lost. Otherwise the worker must have lost its lease.
func sinceLoss(c *badEnd) time.Duration {
	if c.e.By == execution.Worker && c.l.started == 0 {
		return min(sinceClaim(c), sinceRenewal(c))
	}
	return sinceRenewal(c)
}

// sinceFence returns the start of the window for a fenced run: by its own clock, a worker fences itself a
// margin before its lease ends. It ends the action within the kill grace and writes the result.
func sinceFence(c *badEnd) time.Duration {
	w := c.s.config.Worker
	return c.e.At - oracle.Lease(&w) - w.KillGrace - c.s.bounds.Slack
}

// sinceClaim returns the start of the window for a run that timed out: the worker may have sent the claim
// twice before it got an answer.
func sinceClaim(c *badEnd) time.Duration {
	return c.l.entered - 2*c.s.config.Worker.StatementTimeout
}

// sinceStop returns the start of the window for a stopped run: a worker learns of its drain with a heartbeat,
// within a lease. It waits for the shutdown timeout, ends the remaining actions within the kill grace and
// writes their results.
func sinceStop(c *badEnd) time.Duration {
	w := c.s.config.Worker
	return c.e.At - oracle.Lease(&w) - w.ShutdownTimeout - w.KillGrace - c.s.bounds.Slack
}

// sinceFit returns the start of the window for missing workers: the workers had time to recover before the
// executor decided.
func sinceFit(c *badEnd) time.Duration {
	return c.e.At - c.recoveryTime()
}
