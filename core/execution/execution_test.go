package execution

import (
	"strings"
	"testing"
)

func TestParseInvertsString(t *testing.T) {
	for s := Requested; s <= Abandoned; s++ {
		if back, err := ParseStatus(s.String()); err != nil || back != s {
			t.Errorf("status %d is called %q, which is read as %v, %v", s, s, back, err)
		}
	}
	for r := NoReason; r <= Unknown; r++ {
		if back, err := ParseReason(r.String()); err != nil || back != r {
			t.Errorf("reason %d is called %q, which is read as %v, %v", r, r, back, err)
		}
	}
	if _, err := ParseStatus("done"); err == nil {
		t.Error(`"done" is read as a status`)
	}
	if r, err := ParseReason("bored"); err == nil || !strings.Contains(err.Error(), "bored") {
		t.Errorf(`"bored" is read as the reason %q, %v`, r, err)
	}
}

func TestTransitionTableObeysOwnership(t *testing.T) {
	transitions := NewTransitionTable()
	for from := None; from <= Abandoned; from++ {
		for to := None; to <= Abandoned; to++ {
			legal := transitions.Legal(from, to)
			if from.Terminal() && legal {
				t.Errorf("%v is terminal and may become %v", from, to)
			}
			if to == Running && legal != (from == Scheduled) {
				t.Errorf("%v → running: legal is %v; only a scheduled execution can be claimed", from, legal)
			}
			if from.Claimed() && to == Requested && legal {
				t.Errorf("%v may become requested: claimed work never may", from)
			}
		}
	}
	for _, by := range []Part{API, Scheduler, DeadLetterHandler, RetryManager} {
		for to := Completed; to <= Abandoned; to++ {
			if transitions.May(by, Running, to) {
				t.Errorf("the %v may end a running execution as %v", by, to)
			}
		}
	}
	for to := Requested; to <= Abandoned; to++ {
		if transitions.May(Worker, Requested, to) || transitions.May(Worker, Scheduling, to) {
			t.Errorf("a worker may write %v before the handoff", to)
		}
	}
}

func TestRetriableReasons(t *testing.T) {
	for _, r := range []Reason{QueueTimeout, WorkerUnavailable, NoWorkers, RunTimeout, HeartbeatStale, WorkerLost, Transient, Connection, WorkerShutdown, Unroutable, DispatchTimeout} {
		if !r.Retriable() {
			t.Errorf("%v is not retriable", r)
		}
	}
	for _, r := range []Reason{NoReason, Validation, Permission, ActionNotFound, InvalidParameters, Rejected, CancelRequested, ParentFailed, Unknown} {
		if r.Retriable() {
			t.Errorf("%q is retriable", r)
		}
	}
}
