package invariant

import (
	"time"

	"handoff/chaos/history"
)

// slots are the run slots of one incarnation of a worker, and what it can run in them.
type slots struct {
	runtimes string
	// capacity is how many executions it may run, running how many it has claimed and not ended. It has been full
	// since fullSince while it is, and was last from fullFrom to fullUntil.
	capacity, running              int64
	fullSince, fullFrom, fullUntil time.Duration
	// beats are its last three renewals, the latest first.
	beats [3]time.Duration
}

// known is the latest moment of which an executor must know whether it was full: two heartbeats may have been on their
// way since before it, and the third one that arrives has begun after it.
func (t *slots) known() time.Duration { return t.beats[2] }

// full says that it runs as many executions as it may.
func (t *slots) full() bool { return t.capacity > 0 && t.running >= t.capacity }

// run counts what it runs.
func (t *slots) run(e *history.Event) {
	was := t.full()
	switch {
	case e.To.Claimed() && !e.From.Claimed():
		t.running++
	case e.From.Claimed() && !e.To.Claimed():
		t.running--
	}
	switch is := t.full(); {
	case is && !was:
		t.fullSince = e.At
	case was && !is:
		t.fullFrom, t.fullUntil = t.fullSince, e.At
	}
}
