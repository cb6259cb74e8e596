package invariant

import (
	"time"

	"handoff/chaos/history"
	"handoff/chaos/oracle"
	"handoff/core/execution"
)

// ownLimits returns invariant 19 (defect D29): a request may set its own run timeout, dispatch timeout
// and number of retries. The other invariants judge an execution by its row, so they would accept a
// row that lost these limits.
func ownLimits() *Invariant {
	i := &Invariant{
		Number: 19, Name: "own limits",
		Statement: "An execution has the limits that its request set, and otherwise those of its action. Its retries have the same limits. The deadlines of its dispatches and runs are counted from them.",
		Needs:     []history.Kind{history.Created, history.Transition, history.Orchestrated},
		Whole:     []history.Kind{history.ActionStarted},
		Part:      "only that all rows of a chain have the same max_retries; an audit tells neither what was requested nor the deadlines",
	}
	i.make = func(s *Suite) checker { return &limitsChecker{i: i, s: s} }
	return i
}

type limitsChecker struct {
	i *Invariant
	s *Suite
	// created is the creation of the latest retry. Its predecessor's Orchestrated event follows.
	created history.Event
}

// observedKinds implements selective.
func (lc *limitsChecker) observedKinds() []history.Kind {
	return []history.Kind{history.Created, history.Orchestrated, history.Transition}
}

func (lc *limitsChecker) observeEvent(e *history.Event, l *life) {
	switch e.Kind {
	case history.Created:
		if e.Count > 0 {
			lc.created = *e
		} else if e.Key != "" && lc.s.requested != nil {
			lc.judgeCreated(e)
		}
	case history.Orchestrated:
		if e.Related != 0 && e.Related == lc.created.Execution && l != nil {
			lc.judgeRetry(l)
		}
	case history.Transition:
		if l == nil || l.runTimeout == 0 || e.Due == 0 {
			return
		}
		switch e.To {
		case execution.Scheduled:
			// Without its own dispatch timeout, an execution uses the configuration's, which no request set.
			if l.dispatchTimeout > 0 {
				lc.judgeDeadline(e, "be claimed", l.dispatchTimeout)
			}
		case execution.Running:
			lc.judgeDeadline(e, "run", l.runTimeout)
		default:
		}
	default:
	}
}

// judgeCreated compares a new execution with its request.
func (lc *limitsChecker) judgeCreated(e *history.Event) {
	want, known := lc.s.requested(e.Key)
	if !known {
		return
	}
	lc.s.countOccasion(lc.i)
	switch {
	case e.Limit != int64(want.MaxRetries):
		lc.s.recordViolation(lc.i, e.Execution, "execution %d was created with %d retries, and %d were requested", e.Execution, e.Limit, want.MaxRetries)
	case e.RunTimeout != oracle.RunTimeout(&want):
		lc.s.recordViolation(lc.i, e.Execution, "execution %d was created with a run timeout of %v, and %v was requested", e.Execution, e.RunTimeout, oracle.RunTimeout(&want))
	case e.DispatchTimeout != want.DispatchTimeout:
		lc.s.recordViolation(lc.i, e.Execution, "execution %d was created with a dispatch timeout of %v, and %v was requested", e.Execution, e.DispatchTimeout, want.DispatchTimeout)
	}
}

// judgeRetry compares a retry with the row that it retries.
func (lc *limitsChecker) judgeRetry(l *life) {
	lc.s.countOccasion(lc.i)
	n := &lc.created
	allowed := l.maxRetries
	if lc.s.freeRetry(l) {
		allowed++
	}
	switch {
	case n.Limit != allowed:
		lc.s.recordViolation(lc.i, n.Execution, "execution %d retries execution %d with %d retries allowed instead of %d", n.Execution, l.id, n.Limit, allowed)
	case n.RunTimeout != l.runTimeout:
		lc.s.recordViolation(lc.i, n.Execution, "execution %d retries execution %d with a run timeout of %v instead of %v", n.Execution, l.id, n.RunTimeout, l.runTimeout)
	case n.DispatchTimeout != l.dispatchTimeout:
		lc.s.recordViolation(lc.i, n.Execution, "execution %d retries execution %d with a dispatch timeout of %v instead of %v", n.Execution, l.id, n.DispatchTimeout, l.dispatchTimeout)
	}
}

// judgeDeadline judges a deadline, which counts from the change of status, by the database's clock.
func (lc *limitsChecker) judgeDeadline(e *history.Event, what string, timeout time.Duration) {
	lc.s.countOccasion(lc.i)
	if has := e.Due - lc.s.databaseTime(e.At); has < timeout-lc.s.tolerance || has > timeout+lc.s.tolerance {
		lc.s.recordViolation(lc.i, e.Execution, "execution %d may %s for %v at epoch %d, and its limit is %v", e.Execution, what, has, e.Epoch, timeout)
	}
}

func (lc *limitsChecker) endRun(bool) {}
