package invariant

import (
	"strconv"
	"strings"

	"handoff/chaos/history"
	"handoff/chaos/oracle"
	"handoff/core/execution"
)

// This file is the part of invariant 13 about the message of an action's own failure: whoever set max_retries
// expects a retry, so the message must say why none follows.

// The text of a failure begins with its error. If the database refused the action's own message permanently,
// the text says so instead.
const (
	byAction          = "Action failed"
	refusedByDatabase = byAction + ": the database refused the action's output"
)

// judgeMessage judges the message of a run's own failure at the present epoch. A worker that knows of a
// cancellation does not mention retries. In canceling it may or may not know of the cancellation, so nothing
// is judged there.
func (r *resultChecker) judgeMessage(e *history.Event, l *life, x runExit) {
	if e.From != execution.Running || strings.HasPrefix(e.Text, refusedByDatabase) {
		return
	}
	message := strings.TrimPrefix(strings.TrimPrefix(e.Text, byAction), ": ")
	if wrong := oracle.WrongMessage(message, x.reason, int(x.code), l.retry, l.maxRetries); wrong != "" {
		r.s.recordViolation(r.i, e.Execution, "the message of execution %d, retry %d of %d, which failed for %v%s, %s: %q", e.Execution, l.retry, l.maxRetries, x.reason, x.codePhrase(), wrong, e.Text)
	}
}

// codePhrase returns the exit code of a failure in words, empty if the action gave its reason in words.
func (e runExit) codePhrase() string {
	if e.code == 0 {
		return ""
	}
	return " with exit code " + strconv.Itoa(int(e.code))
}
