package stress

import (
	"context"
	"time"

	"github.com/benbjohnson/clock"
)

// scale is how many times faster than real time the clock runs: a lease of 30 s ends after 0.6 s.
const scale = 50

// fastClock is a clock on which scale seconds pass in each second of real time.
type fastClock struct {
	clock.Clock
	began time.Time
}

func newFastClock() *fastClock { return &fastClock{Clock: clock.New(), began: time.Now()} }

// Now implements clock.Clock.
func (fc *fastClock) Now() time.Time { return fc.began.Add(scale * time.Since(fc.began)) }

// Since implements clock.Clock.
func (fc *fastClock) Since(t time.Time) time.Duration { return fc.Now().Sub(t) }

// AfterFunc implements clock.Clock.
func (fc *fastClock) AfterFunc(d time.Duration, f func()) *clock.Timer {
	return fc.Clock.AfterFunc(d/scale, f)
}

// WithTimeout implements clock.Clock.
func (fc *fastClock) WithTimeout(parent context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(parent, d/scale)
}
