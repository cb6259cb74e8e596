package invariant

import (
	"handoff/chaos/history"
	"handoff/chaos/oracle"
)

// epochFencing returns invariant 3 (defect D3).
func epochFencing() *Invariant {
	i := &Invariant{
		Number: 3, Name: "fencing", Unconfigured: true,
		Statement: "A write that names an old epoch never takes effect. Every dispatch and every take-back raises the epoch by one.",
		Needs:     []history.Kind{history.Transition},
	}
	i.make = func(s *Suite) checker { return &fencingChecker{i, s} }
	return i
}

type fencingChecker struct {
	i *Invariant
	s *Suite
}

// observedKinds implements selective.
func (f *fencingChecker) observedKinds() []history.Kind {
	return []history.Kind{history.Transition}
}

func (f *fencingChecker) observeEvent(e *history.Event, _ *life) {
	if e.Kind != history.Transition {
		return
	}
	f.s.countOccasion(f.i)
	if e.Named != e.OldEpoch {
		f.s.recordViolation(f.i, e.Execution, "the %v (%s) wrote %v for epoch %d of execution %d, and it took effect at epoch %d",
			e.By, e.Process, e.To, e.Named, e.Execution, e.OldEpoch)
		return
	}
	want := e.OldEpoch
	if oracle.Fences(e.From, e.To) {
		want++
	}
	if e.Epoch != want {
		f.s.recordViolation(f.i, e.Execution, "execution %d went from %v to %v at epoch %d, from epoch %d: it should be %d",
			e.Execution, e.From, e.To, e.Epoch, e.OldEpoch, want)
	}
}

func (f *fencingChecker) endRun(bool) {}
