package executor

import (
	"slices"
	"sync"
	"time"

	"handoff/core/execution"
	"handoff/core/host"
	"handoff/core/store"
)

// ownerWatch is the second clock for executions of a superseded incarnation, whose name another process has
// registered. The database's clock, which may have been set, says that the old lease is over, but the
// superseded process may still live. It fences itself a lease after its last renewal, which was before it was
// superseded. So this executor reclaims its executions only after it has known of the successor for a full
// lease on its own clock (defects D14, D35). An incarnation that was marked lost needs no second watch,
// because its reaper has watched its heartbeat for a lease. Nor does one that has stopped by itself.
type ownerWatch struct {
	host  host.Host
	lease time.Duration

	mu         sync.Mutex
	current    map[execution.WorkerID]execution.Incarnation
	names      map[execution.WorkerID]string           // for log lines
	seen       map[execution.WorkerID][]sighting       // its incarnations, the latest last
	superseded map[execution.Incarnation]time.Duration // since when, as seen by this executor
	lost       map[execution.Incarnation]time.Duration // when it was last seen lost or stopped
}

// sighting records when a survey first saw an incarnation.
type sighting struct {
	incarnation execution.Incarnation
	at          time.Duration
}

func newOwnerWatch(h host.Host, lease time.Duration) *ownerWatch {
	return &ownerWatch{
		host: h, lease: lease, names: make(map[execution.WorkerID]string),
		current: make(map[execution.WorkerID]execution.Incarnation), seen: make(map[execution.WorkerID][]sighting),
		superseded: make(map[execution.Incarnation]time.Duration), lost: make(map[execution.Incarnation]time.Duration),
	}
}

// surveyOwners finds incarnations that have been superseded since the last survey.
func (o *ownerWatch) surveyOwners(workers []store.WorkerRow) {
	now := o.host.Monotonic()
	o.mu.Lock()
	defer o.mu.Unlock()
	for i := range workers {
		w := &workers[i]
		before := o.current[w.ID]
		if _, reaped := o.lost[before]; before != 0 && before != w.Incarnation && !reaped {
			o.superseded[before] = now
		}
		if w.Lifecycle.Gone() {
			o.lost[w.Incarnation] = now
		}
		if before != w.Incarnation {
			o.current[w.ID] = w.Incarnation
			o.seen[w.ID] = append(o.seen[w.ID], sighting{w.Incarnation, now})
			o.names[w.ID] = w.Name
		}
	}
	o.forgetOld(now)
}

// workerName returns the name of a worker for a log line, or "" if no survey has seen it.
func (o *ownerWatch) workerName(id execution.WorkerID) string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.names[id]
}

// noteReaped records that this executor has marked an incarnation lost.
func (o *ownerWatch) noteReaped(incarnation execution.Incarnation) {
	now := o.host.Monotonic()
	o.mu.Lock()
	defer o.mu.Unlock()
	o.lost[incarnation] = now
}

// forgetOld drops entries that no longer matter. If a dropped incarnation still has a row, its watch
// restarts.
func (o *ownerWatch) forgetOld(now time.Duration) {
	for _, seen := range []map[execution.Incarnation]time.Duration{o.superseded, o.lost} {
		for incarnation, at := range seen { //detlint:ok entries are judged one by one
			if now-at > 20*o.lease {
				delete(seen, incarnation)
			}
		}
	}
	for worker, all := range o.seen { //detlint:ok entries are judged one by one
		latest := all[len(all)-1]
		o.seen[worker] = slices.DeleteFunc(all, func(s sighting) bool { return s != latest && now-s.at > 20*o.lease })
	}
}

// supersededAt returns a time by which a row's incarnation was superseded, for an incarnation that no survey
// saw. This is when a later incarnation of its worker was first seen, or now if none was. The caller holds
// the lock.
func (o *ownerWatch) supersededAt(row *execution.Execution, now time.Duration) time.Duration {
	for _, s := range o.seen[row.Worker] {
		if s.incarnation > row.Incarnation {
			return s.at
		}
	}
	return now
}

// actionsEnded reports whether the actions of a row's incarnation, which is gone by the database's clock,
// have ended by this executor's clock too.
func (o *ownerWatch) actionsEnded(row *execution.Execution) bool {
	if !row.Status.Claimed() {
		return true
	}
	now := o.host.Monotonic()
	o.mu.Lock()
	defer o.mu.Unlock()
	if _, reaped := o.lost[row.Incarnation]; reaped {
		return true
	}
	if o.current[row.Worker] == row.Incarnation {
		// The last survey is older than the database's answer: the next one shows whether the incarnation is
		// lost or superseded.
		return false
	}
	since, known := o.superseded[row.Incarnation]
	if !known {
		since = o.supersededAt(row, now)
		o.superseded[row.Incarnation] = since
	}
	return now-since >= o.lease
}
