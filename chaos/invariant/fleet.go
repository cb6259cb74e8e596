package invariant

import (
	"time"

	"handoff/chaos/history"
	"handoff/chaos/oracle"
	"handoff/core/config"
	"handoff/core/execution"
)

// fleet is what the history has said of the workers as a whole: whether so many of them were over at
// once that an executor's reaper may, or must, have held back. An executor sees it later than it is,
// and never otherwise: what is over for it is over by the true leases too.
type fleet struct {
	config  config.Config
	brakes  *oracle.Brakes
	members []*member
	byID    map[execution.WorkerID]*member

	// skew is how far the database's clock has been moved.
	skew time.Duration

	next time.Duration
	// massSince and massUntil are the latest span in which a reaper may have held; episode is when the
	// first of them began since every reaper has seen that no lease was over. none is since when none is. Negative for
	// never.
	massSince, massUntil, episode, none time.Duration
	// unsure is the last moment of such a span at which it depended on who counted those that had stopped.
	unsure time.Duration
}

// headcount is the fleet as a reaper sees it at a moment.
type headcount struct {
	// alive are not gone or were until less than a lease ago, over those of them whose lease is over, lost those that
	// were marked lost.
	alive, over, lost int
	// stopped are those that stopped by themselves and that a reaper may count among the alive or not, by when it saw
	// them last.
	stopped int
}

// must says that a reaper brakes when so many are over, whatever it has seen; may, that it does if it has seen what
// makes it.
func (h headcount) must(b *oracle.Brakes, over int) bool {
	return b.Hold(h.alive, over) && b.Hold(h.alive+h.stopped, over)
}

func (h headcount) may(b *oracle.Brakes, over int) bool {
	few := max(0, b.Least-h.alive)
	return few <= h.stopped && b.Hold(h.alive+few, over)
}

// reaper is one that counts: the process, how old what it knows may be, and since when nothing has hindered it.
type reaper struct {
	process  string
	margin   time.Duration
	watching time.Duration
}

type member struct {
	*session
	incarnation execution.Incarnation
	joined      time.Duration
	// left is when the incarnation was marked lost by an executor, and by whom.
	left   time.Duration
	leftBy string
}

// look is how often the fleet is looked at; the reaper looks less often.
const look = time.Second

func newFleet(c config.Config) *fleet {
	return &fleet{config: c, brakes: oracle.NewBrakes(&c.Executor), byID: make(map[execution.WorkerID]*member), massSince: -1, massUntil: -1, episode: -1, none: -1, unsure: -1}
}

// ends is when a lease is over: the database's clock says so, and so does one that nobody has moved.
func (f *fleet) ends(t *session) time.Duration {
	return max(t.leaseEnds-f.skew, t.renewed+oracle.Lease(&f.config.Worker)*(driftTolerance-1)/driftTolerance)
}

// learn follows an event that the sessions have learnt already.
func (f *fleet) learn(e *history.Event, t *session) {
	m := f.byID[e.Worker]
	switch {
	case t == nil:
	case e.Kind == history.WorkerRegistered:
		if m == nil {
			m = new(member)
			f.byID[e.Worker] = m
			f.members = append(f.members, m)
		}
		*m = member{session: t, incarnation: e.Incarnation, joined: e.At, left: -1}
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
	// Between two events only leases run out: after a few of them nothing changes any more. The looks are a second
	// apart whatever the moments of the events are, or two of them could be two seconds apart.
	at := max(f.next, now-4*oracle.Lease(&f.config.Worker))
	// Counted, because a sum beyond the last moment that there is would begin anew.
	for n := (now - at) / look; n >= 0; n-- {
		f.lookAt(at)
		at += look
	}
	f.next = at
}

func (f *fleet) lookAt(at time.Duration) {
	h := f.count(at, reaper{watching: at})
	if h.over > 0 {
		f.none = -1
	}
	switch {
	case h.over == 0:
		// A reaper that looks seldom has seen nothing of a moment in which no lease was over.
		if f.none < 0 {
			f.none = at
		}
		if at-f.none > f.notice() {
			f.episode = -1
		}
		return
	case !h.may(f.brakes, h.over+h.lost):
		return
	case !h.must(f.brakes, h.over+h.lost):
		f.unsure = at
	}
	if f.massUntil < at-2*look {
		f.massSince = at
	}
	f.massUntil = at
	if f.episode < 0 {
		f.episode = f.massSince
	}
}

// count counts the workers as a reaper sees them: over are those whose lease has been over for at least its margin. What
// another process has marked lost within the last margin does not count: it may not know of it yet.
func (f *fleet) count(at time.Duration, r reaper) (h headcount) {
	lease := oracle.Lease(&f.config.Worker)
	holding := f.massUntil >= 0 && f.massUntil >= at-lease
	// Who was lost before the mass began is remembered by a reaper that looked, and saw it, before a lease was over.
	remembered := f.massSince - lease
	if r.margin > 0 {
		remembered += r.margin + 2*f.config.Executor.ReconcileInterval
	}
	for _, m := range f.members {
		switch {
		case !oracle.Gone(m.lifecycle):
			h.alive++
			if f.ends(m.session)+r.margin <= at {
				h.over++
			}
		case m.left >= 0 && (m.left > at-lease || holding && m.left > remembered):
			h.alive++
			if r.margin == 0 || m.leftBy == r.process || m.left < at-r.margin {
				h.lost++
			}
		case m.lifecycle != execution.Stopped:
		case m.since > at-lease && f.watched(m, r):
			h.alive++
		case m.since > at-lease-f.notice() || holding && m.since > f.massSince-lease-f.notice():
			h.stopped++
		}
	}
	return h
}

// watched says that a reaper has seen a worker that has stopped while it was there.
func (f *fleet) watched(m *member, r reaper) bool {
	return m.since > max(r.watching, m.joined)+f.notice()
}

// notice is the longest time until a reaper that nothing hinders has seen a change.
func (f *fleet) notice() time.Duration {
	x := f.config.Executor
	return 2*(x.ReconcileInterval+x.StatementTimeout) + time.Second
}

// held is how much later a worker may be found dead because a reaper held back, counted from the
// beginning of the hold: two leases, and then one worker a second.
func (f *fleet) held(renewed time.Duration, b *Bounds) (since, more time.Duration) {
	if f.massUntil < renewed {
		return renewed, 0
	}
	more = b.Hold + time.Duration(len(f.members))*b.Trickle
	if f.unsure >= f.massSince {
		// It may have begun to hold only when it had forgotten those that had stopped.
		more += oracle.Lease(&f.config.Worker) + f.notice()
	}
	return max(renewed, f.massSince), more
}
