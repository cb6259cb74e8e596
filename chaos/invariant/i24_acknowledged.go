package invariant

import (
	"handoff/chaos/history"
	"handoff/core/broker"
	"handoff/core/execution"
)

// This file is the part of invariant 24 about acknowledgements (defects D20, D30). Until a dispatch is
// claimed, only its message records which worker has it. So the worker must keep the message until it has
// claimed the dispatch or the claim is refused. For a message with several dispatches, the history has one
// event for each dispatch, and each is judged. Only the simulated world reports acknowledgements.

// openDeliveries counts the unsettled deliveries of one dispatch to a worker.
type openDeliveries struct {
	open int
	// refused reports whether a claim of the dispatch was refused meanwhile, so that its deliveries are
	// useless.
	refused bool
}

// keptChecker tracks dispatches that were delivered and not settled. Each worker has only a few.
type keptChecker struct {
	i    *Invariant
	s    *Suite
	open map[execution.Key]openDeliveries
}

func (k *keptChecker) observeEvent(e *history.Event, l *life) {
	key := execution.Key{ID: e.Execution, Epoch: e.Epoch}
	switch e.Kind {
	case history.Delivered:
		if l != nil && broker.IsWorkerQueue(e.Queue) {
			o := k.open[key]
			o.open++
			k.open[key] = o
		}
	case history.StaleWrite:
		if o, known := k.open[key]; known && e.By == execution.Worker && e.To == execution.Running {
			o.refused = true
			k.open[key] = o
		}
	case history.Acked:
		if o, known := k.open[key]; known && broker.IsWorkerQueue(e.Queue) {
			k.forgetDelivery(key)
			if o.open == 1 && !o.refused && e.Fault == "" {
				k.judgeAck(e, l)
			}
		}
	case history.Requeued, history.Rejected:
		if broker.IsWorkerQueue(e.Queue) {
			k.forgetDelivery(key)
		}
	case history.Transition:
		if e.From == execution.Scheduled {
			delete(k.open, execution.Key{ID: e.Execution, Epoch: e.OldEpoch})
		}
	default:
	}
}

// forgetDelivery removes one delivery of a dispatch that was settled.
func (k *keptChecker) forgetDelivery(key execution.Key) {
	o, known := k.open[key]
	if o.open--; o.open > 0 {
		k.open[key] = o
	} else if known {
		delete(k.open, key)
	}
}

// judgeAck judges the acknowledgement of a dispatch's only unsettled delivery: a dispatch that has not been
// claimed by then is lost.
func (k *keptChecker) judgeAck(e *history.Event, l *life) {
	if l == nil || l.status != execution.Scheduled || l.epoch != e.Epoch {
		return
	}
	// Another incarnation can't claim it: its claim would have been refused before.
	t := k.s.workers.Get(l.incarnation)
	if t == nil || t.process != e.Process || t.late {
		return
	}
	if _, gone := t.goneSince(); gone {
		return
	}
	k.s.recordViolation(k.i, e.Execution, "%s acknowledged the only message of execution %d at epoch %d, but has not claimed the execution: until it does, only the timeout monitor can find it",
		e.Process, e.Execution, e.Epoch)
}
