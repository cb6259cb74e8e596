package invariant

import (
	"time"

	"handoff/chaos/history"
	"handoff/core/config"
	"handoff/core/execution"
)

// fleet is what the history has said of the workers as a whole: whether so many of them were over at
// once that an executor's reaper may, or must, have held back. An executor sees it later than it is,
// and never otherwise: what is over for it is over by the true leases too.
type fleet struct {
	config  config.Config
	members []*member
	byID    map[execution.WorkerID]*member

	next time.Duration
	// massSince and massUntil are the latest span in which a reaper may have held; episode is when the
	// first of them began since no lease was over. Negative for never.
	massSince, massUntil, episode time.Duration
}

type member struct {
	*tenure
	incarnation execution.Incarnation
	// left is when the incarnation was marked lost by an executor, and by whom.
	left   time.Duration
	leftBy string
}

// look is how often the fleet is looked at; the reaper looks less often.
const look = time.Second

func newFleet(c config.Config) *fleet {
	return &fleet{config: c, byID: make(map[execution.WorkerID]*member), massSince: -1, massUntil: -1, episode: -1}
}

// learn follows an event that the tenures have learnt already.
func (f *fleet) learn(e *history.Event, t *tenure) {
	m := f.byID[e.Worker]
	switch {
	case t == nil:
	case e.Kind == history.WorkerRegistered:
		if m == nil {
			m = new(member)
			f.byID[e.Worker] = m
			f.members = append(f.members, m)
		}
		*m = member{tenure: t, incarnation: e.Incarnation, left: -1}
	case m == nil || m.incarnation != e.Incarnation:
	case e.Kind == history.WorkerLifecycle && e.Lifecycle == execution.Lost:
		m.left, m.leftBy = e.At, e.Process
	}
}

// pass brings the look at the fleet up to a moment.
func (f *fleet) pass(now time.Duration) {
	if now < f.next {
		return
	}
	// Between two events only leases run out: after a few of them nothing changes any more.
	from := max(f.next, now-4*f.config.Worker.Lease())
	for at := from; at <= now; at += look {
		f.lookAt(at)
	}
	f.next = now + look
}

func (f *fleet) lookAt(at time.Duration) {
	alive, over, lost := f.count(at, 0, "")
	switch {
	case over == 0:
		f.episode = -1
		return
	case !f.config.Executor.Brakes(alive, over+lost):
		return
	}
	if f.massUntil < at-2*look {
		f.massSince = at
	}
	f.massUntil = at
	if f.episode < 0 {
		f.episode = f.massSince
	}
}

// count counts the workers that are not gone or were lost within the last lease, those whose lease has
// been over for at least margin, and the lost. What another process than by has marked lost within the
// last margin does not count: by may not know of it yet.
func (f *fleet) count(at, margin time.Duration, by string) (alive, over, lost int) {
	lease := f.config.Worker.Lease()
	for _, m := range f.members {
		switch {
		case !m.lifecycle.Gone():
			alive++
			if m.leaseEnds+margin <= at {
				over++
			}
		case m.left >= 0 && (m.left > at-lease || f.massUntil >= 0 && m.left > f.massSince-lease && f.massUntil >= at-lease):
			alive++
			if margin == 0 || m.leftBy == by || m.left < at-margin {
				lost++
			}
		case m.lifecycle == execution.Stopped && margin > 0 && m.since > at-margin:
			// It may still have been counted.
			alive++
		}
	}
	return alive, over, lost
}

// held is how much later a worker may be found dead because a reaper held back, counted from the
// beginning of the hold: two leases, and then one worker a second.
func (f *fleet) held(renewed time.Duration, b *Bounds) (since, more time.Duration) {
	if f.massUntil < renewed {
		return renewed, 0
	}
	return max(renewed, f.massSince), b.Hold + time.Duration(len(f.members))*b.Trickle
}
