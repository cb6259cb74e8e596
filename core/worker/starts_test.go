package worker

import (
	"testing"
	"time"

	"handoff/core/broker"
	"handoff/core/execution"
)

// While the machine can't start actions, the worker claims less and less often. A start ends that.
func TestFailedStartMakesWorkerRest(t *testing.T) {
	var s startBackoff
	now := time.Minute
	for _, want := range []time.Duration{1, 2, 4, 8, 16, 30, 30} {
		if got := s.restLonger(now); got != want*time.Second {
			t.Errorf("at %v it rests for %v, want %v", now, got, want*time.Second)
		}
		if again := s.restLonger(now + time.Millisecond); again != 0 {
			t.Errorf("a second failure at once adds %v", again)
		}
		if left := s.restLeft(now + time.Second/2); left != want*time.Second-time.Second/2 {
			t.Errorf("half a second later %v are left", left)
		}
		now += want * time.Second
	}
	s.restNoMore(now)
	if left := s.restLeft(now); left != 0 {
		t.Errorf("after a start %v are left", left)
	}
	if got := s.restLonger(now); got != firstRest {
		t.Errorf("the first failure after a start makes it rest for %v", got)
	}
}

// While the worker rests, deliveries wait, and nothing is claimed.
func TestRestingWorkerTakesNoSlot(t *testing.T) {
	session := finishing(&pickyStore{})
	dispatch := broker.Dispatch{Key: execution.Key{ID: 7, Epoch: 1}}
	session.waiting = append(session.waiting, delivery{Dispatch: &dispatch, since: session.host.Monotonic()})
	session.starts.restLonger(session.host.Monotonic())
	if taken, late, left := session.nextWaiting(); len(taken)+len(late) > 0 || left <= 0 || left > firstRest {
		t.Errorf("it took %d, gave back %d, and looks again after %v", len(taken), len(late), left)
	}
	now := session.host.Monotonic()
	if at, ever := session.lastFull(now); !ever || at != now {
		t.Errorf("while it rests it was full at %v (%v), want now, or what it does not start counts against it", at, ever)
	}
	session.starts.restNoMore(session.host.Monotonic())
	if taken, _, _ := session.nextWaiting(); len(taken) != 1 {
		t.Errorf("after a start it took %d, want 1", len(taken))
	}
}
