package executor

import (
	"time"

	"handoff/core/execution"
)

// absences remembers, of everything that executions ask for, when this executor saw a worker that fitted, and since when
// it has seen none, pass after pass. An execution that nobody has looked at for a while starts its grace anew, because
// nobody knows whether a worker fitted meanwhile. But one that only waited for a concurrency slot has been passed over by
// executors that did look: of many that wait for one slot, each would start its grace anew for ever. And one that waited
// while the workers that fit were full has not been looked at either, and the executors know that they were there.
type absences struct {
	// patience is the longest pause between two passes that leaves no doubt about what was between them.
	patience time.Duration
	// began is the first look after the last doubt, looked the last one.
	began, looked time.Duration
	fitted        map[need]presence
}

// need is what an execution asks of a worker.
type need struct {
	runtime string
	pinned  execution.WorkerID
}

// presence is the last look at which a worker fitted, and the first one after it.
type presence struct{ last, gone time.Duration }

// look notes what a pass sees at a moment of the monotonic clock.
func (a *absences) look(now time.Duration, f *roster) {
	if a.fitted == nil || now-a.looked > a.patience {
		a.began, a.fitted = now, make(map[need]presence)
	}
	a.looked = now
	for i := range f.workers {
		w := &f.workers[i]
		for _, r := range w.Runtimes {
			if w.Fits(r) {
				a.fitted[need{r, 0}], a.fitted[need{r, w.ID}] = presence{last: now}, presence{last: now}
			}
		}
	}
	for n, p := range a.fitted {
		if p.gone == 0 && p.last != now {
			a.fitted[n] = presence{p.last, now}
		}
	}
}

// of is for how long no worker has fitted a row, which the present pass has found none for: at least, and at most where
// this executor has seen one, 0 where it has not.
func (a *absences) of(row *execution.Execution) (least, most time.Duration) {
	p, seen := a.fitted[need{row.Action.Runtime, row.Pinned}]
	if !seen {
		return a.looked - a.began, 0
	}
	return a.looked - p.gone, a.looked - p.last
}

// since is when the absence began that the present pass has found for a row, as the same moment in each pass.
func (a *absences) since(row *execution.Execution) time.Duration {
	least, _ := a.of(row)
	return a.looked - least
}
