package invariant

import (
	"slices"
	"time"
)

// This file is the part of invariant 18 about the reasons for which an executor may look for work early.

// Woken records an event that may make the scheduler look immediately, and after delay unless that is 0.
func (lo *Looker) Woken(at, delay time.Duration) {
	// The new reason lapses last in its queue.
	if slack := lo.wakeSlack(at); slack == lo.c.s.promptBound() {
		lo.woken.add(lookReason{at, at + slack})
	} else {
		lo.patient.add(lookReason{at, at + slack})
	}
	if delay > 0 {
		lo.Remembers(at, delay)
	}
}

// Remembers records that the scheduler knows of an execution that will be due after delay.
func (lo *Looker) Remembers(at, delay time.Duration) {
	lo.reasons = append(lo.reasons, lookReason{at + delay - clockDrift(delay), at + delay + clockDrift(delay) + lo.wakeSlack(at)})
}

// wakeSlack returns how long after an event the scheduler may be woken, because the history records a message
// when the broker sends it.
func (lo *Looker) wakeSlack(at time.Duration) time.Duration {
	s := lo.c.s
	if from := s.recoveryStart(at); !s.roads.serversClear(from) || !s.roads.byName[lo.process].isClear(from) {
		return s.promptBound() + s.bounds.Recovery
	}
	return s.promptBound()
}

// Parks records that the scheduler has released a row, to be retried after delay.
func (lo *Looker) Parks(at, delay time.Duration) {
	lo.Remembers(at, delay)
	lo.parked = append(lo.parked, at+delay)
}

// parkGrain is the interval at which released rows are retried. parkCalls is the maximum duration of the
// calls before the look if nothing is wrong.
const (
	parkGrain = 500 * time.Millisecond
	parkCalls = 200 * time.Millisecond
)

// judgeParked judges whether the scheduler retries released rows in time.
func (lo *Looker) judgeParked(at time.Duration) {
	s := lo.c.s
	for _, due := range lo.parked {
		from := s.recoveryStart(due)
		// The previous pass may wait for the confirms of queues that hang, as in invariant 26.
		within := parkGrain + parkCalls + s.roads.stuckQueues(due)*stuckWait
		if lo.isDisconnected(LookSchedule, due-s.reconnectBound()) {
			within += s.reconnectBound()
		}
		if at-due <= within || lo.stumbled || !s.roads.byName[lo.process].isClear(from) || !s.roads.serversClear(from) {
			continue
		}
		s.countOccasion(lo.c.i)
		s.recordViolation(lo.c.i, 0, "%s gave a row back that was due again at %v, but looked for it only %v after that; %v is allowed, plus %v for the calls before", lo.process, due, at-due, parkGrain, parkCalls)
	}
	lo.parked = slices.DeleteFunc(lo.parked, func(due time.Duration) bool { return due <= at })
}

// wakeGrain is how long after its answer a call may still wake the executor.
const wakeGrain = 50 * time.Millisecond

// useReason reports whether an executor has a reason to look before its period is over, and uses it up.
func (lo *Looker) useReason(l Look, at time.Duration) bool {
	switch l {
	case LookSchedule:
		// An uninterrupted series of passes acts on everything that came before it. It begins with a look at
		// the workers.
		best, kept := -1, lo.reasons[:0]
		for _, r := range lo.reasons {
			if r.to < lo.passes {
				continue
			}
			if r.from <= at && (best < 0 || r.to < kept[best].to) {
				best = len(kept)
			}
			kept = append(kept, r)
		}
		lo.reasons = kept
		of := &lo.woken
		first, came := lo.dropLapsed(of, 0)
		if late, any := lo.dropLapsed(&lo.patient, lo.until); any && (!came || late.to < first.to) {
			of, first, came = &lo.patient, late, true
		}
		switch {
		case came && first.from <= at && (best < 0 || first.to <= kept[best].to):
			of.drop()
		case best >= 0:
			lo.reasons = slices.Delete(lo.reasons, best, best+1)
		default:
			return false
		}
		return true
	case LookSettle:
		if lo.kinds[l].due {
			return true
		}
		// A look covers everything that came before it. A reason that came just now may wake it again.
		was := len(lo.settled) > 0
		if was {
			lo.settled = slices.DeleteFunc(lo.settled[1:], func(noted time.Duration) bool { return noted < at-wakeGrain })
		}
		// If calls fail, chains are settled one by one, and only the executor knows which remain.
		from := lo.c.s.recoveryStart(lo.kinds[l].began)
		return was || !lo.c.s.roads.serversClear(from) || !lo.c.s.roads.byName[lo.process].isClear(from)
	case LookOwners:
		was := lo.lost > 0 || lo.owed
		lo.lost, lo.owed = max(0, lo.lost-1), false
		return was
	default:
		return false
	}
}

// dropLapsed returns a queue's first reason that has not lapsed, and removes the reasons before it. No reason
// lapses before until.
func (lo *Looker) dropLapsed(of *queue[lookReason], until time.Duration) (first lookReason, any bool) {
	for first, any = of.first(); any && max(first.to, until) < lo.passes; first, any = of.first() {
		of.drop()
	}
	return first, any
}
