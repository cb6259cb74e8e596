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
	fitted        map[need]presence
}

// need is what an execution requires of a worker.
type need struct {
	runtime string
	pinned  execution.WorkerID
}

// presence is the last pass at which a worker fitted, and the first one after it at which none did.
type presence struct{ last, gone time.Duration }

// look notes which workers a pass sees at a moment of the monotonic clock.
func (a *absences) look(now time.Duration, f *roster) {
	if a.fitted == nil || now-a.looked > a.patience {
		a.began, a.fitted = now, make(map[need]presence)
	}
	a.looked = now
	latest := "" // most workers offer the same runtime
	for i := range f.workers {
		w := &f.workers[i]
		for _, r := range w.Runtimes {
			if !w.Fits(r) {
				continue
			}
			a.fitted[need{r, w.ID}] = presence{last: now}
			if r != latest {
				a.fitted[need{r, 0}] = presence{last: now}
				latest = r
			}
		}
	}
	for n, p := range a.fitted { //detlint:ok each is changed by itself
		if p.gone == 0 && p.last != now {
			a.fitted[n] = presence{p.last, now}
		}
	}
}

// of returns for how long no worker has fitted a row, if the current pass has found none. least is
// a lower bound. most is an upper bound, or 0 if this executor has never seen a fitting worker.
func (a *absences) of(row *execution.Execution) (least, most time.Duration) {
	p, seen := a.fitted[need{row.Action.Runtime, row.Pinned}]
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
