package invariant

import (
	"time"

	"handoff/chaos/history"
	"handoff/chaos/oracle"
	"handoff/core/execution"
)

// boundedRetries returns invariant 8 (defects D48 to D54).
func boundedRetries() *Invariant {
	i := &Invariant{
		Number: 8, Name: "bounded retries",
		Statement: "A retry follows only a failure for a retriable reason, inside its backoff window. A chain has at most max_retries of them, and none after its cancellation was requested. An execution that is taken back waits for a backoff that grows each time.",
		Needs:     []history.Kind{history.Created, history.Transition},
	}
	i.make = func(s *Suite) checker { return &retryChecker{i: i, s: s} }
	return i
}

type retryChecker struct {
	i *Invariant
	s *Suite
	// created is the most recently created retry. The Orchestrated event of its predecessor follows.
	created history.Event
}

// observedKinds implements selective.
func (r *retryChecker) observedKinds() []history.Kind {
	return []history.Kind{history.Created, history.Orchestrated, history.Transition}
}

func (r *retryChecker) observeEvent(e *history.Event, l *life) {
	switch e.Kind {
	case history.Created:
		if e.Count > 0 {
			r.created = *e
			r.judgeRetry(e)
		}
	case history.Orchestrated:
		if e.Related != 0 && e.Related == r.created.Execution && l != nil {
			r.judgeChain(e, l)
		}
	case history.Transition:
		if e.From == execution.Requested && e.To == execution.Scheduling && l != nil && l.due != 0 {
			r.judgeDueTime(e, l)
		}
		if waitsForBackoff(e) {
			r.judgeTakeBack(e, l)
		}
	default:
	}
}

// judgeDueTime requires that a delayed execution is not scheduled before it is due.
func (r *retryChecker) judgeDueTime(e *history.Event, l *life) {
	r.s.countOccasion(r.i)
	if r.s.databaseTime(e.At) < l.due-r.s.tolerance {
		r.s.recordViolation(r.i, e.Execution, "execution %d was scheduled at %v, before it is due at %v", e.Execution, r.s.databaseTime(e.At), l.due)
	}
}

func (r *retryChecker) judgeRetry(e *history.Event) {
	r.s.countOccasion(r.i)
	window := r.s.backoffs.After(int(e.Count) - 1)
	delay := e.Due - r.s.databaseTime(e.At)
	switch {
	case r.s.cancelled[e.Chain]:
		r.s.recordViolation(r.i, e.Execution, "execution %d is retry %d of execution %d, whose cancellation was requested before", e.Execution, e.Count, e.Chain)
	case e.Count > e.Limit:
		r.s.recordViolation(r.i, e.Execution, "execution %d is retry %d of execution %d, of which only %d are allowed", e.Execution, e.Count, e.Chain, e.Limit)
	case !oracle.Retriable(e.Reason):
		r.s.recordViolation(r.i, e.Execution, "execution %d retries execution %d for the reason %q, which is not retriable", e.Execution, e.Chain, e.Reason)
	case !window.Holds(delay, r.s.tolerance):
		r.s.recordViolation(r.i, e.Execution, "retry %d of execution %d is due after %v; its backoff is %v to %v", e.Count, e.Chain, delay.Round(time.Millisecond), window.Least, window.Most)
	}
}

func (r *retryChecker) judgeChain(e *history.Event, l *life) {
	r.s.countOccasion(r.i)
	switch n := &r.created; {
	case n.Chain != l.chain:
		r.s.recordViolation(r.i, n.Execution, "execution %d retries execution %d and is chained to %d instead of %d", n.Execution, e.Execution, n.Chain, l.chain)
	case n.Count != l.retry+1:
		r.s.recordViolation(r.i, n.Execution, "execution %d follows retry %d of execution %d as number %d", n.Execution, l.retry, l.chain, n.Count)
	case l.status == execution.Completed || l.status == execution.Cancelled:
		r.s.recordViolation(r.i, n.Execution, "execution %d retries execution %d, which ended as %v", n.Execution, e.Execution, l.status)
	}
}

func (r *retryChecker) endRun(bool) {}
