package executor

import (
	"time"

	"handoff/core/execution"
	"handoff/core/store"
)

// leaseWatch is the scheduler's second clock for leases. A forward step of the database's clock ends every lease at once
// by its word, until each worker beats again; whoever took it at its word would find no workers, and fail what is due. So
// a worker whose lease is over only counts as gone when this executor has seen one and the same beat for a lease on its
// own clock. It is used by the scheduling task alone.
type leaseWatch struct {
	lease time.Duration
	seen  map[execution.WorkerID]watch
}

// look notes which beat each worker has reached at a moment of the monotonic clock.
func (l *leaseWatch) look(now time.Duration, workers []store.WorkerRow) {
	if l.seen == nil {
		l.seen = make(map[execution.WorkerID]watch, len(workers))
	}
	for i := range workers {
		w := &workers[i]
		if seen, known := l.seen[w.ID]; !known || seen.incarnation != w.Incarnation || seen.beat != w.Beat {
			l.seen[w.ID] = watch{w.Incarnation, w.Beat, now}
		}
	}
}

// expected says that some worker could be given a row but for its lease, which is over by the database's clock alone.
func (l *leaseWatch) expected(now time.Duration, workers []store.WorkerRow, row *execution.Execution) bool {
	for i := range workers {
		w := &workers[i]
		if w.LeaseValid() || row.Pinned != 0 && row.Pinned != w.ID || now-l.seen[w.ID].since >= l.lease {
			continue
		}
		beating := *w
		beating.LeaseOverFor = 0
		if beating.Fits(row.Action.Runtime) {
			return true
		}
	}
	return false
}
