package live

import (
	"context"
	"slices"
	"sync"
	"time"
)

// planClock is the time of a soak's plan. It stops while a server is starting, which on a busy
// machine takes longer than the plan assumes: otherwise the next strikes would come before the
// system can have recovered. It implements run.Clock.
type planClock struct {
	w *world

	mu      sync.Mutex
	now     time.Duration
	waiting []appointment
}

// appointment is a call that is due at a time of the plan.
type appointment struct {
	at time.Duration
	f  func()
}

// planTick is the resolution of the plan's times.
const planTick = 20 * time.Millisecond

// Now implements run.Clock.
func (c *planClock) Now() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// After implements run.Clock. It calls f in a goroutine of its own.
func (c *planClock) After(d time.Duration, f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiting = append(c.waiting, appointment{c.now + max(0, d), f})
}

// run advances the time until ctx ends.
func (c *planClock) run(ctx context.Context) {
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
		c.pass(passed, c.w.starting.Load() > 0)
	}
}

// pass advances the time, unless still is set, and makes the calls that are due.
func (c *planClock) pass(passed time.Duration, still bool) {
	c.mu.Lock()
	if !still {
		c.now += passed
	}
	var due []func()
	c.waiting = slices.DeleteFunc(c.waiting, func(p appointment) bool {
		if p.at <= c.now {
			due = append(due, p.f)
		}
		return p.at <= c.now
	})
	c.mu.Unlock()
	for _, f := range due {
		c.w.after(0, f)
	}
}
