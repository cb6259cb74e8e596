package worker

import (
	"sync"
	"time"

	"handoff/core/config"
	"handoff/core/host"
)

// lease is the worker's own view of its right to run, on its own monotonic clock.
//
// The argument: the database grants [applied, applied + lease]. The worker doesn't know when its
// request was applied, but it was after the request was sent, so a lease counted from the start of
// the last successful renewal ends, on any clock that keeps its drift within the margin's 1 %, no
// later than the database's. At that moment less the margin the worker stops claiming and ends its
// actions; the margin covers the kill grace, the drift, and one statement that is under way. So when
// the database says that the lease is over, no action of the incarnation is alive, and whoever
// takes its work away can be sure of that (defect D15).
type lease struct {
	host   host.Host
	length time.Duration
	margin time.Duration
	grace  time.Duration

	mu sync.Mutex
	// renewed is the start of the last successful renewal.
	renewed time.Duration
	fenced  bool
}

func newLease(h host.Host, c config.Worker, granted time.Duration) *lease {
	return &lease{host: h, length: c.Lease(), margin: c.FenceMargin, grace: c.KillGrace, renewed: granted}
}

// renew counts a renewal whose request was sent at sent. It returns false if the worker has fenced
// itself meanwhile: a right that was given up does not come back.
func (l *lease) renew(sent time.Duration) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.fenced {
		return false
	}
	l.renewed = max(l.renewed, sent)
	return true
}

// deadline is when the worker has to fence itself, and when its shims kill what is left.
func (l *lease) deadline() (fence, kill time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	fence = l.renewed + l.length - l.margin
	return fence, fence + l.grace
}

// fence ends the right if its time has come, and says whether it is ended.
func (l *lease) fence() bool {
	now := l.host.Monotonic()
	l.mu.Lock()
	defer l.mu.Unlock()
	if now >= l.renewed+l.length-l.margin {
		l.fenced = true
	}
	return l.fenced
}

// room says that the lease, as it was renewed last, is not fenced for longer than d from now on.
func (l *lease) room(now, d time.Duration) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.fenced && now+d < l.renewed+l.length-l.margin
}
