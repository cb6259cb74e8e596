package live

import (
	"context"
	"slices"
	"sync"
	"time"
)

// planClock is the clock of a soak's plan; it implements run.Clock. It stops while a server starts, because a
// start takes longer on a busy machine than the plan assumes. Otherwise the next strike would come before the
// system can have recovered.
type planClock struct {
	w *world

	mu      sync.Mutex
	now     time.Duration
	waiting []appointment
}

// appointment is a call that is due at a given time of the plan.
type appointment struct {
	at time.Duration
	f  func()
}

// planTick is the resolution of the plan's times.
const planTick = 20 * time.Millisecond

// Now implements run.Clock.
func (pc *planClock) Now() time.Duration {
	pc.mu.Lock()
	defer pc.mu.Unlock()
	return pc.now
}

// After implements run.Clock. It calls f in a new goroutine.
func (pc *planClock) After(d time.Duration, f func()) {
	pc.mu.Lock()
	defer pc.mu.Unlock()
	pc.waiting = append(pc.waiting, appointment{pc.now + max(0, d), f})
}

// tickUntilDone advances the clock until ctx ends.
func (pc *planClock) tickUntilDone(ctx context.Context) {
	tick := time.NewTicker(planTick)
	defer tick.Stop()
	last := time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		passed := time.Since(last)
		last = time.Now()
		pc.advanceBy(passed, pc.w.starting.Load() > 0)
	}
}

// advanceBy advances the clock, unless still is set, and makes the calls that are due.
func (pc *planClock) advanceBy(passed time.Duration, still bool) {
	pc.mu.Lock()
	if !still {
		pc.now += passed
	}
	var due []func()
	pc.waiting = slices.DeleteFunc(pc.waiting, func(p appointment) bool {
		if p.at <= pc.now {
			due = append(due, p.f)
		}
		return p.at <= pc.now
	})
	pc.mu.Unlock()
	for _, f := range due {
		pc.w.callAfter(0, f)
	}
}
