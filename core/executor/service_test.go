package executor

import (
	"testing"
	"time"

	"handoff/core/host"
	"handoff/core/store"
)

// After Wake, the scheduler's next pass begins at once, without a hint from the broker.
func TestWakeEndsSchedulerPause(t *testing.T) {
	s, _ := sweeping(0)
	awake := func() bool {
		set, _ := s.scheduler.hints.wake.Wait(t.Context(), host.Forever)
		return set
	}
	if awake() {
		t.Fatal("something has woken the scheduler before")
	}
	if s.Wake(); !awake() {
		t.Error("nothing woke the scheduler")
	}
	if d := s.scheduler.passPause(); d != s.config.Executor.ReconcileInterval {
		t.Errorf("the next pass comes %v after that one, want the interval of the polls", d)
	}
}

func TestWorkerNameFollowsLatestSurvey(t *testing.T) {
	s, _ := sweeping(0)
	s.owners.surveyOwners([]store.WorkerRow{fit(1, nil), fit(2, func(w *store.WorkerRow) { w.LeaseOverFor = time.Hour })})
	if a, b, c := s.WorkerName(1), s.WorkerName(2), s.WorkerName(3); a != "a" || b != "b" || c != "" {
		t.Errorf("the names are %q, %q and, of one that no look has shown, %q", a, b, c)
	}
}
