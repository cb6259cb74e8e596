package invariant

import (
	"handoff/chaos/history"
	"handoff/chaos/oracle"
	"handoff/core/execution"
)

// ownResult is invariant 13 (defects D4, D13).
func ownResult() *Invariant {
	i := &Invariant{
		Number: 13, Name: "the run's own result",
		Statement: "The stored result is the one that the owning run computed: nothing completes that did not, and what still runs or ended by itself is not called lost by its own worker.",
		Needs:     []history.Kind{history.Transition, history.ActionStarted, history.ActionEnded},
	}
	i.make = func(s *Suite) checker { return &resultChecker{i: i, s: s, exits: make(map[execution.ID]exit)} }
	return i
}

// exit is how the latest run of an execution that is not finished has ended.
type exit struct {
	epoch  execution.Epoch
	to     execution.Status
	reason execution.Reason
}

type resultChecker struct {
	i     *Invariant
	s     *Suite
	exits map[execution.ID]exit
}

func (c *resultChecker) observe(e *history.Event, l *life) {
	switch e.Kind {
	case history.ActionEnded:
		if l != nil && !oracle.Terminal(l.status) {
			c.exits[e.Execution] = exit{e.Epoch, e.To, e.Reason}
		}
	case history.Transition:
		if oracle.Claimed(e.From) && e.By == execution.Worker && oracle.Terminal(e.To) {
			c.judge(e, l)
		}
		if oracle.Terminal(e.To) {
			delete(c.exits, e.Execution)
		}
	default:
	}
}

func (c *resultChecker) judge(e *history.Event, l *life) {
	c.s.judged(c.i)
	x, ended := c.exits[e.Execution]
	ended = ended && x.epoch == e.OldEpoch
	byItself := ended && x.to != execution.Cancelled
	switch {
	case e.Reason == execution.WorkerLost && l != nil && l.running > 0 && l.started > 0:
		c.s.violate(c.i, e.Execution, "execution %d is stored as %v (%v) by %s, and its run at epoch %d goes on", e.Execution, e.To, e.Reason, e.Process, e.OldEpoch)
	case e.To == execution.Completed && (!byItself || x.to != execution.Completed):
		c.s.violate(c.i, e.Execution, "execution %d is stored as completed by %s, and its run at epoch %d did not complete", e.Execution, e.Process, e.OldEpoch)
	case e.To == execution.Failed && byItself && x.to == execution.Completed:
		c.s.violate(c.i, e.Execution, "execution %d is stored as failed (%v) by %s, and its run at epoch %d has completed", e.Execution, e.Reason, e.Process, e.OldEpoch)
	case e.To == execution.Failed && byItself && e.Reason != x.reason:
		c.s.violate(c.i, e.Execution, "execution %d is stored as failed for %v by %s, and its run at epoch %d failed for %v", e.Execution, e.Reason, e.Process, e.OldEpoch, x.reason)
	case e.To == execution.Cancelled && byItself:
		c.s.violate(c.i, e.Execution, "execution %d is stored as cancelled by %s, and its run at epoch %d has ended by itself", e.Execution, e.Process, e.OldEpoch)
	case e.To == execution.Timeout && byItself:
		c.s.violate(c.i, e.Execution, "execution %d is stored as timed out by %s, and its run at epoch %d has ended by itself", e.Execution, e.Process, e.OldEpoch)
	}
}

func (c *resultChecker) end(bool) {}
