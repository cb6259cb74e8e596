package invariant

import (
	"time"

	"handoff/chaos/oracle"
	"handoff/core/execution"
)

// This file is the part of invariant 13 about the reasons that a worker reports for the end of a run, whether
// the end is stored or refused. The worker must have had the reason that it reports. If a run ended by
// itself, its reason is that of the machine's report.

// Starts records that the worker asks its machine to start an action.
func (c *Calls) Starts(key execution.Key) {
	if r := c.runs[key]; r != nil {
		r.started = true
	}
}

// NotStarted notes that an action could not be started.
func (c *Calls) NotStarted(key execution.Key) {
	if r := c.runs[key]; r != nil {
		r.refused = true
	}
}

// Killed records that the worker has learned that an action ended at the worker's request.
func (c *Calls) Killed(now time.Duration, key execution.Key) {
	if r := c.runs[key]; r != nil {
		r.killed = now
	}
}

// Exited records that an action has ended by itself, and the reason that it gave.
func (c *Calls) Exited(now time.Duration, key execution.Key, to execution.Status, reason execution.Reason) {
	if r := c.runs[key]; r != nil {
		r.byItself, r.exited, r.to, r.reason = true, now, to, reason
	}
}

// judgeResultWait judges how long the result of a run that ended by itself waited for its first write: at
// most ResultWindow, and not at all if the worker would fence itself meanwhile.
func (c *Calls) judgeResultWait(now time.Duration, key execution.Key, r *callsOfRun) {
	if c.result == nil || !r.byItself {
		return
	}
	held := now - r.exited
	if c.s.ledger.hasStruck(standsStill|itsClock, c.process, 0, c.s.currentTime()-held-sameMoment) {
		return
	}
	c.s.countOccasion(c.result.i)
	switch {
	case held > 0 && !c.lease.fenced && r.exited < c.fenceTime() && now > c.fenceTime():
		c.s.recordViolation(c.result.i, key.ID, "%s let the result of execution %d (epoch %d), whose run ended %v before the fence, wait for others until after it",
			c.process, key.ID, key.Epoch, c.fenceTime()-r.exited)
	case held > oracle.ResultWindow+sameMoment:
		c.s.recordViolation(c.result.i, key.ID, "%s did not write how the run of execution %d (epoch %d) ended until %v after it; a result waits for others for %v at most",
			c.process, key.ID, key.Epoch, held, oracle.ResultWindow)
	}
}

// clocksOfRuns is the maximum difference between a machine's clock and its worker's over a short time.
const clocksOfRuns = time.Second

// judgeReason judges the reason in a worker's report about a run's end, before it is sent.
func (c *Calls) judgeReason(now time.Duration, e *End, r *callsOfRun) {
	if c.result == nil {
		return
	}
	c.s.countOccasion(c.result.i)
	if !c.hadReason(now, e, r) {
		c.s.recordViolation(c.result.i, e.Key.ID, "%s reports that execution %d (epoch %d) ended as %v for %v, but that was not the reason",
			c.process, e.Key.ID, e.Key.Epoch, e.To, e.Reason)
	}
}

// hadReason reports whether the worker had e's reason to end the run, or the run ended by itself for it.
func (c *Calls) hadReason(now time.Duration, e *End, r *callsOfRun) bool {
	if r.byItself {
		return e.To == r.to && e.Reason == r.reason
	}
	switch e.Reason {
	case execution.CancelRequested:
		return r.cancelled && e.To == execution.Cancelled
	case execution.WorkerLost:
		return r.lost || c.gone
	case execution.WorkerShutdown:
		return c.draining >= 0
	case execution.WorkerUnavailable:
		return r.refused
	case execution.RunTimeout:
		return e.To == execution.Timeout && now >= r.limit-clocksOfRuns
	case execution.HeartbeatStale:
		// An action that was ended between its claim and its start has not run.
		return !r.started || c.lease.fenced || now >= c.fenceTime()-clocksOfRuns
	default:
		return false
	}
}
