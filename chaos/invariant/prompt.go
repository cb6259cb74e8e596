package invariant

import (
	"time"

	"handoff/core/execution"
)

// Prompt bounds. What somebody is told, or has decided itself, is acted on at once: the bound is made of the calls that it
// takes, and not of the interval after which somebody would look anyway. It counts only where nothing has been wrong on
// the way since Recovery ago; invariant 12 bounds the rest.

// callTime is how long the few statements and messages of one reaction may take between processes and servers to which
// nothing happens, and lateness how many tolerances of a history's moments are added.
const (
	callTime = time.Second
	lateness = 10
)

// prompt is how long a reaction may take.
func (s *Suite) prompt() time.Duration { return callTime + lateness*(s.tolerance-clockTolerance) }

// agenda gives out executions that are to be looked at once, the earliest first.
type agenda struct {
	due watchHeap
	seq uint32
}

// look has an execution looked at after a moment, if it is still in the status and the epoch in which it is now.
func (a *agenda) look(s *Suite, after time.Duration, id execution.ID, epoch execution.Epoch, in execution.Status) {
	a.seq++
	a.due.push(watched{at: after + time.Nanosecond, id: id, seq: a.seq, epoch: uint16(epoch), in: in})
	s.wake(after + time.Nanosecond)
}

// next takes out what is to be looked at now: an execution that is still as it was.
func (a *agenda) next(s *Suite, now time.Duration) (*life, bool) {
	for len(a.due) > 0 && a.due[0].at <= now {
		w := a.due.pop()
		if l := s.lives.Get(w.id); l != nil && uint16(l.epoch) == w.epoch && l.status == w.in {
			return l, true
		}
	}
	if len(a.due) > 0 {
		s.wake(a.due[0].at)
	}
	return nil, false
}

// recovered is the moment since which nothing may have been wrong for a reaction that was due then.
func (s *Suite) recovered(due time.Duration) time.Duration { return due - s.bounds.Recovery }
