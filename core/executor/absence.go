package executor

import (
	"maps"
	"time"

	"handoff/core/execution"
)

// absences remembers since when this executor has found no worker for something, pass after pass. An execution that
// nobody has looked at for a while starts its grace anew, because nobody knows whether a worker fitted meanwhile. But one
// that only waited for a concurrency slot has been passed over by executors that did look: of many that wait for one slot,
// each would start its grace anew for ever.
type absences struct {
	// patience is the longest pause between two passes that leaves no doubt about what was between them.
	patience time.Duration
	looked   time.Duration
	since    map[need]time.Duration
}

// need is what an execution asks of a worker.
type need struct {
	runtime string
	pinned  execution.WorkerID
}

// look notes what a pass sees at a moment of the monotonic clock.
func (a *absences) look(now time.Duration, f *roster) {
	if now-a.looked > a.patience {
		clear(a.since)
	}
	a.looked = now
	maps.DeleteFunc(a.since, func(n need, _ time.Duration) bool {
		return f.fitting(&execution.Execution{Action: execution.Action{Runtime: n.runtime}, Pinned: n.pinned}) > 0
	})
}

// of is for how long no worker has fitted a row, which the present pass has found none for.
func (a *absences) of(row *execution.Execution) time.Duration {
	n := need{row.Action.Runtime, row.Pinned}
	if a.since == nil {
		a.since = make(map[need]time.Duration)
	}
	since, known := a.since[n]
	if !known {
		since = a.looked
		a.since[n] = since
	}
	return a.looked - since
}
