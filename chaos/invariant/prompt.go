package invariant

import (
	"time"

	"handoff/core/execution"
)

// Prompt bounds. A process acts at once on what it was told or has decided itself. The bound
// consists of the calls that this takes, not of the interval after which a periodic look would find
// it anyway. It applies only if nothing has been wrong on the way for Recovery; invariant 12 bounds
// the other cases.

// callTime is the longest time for the few statements and messages of one reaction between
// undisturbed processes and servers. lateness is how many tolerances of a history's times are
// added.
const (
	callTime = time.Second
	lateness = 4
)

// promptBound is the longest time for a reaction.
func (s *Suite) promptBound() time.Duration { return callTime + lateness*(s.tolerance-clockTolerance) }

// agenda holds executions that must be checked once, the earliest first.
type agenda struct {
	due watchHeap
	seq uint32
}

// scheduleCheck schedules a check of an execution after a moment, if it then still has its present status
// and epoch.
func (a *agenda) scheduleCheck(s *Suite, after time.Duration, id execution.ID, epoch execution.Epoch, in execution.Status) {
	a.seq++
	a.due.push(watchEntry{at: after + time.Nanosecond, id: id, seq: a.seq, epoch: uint16(epoch), in: in})
	s.wakeAt(after + time.Nanosecond)
}

// nextDue removes an execution that must be checked now and is still unchanged.
func (a *agenda) nextDue(s *Suite, now time.Duration) (*life, bool) {
	for len(a.due) > 0 && a.due[0].at <= now {
		w := a.due.pop()
		if l := s.lives.Get(w.id); l != nil && uint16(l.epoch) == w.epoch && l.status == w.in {
			return l, true
		}
	}
	if len(a.due) > 0 {
		s.wakeAt(a.due[0].at)
	}
	return nil, false
}

// recoveryStart is the time since which nothing may have been wrong for a reaction that was due then.
func (s *Suite) recoveryStart(due time.Duration) time.Duration { return due - s.bounds.Recovery }
