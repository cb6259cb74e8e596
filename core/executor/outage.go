package executor

import (
	"sync"
	"time"

	"handoff/core/config"
)

// outage knows when the database was last away for so long that workers may have missed a heartbeat.
// Whoever was cut off then comes back within a lease, and until that is over nobody is to be judged by
// how long ago something happened (flaws D47, D58).
type outage struct {
	// heartbeat is how long the database may be away without a worker missing one.
	heartbeat time.Duration

	mu sync.Mutex
	// over is when the last outage ended.
	over time.Duration
	// failing is when the first of the calls began that have failed since the last success.
	failing time.Duration
	away    bool
	// looked is when the lease monitor looked last, and gap how long it may take to look again.
	looked, gap time.Duration
}

// newOutage begins with an outage: it ends with the first answer, which may come long after the start.
func newOutage(c config.Config, now time.Duration) *outage {
	return &outage{
		heartbeat: c.Worker.HeartbeatInterval, looked: now, away: true, failing: now - c.Worker.HeartbeatInterval - 1,
		// A pass is followed by its interval, and makes a handful of statements.
		gap: c.Executor.ReconcileInterval + 3*c.Executor.StatementTimeout,
	}
}

// look notes that the lease monitor looks, and returns whether it has looked all the time. A process
// that was stopped, or a machine that was frozen, may have slept through an outage.
func (o *outage) look(now time.Duration) (steady bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	steady = now-o.looked <= o.gap
	if !steady {
		o.over = now
	}
	o.looked = now
	return steady
}

// answered notes how a call ended that began and ended at these moments.
func (o *outage) answered(began, ended time.Duration, failed bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case failed && !o.away:
		o.away, o.failing = true, began
	case !failed && o.away:
		o.away = false
		if ended-o.failing > o.heartbeat {
			o.over = ended
		}
	}
}

// recent says that an outage lasts, or that the last one, or a long sleep of this process, was over less
// than d ago.
func (o *outage) recent(now, d time.Duration) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return now-o.over < d || now-o.looked > o.gap || o.away && now-o.failing > o.heartbeat
}
