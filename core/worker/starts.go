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

// startBackoff remembers whether the machine starts actions. While it does not, for want of descriptors,
// processes, memory or room on the disk, the worker rests longer and longer between two attempts:
// each claim would only end its execution. Deliveries wait meanwhile, as they do for a slot.
type startBackoff struct {
	mu    sync.Mutex
	rest  time.Duration
	until time.Duration
	// rested is the latest moment of all earlier rests.
	rested time.Duration
}

// restLonger notes that an action could not be started, and returns how long the worker rests; 0 if
// another failure has made it rest already.
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

// restNoMore notes that an action was started.
func (s *startBackoff) restNoMore(now time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rested = max(s.rested, min(now, s.until))
	s.rest, s.until = 0, 0
}

// lastRest returns the latest moment at which the worker rested, which may be now; 0 if it never did.
func (s *startBackoff) lastRest(now time.Duration) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return max(s.rested, min(now, s.until))
}

// restLeft is how long the worker still rests.
func (s *startBackoff) restLeft(now time.Duration) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return max(0, s.until-now)
}

// restAfter rests because an action could not be started.
func (s *session) restAfter(err error) {
	if rest := s.starts.restLonger(s.host.Monotonic()); rest > 0 {
		s.log.LogAttrs(context.Background(), slog.LevelWarn, "an action could not be started, the worker claims nothing for a while: look at its limits of descriptors and processes, its memory and its disk",
			slog.Duration("rests", rest), slog.Any("error", err))
	}
}

// lastFull returns the latest moment at which the worker had no slot for a delivery, which may be now: every
// slot was taken, or it rested. ever is false if it always had one.
func (s *session) lastFull(now time.Duration) (at time.Duration, ever bool) {
	at, ever = s.held.lastFull(now)
	if rested := s.starts.lastRest(now); rested > 0 {
		at, ever = max(at, rested), true
	}
	return at, ever
}
