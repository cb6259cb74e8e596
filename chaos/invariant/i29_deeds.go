package invariant

import (
	"strings"

	"handoff/chaos/history"
	"handoff/core/execution"
)

// This file judges, as a part of invariant 29, the lines by which an executor tells what it has done to an execution
// (docs/executor.md): what somebody reads there, and searches for, is what the database has been made to say.

// deed is what a part of an executor has done to an execution, or recorded that it would do.
type deed struct {
	process string
	by      execution.Part
	epoch   execution.Epoch
	to      execution.Status
	// only says that it was recorded, and nothing was done.
	only bool
}

// does notes a deed of which a line has to tell.
func (c *toldChecker) does(e *history.Event) {
	switch {
	case e.By != execution.TimeoutMonitor && e.By != execution.DeadLetterHandler:
	case e.Kind == history.Observed:
		c.done[e.Execution] = deed{e.Process, e.By, e.Epoch, e.To, true}
	default:
		c.done[e.Execution] = deed{e.Process, e.By, e.OldEpoch, e.To, false}
	}
}

// The ends of the lines that tell of deeds.
const (
	wouldDispatch = ", would dispatch it again (observe only)"
	wouldMark     = ", would mark it "
	observeOnly   = " (observe only)"
	dispatchesNow = ", dispatching again"
	marks         = ", marking "
	deadLetter    = "received dead letter"
	outcomeOfDeed = "reclaimed"
)

// claimed is the deed of which a line tells; told is false where it tells of none. A dead letter whose execution was taken
// back does not say what it has become.
func (l *Line) claimed() (d deed, told bool) {
	d.epoch = l.Epoch
	if l.Text == deadLetter {
		d.by = execution.DeadLetterHandler
		return d, l.Outcome == outcomeOfDeed
	}
	d.by = execution.TimeoutMonitor
	what := ""
	switch _, would, observes := strings.Cut(l.Text, wouldMark); {
	case strings.HasSuffix(l.Text, wouldDispatch):
		d.to, d.only = execution.Requested, true
		return d, true
	case observes:
		what, d.only = strings.TrimSuffix(would, observeOnly), true
	case strings.HasSuffix(l.Text, dispatchesNow):
		d.to = execution.Requested
		return d, true
	default:
		if _, what, told = strings.Cut(l.Text, marks); !told {
			return d, false
		}
	}
	for status := execution.None; int(status) < execution.Statuses; status++ {
		// Nobody is told that something is marked as waiting: it is dispatched again.
		if status.String() == what && status != execution.Requested {
			d.to = status
		}
	}
	return d, true
}

// says judges a line about an execution.
func (c *toldChecker) says(p Part, l Line) {
	told, tells := l.claimed()
	if !tells {
		return
	}
	c.s.judged(c.i)
	is, known := c.done[l.Execution]
	switch {
	case !known && c.s.lives.Get(l.Execution) == nil:
		// Its end was handled before the line came.
	case !known || is.process != p.Process || is.by != told.by || is.epoch != told.epoch:
		c.s.violate(c.i, l.Execution, "%s: %s tells %q of execution %d at epoch %d, and nothing of the kind was done", p.Process, p.Name, l.Text, l.Execution, l.Epoch)
	case told.by == execution.TimeoutMonitor && (is.to != told.to || is.only != told.only):
		done := "was made"
		if is.only {
			done = "was recorded that it would become"
		}
		c.s.violate(c.i, l.Execution, "%s: %s tells %q of execution %d at epoch %d, and it %s %v", p.Process, p.Name, l.Text, l.Execution, l.Epoch, done, is.to)
	}
}
