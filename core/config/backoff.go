package config

import (
	"math"
	"time"
)

// Backoff returns the delay before attempt n + 1: base × multiplierⁿ, with jitter, then capped. It computes
// in integers, so that the result is the same on every machine. The unit is milliseconds: whole seconds would
// make about half of the first delays zero. Jitter after the cap would exceed it (defect D52). draw returns a
// number in [0, n).
func (r Retry) Backoff(n int, draw func(n uint64) uint64) time.Duration {
	ceiling := r.MaxBackoffSecs * 1000
	multiplier, jitter := toPermille(r.BackoffMultiplier), toPermille(r.JitterFactor)
	// The delay grows in microseconds: with a small multiplier, milliseconds rounded down at every step would
	// fall behind. Growth beyond the cap and its jitter has no effect and could overflow.
	us := r.BaseBackoffSecs * 1_000_000
	for i := 0; i < n && (us < 2000*ceiling || us/1000*(1000-jitter) < 1000*ceiling) && us < math.MaxInt64/multiplier; i++ {
		us = us * multiplier / 1000
	}
	ms := us / 1000
	spread := ms * jitter / 1000
	if spread > 0 {
		ms += int64(draw(uint64(2*spread+1))) - spread
	}
	return time.Duration(min(ms, ceiling)) * time.Millisecond
}

// BackoffBounds returns the smallest and the largest delay that Backoff can return for n.
func (r Retry) BackoffBounds(n int) (lowest, highest time.Duration) {
	lowest = r.Backoff(n, func(uint64) uint64 { return 0 })
	highest = r.Backoff(n, func(n uint64) uint64 { return n - 1 })
	return lowest, highest
}

// toPermille rounds a configured factor to an integer once, so that all computations use integers.
func toPermille(f float64) int64 { return int64(math.Round(f * 1000)) } //detlint:ok one rounding, the same everywhere
