package invariant

import (
	"time"

	"handoff/chaos/history"
	"handoff/core/execution"
)

// handedOn is invariant 25 (defects D7, D8): what an executor has claimed does not wait for another one to find it.
func handedOn() *Invariant {
	i := &Invariant{
		Number: 25, Name: "handed on within the pass",
		Statement: "An executor that runs, and whose database and broker answer, publishes or gives back within one pass what it has claimed for scheduling.",
		Needs:     []history.Kind{history.Transition, history.Published, history.ProcessStarted},
	}
	i.make = func(s *Suite) checker { return &handedOnChecker{i: i, s: s} }
	return i
}

type handedOnChecker struct {
	i      *Invariant
	s      *Suite
	agenda agenda
}

// hears implements timed.
func (c *handedOnChecker) hears() []history.Kind { return []history.Kind{history.Transition} }

func (*handedOnChecker) timed() {}

func (c *handedOnChecker) observe(e *history.Event, _ *life) {
	for l, due := c.agenda.next(c.s, e.At); due; l, due = c.agenda.next(c.s, e.At) {
		c.check(l)
	}
	if e.Kind == history.Transition && (e.To == execution.Scheduling || e.To == execution.Scheduled) && c.clear(e.Process, e.To, c.s.recovered(e.At)) {
		c.s.judged(c.i)
		c.agenda.look(c.s, e.At+c.s.prompt(), e.Execution, e.Epoch, e.To)
	}
}

// clear says that nothing has been wrong since a moment for an executor that has claimed or dispatched something.
func (c *handedOnChecker) clear(executor string, in execution.Status, from time.Duration) bool {
	r := &c.s.roads
	x := r.byName[executor]
	return x.clear(from) && !x.worker && r.clear(from) && (in != execution.Scheduled || !r.dispatches.since(from))
}

// check judges an execution that was claimed, or dispatched, a while ago and still is.
func (c *handedOnChecker) check(l *life) {
	switch {
	case !c.clear(l.by, l.status, c.s.recovered(l.entered)):
	case l.status == execution.Scheduling:
		c.s.violate(c.i, l.id, "execution %d, epoch %d, was claimed for scheduling by %s at %v, which neither dispatched it nor gave it back within %v", l.id, l.epoch, l.by, l.entered, c.s.prompt())
	case !l.published && !l.returned:
		c.s.violate(c.i, l.id, "execution %d, epoch %d, was scheduled by %s at %v, which did not publish it within %v", l.id, l.epoch, l.by, l.entered, c.s.prompt())
	}
}

func (c *handedOnChecker) end(bool) {}
