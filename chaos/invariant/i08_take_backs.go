package invariant

import (
	"handoff/chaos/history"
	"handoff/chaos/oracle"
	"handoff/core/execution"
)

// takenBack judges the delay of a take-back: the backoff of as many as were taken back before.
func (c *retryChecker) takenBack(e *history.Event, l *life) {
	if !takesBackFor(e.By, e.Reason) {
		c.s.judged(c.i)
		c.s.violate(c.i, e.Execution, "the %v took execution %d back because of %v, which is no reason of its own", e.By, e.Execution, e.Reason)
	}
	n := 0
	if l != nil {
		n = oracle.TakenBack(int(l.dispatches), int64(e.OldEpoch))
	}
	window := c.s.backoffs.After(n)
	if window.Most <= 0 {
		return
	}
	c.s.judged(c.i)
	if delay := e.Due - c.s.database(e.At); !window.Holds(delay, c.s.tolerance) {
		c.s.violate(c.i, e.Execution, "execution %d was taken back and is due after %v; after %d take-backs before this one its backoff is %v to %v",
			e.Execution, max(0, delay), n, window.Least, window.Most)
	}
}

// waits says whether a transition makes an execution wait for its backoff: what a worker gives back is due at once.
func waits(e *history.Event) bool {
	return e.From == execution.Scheduled && e.To == execution.Requested && e.By != execution.Worker
}

// takesBackFor says that a part may take back what nobody has claimed for a reason.
func takesBackFor(by execution.Part, reason execution.Reason) bool {
	switch by {
	case execution.DeadLetterHandler:
		return reason == execution.QueueTimeout || reason == execution.DispatchTimeout || reason == execution.WorkerUnavailable
	case execution.TimeoutMonitor:
		return reason == execution.DispatchTimeout
	case execution.Reconciler:
		// It was never confirmed, or its worker is gone.
		return reason == execution.Transient || reason == execution.WorkerUnavailable
	case execution.Scheduler:
		return reason == execution.Unroutable || reason == execution.WorkerUnavailable
	default:
		return true
	}
}
