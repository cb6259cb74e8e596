package executor

import (
	"sync"
	"time"

	"handoff/core/config"
)

// outage knows when the database last answered again after so long a silence that workers may have
// missed a heartbeat. Whoever was cut off comes back within a lease, and until that is over nobody is
// to be judged by how long ago something happened (defects D47, D58). It makes no difference whether the
// database was away, the link was cut, or this process slept; and a start is the end of one.
type outage struct {
	gap time.Duration

	mu sync.Mutex
	// answered is when the database answered last, over when it answered again.
	answered, over time.Duration
}

func newOutage(c config.Config, now time.Duration) *outage {
	// Every reconcile interval some loop asks something.
	gap := c.Worker.HeartbeatInterval + c.Executor.ReconcileInterval
	return &outage{gap: gap, answered: now - gap - 1, over: now}
}

// answer notes that the database has answered now.
func (o *outage) answer(now time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if now-o.answered > o.gap {
		o.over = now
	}
	o.answered = now
}

// ended is when the last outage ended.
func (o *outage) ended() time.Duration {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.over
}

// recent says that an outage lasts, or that the last one was over less than d ago.
func (o *outage) recent(now, d time.Duration) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return now-o.over < d || now-o.answered > o.gap
}
