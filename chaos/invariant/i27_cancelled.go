package invariant

import (
	"time"

	"handoff/chaos/history"
	"handoff/chaos/oracle"
	"handoff/core/execution"
)

// cancelledAtOnce returns invariant 27: a message notifies a worker of a cancellation. The reply to the
// worker's next heartbeat repeats this only in case the message was lost.
func cancelledAtOnce() *Invariant {
	i := &Invariant{
		Number: 27, Name: "cancelled at once", Conduct: true,
		Statement: "A running worker whose database and broker answer ends a cancelled action within the kill grace and the time of the necessary calls. It does not wait for its next heartbeat.",
		Needs:     []history.Kind{history.Transition, history.WorkerRegistered, history.ProcessStarted},
	}
	i.make = func(s *Suite) checker { return &cancelledChecker{i: i, s: s} }
	return i
}

type cancelledChecker struct {
	i      *Invariant
	s      *Suite
	agenda agenda
}

// observedKinds implements timed.
func (c *cancelledChecker) observedKinds() []history.Kind { return []history.Kind{history.Transition} }

func (*cancelledChecker) isTimedChecker() {}

func (c *cancelledChecker) observeEvent(e *history.Event, _ *life) {
	for l, due := c.agenda.nextDue(c.s, e.At); due; l, due = c.agenda.nextDue(c.s, e.At) {
		c.judgeCancellation(l)
	}
	if e.Kind == history.Transition && e.To == execution.Canceling && c.isClear(e.Incarnation, c.s.recoveryStart(e.At)) {
		c.s.countOccasion(c.i)
		c.agenda.scheduleCheck(c.s, e.At+c.s.config.Worker.KillGrace+c.s.promptBound(), e.Execution, e.Epoch, e.To)
	}
}

// isClear reports whether a worker, and the path of a cancellation to it, had no trouble at or after from.
func (c *cancelledChecker) isClear(owner execution.Incarnation, from time.Duration) bool {
	t := c.s.workers.Get(owner)
	return t != nil && !t.superseded && !oracle.Gone(t.lifecycle) && c.s.roads.byName[t.process].isClear(from) && c.s.roads.hintsArrive(from)
}

// judgeCancellation judges an execution that is still canceling after its worker's maximum time to end it.
func (c *cancelledChecker) judgeCancellation(l *life) {
	if c.isClear(l.incarnation, c.s.recoveryStart(l.entered)) {
		c.s.recordViolation(c.i, l.id, "execution %d, epoch %d, is to be cancelled since %v, and %s has not ended it within its kill grace %v and %v",
			l.id, l.epoch, l.entered, c.s.workers.Get(l.incarnation).process, c.s.config.Worker.KillGrace, c.s.promptBound())
	}
}

func (c *cancelledChecker) endRun(bool) {}
