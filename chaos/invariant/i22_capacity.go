package invariant

import (
	"handoff/chaos/dense"
	"handoff/chaos/history"
	"handoff/chaos/oracle"
	"handoff/core/execution"
)

// withinCapacity returns invariant 22 (defect D42): the capacity is the load that a machine can carry, and
// the scheduler relies on it.
func withinCapacity() *Invariant {
	i := &Invariant{
		Number: 22, Name: "within its capacity", Unconfigured: true, Across: true,
		Statement: "No incarnation of a worker runs more actions at a time than the capacity that it registered with. None has claimed more.",
		Needs:     []history.Kind{history.WorkerRegistered, history.Transition},
		Whole:     []history.Kind{history.ActionStarted, history.ActionEnded},
		Part:      "only what was claimed; an audit does not record actions",
	}
	i.make = func(s *Suite) checker {
		return &capacityChecker{i: i, s: s, given: make(map[execution.ID]bool)}
	}
	return i
}

type incarnationLoad struct {
	worker           execution.WorkerID
	capacity         int64
	claimed, actions int64
	// gone reports whether a later incarnation of the worker has registered.
	gone bool
}

type capacityChecker struct {
	i  *Invariant
	s  *Suite
	of dense.Table[execution.Incarnation, *incarnationLoad]
	// given holds executions whose claim got no answer, and whose cancellation was requested before the
	// worker repeated the claim. The worker then knows that it must not run them: it frees their slots and
	// writes that they are cancelled.
	given map[execution.ID]bool
}

// observedKinds implements selective.
func (c *capacityChecker) observedKinds() []history.Kind {
	return []history.Kind{history.WorkerRegistered, history.ActionStarted, history.ActionEnded, history.Transition, history.StaleWrite}
}

func (c *capacityChecker) observeEvent(e *history.Event, l *life) {
	switch e.Kind {
	case history.WorkerRegistered:
		for n, w := range c.of.All() {
			if w.worker == e.Worker {
				w.gone = true
				c.forgetIfIdle(n, w)
			}
		}
		c.of.Set(e.Incarnation, &incarnationLoad{worker: e.Worker, capacity: e.Limit})
	case history.ActionStarted, history.ActionEnded, history.Transition:
		if w := c.of.Get(e.Incarnation); w != nil && w.capacity > 0 {
			c.countLoad(e, w)
		}
	case history.StaleWrite:
		if e.By != execution.Worker || e.To != execution.Running || l == nil || l.status != execution.Canceling || l.epoch != e.Epoch || l.started > 0 {
			return
		}
		if w := c.of.Get(l.incarnation); w != nil && !c.given[l.id] {
			c.given[l.id] = true
			w.claimed = max(0, w.claimed-1)
		}
	default:
	}
}

func (c *capacityChecker) countLoad(e *history.Event, w *incarnationLoad) {
	switch {
	case e.Kind == history.ActionStarted:
		w.actions++
		c.s.countOccasion(c.i)
		if w.actions > w.capacity {
			c.s.recordViolation(c.i, e.Execution, "%s (incarnation %d) started execution %d and then ran %d actions at the same time; its capacity is %d",
				e.Process, e.Incarnation, e.Execution, w.actions, w.capacity)
		}
	case e.Kind == history.ActionEnded:
		w.actions = max(0, w.actions-1)
		c.forgetIfIdle(e.Incarnation, w)
	case oracle.Claimed(e.To) && !oracle.Claimed(e.From):
		w.claimed++
		c.s.countOccasion(c.i)
		if w.claimed > w.capacity {
			c.s.recordViolation(c.i, e.Execution, "%s (incarnation %d) claimed execution %d and then held %d executions at the same time; its capacity is %d",
				e.Process, e.Incarnation, e.Execution, w.claimed, w.capacity)
		}
	case oracle.Claimed(e.From) && !oracle.Claimed(e.To) && c.given[e.Execution]:
		delete(c.given, e.Execution)
		c.forgetIfIdle(e.Incarnation, w)
	case oracle.Claimed(e.From) && !oracle.Claimed(e.To):
		w.claimed = max(0, w.claimed-1)
		c.forgetIfIdle(e.Incarnation, w)
	}
}

// forgetIfIdle removes an incarnation that has a successor and no load left.
func (c *capacityChecker) forgetIfIdle(n execution.Incarnation, w *incarnationLoad) {
	if w.gone && w.claimed == 0 && w.actions == 0 {
		c.of.Delete(n)
	}
}

func (c *capacityChecker) endRun(bool) {}
