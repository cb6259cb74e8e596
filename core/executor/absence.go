package executor

import (
	"slices"
	"time"

	"handoff/core/execution"
)

// absences records, for each requirement of an execution, when this executor last saw a fitting worker and
// since when it has seen none. After a long pause between passes, an execution's grace restarts, because a
// fitting worker may have existed meanwhile. The grace must not depend on when the execution itself was
// examined: executors skip executions that wait for a concurrency slot, or whose fitting workers are full.
type absences struct {
	// patience is the longest pause between two passes after which the records are still valid.
	patience time.Duration
	// began is the time of the first pass after the last long pause. looked is the time of the latest pass.
	began, looked time.Duration
	// anyone has an entry for each runtime that any worker has fitted: few enough for a linear search. fitted
	// has an entry for each worker and runtime, in the order in which passes see them.
	anyone, fitted []presence
}

// presence records the last pass at which a worker fitted a runtime, and the first later pass at which it no
// longer did. worker is 0 in an entry for any worker.
type presence struct {
	runtime    string
	worker     execution.WorkerID
	last, gone time.Duration
}

// noteRoster records which workers a pass sees at the monotonic time now.
func (a *absences) noteRoster(now time.Duration, f *roster) {
	if a.fitted == nil || now-a.looked > a.patience {
		a.began, a.anyone, a.fitted = now, a.anyone[:0], make([]presence, 0, len(f.workers))
	}
	a.looked = now
	next := 0
	for i := range f.workers {
		w := &f.workers[i]
		for _, r := range w.Runtimes {
			if w.Fits(r) {
				a.anyone, _ = noteFit(a.anyone, 0, r, 0, now)
				a.fitted, next = noteFit(a.fitted, next, r, w.ID, now)
			}
		}
	}
	for _, list := range [...][]presence{a.anyone, a.fitted} {
		for i := range list {
			if p := &list[i]; p.gone == 0 && p.last != now {
				p.gone = now
			}
		}
	}
}

// noteFit records in a list that a worker fits a runtime. It tries the index `likely` first, and returns the
// index after the entry.
func noteFit(list []presence, likely int, runtime string, worker execution.WorkerID, now time.Duration) (with []presence, next int) {
	at := likely
	if at >= len(list) || !list[at].isFor(runtime, worker) {
		if at = presenceIndex(list, runtime, worker); at < 0 {
			at, list = len(list), append(list, presence{runtime: runtime, worker: worker})
		}
	}
	list[at].last, list[at].gone = now, 0
	return list, at + 1
}

// presenceIndex returns the index of an entry, or -1 if there is none.
func presenceIndex(list []presence, runtime string, worker execution.WorkerID) int {
	return slices.IndexFunc(list, func(p presence) bool { return p.isFor(runtime, worker) })
}

func (p *presence) isFor(runtime string, worker execution.WorkerID) bool {
	return p.worker == worker && p.runtime == runtime
}

// absenceBounds returns for how long no worker has fitted a row, if the current pass has found none. least is
// a lower bound. most is an upper bound, or 0 if this executor has never seen a fitting worker.
func (a *absences) absenceBounds(row *execution.Execution) (least, most time.Duration) {
	list := a.fitted
	if row.Pinned == 0 {
		list = a.anyone
	}
	at := presenceIndex(list, row.Action.Runtime, row.Pinned)
	if at < 0 {
		return a.looked - a.began, 0
	}
	return a.looked - list[at].gone, a.looked - list[at].last
}

// absenceStart returns when a row's current absence began. Every pass returns the same time for it.
func (a *absences) absenceStart(row *execution.Execution) time.Duration {
	least, _ := a.absenceBounds(row)
	return a.looked - least
}
