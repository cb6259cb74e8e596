package executor

import (
	"testing"
	"time"
)

func TestRunsAreTimedByExecutorClock(t *testing.T) {
	const minute, second = time.Minute, time.Second
	zero := time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)
	h := &manualHost{now: time.Hour}
	d := &databaseClock{host: h}
	// look advances both clocks, sets the database's clock, and makes a reading.
	offset := time.Duration(0)
	look := func(pass, step time.Duration) {
		h.now += pass
		offset += step
		d.addReading(zero.Add(h.now-time.Hour+offset), h.now, h.now)
	}
	ran := func(started time.Duration) (time.Duration, bool) {
		return d.elapsedSince(zero.Add(started))
	}
	expect := func(what string, started, want time.Duration, wantKnown bool) {
		t.Helper()
		if got, known := ran(started); got != want || known != wantKnown {
			t.Errorf("%s: ran for %v, known %v, not %v, %v", what, got, known, want, wantKnown)
		}
	}
	expect("before the first look", 0, 0, false)
	look(0, 0)
	expect("it started before the first look", -second, second, true)
	if ran, known := d.elapsedSince(zero.AddDate(-8000, 0, 0)); ran < century || !known {
		t.Errorf("it started ages before the first look: ran for %v, known %v", ran, known)
	}
	look(minute, 0)
	look(minute, 300*time.Millisecond)
	expect("while the clocks go alike", minute, minute, true)
	look(10*second, 5*minute)
	expect("before a step forwards", minute, 70*second, true)
	expect("between the looks before and after it", 2*minute+5*second, 0, true)
	look(10*second, 0)
	expect("it started before the first look, and the clock was set since", -second, 2*minute+21*second, true)
	expect("after it", 7*minute+10*second+300*time.Millisecond, 10*second, true)
	expect("after the last look", 9*minute, 0, true)
	// The clock shows the same time twice: the second occurrence counts.
	look(10*second, -15*second)
	h.now += 5 * second
	expect("after a step backwards", 7*minute+15*second+300*time.Millisecond, 5*second, true)
	expect("between a step backwards and the next look", 7*minute+10*second+300*time.Millisecond, 5*second, true)
	// After a large step backwards, the clock shows times from before the first reading. Runs that began
	// between the step and the reading that detects it are dated by that reading, earlier ones by the first
	// reading.
	look(10*second, -time.Hour)
	h.now += 3 * second
	from := h.now - time.Hour + offset - 3*second
	expect("between a far step backwards and the next look", from-9*second, 3*second, true)
	expect("long before a far step backwards", from-20*second, h.now-time.Hour-from+20*second, true)
	look(0, time.Hour) // undoes the step before the next reading

	before := len(d.spans)
	slow := func(step time.Duration) {
		offset += step
		d.addReading(zero.Add(h.now-time.Hour+offset), h.now, h.now+4*clockTolerance)
	}
	slow(0)
	slow(3 * clockTolerance)
	if len(d.spans) != before {
		t.Error("a reading that took long, and may be right by that, was taken for a step")
	}
	shown := h.now - time.Hour + offset - minute
	slow(-minute)
	if len(d.spans) != before+1 {
		t.Error("a step that is larger than the doubt was not seen")
	}
	h.now += 10 * second
	expect("since the slow reading", shown, 10*second-4*clockTolerance, true)
	slow(-minute - 3*clockTolerance)
	slow(3 * clockTolerance)
	if len(d.spans) != before+2 {
		t.Error("another reading within the doubt of both was taken for a step")
	}
	for range 2 * clockSpans {
		look(second, -minute)
	}
	if len(d.spans) != clockSpans {
		t.Errorf("%d spans are kept", len(d.spans))
	}
}
