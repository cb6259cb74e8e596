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
		Statement: "The end of an execution is handled exactly once, and with it its slot is released, and one retry created or the workflow children started or skipped.",
		Needs:     []history.Kind{history.Created, history.Transition, history.Orchestrated},
	}
	i.make = func(s *Suite) checker {
		return &orchestrationChecker{i: i, s: s, retries: make(map[execution.ID]int64), waiting: make(map[execution.ID]int)}
	}
	return i
}

type orchestrationChecker struct {
	i *Invariant
	s *Suite
	// retries is the highest retry count of a chain whose newest row is alive.
	retries map[execution.ID]int64
	// waiting counts the children that wait for the end of a chain, and settled says how those were settled
	// since the last handling of an end: the handling that they belong to follows.
	waiting map[execution.ID]int
	settled []settledChild
}

// settledChild is a child that was started or skipped.
type settledChild struct {
	id, parent execution.ID
	started    bool
}

func (c *orchestrationChecker) observe(e *history.Event, l *life) {
	switch e.Kind {
	case history.Created:
		if e.Count > 0 {
			if c.retries[e.Chain] >= e.Count {
				c.s.violate(c.i, e.Execution, "execution %d is a second retry number %d of execution %d", e.Execution, e.Count, e.Chain)
			}
			c.retries[e.Chain] = max(c.retries[e.Chain], e.Count)
		}
		if e.Related != 0 {
			c.waiting[e.Related]++
		}
	case history.ChildStarted:
		if l == nil || l.parent == 0 {
			c.s.violate(c.i, e.Execution, "execution %d, a child of execution %d, was started a second time by %s", e.Execution, e.Related, e.Process)
			return
		}
		c.settle(settledChild{e.Execution, e.Related, true})
	case history.Transition:
		c.transition(e, l)
	case history.Orchestrated:
		c.handled(e, l)
	default:
	}
}

func (c *orchestrationChecker) transition(e *history.Event, l *life) {
	switch {
	case l == nil || l.parent == 0:
	case e.To == execution.Scheduling:
		c.s.violate(c.i, e.Execution, "execution %d was scheduled by %s while it waits for its parent, execution %d", e.Execution, e.Process, l.parent)
	case e.By == execution.ExecutionManager:
		c.settle(settledChild{e.Execution, l.parent, false})
	case e.To.Terminal():
		c.leave(l.parent)
	}
}

// settle judges a child that was started or skipped: at once if the end of its parent's chain was handled
// before, else with the handling that follows.
func (c *orchestrationChecker) settle(child settledChild) {
	c.leave(child.parent)
	if ended := c.s.ended.of(child.parent); ended != execution.None {
		c.judge(child, ended)
		return
	}
	c.settled = append(c.settled, child)
}

func (c *orchestrationChecker) leave(parent execution.ID) {
	if c.waiting[parent]--; c.waiting[parent] <= 0 {
		delete(c.waiting, parent)
	}
}

func (c *orchestrationChecker) judge(child settledChild, ended execution.Status) {
	switch completed := ended == execution.Completed; {
	case child.started && !completed:
		c.s.violate(c.i, child.id, "execution %d was started, and its parent, execution %d, has ended as %v", child.id, child.parent, ended)
	case !child.started && completed:
		c.s.violate(c.i, child.id, "execution %d was skipped, and its parent, execution %d, has completed", child.id, child.parent)
	}
}

func (c *orchestrationChecker) handled(e *history.Event, l *life) {
	switch {
	case l == nil || l.orchestrated:
		c.s.violate(c.i, e.Execution, "the end of execution %d was handled a second time, by %s", e.Execution, e.Process)
	case !l.status.Terminal():
		c.s.violate(c.i, e.Execution, "the end of execution %d was handled by %s while it was %v", e.Execution, e.Process, l.status)
	case l.slot != 0:
		c.s.violate(c.i, e.Execution, "the end of execution %d was handled by %s, and it still holds slot %d of %s", e.Execution, e.Process, l.slot, c.s.actions[l.action])
	case e.Related == 0:
		delete(c.retries, e.Chain)
	}
	for _, child := range c.settled {
		if child.parent != e.Chain || e.Related != 0 {
			c.s.violate(c.i, child.id, "execution %d was started or skipped before the chain of its parent, execution %d, has ended", child.id, child.parent)
			continue
		}
		c.judge(child, e.From)
	}
	c.settled = c.settled[:0]
	if n := c.waiting[e.Chain]; n > 0 && e.Related == 0 {
		c.s.violate(c.i, e.Execution, "the end of execution %d was handled by %s, and %d children of its chain still wait for it", e.Execution, e.Process, n)
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
