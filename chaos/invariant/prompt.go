package invariant

import (
	"time"

	"handoff/core/execution"
)

// Prompt bounds. A process acts at once on a message, a reply or its own decision. The bound covers the calls
// that the reaction takes, and not the interval of the periodic look that would trigger it anyway. It applies
// only if nothing on the path has been wrong for Bounds.Recovery; invariant 12 bounds the other cases.

// callTime is the longest time for the few statements and messages of one reaction between undisturbed
// processes and servers. lateness is how many times a history's tolerance is added.
const (
	callTime = time.Second
	lateness = 4
)

// promptBound returns the longest time for a reaction.
func (s *Suite) promptBound() time.Duration { return callTime + lateness*(s.tolerance-clockTolerance) }

// agenda is a queue of executions to check once, the earliest first.
type agenda struct {
	due watchHeap
	seq uint32
}

// scheduleCheck schedules a check of an execution after a moment, if it then still has this status and epoch.
func (a *agenda) scheduleCheck(s *Suite, after time.Duration, id execution.ID, epoch execution.Epoch, in execution.Status) {
	a.seq++
	a.due.push(watchEntry{at: after + time.Nanosecond, id: id, seq: a.seq, epoch: uint16(epoch), in: in})
	s.wakeAt(after + time.Nanosecond)
}

// nextDue removes and returns an execution whose check is due and which is still unchanged.
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

// recoveryStart returns the time since which nothing may have been wrong if a reaction was due at due.
func (s *Suite) recoveryStart(due time.Duration) time.Duration { return due - s.bounds.Recovery }
