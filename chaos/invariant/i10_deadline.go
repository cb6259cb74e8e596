package invariant

import (
	"slices"
	"time"

	"handoff/chaos/history"
	"handoff/chaos/oracle"
	"handoff/core/execution"
)

// This file is the part of invariant 10 about the deadline of a stop (defect D40). Running actions have
// exactly the shutdown timeout to finish. After that the worker asks the actions still running to end. Only
// the simulated world reports these requests.

// runningAction is an action that runs on a worker's machine.
type runningAction struct {
	id    execution.ID
	epoch execution.Epoch
}

// stopDeadline is the deadline of a process that was asked to stop at since. All its actions must end by at.
type stopDeadline struct {
	process string
	since   time.Duration
	at      time.Duration
	// drainLearned is when the process could first learn that an operator is draining it, 0 if none is.
	drainLearned time.Duration
	// extended reports whether the deadline was already extended once, because calls to servers may have
	// delayed the process.
	extended bool
}

// startDeadline begins the deadline of a process that begins to stop.
func (g *gracefulChecker) startDeadline(process string, at time.Duration) {
	// A halted process learns of the stop when it resumes.
	if p := g.s.roads.byName[process]; p == nil || !p.worker || p.held > 0 {
		return
	}
	if !slices.ContainsFunc(g.deadlines, func(d stopDeadline) bool { return d.process == process }) {
		g.deadlines = append(g.deadlines, stopDeadline{
			process: process, since: at, at: at + g.s.config.Worker.ShutdownTimeout + g.s.config.Worker.KillGrace + g.s.promptBound(), drainLearned: g.drainLearned[process],
		})
	}
}

// trackActions tracks the running actions of each process.
func (g *gracefulChecker) trackActions(e *history.Event) {
	if len(g.deadlines) > 0 {
		g.judgeDeadlines(e.At)
	}
	switch e.Kind {
	case history.ActionStarted:
		g.running[e.Process] = append(g.running[e.Process], runningAction{e.Execution, e.Epoch})
	case history.ActionEnded:
		of := g.running[e.Process]
		if i := slices.Index(of, runningAction{e.Execution, e.Epoch}); i >= 0 {
			g.running[e.Process] = slices.Delete(of, i, i+1)
		}
	case history.ProcessStarted, history.ProcessCrashed, history.ProcessStopped:
		delete(g.running, e.Process)
		g.dropDeadline(e.Process)
	case history.ProcessPaused, history.ProcessFrozen:
		// A halted process can't end its actions; its machine ends them at the fence.
		g.dropDeadline(e.Process)
	case history.Transition:
		if oracle.Claimed(e.From) && e.Reason == execution.WorkerShutdown && e.By == execution.Worker {
			g.judgeEndForStop(e)
		}
	default:
	}
}

func (g *gracefulChecker) dropDeadline(process string) {
	g.deadlines = slices.DeleteFunc(g.deadlines, func(d stopDeadline) bool { return d.process == process })
}

// judgeDeadlines judges the processes whose deadline has passed.
func (g *gracefulChecker) judgeDeadlines(now time.Duration) {
	const held = toDatabase | toBroker | brokerFails | databaseFails
	for i := 0; i < len(g.deadlines); i++ {
		d := &g.deadlines[i]
		if now <= d.at {
			continue
		}
		if !d.extended && g.s.ledger.hasStruck(held, d.process, 0, g.s.recoveryStart(d.since)) {
			// Reporting to the database, ending the consumer and releasing executions may each take one call
			// beyond the deadline.
			d.extended, d.at = true, d.at+3*g.s.config.Worker.StatementTimeout
			continue
		}
		if !g.s.ledger.hasStruck(itsClock, d.process, 0, d.since) {
			g.s.countOccasion(g.i)
			if left := g.running[d.process]; len(left) > 0 {
				g.s.recordViolation(g.i, left[0].id, "%s was asked to stop at %v, and at %v its action of execution %d, epoch %d, still runs; its shutdown timeout is %v, its kill grace %v",
					d.process, d.since, now, left[0].id, left[0].epoch, g.s.config.Worker.ShutdownTimeout, g.s.config.Worker.KillGrace)
			}
		}
		g.deadlines = slices.Delete(g.deadlines, i, i+1)
		i--
	}
}

// judgeEndForStop requires that a worker asks an action to end for a stop only after the shutdown timeout.
func (g *gracefulChecker) judgeEndForStop(e *history.Event) {
	i := slices.IndexFunc(g.deadlines, func(d stopDeadline) bool { return d.process == e.Process })
	if i < 0 || g.s.ledger.hasStruck(itsClock, e.Process, 0, g.deadlines[i].since) {
		return
	}
	g.s.countOccasion(g.i)
	d, early := g.deadlines[i], g.s.promptBound()
	if g.s.ledger.hasStruck(toDatabase|databaseFails, e.Process, 0, g.s.recoveryStart(d.since)) {
		// The timeout of a worker that an operator drains begins when the worker learns of the drain. Its
		// stop is recorded only after its report to the database, which it repeats until it gets an answer.
		if d.drainLearned > 0 {
			early += d.since - d.drainLearned
		} else {
			early += g.s.config.Worker.StatementTimeout
		}
	}
	if e.At < d.since+g.s.config.Worker.ShutdownTimeout-early {
		g.s.recordViolation(g.i, e.Execution, "%s ended execution %d for its stop only %v after it was asked to stop; running actions have %v to finish",
			e.Process, e.Execution, e.At-d.since, g.s.config.Worker.ShutdownTimeout)
	}
}
