package invariant

import (
	"strings"

	"handoff/chaos/history"
	"handoff/core/execution"
)

// This file is the part of invariant 29 about the log lines in which an executor reports what it did to an
// execution (docs/executor.md). A line must match what the database has stored, because operators search for
// it.

// deed is a change of an execution by a part of an executor, or the record of one that it would have made.
type deed struct {
	process string
	by      execution.Part
	epoch   execution.Epoch
	to      execution.Status
	// only reports whether the change was only recorded.
	only bool
}

// deedKey identifies an execution and the part that changes it. Two parts may change it before either has
// logged its deed.
type deedKey struct {
	id execution.ID
	by execution.Part
}

// noteDeed records a deed that its log line must match.
func (t *failureChecker) noteDeed(e *history.Event) {
	switch {
	case e.By != execution.TimeoutMonitor && e.By != execution.DeadLetterHandler:
	case e.Kind == history.Observed:
		t.done[deedKey{e.Execution, e.By}] = deed{e.Process, e.By, e.Epoch, e.To, true}
	default:
		t.done[deedKey{e.Execution, e.By}] = deed{e.Process, e.By, e.OldEpoch, e.To, false}
	}
}

// Texts in log lines about deeds.
const (
	wouldDispatch = ", would dispatch it again (observe only)"
	wouldMark     = ", would mark it "
	observeOnly   = " (observe only)"
	dispatchesNow = ", dispatching again"
	marks         = ", marking "
	deadLetter    = "received dead letter"
	outcomeOfDeed = "reclaimed"
)

// reportedDeed returns the deed that a line reports; told is false if the line reports none. A line about a
// dead letter whose execution was reclaimed doesn't contain the new status.
func (l *Line) reportedDeed() (d deed, told bool) {
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
		// No line reports requested as the new status. It reports another dispatch instead.
		if status.String() == what && status != execution.Requested {
			d.to = status
		}
	}
	return d, true
}

// judgeDeedLine judges whether a log line about an execution matches the deed.
func (t *failureChecker) judgeDeedLine(p Part, l Line) {
	told, tells := l.reportedDeed()
	if !tells {
		return
	}
	t.s.countOccasion(t.i)
	is, known := t.done[deedKey{l.Execution, told.by}]
	switch {
	case !known && t.s.lives.Get(l.Execution) == nil:
		// Its end was handled before the line was logged.
	case !known || is.process != p.Process || is.epoch != told.epoch:
		t.s.recordViolation(t.i, l.Execution, "%s: %s logs %q about execution %d at epoch %d, but nothing of the kind was done", p.Process, p.Name, l.Text, l.Execution, l.Epoch)
	case told.by == execution.TimeoutMonitor && (is.to != told.to || is.only != told.only):
		done := "was made"
		if is.only {
			done = "was recorded that it would become"
		}
		t.s.recordViolation(t.i, l.Execution, "%s: %s logs %q about execution %d at epoch %d, but it %s %v", p.Process, p.Name, l.Text, l.Execution, l.Epoch, done, is.to)
	}
}
