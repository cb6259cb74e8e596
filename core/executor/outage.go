package executor

import (
	"sync"
	"time"

	"handoff/core/config"
)

// outage records when the database last recovered after a silence so long that workers may have missed a
// heartbeat. A worker that was cut off recovers within a lease. Until then, no part may judge by how long ago
// something happened (defects D47, D58). The silence may be due to the database, the link, or a suspended
// process. A start counts as the end of an outage.
type outage struct {
	gap time.Duration

	mu sync.Mutex
	// answered is when the database last answered. over is when the last outage ended.
	answered, over time.Duration
}

func newOutage(c config.Config, now time.Duration) *outage {
	// Some loop calls the database at least once every reconcile interval.
	gap := c.Worker.HeartbeatInterval + c.Executor.ReconcileInterval
	return &outage{gap: gap, answered: now - gap - 1, over: now}
}

// noteAnswer records that the database has answered now.
func (o *outage) noteAnswer(now time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if now-o.answered > o.gap {
		o.over = now
	}
	o.answered = now
}

// lastEnd returns when the last outage ended.
func (o *outage) lastEnd() time.Duration {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.over
}

// isRecent reports whether an outage continues, or the last one ended less than d ago.
func (o *outage) isRecent(now, d time.Duration) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return now-o.over < d || now-o.answered > o.gap
}
