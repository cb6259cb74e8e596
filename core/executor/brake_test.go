package executor

import (
	"testing"
	"time"

	"handoff/core/config"
	"handoff/core/execution"
	"handoff/core/store"
)

func reaps(n int) []store.Reap { return make([]store.Reap, n) }

func newBrake() *brake {
	return &brake{config: config.Default(config.Hardened), departed: make(map[execution.WorkerID]departure)}
}

func TestBrakeHoldsThenTrickles(t *testing.T) {
	const lease = 30 * time.Second
	b := newBrake()
	at := time.Hour
	for _, step := range []struct {
		after time.Duration
		over  int
		want  int
	}{
		{0, 4, 0}, {2*lease - 1, 4, 0}, {2 * lease, 4, 1}, {2*lease + brakeStep, 3, 1}, {2*lease + 2*brakeStep, 1, 1}, {2*lease + 3*brakeStep, 0, 0},
	} {
		if got := len(b.admitReaps(at+step.after, reaps(step.over), 6)); got != step.want {
			t.Errorf("%v after most were over, with %d left: %d reaped, want %d", step.after, step.over, got, step.want)
		}
	}
	if b.engaged || b.trickles {
		t.Error("nobody is over, and the brake is not released")
	}
}

func TestBrakeBoundaries(t *testing.T) {
	for _, c := range []struct {
		alive, over, lost, stopped, want int
	}{
		{4, 2, 0, 0, 2}, // exactly half
		{4, 3, 0, 0, 0},
		{3, 3, 0, 0, 3}, // too few workers to judge by
		{2, 1, 2, 0, 0}, // two of four workers were just lost
		{5, 1, 2, 0, 1},
		{3, 3, 0, 1, 0}, // one of four workers has just stopped
		{3, 3, 0, 3, 3}, // half of six workers have stopped
		{1, 1, 0, 5, 1}, // a scaled-down fleet is not a mass failure
	} {
		b := newBrake()
		for id := range c.lost {
			b.departed[execution.WorkerID(100+id)] = departure{time.Hour - time.Second, true}
		}
		for id := range c.stopped {
			b.departed[execution.WorkerID(200+id)] = departure{time.Hour - time.Second, false}
		}
		if got := len(b.admitReaps(time.Hour, reaps(c.over), c.alive)); got != c.want {
			t.Errorf("%+v: %d reaped", c, got)
		}
	}
}

func TestBrakeReleasesWhenWorkersReturn(t *testing.T) {
	b := newBrake()
	b.admitReaps(0, reaps(4), 6)
	if got := len(b.admitReaps(10*time.Second, reaps(1), 6)); got != 1 || b.engaged {
		t.Errorf("five of six are back: %d reaped, engaged %v", got, b.engaged)
	}
}

func TestBrakeHoldsWhenWorkerStops(t *testing.T) {
	const lease = 30 * time.Second
	b := newBrake()
	at := time.Hour
	if got := len(b.admitReaps(at, reaps(3), 4)); got != 0 {
		t.Fatalf("three of four are over: %d reaped", got)
	}
	b.departed[4] = departure{at + 5*time.Second, false}
	// Even more than a lease after the stop, the hold still counts the workers that existed at its start.
	for _, after := range []time.Duration{5 * time.Second, lease + 6*time.Second, 2*lease - 1} {
		if got := len(b.admitReaps(at+after, reaps(3), 3)); got != 0 {
			t.Errorf("%v after most were over: %d reaped, because the fourth has stopped", after, got)
		}
	}
	if got := len(b.admitReaps(at+2*lease, reaps(3), 3)); got != 1 || !b.trickles {
		t.Errorf("after the hold %d reaped, one at a time is %v", got, b.trickles)
	}
}

func TestOutageIsRecentForOneLease(t *testing.T) {
	const lease = 30 * time.Second
	o := newOutage(config.Default(config.Hardened), 0)
	if !o.isRecent(0, lease) {
		t.Error("an executor that has just started does not wait")
	}
	o.noteAnswer(3 * time.Second)
	if !o.isRecent(3*time.Second+lease-1, lease) {
		t.Error("the wait after a start does not last a lease from the first answer")
	}
	for at := 5 * time.Second; at <= 100*time.Second; at += 5 * time.Second {
		o.noteAnswer(at)
	}
	o.noteAnswer(115 * time.Second)
	if o.isRecent(115*time.Second, lease) || o.isRecent(130*time.Second, lease) || !o.isRecent(130*time.Second+1, lease) {
		t.Error("fifteen seconds of silence are not an outage, and a nanosecond more is one")
	}
	if !o.isRecent(131*time.Second, lease) {
		t.Error("an outage that still continues is not recent")
	}
	o.noteAnswer(131 * time.Second)
	if !o.isRecent(131*time.Second+14*time.Second, lease) {
		t.Error("the wait ends before a lease is over")
	}
	for at := 135 * time.Second; at <= 165*time.Second; at += 5 * time.Second {
		o.noteAnswer(at)
	}
	if !o.isRecent(131*time.Second+lease-1, lease) || o.isRecent(165*time.Second, lease) {
		t.Error("the wait does not end a lease after the outage")
	}
}
