package invariant

import (
	"slices"
	"time"

	"handoff/chaos/history"
	"handoff/chaos/oracle"
	"handoff/core/execution"
)

// never is later than any time in a run.
const never = time.Duration(1<<63 - 1)

// candidate is the state of one incarnation as a possible target of dispatches, according to the history.
type candidate struct {
	worker      execution.WorkerID
	incarnation execution.Incarnation
	runtimes    []string
	capacity    int
	state       execution.Lifecycle
	// left reports whether it has drained or stopped, or was lost or superseded. These states are permanent.
	left      bool
	leaseEnds time.Duration
	// leaseOver is when the lease ends by a clock that never jumps.
	leaseOver time.Duration
	consuming bool
	// unhealthy reports whether an executor may consider it unhealthy, surelyUnhealthy whether all must.
	unhealthy, surelyUnhealthy bool
	load                       int
	// claims is the number of runs that it has claimed.
	claims int
	// waiting is the number of dispatches that it has not claimed.
	waiting int

	// failures holds the ends of runs for reasons that blame the worker, the latest last. The worker's
	// reports must agree with them.
	failures []ownFailure
	// snapshots holds the evidence for its health over time, the oldest first.
	snapshots []snapshot

	// Each of these is the start of the current period in which a condition has held, never if it does not
	// hold now. fitSince: the worker could be given work. goodSince: it could, and was not unhealthy.
	// wellSince: it could, and was not surely unhealthy. idleSince: it held no execution.
	fitSince, goodSince, wellSince, idleSince time.Duration
	// fitUntil is the end of the last period longer than brief in which it could be given work. Executors
	// look at waiting executions twice, brief apart, so they may miss shorter periods.
	fitUntil, brief time.Duration
	// wellUntil is the end of the last period in which it could be given work and was not surely unhealthy.
	wellUntil time.Duration
	// roomSince is the time since which it has held less than its capacity; never while it is full.
	roomSince time.Duration
	// busySince is the time since which it has held an execution; never while it holds none.
	busySince time.Duration
	// freed holds when executions last left the worker, the latest last, at most as many as its capacity.
	freed []time.Duration
}

// ownFailure is the end of a run for a reason that blames the worker.
type ownFailure struct {
	key execution.Key
	// process is the process that wrote the end.
	process string
	// at is when the database last answered the write. The worker counts the run from the answer on, and
	// repeats the write until it gets one.
	at time.Duration
}

// noteRefusedEnd records that the database refused an end because it had already stored it. Earlier answers
// may have been lost, so the worker may count the run only from now on.
func (c *candidate) noteRefusedEnd(e *history.Event) {
	for n, f := range c.failures {
		if f.key == (execution.Key{ID: e.Execution, Epoch: e.Epoch}) && f.process == e.Process {
			f.at = e.At
			c.failures = append(slices.Delete(c.failures, n, n+1), f)
			return
		}
	}
}

// snapshot is the evidence for a worker's health, valid from the time from until the next snapshot.
type snapshot struct {
	from                       time.Duration
	total, failed, consecutive int
	// lastFailure is when the last failure ended, by the database's clock.
	lastFailure time.Duration
	// expired holds when each dispatch that the active worker left unclaimed ended, by the database's clock,
	// by which their age is measured.
	expired []time.Duration
}

// latestSnapshot returns the latest snapshot, or the zero value if there is none.
func (c *candidate) latestSnapshot() snapshot {
	if n := len(c.snapshots); n > 0 {
		return c.snapshots[n-1]
	}
	return snapshot{}
}

func (c *candidate) applyLifecycle(e *history.Event, cordoned bool) {
	c.state = e.Lifecycle
	c.left = c.left || e.Lifecycle >= execution.Draining
	if e.Lifecycle == execution.Active && !c.left {
		c.markActive(e.At, cordoned)
		return
	}
	c.endFitPeriod(e.At)
	c.fitSince, c.goodSince, c.wellSince = never, never, never
}

// endFitPeriod ends, at the time at, the period in which the worker could be given work.
func (c *candidate) endFitPeriod(at time.Duration) {
	c.fitUntil = c.lastFit(at)
	c.endWellPeriod(at)
}

// endWellPeriod ends, at the time at, the period in which the worker was not surely unhealthy.
func (c *candidate) endWellPeriod(at time.Duration) {
	if c.wellSince != never {
		c.wellUntil = max(c.wellUntil, min(at, c.leaseOver))
	}
}

// lastFit returns the end of the latest period, longer than brief, in which the worker could be given
// work. It is negative if there was none.
func (c *candidate) lastFit(now time.Duration) time.Duration {
	if until := min(now, c.leaseOver); c.fitSince != never && until-c.fitSince > c.brief {
		return max(c.fitUntil, until)
	}
	return c.fitUntil
}

// renewLease renews the lease. now is the database's clock, by which leases end.
func (c *candidate) renewLease(e *history.Event, now time.Duration, cordoned bool) {
	if now > c.leaseEnds {
		// The lease was over, so new periods begin.
		c.endFitPeriod(e.At)
		c.fitSince, c.goodSince, c.wellSince = never, never, never
	}
	c.leaseEnds, c.leaseOver, c.consuming = e.Due, e.At+e.Due-now, e.Limit == 1
	c.updatePeriods(e.At, cordoned)
}

func (c *candidate) markActive(at time.Duration, cordoned bool) {
	c.idleSince, c.roomSince, c.busySince = at, at, never
	c.updatePeriods(at, cordoned)
}

// updatePeriods updates the starts and ends of the periods after a change of the worker's state.
func (c *candidate) updatePeriods(at time.Duration, cordoned bool) {
	fit := c.state == execution.Active && !c.left && c.consuming && !cordoned
	switch {
	case !fit:
		c.endFitPeriod(at)
	case c.surelyUnhealthy:
		c.endWellPeriod(at)
	}
	c.fitSince = conditionSince(c.fitSince, at, fit)
	c.goodSince = conditionSince(c.goodSince, at, fit && !c.unhealthy)
	c.wellSince = conditionSince(c.wellSince, at, fit && !c.surelyUnhealthy)
}

// conditionSince returns the time since which a condition holds: before if it already held, otherwise at;
// never if it does not hold.
func conditionSince(before, at time.Duration, holds bool) time.Duration {
	switch {
	case !holds:
		return never
	case before == never:
		return at
	}
	return before
}

// acceptsRuntime reports whether the worker could be given an execution of a runtime, apart from its health.
// now is the database's clock.
func (c *candidate) acceptsRuntime(runtime string, now time.Duration) bool {
	return c.fitSince != never && now <= c.leaseEnds && slices.Contains(c.runtimes, runtime)
}

// countDispatch adds a dispatch to the worker's load.
func (c *candidate) countDispatch(at time.Duration) {
	if c.load++; c.load == 1 {
		c.busySince = at
	}
	c.waiting++
	c.idleSince = never
	if c.load >= c.capacity {
		c.roomSince = never
	}
}

// countRelease subtracts an execution that a transition takes from the worker from the worker's load.
func (c *candidate) countRelease(e *history.Event) {
	if e.From == execution.Scheduled && c.waiting > 0 {
		c.waiting--
	}
	if held := e.From == execution.Scheduled || oracle.Claimed(e.From); !held || oracle.Claimed(e.To) || c.load == 0 {
		return
	}
	if c.freed = append(c.freed, e.At); len(c.freed) > c.capacity {
		c.freed = slices.Delete(c.freed, 0, 1)
	}
	if c.load--; c.load == 0 {
		c.idleSince, c.busySince = e.At, never
	}
	if c.load < c.capacity && c.roomSince == never {
		c.roomSince = e.At
	}
}

// seemedFull reports whether an executor that read the workers at or after look may consider the worker full.
// Besides the dispatches of its own pass, that executor still counts the executions that have left the worker
// since it read them.
func (c *candidate) seemedFull(look time.Duration) bool {
	load := c.load
	for _, at := range c.freed {
		if at >= look {
			load++
		}
	}
	return load >= c.capacity
}
