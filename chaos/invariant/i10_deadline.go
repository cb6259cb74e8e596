package invariant

import (
	"slices"
	"time"

	"handoff/chaos/history"
	"handoff/chaos/oracle"
	"handoff/core/execution"
)

// This file is the part of invariant 10 about the deadline of a stop (defect D40). Running actions
// have exactly the shutdown timeout to finish. Those that still run then are asked to end, whatever
// else has ended meanwhile. Only the simulated world reports when an action is asked.

// stoppable is a running action that was not asked to end.
type stoppable struct {
	id    execution.ID
	epoch execution.Epoch
}

// stopDeadline is a process that was asked to stop, and the time by which all its actions must have
// ended.
type stopDeadline struct {
	process string
	since   time.Duration
	at      time.Duration
	// told is when it could first learn that an operator drains it, 0 if none does.
	told time.Duration
	// patient says that the deadline was already extended once, because calls to servers may have
	// delayed the process.
	patient bool
}

// stops notes that a process begins to stop.
func (c *gracefulChecker) stops(process string, at time.Duration) {
	// A halted process learns of the stop when it resumes.
	if p := c.s.roads.byName[process]; p == nil || !p.worker || p.held > 0 {
		return
	}
	if !slices.ContainsFunc(c.deadlines, func(d stopDeadline) bool { return d.process == process }) {
		c.deadlines = append(c.deadlines, stopDeadline{
			process: process, since: at, at: at + c.s.config.Worker.ShutdownTimeout + c.s.config.Worker.KillGrace + c.s.prompt(), told: c.told[process],
		})
	}
}

// actions tracks the running actions of each process.
func (c *gracefulChecker) actions(e *history.Event) {
	if len(c.deadlines) > 0 {
		c.due(e.At)
	}
	switch e.Kind {
	case history.ActionStarted:
		c.running[e.Process] = append(c.running[e.Process], stoppable{e.Execution, e.Epoch})
	case history.ActionEnded:
		of := c.running[e.Process]
		if i := slices.Index(of, stoppable{e.Execution, e.Epoch}); i >= 0 {
			c.running[e.Process] = slices.Delete(of, i, i+1)
		}
	case history.ProcessStarted, history.ProcessCrashed, history.ProcessStopped:
		delete(c.running, e.Process)
		c.stopsNoMore(e.Process)
	case history.ProcessPaused, history.ProcessFrozen:
		// A halted process ends nothing; its machine ends the actions by the fence.
		c.stopsNoMore(e.Process)
	case history.Transition:
		if oracle.Claimed(e.From) && e.Reason == execution.WorkerShutdown && e.By == execution.Worker {
			c.endedForStop(e)
		}
	default:
	}
}

func (c *gracefulChecker) stopsNoMore(process string) {
	c.deadlines = slices.DeleteFunc(c.deadlines, func(d stopDeadline) bool { return d.process == process })
}

// due judges the processes whose actions must have ended by now.
func (c *gracefulChecker) due(now time.Duration) {
	const held = toDatabase | toBroker | brokerFails | databaseFails
	for i := 0; i < len(c.deadlines); i++ {
		d := &c.deadlines[i]
		if now <= d.at {
			continue
		}
		if !d.patient && c.s.ledger.struck(held, d.process, 0, c.s.recovered(d.since)) {
			// Telling the database, ending the consumer and releasing executions may each take one
			// call beyond the deadline.
			d.patient, d.at = true, d.at+3*c.s.config.Worker.StatementTimeout
			continue
		}
		if !c.s.ledger.struck(itsClock, d.process, 0, d.since) {
			c.s.judged(c.i)
			if left := c.running[d.process]; len(left) > 0 {
				c.s.violate(c.i, left[0].id, "%s was asked to stop at %v, and at %v its action of execution %d, epoch %d, still runs; its shutdown timeout is %v, its kill grace %v",
					d.process, d.since, now, left[0].id, left[0].epoch, c.s.config.Worker.ShutdownTimeout, c.s.config.Worker.KillGrace)
			}
		}
		c.deadlines = slices.Delete(c.deadlines, i, i+1)
		i--
	}
}

// endedForStop judges that a running action had the shutdown timeout to finish.
func (c *gracefulChecker) endedForStop(e *history.Event) {
	i := slices.IndexFunc(c.deadlines, func(d stopDeadline) bool { return d.process == e.Process })
	if i < 0 || c.s.ledger.struck(itsClock, e.Process, 0, c.deadlines[i].since) {
		return
	}
	c.s.judged(c.i)
	d, early := c.deadlines[i], c.s.prompt()
	if c.s.ledger.struck(toDatabase|databaseFails, e.Process, 0, c.s.recovered(d.since)) {
		// A worker that an operator drains counts from when it learns of the drain, and shows its
		// stop only after telling the database, which it tries again until it gets an answer.
		if d.told > 0 {
			early += d.since - d.told
		} else {
			early += c.s.config.Worker.StatementTimeout
		}
	}
	if e.At < d.since+c.s.config.Worker.ShutdownTimeout-early {
		c.s.violate(c.i, e.Execution, "%s ended execution %d for its stop only %v after it was asked to stop; running actions have %v to finish",
			e.Process, e.Execution, e.At-d.since, c.s.config.Worker.ShutdownTimeout)
	}
}
