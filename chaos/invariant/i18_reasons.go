package invariant

import (
	"slices"
	"time"
)

// This file has the reasons for which an executor may look for work before its period is over, for
// invariant 18.

// Woken notes that something may make the scheduler look at once, and again after a delay.
func (lo *Looker) Woken(at, delay time.Duration) {
	// Among those of one queue the new reason lapses last.
	if slack := lo.slack(at); slack == lo.c.s.prompt() {
		lo.woken.add(reason{at, at + slack})
	} else {
		lo.patient.add(reason{at, at + slack})
	}
	if delay > 0 {
		lo.Remembers(at, delay)
	}
}

// Remembers notes that the scheduler knows of something that is due after a delay.
func (lo *Looker) Remembers(at, delay time.Duration) {
	lo.reasons = append(lo.reasons, reason{at + delay - drift(delay), at + delay + drift(delay) + lo.slack(at)})
}

// slack is how late a scheduler may be woken: the history has a message when the broker sends it.
func (lo *Looker) slack(at time.Duration) time.Duration {
	s := lo.c.s
	if from := s.recovered(at); !s.roads.clear(from) || !s.roads.byName[lo.process].clear(from) {
		return s.prompt() + s.bounds.Recovery
	}
	return s.prompt()
}

// Parks notes that the scheduler has given a row back for a while.
func (lo *Looker) Parks(at, delay time.Duration) {
	lo.Remembers(at, delay)
	lo.parked = append(lo.parked, at+delay)
}

// parkGrain is the interval at which rows that were given back are looked at again. parkCalls is
// how long the calls before the look may take if nothing is wrong.
const (
	parkGrain = 500 * time.Millisecond
	parkCalls = 200 * time.Millisecond
)

// putOff judges whether the scheduler looks in time at rows that it gave back.
func (lo *Looker) putOff(at time.Duration) {
	s := lo.c.s
	for _, due := range lo.parked {
		from := s.recovered(due)
		// The pass before may wait for the confirms of queues that hang, as in invariant 26.
		within := parkGrain + parkCalls + s.roads.stuckQueues(due)*stuckWait
		if lo.disconnected(LookSchedule, due-s.reunited()) {
			within += s.reunited()
		}
		if at-due <= within || lo.stumbled || !s.roads.byName[lo.process].clear(from) || !s.roads.clear(from) {
			continue
		}
		s.judged(lo.c.i)
		s.violate(lo.c.i, 0, "%s gave a row back that was due again at %v, but looked for it only %v after that; %v is allowed, plus %v for the calls before", lo.process, due, at-due, parkGrain, parkCalls)
	}
	lo.parked = slices.DeleteFunc(lo.parked, func(due time.Duration) bool { return due <= at })
}

// wakeGrain is the longest time after the answer to a call in which the call may wake the executor.
const wakeGrain = 50 * time.Millisecond

// reasoned says that an executor has a reason to look before its period is over, and uses the
// reason up.
func (lo *Looker) reasoned(l Look, at time.Duration) bool {
	switch l {
	case LookSchedule:
		// A series of passes without a pause acts on everything that came before it. It begins with
		// a look at the workers.
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
		first, came := lo.lapses(of, 0)
		if late, any := lo.lapses(&lo.patient, lo.until); any && (!came || late.to < first.to) {
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
		// A look covers everything that came before it. Something that came just now may wake the
		// executor once more.
		was := len(lo.settled) > 0
		if was {
			lo.settled = slices.DeleteFunc(lo.settled[1:], func(noted time.Duration) bool { return noted < at-wakeGrain })
		}
		// If calls fail, chains are settled one by one, and only the executor knows the rest.
		from := lo.c.s.recovered(lo.kinds[l].began)
		return was || !lo.c.s.roads.clear(from) || !lo.c.s.roads.byName[lo.process].clear(from)
	case LookOwners:
		was := lo.lost > 0 || lo.owed
		lo.lost, lo.owed = max(0, lo.lost-1), false
		return was
	default:
		return false
	}
}

// lapses returns the first reason of a queue that has not lapsed, and drops those before it. None lapses
// before until.
func (lo *Looker) lapses(of *queue[reason], until time.Duration) (first reason, any bool) {
	for first, any = of.first(); any && max(first.to, until) < lo.passes; first, any = of.first() {
		of.drop()
	}
	return first, any
}
