package stress

import (
	"context"
	"time"

	"github.com/benbjohnson/clock"
)

// scale is how much faster than real time everything runs: a lease of 30 s is over in 0.6 s.
const scale = 50

// fastClock is a clock on which scale seconds pass in each second.
type fastClock struct {
	clock.Clock
	began time.Time
}

func newFastClock() *fastClock { return &fastClock{Clock: clock.New(), began: time.Now()} }

// Now implements clock.Clock.
func (c *fastClock) Now() time.Time { return c.began.Add(scale * time.Since(c.began)) }

// Since implements clock.Clock.
func (c *fastClock) Since(t time.Time) time.Duration { return c.Now().Sub(t) }

// AfterFunc implements clock.Clock.
func (c *fastClock) AfterFunc(d time.Duration, f func()) *clock.Timer {
	return c.Clock.AfterFunc(d/scale, f)
}

// WithTimeout implements clock.Clock.
func (c *fastClock) WithTimeout(parent context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(parent, d/scale)
}
