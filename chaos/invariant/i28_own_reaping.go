package invariant

import (
	"time"

	"handoff/chaos/history"
	"handoff/chaos/oracle"
	"handoff/core/execution"
)

// ownReaping returns invariant 28 (defects D13, D14): an executor that has declared a worker lost needs no
// further evidence to reclaim its executions.
func ownReaping() *Invariant {
	i := &Invariant{
		Number: 28, Name: "own reaping counts", Conduct: true,
		Statement: "An executor that declares a worker lost takes the worker's executions back at once. Running executions stay until the lease has been over for the grace.",
		Needs:     []history.Kind{history.Transition, history.WorkerRegistered, history.WorkerLifecycle, history.HeartbeatRenewed, history.ProcessStarted},
	}
	i.make = func(s *Suite) checker {
		return &ownReapingChecker{i: i, s: s, reaped: make(map[execution.Incarnation]declaredLoss)}
	}
	return i
}

// declaredLoss records which executor declared an incarnation lost, when it did, and from when on the
// incarnation's running executions may be reclaimed.
type declaredLoss struct {
	by       string
	at, over time.Duration
}

type ownReapingChecker struct {
	i      *Invariant
	s      *Suite
	agenda agenda
	reaped map[execution.Incarnation]declaredLoss
}

// observedKinds implements timed.
func (o *ownReapingChecker) observedKinds() []history.Kind {
	return []history.Kind{history.WorkerLifecycle}
}

func (*ownReapingChecker) isTimedChecker() {}

func (o *ownReapingChecker) observeEvent(e *history.Event, _ *life) {
	for l, due := o.agenda.nextDue(o.s, e.At); due; l, due = o.agenda.nextDue(o.s, e.At) {
		o.judgeHeld(l)
	}
	if e.Kind == history.WorkerLifecycle && e.Lifecycle == execution.Lost && e.Process != "" {
		o.scheduleReclaims(e)
	}
}

// scheduleReclaims schedules checks of the executions that must be reclaimed from a lost worker.
func (o *ownReapingChecker) scheduleReclaims(e *history.Event) {
	t := o.s.workers.Get(e.Incarnation)
	if t == nil || oracle.Gone(t.lifecycle) || !o.isClear(e.Process, e.At) {
		return
	}
	x, prompt := o.s.config.Executor, o.s.promptBound()
	// The lease must have been over for the grace by both clocks.
	over := max(t.leaseEnds-o.s.skew, t.renewed+oracle.Lease(&o.s.config.Worker)) + x.ReapGrace
	held := false
	for id, l := range o.s.lives.All() {
		if l.incarnation != e.Incarnation || l.status != execution.Scheduled && !oracle.Claimed(l.status) {
			continue
		}
		held = true
		o.s.countOccasion(o.i)
		after := e.At + prompt
		if oracle.Claimed(l.status) && over > e.At {
			after = over + x.ReconcileInterval + prompt
		}
		o.agenda.due.push(watchEntry{at: after + time.Nanosecond, id: id, epoch: uint16(l.epoch), in: l.status})
		o.s.wakeAt(after + time.Nanosecond)
	}
	if held {
		o.reaped[e.Incarnation] = declaredLoss{e.Process, e.At, over}
	}
}

// isClear reports whether an executor had no trouble since it declared a worker lost, at the time at. A
// worker that re-registers also ends its last incarnation, but reclaims nothing. The executors' passes do
// that.
func (o *ownReapingChecker) isClear(executor string, at time.Duration) bool {
	from, p := o.s.recoveryStart(at), o.s.roads.byName[executor]
	return p.isClear(from) && !p.worker && o.s.roads.serversClear(from)
}

// judgeHeld judges an execution that still belongs to a worker that an executor has declared lost.
func (o *ownReapingChecker) judgeHeld(l *life) {
	r, known := o.reaped[l.incarnation]
	// No executor can reclaim a row that a foreign session has locked.
	if !known || l.hidden || l.shown > r.at || !o.isClear(r.by, r.at) {
		return
	}
	o.s.recordViolation(o.i, l.id, "execution %d, epoch %d, is %v at worker %d (incarnation %d), which %s declared lost at %v; running executions may be taken back since %v, all others at once",
		l.id, l.epoch, l.status, l.worker, l.incarnation, r.by, r.at, r.over)
}

func (o *ownReapingChecker) endRun(bool) {}
