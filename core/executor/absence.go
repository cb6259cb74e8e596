package executor

import (
	"time"

	"handoff/core/execution"
)

// absences remembers, for each need of the executions, when this executor last saw a fitting worker
// and since when it has seen none, pass after pass. After a long pause between passes the grace of
// an execution starts anew, because a worker may have fitted meanwhile. But the grace does not
// depend on when the execution itself was looked at. Executors pass over an execution that waits
// for a concurrency slot: if many waited for one slot, each would start its grace anew for ever.
// Nor do they look at an execution while its fitting workers are full, but they know that those
// workers are there.
type absences struct {
	// patience is the longest pause between two passes after which the memory still counts.
	patience time.Duration
	// began is the first pass after the last long pause. looked is the latest pass.
	began, looked time.Duration
	// fitted is by runtime, and by the worker that an execution is pinned to, 0 for any.
	fitted map[string]map[execution.WorkerID]presence
}

// presence is the last pass at which a worker fitted, and the first one after it at which none did.
type presence struct{ last, gone time.Duration }

// look notes which workers a pass sees at a moment of the monotonic clock.
func (a *absences) look(now time.Duration, f *roster) {
	if a.fitted == nil || now-a.looked > a.patience {
		a.began, a.fitted = now, make(map[string]map[execution.WorkerID]presence)
	}
	a.looked = now
	var runtime string
	var of map[execution.WorkerID]presence // of that runtime, which most workers share
	for i := range f.workers {
		w := &f.workers[i]
		for _, r := range w.Runtimes {
			if !w.Fits(r) {
				continue
			}
			if of == nil || r != runtime {
				if runtime, of = r, a.fitted[r]; of == nil {
					of = make(map[execution.WorkerID]presence)
					a.fitted[r] = of
				}
			}
			of[0], of[w.ID] = presence{last: now}, presence{last: now}
		}
	}
	for _, of := range a.fitted { //detlint:ok each is changed by itself
		for worker, p := range of { //detlint:ok each is changed by itself
			if p.gone == 0 && p.last != now {
				of[worker] = presence{p.last, now}
			}
		}
	}
}

// of returns for how long no worker has fitted a row, if the current pass has found none. least is
// a lower bound. most is an upper bound, or 0 if this executor has never seen a fitting worker.
func (a *absences) of(row *execution.Execution) (least, most time.Duration) {
	p, seen := a.fitted[row.Action.Runtime][row.Pinned]
	if !seen {
		return a.looked - a.began, 0
	}
	return a.looked - p.gone, a.looked - p.last
}

// since is when a row's current absence began. It is the same moment in each pass.
func (a *absences) since(row *execution.Execution) time.Duration {
	least, _ := a.of(row)
	return a.looked - least
}
