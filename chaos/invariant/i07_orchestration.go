package invariant

import (
	"slices"

	"handoff/chaos/history"
	"handoff/core/execution"
)

// orchestrationOnce is invariant 7 (flaws D22, D24, D50).
func orchestrationOnce() *Invariant {
	i := &Invariant{
		Number: 7, Name: "orchestration once",
		Statement: "The end of an execution is handled exactly once, and creates at most one retry.",
		Needs:     []history.Kind{history.Created, history.Transition, history.Orchestrated},
	}
	i.make = func(s *Suite) checker {
		return &orchestrationChecker{i: i, s: s, retries: make(map[execution.ID]int64)}
	}
	return i
}

type orchestrationChecker struct {
	i *Invariant
	s *Suite
	// retries is the highest retry count of a chain whose newest row is alive.
	retries map[execution.ID]int64
}

func (c *orchestrationChecker) observe(e *history.Event, l *life) {
	switch e.Kind {
	case history.Created:
		if e.Count > 0 && c.retries[e.Chain] >= e.Count {
			c.s.violate(c.i, e.Execution, "execution %d is a second retry number %d of execution %d", e.Execution, e.Count, e.Chain)
		}
		c.retries[e.Chain] = max(c.retries[e.Chain], e.Count)
	case history.Orchestrated:
		switch {
		case l == nil || l.orchestrated:
			c.s.violate(c.i, e.Execution, "the end of execution %d was handled a second time, by %s", e.Execution, e.Process)
		case !l.status.Terminal():
			c.s.violate(c.i, e.Execution, "the end of execution %d was handled by %s while it was %v", e.Execution, e.Process, l.status)
		case e.Related == 0:
			delete(c.retries, e.Chain)
		}
	default:
	}
}

func (c *orchestrationChecker) end(bool) {
	var left []execution.ID
	for id, l := range c.s.lives { //detlint:ok sorted below
		if l.status.Terminal() && !l.orchestrated && c.s.stuck(l.entered) {
			left = append(left, id)
		}
	}
	if len(left) == 0 {
		return
	}
	slices.Sort(left)
	l := c.s.lives[left[0]]
	c.s.violate(c.i, l.id, "execution %d ended as %v at %v and its end was never handled (%d executions in all)", l.id, l.status, l.entered, len(left))
}
