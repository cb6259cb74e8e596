package executor

import (
	"testing"
	"time"

	"handoff/core/execution"
)

func TestOverrunNeedsBothClocks(t *testing.T) {
	const grace = 10 * time.Second
	zero := time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)
	h := &manualHost{now: time.Hour}
	s := &Service{databaseClock: &databaseClock{host: h}}
	s.databaseClock.addReading(zero, h.now, h.now)
	row := &execution.Execution{StartedAt: zero, RunDeadline: zero.Add(15 * time.Second)}
	for _, c := range []struct {
		ran  time.Duration
		want bool
	}{{15 * time.Second, false}, {25*time.Second - 1, false}, {25 * time.Second, true}} {
		h.now = time.Hour + c.ran
		if got := s.isOverrun(row, grace); got != c.want {
			t.Errorf("after %v of 15s and a grace of 10s: over is %v", c.ran, got)
		}
	}
	// Before the first reading, only the database's clock counts; after it, both clocks do.
	row.StartedAt, row.RunDeadline = zero.Add(-5*time.Second), zero.Add(10*time.Second)
	for _, c := range []struct {
		ran  time.Duration
		want bool
	}{{20*time.Second - 1, false}, {20 * time.Second, true}} {
		h.now = time.Hour + c.ran
		if got := s.isOverrun(row, grace); got != c.want {
			t.Errorf("%v after the first look, 5s before which the run began: over is %v", c.ran, got)
		}
	}
}
