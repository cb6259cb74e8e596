package executor

import (
	"testing"
	"time"

	"handoff/core/config"
	"handoff/core/execution"
)

// A row that is reclaimed again and again without counting waits longer each time, but never for minutes.
func TestUncountedReclaimBackoffGrows(t *testing.T) {
	retry := config.Default(config.Hardened).Retry
	middle := func(n uint64) uint64 { return n / 2 }
	for _, c := range []struct {
		epoch      execution.Epoch
		dispatches int
		want       time.Duration
	}{
		{1, 0, time.Second},
		{2, 0, time.Second},
		{3, 0, 2 * time.Second},
		{5, 0, 4 * time.Second},
		{11, 0, 32 * time.Second},
		{101, 0, 32 * time.Second},
		{3, 2, 4 * time.Second},
		{301, 7, 128 * time.Second},
	} {
		row := &execution.Execution{Epoch: c.epoch, Dispatches: c.dispatches}
		if got := retry.Backoff(reclaimCount(row), middle); got != c.want {
			t.Errorf("epoch %d with %d dispatches that count: %v, want %v", c.epoch, c.dispatches, got, c.want)
		}
	}
}
