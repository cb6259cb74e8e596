package invariant

import (
	"handoff/chaos/history"
	"handoff/chaos/oracle"
	"handoff/core/execution"
)

// judgeTakeBack judges a reclaim's reason and the delay after it, which grows with the number of earlier
// reclaims.
func (r *retryChecker) judgeTakeBack(e *history.Event, l *life) {
	if !takesBackFor(e.By, e.Reason) {
		r.s.countOccasion(r.i)
		r.s.recordViolation(r.i, e.Execution, "the %v took execution %d back because of %v, which is not one of its reasons", e.By, e.Execution, e.Reason)
	}
	n := 0
	if l != nil {
		n = oracle.TakenBack(int(l.dispatches), int64(e.OldEpoch))
	}
	window := r.s.backoffs.After(n)
	if window.Most <= 0 {
		return
	}
	r.s.countOccasion(r.i)
	if delay := e.Due - r.s.databaseTime(e.At); !window.Holds(delay, r.s.tolerance) {
		r.s.recordViolation(r.i, e.Execution, "execution %d was taken back and is due after %v; after %d take-backs before this one its backoff is %v to %v",
			e.Execution, max(0, delay), n, window.Least, window.Most)
	}
}

// waitsForBackoff reports whether an execution waits for its backoff after the transition. An execution that
// a worker releases is due immediately.
func waitsForBackoff(e *history.Event) bool {
	return e.From == execution.Scheduled && e.To == execution.Requested && e.By != execution.Worker
}

// takesBackFor reports whether the part by may reclaim an unclaimed execution for this reason.
func takesBackFor(by execution.Part, reason execution.Reason) bool {
	switch by {
	case execution.DeadLetterHandler:
		return reason == execution.QueueTimeout || reason == execution.DispatchTimeout || reason == execution.WorkerUnavailable
	case execution.TimeoutMonitor:
		return reason == execution.DispatchTimeout
	case execution.Reconciler:
		// The dispatch was never confirmed, or its worker is gone.
		return reason == execution.Transient || reason == execution.WorkerUnavailable
	case execution.Scheduler:
		return reason == execution.Unroutable || reason == execution.WorkerUnavailable
	default:
		return true
	}
}
