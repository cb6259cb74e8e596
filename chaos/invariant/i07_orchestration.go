package invariant

import (
	"slices"

	"handoff/chaos/history"
	"handoff/chaos/oracle"
	"handoff/core/execution"
)

// orchestrationOnce returns invariant 7 (defects D22, D24, D50).
func orchestrationOnce() *Invariant {
	i := &Invariant{
		Number: 7, Name: "orchestration once",
		Statement: "The end of an execution is handled exactly once. The same step releases its slot, and creates its retry wherever one may follow. After the end of a chain, each of its workflow children is started once if the chain completed, and skipped once otherwise.",
		Needs:     []history.Kind{history.Created, history.Transition, history.Orchestrated},
	}
	i.make = func(s *Suite) checker {
		return &orchestrationChecker{i: i, s: s, retries: make(map[execution.ID]int64)}
	}
	return i
}

type orchestrationChecker struct {
	i *Invariant
	s *Suite
	// retries is the highest retry number of each chain whose end has not been handled.
	retries map[execution.ID]int64
}

// observedKinds implements selective.
func (o *orchestrationChecker) observedKinds() []history.Kind {
	return []history.Kind{history.Created, history.ChildStarted, history.Transition, history.Orchestrated}
}

func (o *orchestrationChecker) observeEvent(e *history.Event, l *life) {
	switch e.Kind {
	case history.Created:
		if e.Count > 0 {
			o.s.countOccasion(o.i)
			if o.retries[e.Chain] >= e.Count {
				o.s.recordViolation(o.i, e.Execution, "execution %d is a second retry number %d of execution %d", e.Execution, e.Count, e.Chain)
			}
			o.retries[e.Chain] = max(o.retries[e.Chain], e.Count)
		}
	case history.ChildStarted:
		o.s.countOccasion(o.i)
		if l == nil || l.parent == 0 {
			o.s.recordViolation(o.i, e.Execution, "execution %d, a child of execution %d, was started a second time by %s", e.Execution, e.Related, e.Process)
			return
		}
		o.judgeChild(e.Execution, e.Related, true)
	case history.Transition:
		o.judgeTransition(e, l)
	case history.Orchestrated:
		o.judgeHandledEnd(e, l)
	default:
	}
}

func (o *orchestrationChecker) judgeTransition(e *history.Event, l *life) {
	if l == nil || l.parent == 0 {
		return
	}
	o.s.countOccasion(o.i)
	switch {
	case e.To == execution.Scheduling:
		o.s.recordViolation(o.i, e.Execution, "execution %d was scheduled by %s while it waits for its parent, execution %d", e.Execution, e.Process, l.parent)
	case e.By == execution.ExecutionManager:
		o.judgeChild(e.Execution, l.parent, false)
	}
}

// judgeChild judges whether a child was rightly started or skipped, given the end of its parent's chain. That
// no child is forgotten is judged by invariant 12, because it needs a time bound.
func (o *orchestrationChecker) judgeChild(child, parent execution.ID, started bool) {
	o.s.countOccasion(o.i)
	switch ended := o.s.ended.finalStatus(parent); {
	case ended == execution.None:
		o.s.recordViolation(o.i, child, "execution %d was started or skipped before the chain of its parent, execution %d, had ended", child, parent)
	case started && ended != execution.Completed:
		o.s.recordViolation(o.i, child, "execution %d was started although its parent, execution %d, ended as %v", child, parent, ended)
	case !started && ended == execution.Completed:
		o.s.recordViolation(o.i, child, "execution %d was skipped although its parent, execution %d, completed", child, parent)
	}
}

func (o *orchestrationChecker) judgeHandledEnd(e *history.Event, l *life) {
	o.s.countOccasion(o.i)
	switch {
	case l == nil || l.orchestrated:
		o.s.recordViolation(o.i, e.Execution, "the end of execution %d was handled a second time, by %s", e.Execution, e.Process)
	case !oracle.Terminal(l.status):
		o.s.recordViolation(o.i, e.Execution, "the end of execution %d was handled by %s while it was %v", e.Execution, e.Process, l.status)
	case l.slot != 0:
		o.s.recordViolation(o.i, e.Execution, "the end of execution %d was handled by %s, and it still holds slot %d of %s", e.Execution, e.Process, l.slot, o.s.actions[l.action])
	case e.Related == 0:
		delete(o.retries, e.Chain)
	}
	if l != nil {
		o.judgeMissingRetry(e, l)
	}
}

// judgeMissingRetry requires that every execution that may be retried is retried. An end without a retry is
// then the last end of its chain.
func (o *orchestrationChecker) judgeMissingRetry(e *history.Event, l *life) {
	may := oracle.MayRetry(l.status, l.reason, int(l.retry), int(l.maxRetries)) || o.s.freeRetry(l)
	if !o.s.config.Retry.Enabled || o.s.cancelled[l.chain] || !may {
		return
	}
	o.s.countOccasion(o.i)
	if e.Related == 0 {
		o.s.recordViolation(o.i, e.Execution, "the end of execution %d as %v for %q was handled by %s without a retry, although it was retry %d of %d",
			e.Execution, l.status, l.reason, e.Process, l.retry, l.maxRetries)
	}
}

func (o *orchestrationChecker) endRun(bool) {
	var left []execution.ID
	for id, l := range o.s.lives.All() {
		if oracle.Terminal(l.status) && !l.orchestrated && o.s.isStuck(l.entered) {
			o.s.countOccasion(o.i)
			left = append(left, id)
		}
	}
	if len(left) == 0 {
		return
	}
	slices.Sort(left)
	l := o.s.lives.Get(left[0])
	o.s.recordViolation(o.i, l.id, "execution %d ended as %v at %v and its end was never handled (%d executions in all)", l.id, l.status, l.entered, len(left))
}
