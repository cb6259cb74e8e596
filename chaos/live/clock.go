package live

import (
	"hash/fnv"
	"math"
	"math/rand/v2"
	"sync"
	"time"
)

// clock is the runner's clock, which shows real time. Its time 0 is the moment when the cluster was ready.
type clock struct{ w *world }

func (w *world) scenarioClock() clock { return clock{w} }

// Now implements run.Clock.
func (c clock) Now() time.Duration { return c.w.sinceStart() - c.w.ready }

// After implements run.Clock. It calls f in a new goroutine.
func (c clock) After(d time.Duration, f func()) { c.w.callAfter(d, f) }

// stream is an independent source of random draws, so that adding a fault doesn't change other faults' draws.
type stream struct {
	mu sync.Mutex
	r  *rand.Rand
}

func newStream(seed uint64, label string) *stream {
	h := fnv.New64a()
	_, _ = h.Write([]byte(label))
	return &stream{r: rand.New(rand.NewPCG(seed, h.Sum64()))}
}

// Duration implements run.Draws.
func (s *stream) Duration(least, most time.Duration) time.Duration {
	if most <= least {
		return least
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return least + time.Duration(s.r.Int64N(int64(most-least)+1))
}

// LogDuration implements run.Draws.
func (s *stream) LogDuration(least, most time.Duration) time.Duration {
	least = max(least, time.Microsecond)
	if most <= least {
		return least
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	d := time.Duration(float64(least) * math.Pow(float64(most)/float64(least), s.r.Float64()))
	return min(d, most)
}

// Chance implements run.Draws.
func (s *stream) Chance(perMillion uint64) bool { return s.Uint64N(1_000_000) < perMillion }

// Uint64N implements run.Draws.
func (s *stream) Uint64N(n uint64) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.r.Uint64N(n)
}
