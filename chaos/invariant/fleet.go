package invariant

import (
	"time"

	"handoff/chaos/history"
	"handoff/chaos/oracle"
	"handoff/core/config"
	"handoff/core/execution"
)

// fleet is the state of all workers according to the history. It knows when so many leases were over at once
// that an executor's reaper may, or must, have braked. An executor detects the end of a lease late but never
// early.
type fleet struct {
	config  config.Config
	brakes  *oracle.Brakes
	members []*member
	byID    map[execution.WorkerID]*member

	// skew is how far the database's clock has been moved.
	skew time.Duration

	next time.Duration
	// massSince and massUntil bound the latest period in which a reaper may have braked. episode is the start
	// of the first such period since every reaper has seen a moment with no lease over. none is the time
	// since which no lease is over. Each is negative for never.
	massSince, massUntil, episode, none time.Duration
	// unsure is the last moment at which the decision depended on whether a reaper counted the stopped
	// workers.
	unsure time.Duration
}

// headcount is the number of workers in each state, as a reaper sees them at a moment.
type headcount struct {
	// alive counts workers that are present or were present less than a lease ago. Of these, over counts
	// those whose lease is over, and lost those that were marked lost.
	alive, over, lost int
	// stopped counts workers that stopped by themselves. Whether a reaper counts them as alive depends on
	// when it last saw them.
	stopped int
}

// mustBrake reports whether every reaper brakes when so many leases are over.
func (h headcount) mustBrake(b *oracle.Brakes, over int) bool {
	return b.Hold(h.alive, over) && b.Hold(h.alive+h.stopped, over)
}

// mayBrake reports whether some reaper may brake, depending on which stopped workers it has seen.
func (h headcount) mayBrake(b *oracle.Brakes, over int) bool {
	few := max(0, b.Least-h.alive)
	return few <= h.stopped && b.Hold(h.alive+few, over)
}

// reaper describes a reaper that counts workers: its process, the greatest age of its knowledge, since when
// nothing has hindered it, when it was started, and when the database last returned.
type reaper struct {
	process  string
	margin   time.Duration
	watching time.Duration
	started  time.Duration
	back     time.Duration
}

type member struct {
	*session
	incarnation execution.Incarnation
	joined      time.Duration
	// left is when an executor marked the incarnation lost, negative if none did; leftBy is that executor's
	// process.
	left   time.Duration
	leftBy string
}

// examineInterval is the interval at which the fleet is examined; the reaper's interval is longer.
const examineInterval = time.Second

func newFleet(c config.Config) *fleet {
	return &fleet{config: c, brakes: oracle.NewBrakes(&c.Executor), byID: make(map[execution.WorkerID]*member), massSince: -1, massUntil: -1, episode: -1, none: -1, unsure: -1}
}

// leaseEnd returns when a lease is over both by the database's clock and by a clock that never jumps.
func (f *fleet) leaseEnd(t *session) time.Duration {
	return max(t.leaseEnds-f.skew, t.renewed+oracle.Lease(&f.config.Worker)*(driftTolerance-1)/driftTolerance)
}

// applyEvent applies an event after the sessions have applied it.
func (f *fleet) applyEvent(e *history.Event, t *session) {
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

// examineUntil examines the fleet once a second up to a moment.
func (f *fleet) examineUntil(now time.Duration) {
	if now < f.next {
		return
	}
	// Between two events leases only run out, and after a few leases nothing changes. The examinations are
	// one second apart whatever the events, because otherwise two could be two seconds apart.
	at := max(f.next, now-4*oracle.Lease(&f.config.Worker))
	// Count the examinations: adding to the time could overflow at the end of its range.
	for n := (now - at) / examineInterval; n >= 0; n-- {
		f.lookAt(at)
		at += examineInterval
	}
	f.next = at
}

func (f *fleet) lookAt(at time.Duration) {
	h := f.headcountAt(at, reaper{watching: at})
	if h.over > 0 {
		f.none = -1
	}
	switch {
	case h.over == 0:
		// A reaper may have missed a short moment in which no lease was over.
		if f.none < 0 {
			f.none = at
		}
		if at-f.none > f.noticeTime() {
			f.episode = -1
		}
		return
	case !h.mayBrake(f.brakes, h.over+h.lost):
		return
	case !h.mustBrake(f.brakes, h.over+h.lost):
		f.unsure = at
	}
	if f.massUntil < at-2*examineInterval {
		f.massSince = at
	}
	f.massUntil = at
	if f.episode < 0 {
		f.episode = f.massSince
	}
}

// headcountAt counts the workers as a reaper sees them. over counts leases that have been over for at
// least the reaper's margin. Workers marked lost by another process within the margin don't count,
// because the reaper may not know of them yet.
func (f *fleet) headcountAt(at time.Duration, r reaper) (h headcount) {
	lease := oracle.Lease(&f.config.Worker)
	holding := f.massUntil >= 0 && f.massUntil >= at-lease
	// A reaper remembers workers lost before the mass began, if it saw them before a lease was over.
	remembered := f.massSince - lease
	if r.margin > 0 {
		remembered += r.margin + 2*f.config.Executor.ReconcileInterval
		// It restarts its watch after it was hindered, and may have forgotten earlier losses. After an outage
		// of the database it takes no lease for over for the time of a lease. That releases its brake, which
		// then forgets a worker a lease after its loss.
		remembered = max(remembered, r.watching-lease, r.back)
	}
	for _, m := range f.members {
		switch {
		case !oracle.Gone(m.lifecycle):
			h.alive++
			if f.leaseEnd(m.session)+r.margin <= at {
				h.over++
			}
		case m.left >= 0 && r.margin > 0 && r.started > 0 && (m.left <= r.started || m.left <= r.started+f.noticeTime() && m.leftBy != r.process):
			// It has not seen this worker alive since its start, or may not have.
		case m.left >= 0 && (m.left > at-lease || holding && m.left > remembered):
			h.alive++
			if r.margin == 0 || m.leftBy == r.process || m.left < at-r.margin {
				h.lost++
			}
		case m.lifecycle != execution.Stopped:
		case m.since > at-lease && f.reaperSaw(m, r):
			h.alive++
		case m.since > at-lease-f.noticeTime() || holding && m.since > f.massSince-lease-f.noticeTime():
			h.stopped++
		}
	}
	return h
}

// reaperSaw reports whether a reaper has seen a stopped worker while that worker was alive.
func (f *fleet) reaperSaw(m *member, r reaper) bool {
	return m.since > max(r.watching, m.joined)+f.noticeTime()
}

// noticeTime returns the longest time until an unhindered reaper detects a change.
func (f *fleet) noticeTime() time.Duration {
	x := f.config.Executor
	return 2*(x.ReconcileInterval+x.StatementTimeout) + time.Second
}

// brakeDelay returns how much later a worker may be detected as dead because a reaper braked. The time counts
// from since, the start of the hold: two leases, and then a trickle for each worker.
func (f *fleet) brakeDelay(renewed time.Duration, b *Bounds) (since, more time.Duration) {
	if f.massUntil < renewed {
		return renewed, 0
	}
	more = b.Hold + time.Duration(len(f.members))*b.Trickle
	if f.unsure >= f.massSince {
		// The hold may have begun only after the reaper forgot the stopped workers.
		more += oracle.Lease(&f.config.Worker) + f.noticeTime()
	}
	return max(renewed, f.massSince), more
}
