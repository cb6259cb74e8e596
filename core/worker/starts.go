package worker

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// The first and the longest rest after a start that failed.
const (
	firstRest   = time.Second
	longestRest = 30 * time.Second
)

// startBackoff tracks whether the machine starts actions. While it lacks descriptors, processes, memory or
// disk space, the worker rests longer and longer between attempts, because each claim would only fail its
// execution. Deliveries wait meanwhile, as they do for a slot.
type startBackoff struct {
	mu    sync.Mutex
	rest  time.Duration
	until time.Duration
	// rested is when the previous rest ended.
	rested time.Duration
}

// restLonger records that an action could not be started, and returns how long the worker rests; 0 if it
// already rests.
func (s *startBackoff) restLonger(now time.Duration) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now < s.until {
		return 0
	}
	s.rest = min(max(2*s.rest, firstRest), longestRest)
	s.until = now + s.rest
	return s.rest
}

// restNoMore records that an action was started, which ends the rest.
func (s *startBackoff) restNoMore(now time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rested = max(s.rested, min(now, s.until))
	s.rest, s.until = 0, 0
}

// lastRest returns the latest time at which the worker rested, which may be now; 0 if it never did.
func (s *startBackoff) lastRest(now time.Duration) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return max(s.rested, min(now, s.until))
}

// restLeft returns how much longer the worker rests.
func (s *startBackoff) restLeft(now time.Duration) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return max(0, s.until-now)
}

// restAfter begins a rest because an action could not be started, and logs it.
func (s *session) restAfter(err error) {
	if rest := s.starts.restLonger(s.host.Monotonic()); rest > 0 {
		s.log.LogAttrs(context.Background(), slog.LevelWarn, "an action could not be started, the worker claims nothing for a while: look at its limits of descriptors and processes, its memory and its disk",
			slog.Duration("rests", rest), slog.Any("error", err))
	}
}

// lastFull returns the latest time, perhaps now, at which the worker had no slot for a delivery: all were
// taken, or it rested. ever is false if a slot was always free.
func (s *session) lastFull(now time.Duration) (at time.Duration, ever bool) {
	at, ever = s.held.lastFull(now)
	if rested := s.starts.lastRest(now); rested > 0 {
		at, ever = max(at, rested), true
	}
	return at, ever
}
