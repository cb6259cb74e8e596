package invariant

import (
	"time"

	"handoff/chaos/history"
	"handoff/chaos/oracle"
)

// slots describes how many run slots of a worker's incarnation are in use, and since when, with its runtimes.
type slots struct {
	runtimes string
	// capacity is how many executions it may run. running is how many executions it has claimed that have not
	// ended. If it is full now, it has been full since fullSince. The previous full period lasted from
	// fullFrom to fullUntil.
	capacity, running              int64
	fullSince, fullFrom, fullUntil time.Duration
	// beats holds the times of its last three renewals, the latest first.
	beats [3]time.Duration
}

// knownUntil returns the latest time for which an executor must know whether the worker was full. Of the last
// three heartbeats, two may already have been under way at that time, but the third was sent after it.
func (s *slots) knownUntil() time.Duration { return s.beats[2] }

// isFull reports whether all run slots are in use.
func (s *slots) isFull() bool { return s.capacity > 0 && s.running >= s.capacity }

// countRun applies a transition that claims or ends an execution.
func (s *slots) countRun(e *history.Event) {
	was := s.isFull()
	switch {
	case oracle.Claimed(e.To) && !oracle.Claimed(e.From):
		s.running++
	case oracle.Claimed(e.From) && !oracle.Claimed(e.To):
		s.running--
	}
	switch is := s.isFull(); {
	case is && !was:
		s.fullSince = e.At
	case was && !is:
		s.fullFrom, s.fullUntil = s.fullSince, e.At
	}
}
