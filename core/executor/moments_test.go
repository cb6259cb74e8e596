package executor

import (
	"testing"
	"time"

	"handoff/core/host"
)

func TestPassKeepsLaterDueTime(t *testing.T) {
	var m dueTimes
	for _, at := range []time.Duration{9 * time.Second, 3 * time.Second, 5 * time.Second, 3 * time.Second} {
		m.add(at)
	}
	for _, want := range []time.Duration{3 * time.Second, 5 * time.Second, 9 * time.Second, host.Forever} {
		if next := m.next(); next != want {
			t.Fatalf("the next moment is %v, want %v of %v", next, want, m)
		}
		m.dropUntil(want)
	}
}

func TestDueTimesDropLatestFirst(t *testing.T) {
	var m dueTimes
	for i := range 2 * mostMoments {
		m.add(time.Duration(2*mostMoments-i) * time.Second)
	}
	if len(m) != mostMoments || m.next() != time.Second {
		t.Errorf("%d moments are kept, the first is %v; want %d from 1s on", len(m), m.next(), mostMoments)
	}
}
