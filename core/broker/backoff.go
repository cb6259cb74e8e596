package broker

import (
	"context"
	"time"

	"handoff/core/host"
)

// Backoff spaces out attempts. Its bound doubles from a minimum to a maximum, and each delay is drawn between
// half of the bound and the bound. So processes that lose the broker at the same time do not all reconnect at
// the same time. A Backoff is for a single task.
type Backoff struct {
	host     host.Host
	min, max time.Duration
	next     time.Duration
}

// NewBackoff returns a backoff whose bound starts at minimum.
func NewBackoff(h host.Host, minimum, maximum time.Duration) *Backoff {
	return &Backoff{host: h, min: minimum, max: maximum, next: minimum}
}

// Reset sets the bound back to the minimum. Call it after a success.
func (b *Backoff) Reset() { b.next = b.min }

// Wait sleeps for the next delay, or returns ctx's error.
func (b *Backoff) Wait(ctx context.Context) error {
	half := b.next / 2
	d := half + time.Duration(b.host.Uint64N(uint64(half)+1))
	b.next = min(2*b.next, b.max)
	return b.host.Sleep(ctx, d)
}
