package worker

import (
	"sync"
	"time"

	"handoff/core/config"
	"handoff/core/host"
)

// lease is the worker's own view of its right to run, on its own monotonic clock.
//
// The database grants [applied, applied + lease]. The worker doesn't know when its request was applied, only
// that this was after it was sent. So a lease counted from the start of the last renewal ends no later than
// the database's, if the clocks drift by no more than the margin's 1 %. One margin before that end, the
// worker stops claiming and ends its actions. The margin covers the kill grace, the drift, and one statement
// in progress. So when the lease is over in the database, no action of the incarnation is alive, and other
// parts may safely reclaim its work (defect D15).
type lease struct {
	host   host.Host
	length time.Duration
	margin time.Duration
	grace  time.Duration

	mu sync.Mutex
	// renewed is when the request of the last successful renewal was sent.
	renewed time.Duration
	fenced  bool
}

func newLease(h host.Host, c config.Worker, granted time.Duration) *lease {
	return &lease{host: h, length: c.Lease(), margin: c.FenceMargin, grace: c.KillGrace, renewed: granted}
}

// renewFrom records a renewal whose request was sent at sent. It returns false if the worker has fenced
// itself meanwhile, which is final.
func (l *lease) renewFrom(sent time.Duration) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.fenced {
		return false
	}
	l.renewed = max(l.renewed, sent)
	return true
}

// fenceDeadlines returns when the worker must fence itself, and when its shims kill the remaining actions.
func (l *lease) fenceDeadlines() (fence, kill time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	fence = l.renewed + l.length - l.margin
	return fence, fence + l.grace
}

// checkFence fences the worker if the fence's time has come, and reports whether it is fenced.
func (l *lease) checkFence() bool {
	now := l.host.Monotonic()
	l.mu.Lock()
	defer l.mu.Unlock()
	if now >= l.renewed+l.length-l.margin {
		l.fenced = true
	}
	return l.fenced
}

// hasRoom reports whether the fence, as of the last renewal, is later than d from now.
func (l *lease) hasRoom(now, d time.Duration) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.fenced && now+d < l.renewed+l.length-l.margin
}
