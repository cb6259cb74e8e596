package invariant

import (
	"handoff/chaos/history"
	"handoff/chaos/oracle"
	"handoff/core/execution"
)

// concurrencyLimits returns invariant 11 (defect D24).
func concurrencyLimits() *Invariant {
	i := &Invariant{
		Number: 11, Name: "concurrency limits", Unconfigured: true, Across: true,
		Statement: "An action with a concurrency limit never has more executions than that between scheduling and end. Each of them has a slot of its own.",
		Needs:     []history.Kind{history.ActionDefined, history.Created, history.Transition, history.SlotTaken, history.SlotFreed},
	}
	i.make = func(s *Suite) checker { return &concurrencyChecker{i: i, s: s, actions: make(map[string]*actionUse)} }
	return i
}

type concurrencyChecker struct {
	i       *Invariant
	s       *Suite
	actions map[string]*actionUse
}

// actionUse counts the running executions and the slots in use of one limited action. The two are counted
// separately, so that an execution claimed without a slot is also detected.
type actionUse struct {
	limit   int64
	claimed int64
	holders map[int64]execution.ID // by slot number
}

// observedKinds implements selective.
func (c *concurrencyChecker) observedKinds() []history.Kind {
	return []history.Kind{history.ActionDefined, history.SlotTaken, history.SlotFreed, history.Transition}
}

func (c *concurrencyChecker) observeEvent(e *history.Event, l *life) {
	switch e.Kind {
	case history.ActionDefined:
		if a := c.actions[e.Action]; a != nil {
			a.limit = e.Count
		} else if e.Count > 0 {
			c.actions[e.Action] = &actionUse{limit: e.Count, holders: make(map[int64]execution.ID)}
		}
	case history.SlotTaken:
		c.judgeSlotTaken(e)
	case history.SlotFreed:
		c.judgeSlotFreed(e)
	case history.Transition:
		if l != nil {
			c.judgeTransition(e, c.actions[c.s.actions[l.action]], l)
		}
	default:
	}
}

func (c *concurrencyChecker) judgeTransition(e *history.Event, a *actionUse, l *life) {
	if a == nil {
		return
	}
	was := e.From != execution.Requested && !oracle.Terminal(e.From)
	is := e.To != execution.Requested && !oracle.Terminal(e.To)
	switch {
	case is && !was:
		a.claimed++
		if a.limit <= 0 {
			break
		}
		c.s.countOccasion(c.i)
		if a.claimed > a.limit {
			c.s.recordViolation(c.i, e.Execution, "execution %d was claimed for scheduling by %s as number %d of %s at a time, of which %d are allowed",
				e.Execution, e.Process, a.claimed, c.s.actions[l.action], a.limit)
		}
	case was && !is:
		a.claimed--
	}
}

func (c *concurrencyChecker) judgeSlotTaken(e *history.Event) {
	c.s.countOccasion(c.i)
	a := c.actions[e.Action]
	if a == nil || e.Count < 1 || e.Count > a.limit {
		c.s.recordViolation(c.i, e.Execution, "execution %d has taken slot %d of %s, which does not exist", e.Execution, e.Count, e.Action)
		return
	}
	if holder := a.holders[e.Count]; holder != 0 {
		c.s.recordViolation(c.i, e.Execution, "execution %d has taken slot %d of %s, which execution %d holds", e.Execution, e.Count, e.Action, holder)
	}
	a.holders[e.Count] = e.Execution
}

func (c *concurrencyChecker) judgeSlotFreed(e *history.Event) {
	c.s.countOccasion(c.i)
	a := c.actions[e.Action]
	if a == nil || e.Execution == 0 || a.holders[e.Count] != e.Execution {
		c.s.recordViolation(c.i, e.Execution, "%s has freed slot %d of %s in the name of execution %d, which does not hold it", e.Process, e.Count, e.Action, e.Execution)
		return
	}
	delete(a.holders, e.Count)
}

func (c *concurrencyChecker) endRun(bool) {}
