package invariant

import (
	"time"

	"handoff/core/execution"
)

// This file is about prompt reactions. A process acts immediately on a message, a reply or its own decision.
// The prompt bound covers the calls that the reaction takes, and not the interval of the periodic look that
// would trigger it anyway. It applies only if nothing on the path has been wrong for Bounds.Recovery.
// Invariant 12 bounds the other cases.

// callTime is the maximum time for the few statements and messages of one reaction between undisturbed
// processes and servers. The history's tolerance is added lateness times.
const (
	callTime = time.Second
	lateness = 4
)

// promptBound returns the maximum time for a prompt reaction.
func (s *Suite) promptBound() time.Duration { return callTime + lateness*(s.tolerance-clockTolerance) }

// agenda is a queue of executions, each to be checked once, the earliest check first.
type agenda struct {
	due watchHeap
	seq uint32
}

// scheduleCheck schedules a check for the time after, if the execution then still has this status and epoch.
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

// recoveryStart returns since when nothing must have been wrong for a reaction to be due at due.
func (s *Suite) recoveryStart(due time.Duration) time.Duration { return due - s.bounds.Recovery }
