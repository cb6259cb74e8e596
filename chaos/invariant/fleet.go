package invariant

import (
	"time"

	"handoff/chaos/history"
	"handoff/chaos/oracle"
	"handoff/core/config"
	"handoff/core/execution"
)

// fleet is the state of all workers according to the history. It knows when so many leases were over at the
// same time that an executor's reaper may, or must, have braked. An executor may detect the end of a lease
// late, but never early.
type fleet struct {
	config  config.Config
	brakes  *oracle.Brakes
	members []*member
	byID    map[execution.WorkerID]*member

	// skew is how far the database's clock has been moved.
	skew time.Duration

	next time.Duration
	// massSince and massUntil bound the latest period in which a reaper may have braked. episode is the start
	// of the first such period since every reaper has last seen that no lease was over. none is the time
	// since which no lease has been over. Each is negative if there is no such time.
	massSince, massUntil, episode, none time.Duration
	// unsure is when the decision to brake last depended on whether a reaper counted the stopped workers.
	unsure time.Duration
}

// headcount is the number of workers in each state, as a reaper counts them.
type headcount struct {
	// alive counts the workers that are present or were present less than a lease ago. Among these, over
	// counts the workers whose lease is over, and lost those that were marked lost.
	alive, over, lost int
	// stopped counts workers that stopped by themselves. Whether a reaper counts them as alive depends on
	// when it last saw them.
	stopped int
}

// mustBrake reports whether every reaper brakes when over leases have expired.
func (h headcount) mustBrake(b *oracle.Brakes, over int) bool {
	return b.Hold(h.alive, over) && b.Hold(h.alive+h.stopped, over)
}

// mayBrake reports whether some reaper may brake, depending on which of the stopped workers it has seen.
func (h headcount) mayBrake(b *oracle.Brakes, over int) bool {
	few := max(0, b.Least-h.alive)
	return few <= h.stopped && b.Hold(h.alive+few, over)
}

// reaper describes a reaper that counts workers: its process, the maximum age of its information (margin),
// the time since which nothing has hindered it, its start, and when the database last returned.
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
	// left is when an executor marked the incarnation lost, negative if none did. leftBy is its process.
	left   time.Duration
	leftBy string
}

// examineInterval is the interval at which the fleet is examined. It is shorter than a reaper's interval.
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

// examineUntil examines the fleet once a second, up to now.
func (f *fleet) examineUntil(now time.Duration) {
	if now < f.next {
		return
	}
	// Between two events leases can only end, and after a few leases nothing changes any more. The
	// examinations are always one second apart, independently of the events, which could otherwise stretch an
	// interval to two.
	at := max(f.next, now-4*oracle.Lease(&f.config.Worker))
	// The loop counts the examinations because at could overflow at the end of its range.
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
		// A reaper may have missed a short period in which no lease was over.
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
		// A reaper that was hindered restarts its watch, and may have forgotten earlier losses. After a
		// database outage it considers no lease over for the duration of a lease. That releases its brake,
		// which then forgets a worker a lease after its loss.
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
			// The reaper has not, or may not have, seen this worker alive since its own start.
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

// reaperSaw reports whether the reaper must have seen the stopped worker alive.
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
