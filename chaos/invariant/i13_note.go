package invariant

import (
	"strconv"
	"strings"

	"handoff/chaos/history"
	"handoff/chaos/oracle"
	"handoff/core/execution"
)

// This file is the part of invariant 13 about the message of an action that failed by itself. Whoever set
// max_retries expects a retry, so the message must say why none follows.

// A failure's text begins with its error. If the database permanently refused the action's own message, the
// text says that instead.
const (
	byAction          = "Action failed"
	refusedByDatabase = byAction + ": the database refused the action's output"
)

// judgeMessage judges the message of a run that failed by itself in the present epoch. A worker that knows of
// a cancellation does not mention retries. While the status is canceling, the worker may or may not know of
// the cancellation, so its message is not judged.
func (r *resultChecker) judgeMessage(e *history.Event, l *life, x runExit) {
	if e.From != execution.Running || strings.HasPrefix(e.Text, refusedByDatabase) {
		return
	}
	message := strings.TrimPrefix(strings.TrimPrefix(e.Text, byAction), ": ")
	if wrong := oracle.WrongMessage(message, x.reason, int(x.code), l.retry, l.maxRetries); wrong != "" {
		r.s.recordViolation(r.i, e.Execution, "the message of execution %d, retry %d of %d, which failed for %v%s, %s: %q", e.Execution, l.retry, l.maxRetries, x.reason, x.codePhrase(), wrong, e.Text)
	}
}

// codePhrase describes a failure's exit code in words. It is empty if the action named its reason itself.
func (e runExit) codePhrase() string {
	if e.code == 0 {
		return ""
	}
	return " with exit code " + strconv.Itoa(int(e.code))
}
