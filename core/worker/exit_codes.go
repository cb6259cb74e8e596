package worker

import (
	"slices"

	"handoff/core/execution"
)

// ExitCode is the meaning of one exit code of an action.
type ExitCode struct {
	Code int
	// Name is the code's name in C programs.
	Name   string
	Reason execution.Reason
	// About describes what the action reports with the code.
	About string
}

// ExitCodes lists the exit codes that state why an action failed, by number; any other code except 0 means
// unknown.
//
// The list has three sources: the codes of sysexits.h that show whether another attempt may help, the code of
// timeout(1), and Linux's numbers for connection errors, which a program returns if it passes errno on. The
// numbers mean the same on workers of every system. Smaller numbers are left out because every program uses
// them differently (7 is a refused connection in curl, and has other meanings in other programs). So are 126
// to 165, which shells use for commands that did not run or were killed, and 101 (ENETUNREACH), the exit code
// of a panicking Rust program.
func ExitCodes() []ExitCode { return slices.Clone(exitCodes[:]) }

var exitCodes = [...]ExitCode{ //detlint:ok a constant table, never written
	{64, "EX_USAGE", execution.InvalidParameters, "the parameters are wrong"},
	{65, "EX_DATAERR", execution.Validation, "the data is wrong"},
	{68, "EX_NOHOST", execution.Connection, "a host is not known"},
	{69, "EX_UNAVAILABLE", execution.Connection, "a service can't be reached"},
	{75, "EX_TEMPFAIL", execution.Transient, "it failed for now, and a later attempt may succeed"},
	{77, "EX_NOPERM", execution.Permission, "permission was denied"},
	{104, "ECONNRESET", execution.Connection, "a connection was reset"},
	{110, "ETIMEDOUT", execution.Connection, "a connection timed out"},
	{111, "ECONNREFUSED", execution.Connection, "a connection was refused"},
	{113, "EHOSTUNREACH", execution.Connection, "a host can't be reached"},
	{124, "timeout(1)", execution.Transient, "a command that the action bounded with timeout(1) took too long"},
}

// ReasonOf returns the failure reason of an action that ended by itself with an exit code other than 0 and
// reported no error type. A code in retried, which the action's author declares, is a transient failure.
func ReasonOf(code int, retried execution.ExitCodes) execution.Reason {
	reason := execution.Unknown
	for _, c := range exitCodes {
		if c.Code == code {
			reason = c.Reason
		}
	}
	if retried.Has(code) && !reason.Retriable() {
		return execution.Transient
	}
	return reason
}
