package invariant

import (
	"handoff/chaos/history"
	"handoff/core/broker"
	"handoff/core/execution"
)

// This file is the part of invariant 24 that judges acknowledgements (defects D20, D30): until a dispatch is claimed its message
// is all that says where it is, so a worker keeps that until the dispatch is claimed or has come to nothing. A message of several
// dispatches is told of as so many messages that are acknowledged together, so each of them is judged. Only the simulated world
// tells of acknowledgements.

// copies are the deliveries of one dispatch to a worker that are not settled.
type copies struct {
	open int
	// refused says that a claim of it was refused meanwhile: it has come to nothing.
	refused bool
}

// keptChecker follows the dispatches that were delivered and not settled: a few for each worker.
type keptChecker struct {
	i    *Invariant
	s    *Suite
	open map[execution.Key]copies
}

func (c *keptChecker) observe(e *history.Event, l *life) {
	key := execution.Key{ID: e.Execution, Epoch: e.Epoch}
	switch e.Kind {
	case history.Delivered:
		if l != nil && broker.IsWorkerQueue(e.Queue) {
			o := c.open[key]
			o.open++
			c.open[key] = o
		}
	case history.StaleWrite:
		if o, known := c.open[key]; known && e.By == execution.Worker && e.To == execution.Running {
			o.refused = true
			c.open[key] = o
		}
	case history.Acked:
		if o, known := c.open[key]; known && broker.IsWorkerQueue(e.Queue) {
			c.settled(key)
			if o.open == 1 && !o.refused && e.Fault == "" {
				c.acked(e, l)
			}
		}
	case history.Requeued, history.Rejected:
		if broker.IsWorkerQueue(e.Queue) {
			c.settled(key)
		}
	case history.Transition:
		if e.From == execution.Scheduled {
			delete(c.open, execution.Key{ID: e.Execution, Epoch: e.OldEpoch})
		}
	default:
	}
}

// settled forgets one delivery of a dispatch.
func (c *keptChecker) settled(key execution.Key) {
	o, known := c.open[key]
	if o.open--; o.open > 0 {
		c.open[key] = o
	} else if known {
		delete(c.open, key)
	}
}

// acked judges the acknowledgement of the only delivery of a dispatch: while that waits to be claimed there, it is lost.
func (c *keptChecker) acked(e *history.Event, l *life) {
	if l == nil || l.status != execution.Scheduled || l.epoch != e.Epoch {
		return
	}
	// Another incarnation can't claim it, and its claim was refused before.
	t := c.s.workers.Get(l.incarnation)
	if t == nil || t.process != e.Process || t.late {
		return
	}
	if _, gone := t.gone(); gone {
		return
	}
	c.s.violate(c.i, e.Execution, "%s acknowledged the only message of execution %d at epoch %d, and has not claimed it: until it does, nobody but the timeout monitor knows of it",
		e.Process, e.Execution, e.Epoch)
}
