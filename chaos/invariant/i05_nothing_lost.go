package invariant

import (
	"fmt"
	"slices"

	"handoff/chaos/history"
	"handoff/chaos/oracle"
	"handoff/core/execution"
)

// nothingLost returns invariant 5 (defects D8, D13, D14).
func nothingLost() *Invariant {
	i := &Invariant{
		Number: 5, Name: "nothing lost",
		Statement: "Every accepted execution becomes terminal within the bound that the configuration implies.",
		Needs:     []history.Kind{history.Created, history.Transition},
	}
	i.make = func(s *Suite) checker { return &lostChecker{i, s} }
	return i
}

type lostChecker struct {
	i *Invariant
	s *Suite
}

// observedKinds implements selective.
func (lc *lostChecker) observedKinds() []history.Kind {
	return []history.Kind{history.Transition}
}

// observeEvent counts executions that have ended, as evidence that they were not lost. endRun judges the
// others.
func (lc *lostChecker) observeEvent(e *history.Event, l *life) {
	if e.Kind == history.Transition && l != nil && oracle.Terminal(e.To) && !oracle.Terminal(e.From) {
		lc.s.countOccasion(lc.i)
	}
}

func (lc *lostChecker) endRun(bool) {
	var stuck []execution.ID
	for id, l := range lc.s.lives.All() {
		if !oracle.Terminal(l.status) && !l.hidden && lc.s.isStuck(max(l.entered, l.shown)) {
			lc.s.countOccasion(lc.i)
			stuck = append(stuck, id)
		}
	}
	if len(stuck) == 0 {
		return
	}
	slices.Sort(stuck)
	l := lc.s.lives.Get(stuck[0])
	others := ""
	if n := len(stuck) - 1; n > 0 {
		others = fmt.Sprintf(" (and %d more)", n)
	}
	lc.s.recordViolation(lc.i, l.id, "execution %d%s is still %v, since %v; %s", l.id, others, l.status, l.entered, lc.owedStep(l))
	if lc.s.each == nil {
		return
	}
	for _, id := range stuck[1:] {
		l := lc.s.lives.Get(id)
		lc.s.recordViolation(lc.i, id, "execution %d is still %v, since %v; %s", id, l.status, l.entered, lc.owedStep(l))
	}
}

// owedStep returns which part must take the next step.
func (lc *lostChecker) owedStep(l *life) string {
	switch {
	case l.status == execution.Requested && l.parent != 0:
		return fmt.Sprintf("the handling of the end of its parent, execution %d, owes the next step", l.parent)
	case l.status == execution.Requested:
		return "the scheduler owes the next step"
	case l.status == execution.Scheduling:
		return "the reconciler of claims owes the next step"
	case l.status == execution.Scheduled && !l.published:
		return "the reconciler of dispatches owes the next step: no message of it was published"
	case l.status == execution.Scheduled && l.died != 0:
		return "the dead letter handler owes the next step, and the timeout monitor behind it"
	case l.status == execution.Scheduled:
		return fmt.Sprintf("incarnation %d owes the claim, and the timeout monitor the next step", l.incarnation)
	default:
		return fmt.Sprintf("incarnation %d owes the result, and the reconciler of owners the next step", l.incarnation)
	}
}
