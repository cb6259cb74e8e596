package config

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// For any configuration and random draw, a backoff stays below its cap and within BackoffBounds, whose lower
// bound never decreases from one attempt to the next (defect D52).
func TestBackoffStaysWithinBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := Retry{
			Enabled: true, BaseBackoffSecs: rapid.Int64Range(0, 600).Draw(t, "base"), MaxBackoffSecs: rapid.Int64Range(1, 3600).Draw(t, "cap"),
			BackoffMultiplier: rapid.Float64Range(1, 10).Draw(t, "multiplier"), JitterFactor: rapid.Float64Range(0, 1).Draw(t, "jitter"),
		}
		n := rapid.IntRange(0, 1000).Draw(t, "attempt")
		share := rapid.Uint64().Draw(t, "share")
		got := r.Backoff(n, func(n uint64) uint64 { return share % n })
		lowest, highest := r.BackoffBounds(n)
		if got < lowest || got > highest {
			t.Fatalf("backoff %v is outside of [%v, %v]", got, lowest, highest)
		}
		if limit := time.Duration(r.MaxBackoffSecs) * time.Second; highest > limit || lowest < 0 {
			t.Fatalf("[%v, %v] exceeds 0 to the cap of %v", lowest, highest, limit)
		}
		if next, _ := r.BackoffBounds(n + 1); next < lowest {
			t.Fatalf("the lower bound falls from %v to %v after attempt %d", lowest, next, n)
		}
	})
}
