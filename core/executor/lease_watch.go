package executor

import (
	"time"

	"handoff/core/execution"
	"handoff/core/store"
)

// leaseWatch is the scheduler's second clock for leases. When the database's clock is set forwards, every
// lease is over by that clock until its worker's next heartbeat. Then the scheduler would find no workers and
// fail waiting executions. So a worker whose lease is over counts as gone only after this executor has seen
// the same heartbeat for a whole lease on its own clock. Only the scheduling task uses it.
type leaseWatch struct {
	lease time.Duration
	seen  map[execution.WorkerID]beatWatch
}

// noteBeats records the latest heartbeat of each worker at the monotonic time now.
func (l *leaseWatch) noteBeats(now time.Duration, workers []store.WorkerRow) {
	if l.seen == nil {
		l.seen = make(map[execution.WorkerID]beatWatch, len(workers))
	}
	for i := range workers {
		w := &workers[i]
		if seen, known := l.seen[w.ID]; !known || seen.incarnation != w.Incarnation || seen.beat != w.Beat {
			l.seen[w.ID] = beatWatch{w.Incarnation, w.Beat, now}
		}
	}
}

// expectsWorker reports whether some worker may soon fit the row: its lease is over by the database's clock
// alone, or this program can't read it.
func (l *leaseWatch) expectsWorker(now time.Duration, workers []store.WorkerRow, row *execution.Execution) bool {
	for i := range workers {
		w := &workers[i]
		if w.LeaseValid() && w.Unreadable == "" || row.Pinned != 0 && row.Pinned != w.ID || now-l.seen[w.ID].since >= l.lease {
			continue
		}
		beating := *w
		beating.LeaseOverFor, beating.Unreadable = 0, ""
		if w.Lifecycle == execution.NoLifecycle {
			beating.Lifecycle = execution.Active
		}
		if beating.Fits(row.Action.Runtime) {
			return true
		}
	}
	return false
}
