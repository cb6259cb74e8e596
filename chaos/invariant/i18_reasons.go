package invariant

import (
	"slices"
	"time"
)

// This file has the reasons for which an executor may look for work before its period is over, for
// invariant 18.

// Woken notes that something may make the scheduler look at once, and again after a delay.
func (k *Looker) Woken(at, delay time.Duration) {
	// Among those of one queue the new reason lapses last.
	if slack := k.slack(at); slack == k.c.s.prompt() {
		k.woken.add(reason{at, at + slack})
	} else {
		k.patient.add(reason{at, at + slack})
	}
	if delay > 0 {
		k.Remembers(at, delay)
	}
}

// Remembers notes that the scheduler knows of something that is due after a delay.
func (k *Looker) Remembers(at, delay time.Duration) {
	k.reasons = append(k.reasons, reason{at + delay - drift(delay), at + delay + drift(delay) + k.slack(at)})
}

// slack is how late a scheduler may be woken: the history has a message when the broker sends it.
func (k *Looker) slack(at time.Duration) time.Duration {
	s := k.c.s
	if from := s.recovered(at); !s.roads.clear(from) || !s.roads.byName[k.process].clear(from) {
		return s.prompt() + s.bounds.Recovery
	}
	return s.prompt()
}

// Parks notes that the scheduler has given a row back for a while.
func (k *Looker) Parks(at, delay time.Duration) {
	k.Remembers(at, delay)
	k.parked = append(k.parked, at+delay)
}

// parkGrain is the interval at which rows that were given back are looked at again. parkCalls is
// how long the calls before the look may take if nothing is wrong.
const (
	parkGrain = 500 * time.Millisecond
	parkCalls = 200 * time.Millisecond
)

// putOff judges whether the scheduler looks in time at rows that it gave back.
func (k *Looker) putOff(at time.Duration) {
	s := k.c.s
	for _, due := range k.parked {
		from := s.recovered(due)
		// The pass before may wait for the confirms of queues that hang, as in invariant 26.
		within := parkGrain + parkCalls + s.roads.stuckQueues(due)*stuckWait
		if k.disconnected(LookSchedule, due-s.reunited()) {
			within += s.reunited()
		}
		if at-due <= within || k.stumbled || !s.roads.byName[k.process].clear(from) || !s.roads.clear(from) {
			continue
		}
		s.judged(k.c.i)
		s.violate(k.c.i, 0, "%s gave a row back that was due again at %v, but looked for it only %v after that; %v is allowed, plus %v for the calls before", k.process, due, at-due, parkGrain, parkCalls)
	}
	k.parked = slices.DeleteFunc(k.parked, func(due time.Duration) bool { return due <= at })
}

// wakeGrain is the longest time after the answer to a call in which the call may wake the executor.
const wakeGrain = 50 * time.Millisecond

// reasoned says that an executor has a reason to look before its period is over, and uses the
// reason up.
func (k *Looker) reasoned(l Look, at time.Duration) bool {
	switch l {
	case LookSchedule:
		// A series of passes without a pause acts on everything that came before it. It begins with
		// a look at the workers.
		best, kept := -1, k.reasons[:0]
		for _, r := range k.reasons {
			if r.to < k.passes {
				continue
			}
			if r.from <= at && (best < 0 || r.to < kept[best].to) {
				best = len(kept)
			}
			kept = append(kept, r)
		}
		k.reasons = kept
		of := &k.woken
		first, came := k.lapses(of, 0)
		if late, any := k.lapses(&k.patient, k.until); any && (!came || late.to < first.to) {
			of, first, came = &k.patient, late, true
		}
		switch {
		case came && first.from <= at && (best < 0 || first.to <= kept[best].to):
			of.drop()
		case best >= 0:
			k.reasons = slices.Delete(k.reasons, best, best+1)
		default:
			return false
		}
		return true
	case LookSettle:
		if k.kinds[l].due {
			return true
		}
		// A look covers everything that came before it. Something that came just now may wake the
		// executor once more.
		was := len(k.settled) > 0
		if was {
			k.settled = slices.DeleteFunc(k.settled[1:], func(noted time.Duration) bool { return noted < at-wakeGrain })
		}
		// If calls fail, chains are settled one by one, and only the executor knows the rest.
		from := k.c.s.recovered(k.kinds[l].began)
		return was || !k.c.s.roads.clear(from) || !k.c.s.roads.byName[k.process].clear(from)
	case LookOwners:
		was := k.lost > 0 || k.owed
		k.lost, k.owed = max(0, k.lost-1), false
		return was
	default:
		return false
	}
}

// lapses returns the first reason of a queue that has not lapsed, and drops those before it. None lapses
// before until.
func (k *Looker) lapses(of *queue[reason], until time.Duration) (first reason, any bool) {
	for first, any = of.first(); any && max(first.to, until) < k.passes; first, any = of.first() {
		of.drop()
	}
	return first, any
}
