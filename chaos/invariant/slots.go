package invariant

import (
	"time"

	"handoff/chaos/history"
	"handoff/chaos/oracle"
)

// slots is the use of the run slots of one incarnation of a worker, with the runtimes that it offers.
type slots struct {
	runtimes string
	// capacity is how many executions it may run, running how many claimed ones have not ended. If it is full
	// now, it has been full since fullSince. The previous full period lasted from fullFrom to fullUntil.
	capacity, running              int64
	fullSince, fullFrom, fullUntil time.Duration
	// beats are the times of its last three renewals, the latest first.
	beats [3]time.Duration
}

// knownUntil returns the latest time for which an executor must know whether the worker was full: two
// heartbeats may already have been under way then, but the third was sent after it.
func (s *slots) knownUntil() time.Duration { return s.beats[2] }

// isFull reports whether it runs as many executions as it may.
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
