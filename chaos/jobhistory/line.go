// Package jobhistory is the public history, version 1: what happened to the jobs of any queue, as lines of JSON.
//
// The first line may be a header; every other line is one event. docs/history.md describes the fields. Reader checks
// each line and returns the lines in the order of their times; Writer writes them. chaos/promise judges them.
package jobhistory

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Version is the version of the format that this package reads and writes.
const Version = 1

// Window is how far a line may be out of order: one whose time is more than this behind an earlier line is refused.
const Window = 10 * time.Second

// Kind is what a line is about.
type Kind uint8

// The kinds of lines.
const (
	NoKind Kind = iota
	// Submitted: the system accepted a job. Known: it answered that an earlier submission with the same key is this
	// job. Refused: it refused the job. Unsure: nobody knows whether it accepted the job.
	Submitted
	Known
	Refused
	Unsure
	// Started and Ended are about one attempt. Renewed: its lease was extended. Released: its owner gave it up.
	Started
	Ended
	Renewed
	Released
	// Settled: the system says that the job is done, failed or cancelled. Reopened: it says that a settled job is
	// open. Gone: it does not know the job any more.
	Settled
	Reopened
	Gone
	// What happens to processes, the actors of attempts. Cut: separated from a server; Healed: connected again.
	ProcessStarted
	ProcessStopping
	ProcessEnded
	ProcessPaused
	ProcessResumed
	ProcessCut
	ProcessHealed
	// A fault of the harness, and a server that the system needs.
	FaultBegan
	FaultEnded
	ServerDown
	ServerUp
	// Stalled: the observer itself stood still from At to Until.
	Stalled
	// End: the observer waited until nothing was left to do, or gave up waiting. Without this line the history may
	// have been cut off while work was going on.
	End
	kinds
)

var kindNames = [kinds]string{
	"", "submitted", "known", "refused", "unsure", "started", "ended", "renewed", "released", "settled", "reopened", "gone",
	"process_started", "process_stopping", "process_ended", "process_paused", "process_resumed", "process_cut",
	"process_healed", "fault_began", "fault_ended", "server_down", "server_up", "stalled", "end",
}

func (k Kind) String() string { return kindNames[k] }

// Kinds lists the names of all kinds, in the order of the constants.
func Kinds() []string { return slices.Clone(kindNames[1:]) }

// Outcome is how something ended.
type Outcome string

// The outcomes. Ended has OK, Failed, Cancelled or Died. Settled has Done, Failed or Cancelled. ProcessEnded has OK,
// Failed or Killed (by the observer, on purpose).
const (
	OK        Outcome = "ok"
	Failed    Outcome = "failed"
	Cancelled Outcome = "cancelled"
	Died      Outcome = "died"
	Done      Outcome = "done"
	Killed    Outcome = "killed"
)

// outcomes lists which outcomes a kind may have; a kind without an entry has none.
var outcomes = map[Kind][]Outcome{
	Ended:        {OK, Failed, Cancelled, Died},
	Settled:      {Done, Failed, Cancelled},
	ProcessEnded: {OK, Failed, Killed},
}

// Line is one event.
type Line struct {
	// At is the time since the first line that was read; it may be negative if the lines are out of order.
	At   time.Duration
	Kind Kind
	// Job is the system's name of the job. Attempt names one attempt of it; empty in a history that counts none.
	Job, Attempt string
	// Actor is the process that runs the attempt, or the target of a line about a process, fault or server.
	Actor   string
	Outcome Outcome
	// Result is what the attempt returned, or what the system stored.
	Result string
	// Key is the idempotency key of a submission.
	Key string
	// NotBefore is the earliest moment at which the job may start, as At; 0 if it may start at once.
	NotBefore time.Duration
	// Until is the end of a stall, as At.
	Until time.Duration
	Text  string
}

// kindOf returns the kind with a name.
func kindOf(name string) (Kind, error) {
	if i := slices.Index(kindNames[1:], name); i >= 0 {
		return Kind(i + 1), nil
	}
	if name == "" {
		return NoKind, fmt.Errorf("the line has no kind; allowed: %s", strings.Join(Kinds(), ", "))
	}
	return NoKind, fmt.Errorf("unknown kind %q; allowed: %s", name, strings.Join(Kinds(), ", "))
}

// checkFields refuses a line that lacks what its kind needs.
func (l *Line) checkFields() error {
	switch l.Kind {
	case Submitted, Known, Refused, Unsure, Started, Ended, Renewed, Released, Settled, Reopened, Gone:
		if l.Job == "" {
			return fmt.Errorf("a line of the kind %s names no job", l.Kind)
		}
	case ProcessStarted, ProcessStopping, ProcessEnded, ProcessPaused, ProcessResumed, ProcessCut, ProcessHealed, ServerDown, ServerUp:
		if l.Actor == "" {
			return fmt.Errorf("a line of the kind %s names no actor", l.Kind)
		}
	case Stalled:
		if l.Until < l.At {
			return errors.New("a stall can't end before it begins: until is before at")
		}
	}
	allowed := outcomes[l.Kind]
	switch {
	case len(allowed) == 0 && l.Outcome != "":
		return fmt.Errorf("a line of the kind %s has no outcome; given was %q", l.Kind, string(l.Outcome))
	case len(allowed) > 0 && !slices.Contains(allowed, l.Outcome):
		return fmt.Errorf("a line of the kind %s needs an outcome, one of %v; given was %q", l.Kind, allowed, string(l.Outcome))
	}
	return nil
}
