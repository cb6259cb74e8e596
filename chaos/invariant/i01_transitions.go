package invariant

import (
	"handoff/chaos/history"
	"handoff/chaos/oracle"
	"handoff/core/execution"
)

// legalTransitions returns invariant 1 (defects D4, D16).
func legalTransitions() *Invariant {
	i := &Invariant{
		Number: 1, Name: "legal transitions", Unconfigured: true,
		Statement: "An execution only makes the legal changes of status, and a terminal status is final.",
		Needs:     []history.Kind{history.Created, history.Transition},
	}
	i.make = func(s *Suite) checker { return &transitionChecker{i, s} }
	return i
}

type transitionChecker struct {
	i *Invariant
	s *Suite
}

// observedKinds implements selective.
func (t *transitionChecker) observedKinds() []history.Kind {
	return []history.Kind{history.Created, history.Transition}
}

func (t *transitionChecker) observeEvent(e *history.Event, l *life) {
	if e.Kind == history.Created {
		t.s.countOccasion(t.i)
		if e.To != execution.Requested {
			t.s.recordViolation(t.i, e.Execution, "execution %d was created as %v", e.Execution, e.To)
		}
	}
	if e.Kind != history.Transition {
		return
	}
	t.s.countOccasion(t.i)
	switch {
	case oracle.Terminal(e.From):
		t.s.recordViolation(t.i, e.Execution, "execution %d had ended as %v, and the %v (%s) changed it to %v", e.Execution, e.From, e.By, e.Process, e.To)
	case !t.s.transitions.Legal(e.From, e.To):
		t.s.recordViolation(t.i, e.Execution, "execution %d was changed from %v to %v by the %v (%s), which nobody may do", e.Execution, e.From, e.To, e.By, e.Process)
	case l == nil:
		t.s.recordViolation(t.i, e.Execution, "execution %d was changed from %v to %v, but no such execution is alive", e.Execution, e.From, e.To)
	case l.status != e.From:
		t.s.recordViolation(t.i, e.Execution, "execution %d was %v and is changed from %v: a change was not recorded", e.Execution, l.status, e.From)
	}
}

func (t *transitionChecker) endRun(bool) {}
