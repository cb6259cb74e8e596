package oracle

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"handoff/core/execution"
)

// exitCode is a row of the table of docs/actions.md, "How it ends".
type exitCode struct {
	code   int
	reason execution.Reason
}

var exitCodes = []exitCode{ //detlint:ok a constant table, never written
	{64, execution.InvalidParameters},
	{65, execution.Validation},
	{68, execution.Connection},
	{69, execution.Connection},
	{75, execution.Transient},
	{77, execution.Permission},
	{104, execution.Connection},
	{110, execution.Connection},
	{111, execution.Connection},
	{113, execution.Connection},
	{124, execution.Transient},
}

// MostExitCode is the largest exit code that a process can have (docs/actions.md, retried_exit_codes).
const MostExitCode = 255

// ReasonOf returns the failure reason of an action that exited with code and did not name its reason. retried
// holds the action's retried_exit_codes (docs/actions.md, "How it ends": these codes are transient; the
// table's codes for connection and transient keep their reasons; every other code is unknown).
func ReasonOf(code int, retried []int) execution.Reason {
	reason := execution.Unknown
	if i := slices.IndexFunc(exitCodes, func(c exitCode) bool { return c.code == code }); i >= 0 {
		reason = exitCodes[i].reason
	}
	if slices.Contains(retried, code) && reason != execution.Connection {
		reason = execution.Transient
	}
	return reason
}

// ExitCodeOf returns the first exit code that means this reason, 0 if there is none.
func ExitCodeOf(r execution.Reason) int {
	if i := slices.IndexFunc(exitCodes, func(c exitCode) bool { return c.reason == r }); i >= 0 {
		return exitCodes[i].code
	}
	return 0
}

// notRetried is the beginning of the line that explains why a failure is not retried.
const notRetried = "Not retried, with "

// WrongMessage returns what is wrong with the message of an action that failed by itself, empty if it is
// right. r is the reason, and code the exit code, 0 if the action named the reason itself. retry is the
// number of the retry, and most the number of allowed retries. The message must begin with the exit status or
// the action's own text (docs/contract.md, "Error texts"). Scenarios' actions give a text with every reason
// except unknown. If retries are left but the reason allows none, the message must end with a line that
// explains this. Otherwise it must not have such a line (docs/actions.md, "What is retried").
func WrongMessage(message string, r execution.Reason, code int, retry, most int64) string {
	if code != 0 && !beginsWithPhrase(message, "exit status "+strconv.Itoa(code)) {
		return fmt.Sprintf("does not begin with exit status %d", code)
	}
	if code == 0 && r != execution.Unknown && (message == "" || strings.HasPrefix(message, notRetried)) {
		return "does not begin with the action's own text"
	}
	if strings.HasPrefix(message, "\n") {
		return "begins with an empty line"
	}
	line := message[strings.LastIndexByte(message, '\n')+1:]
	left := most - retry
	if left <= 0 || Retriable(r) {
		if strings.HasPrefix(line, notRetried) {
			return "says that no retry follows"
		}
		return ""
	}
	names := []string{"the reason is " + ReasonNames()[r] + ", which is never retried"}
	switch {
	case code != 0:
		names = []string{fmt.Sprintf("exit code %d is not retried", code), fmt.Sprintf("retried_exit_codes: [%d]", code)}
	case r == execution.Unknown:
		names = []string{"the reason is unknown", "exit code 75"}
	}
	counts := fmt.Sprintf("%s%d of %d retries left, because ", notRetried, left, most)
	if !strings.HasPrefix(line, counts) {
		return fmt.Sprintf("does not end with a line that begins with %q", counts)
	}
	for _, name := range names {
		if !strings.Contains(line, name) {
			return fmt.Sprintf("does not say %q", name)
		}
	}
	return ""
}

// beginsWithPhrase reports whether a text begins with a phrase followed by a colon, a line break or the end
// of the text. So "exit status 12" does not begin with "exit status 1".
func beginsWithPhrase(text, phrase string) bool {
	rest, ok := strings.CutPrefix(text, phrase)
	return ok && (rest == "" || strings.ContainsAny(rest[:1], ":\n"))
}
