package subprocess

import "handoff/core/execution"

// ExitCode says what one exit code of an action means.
type ExitCode struct {
	Code int
	// Name is what C programs call it.
	Name   string
	Reason execution.Reason
	// About is what the action says with it.
	About string
}

// ExitCodes lists the exit codes that say why an action failed, by number; any other but 0 means unknown.
//
// They are those of sysexits.h that say whether another attempt may help, the one of timeout(1), and the numbers that
// Linux gives connection errors, with which a program ends that passes errno on. The numbers mean the same on
// workers of every system. Smaller numbers are left out, because every program gives them a meaning of its own (7 is
// a refused connection to curl, and anything elsewhere), and so are 126 to 165, which shells give to commands that did
// not run or were killed. 101 (ENETUNREACH) is how a Rust program ends that panics.
func ExitCodes() []ExitCode {
	return []ExitCode{
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
}

// ReasonOf is the reason that an exit code other than 0 stands for.
func ReasonOf(code int) execution.Reason {
	for _, c := range ExitCodes() {
		if c.Code == code {
			return c.Reason
		}
	}
	return execution.Unknown
}

// CodeFor is the first exit code that says a reason, and whether there is one.
func CodeFor(r execution.Reason) (code int, ok bool) {
	for _, c := range ExitCodes() {
		if c.Reason == r {
			return c.Code, true
		}
	}
	return 0, false
}
