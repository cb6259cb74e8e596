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
	return &brake{config: config.Default(config.Hardened), lost: make(map[execution.WorkerID]time.Duration)}
}

func TestBrakeHoldsTwoLeasesThenOneAtATime(t *testing.T) {
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
		if got := len(b.admit(at+step.after, reaps(step.over), 6)); got != step.want {
			t.Errorf("%v after most were over, with %d left: %d reaped, want %d", step.after, step.over, got, step.want)
		}
	}
	if b.engaged || b.trickles {
		t.Error("nobody is over, and the brake is not released")
	}
}

func TestBrakeAtItsBoundaries(t *testing.T) {
	for _, c := range []struct {
		alive, over, lost, want int
	}{
		{4, 2, 0, 2}, // exactly half
		{4, 3, 0, 0},
		{3, 3, 0, 3}, // too few to tell
		{2, 1, 2, 0}, // of four, two were lost just now
		{5, 1, 2, 1},
	} {
		b := newBrake()
		for id := range c.lost {
			b.lost[execution.WorkerID(100+id)] = time.Hour - time.Second
		}
		if got := len(b.admit(time.Hour, reaps(c.over), c.alive)); got != c.want {
			t.Errorf("%+v: %d reaped", c, got)
		}
	}
}

func TestBrakeLetsGoWhenTheWorkersAreBack(t *testing.T) {
	b := newBrake()
	b.admit(0, reaps(4), 6)
	if got := len(b.admit(10*time.Second, reaps(1), 6)); got != 1 || b.engaged {
		t.Errorf("five of six are back: %d reaped, engaged %v", got, b.engaged)
	}
}

func TestOutage(t *testing.T) {
	const lease = 30 * time.Second
	o := newOutage(config.Default(config.Hardened), 0)
	if !o.recent(0, lease) {
		t.Error("an executor that has just started does not wait")
	}
	o.answer(3 * time.Second)
	if !o.recent(3*time.Second+lease-1, lease) {
		t.Error("the wait after a start does not last a lease from the first answer")
	}
	for at := 5 * time.Second; at <= 100*time.Second; at += 5 * time.Second {
		o.answer(at)
	}
	o.answer(115 * time.Second)
	if o.recent(115*time.Second, lease) {
		t.Error("fifteen seconds of silence are no outage")
	}
	if !o.recent(131*time.Second, lease) {
		t.Error("an outage that lasts is not recent")
	}
	o.answer(131 * time.Second)
	if !o.recent(131*time.Second+14*time.Second, lease) {
		t.Error("the wait ends before a lease is over")
	}
	for at := 135 * time.Second; at <= 165*time.Second; at += 5 * time.Second {
		o.answer(at)
	}
	if !o.recent(131*time.Second+lease-1, lease) || o.recent(165*time.Second, lease) {
		t.Error("the wait does not end a lease after the outage")
	}
}
