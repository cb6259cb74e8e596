package invariant

import (
	"strings"
	"time"

	"handoff/chaos/history"
	"handoff/core/execution"
)

// reportedFailures returns invariant 29 (defects D22, D25): no part of the core ignores a failed call. Only
// the simulated world knows which task made a call, so only simulated runs are judged; see Conduct.
func reportedFailures() *Invariant {
	i := &Invariant{
		Number: 29, Name: "failures are told", Conduct: true,
		Statement: "A failed call to the database or the broker is repeated at once with success, or logged with its error before its part waits for the next pass. A failed call that may have written dispatches is repeated once in any case. A failed pass does not count as successful. A part that knows that its context is done neither waits nor calls under it again. A process whose consumer the broker has cancelled declares the queue before it consumes again. A log line for an error contains the error. No process warns of an error, or counts a pass as failed, before one of its calls has failed or a fault has begun. A log line about what was or would be done to an execution is true. Each change of a worker's health endpoint is logged once, when it happens. Only a pass with something to place logs that it passes over a worker.",
		Needs:     []history.Kind{history.Logged},
	}
	i.make = func(s *Suite) checker {
		return &failureChecker{i: i, s: s, parts: make(map[uint64]*partFailures), failed: make(map[string]bool), done: make(map[deedKey]deed), changes: endpointChanges{i: i, s: s}}
	}
	return i
}

// Part is a task of a process of the core, such as one of its loops.
type Part struct {
	Process, Name string
	// Task is unique within the run.
	Task uint64
}

// Line is a log line of the core about an error, an execution or a worker.
type Line struct {
	Text string
	// Warns reports whether the line's level is warn or error.
	Warns bool
	// Error is the error in the line. Empty reports whether the line has an error field without an error.
	Error string
	Empty bool
	// Execution and Epoch identify the line's subject, 0 for none. Outcome is the reported outcome of a dead
	// letter.
	Execution execution.ID
	Epoch     execution.Epoch
	Outcome   string
	// Probe reports whether the line is about the reachability of the health endpoint at URL, and Reachable
	// which it reports.
	Probe, Reachable bool
	URL              string
	// PassedOver reports whether the line is about a worker that is passed over. Waited is when the line's
	// task last began to wait.
	PassedOver bool
	Waited     time.Duration
}

// failure is a failed call that was neither logged nor repeated.
type failure struct {
	call, text string
	at         time.Duration
}

// partFailures holds the failures of one part since it last waited.
type partFailures struct {
	open []failure
	any  bool
	// unsure is the call that must be repeated immediately, empty for none. made identifies it, like under in
	// Conduct.CallFailed. repeated identifies the last repetition, which need not be repeated itself.
	unsure         failure
	made, repeated any
}

// noteRepeat records an answer to the call that under identifies. This call may be the repetition of one
// whose outcome is unknown.
func (f *partFailures) noteRepeat(call string, under any) {
	if f.unsure.call == call && f.made != under {
		f.unsure, f.repeated = failure{}, under
	}
}

// mustRepeat reports whether a call must be repeated once if its outcome is unknown. If it took effect, no
// other part acts on what it wrote until a reconciler detects that.
func mustRepeat(call string) bool { return call == "Dispatch" }

type failureChecker struct {
	i *Invariant
	s *Suite
	// parts holds the parts with failures since they last waited, by task. failed holds the processes that
	// ever had a failure.
	parts  map[uint64]*partFailures
	failed map[string]bool
	// struck reports whether any fault has begun so far in the run.
	struck  bool
	changes endpointChanges
	// done holds each execution's last change by the timeout monitor and by the dead letter handler, made or
	// only recorded, until the execution's end is handled.
	done map[deedKey]deed
}

// observedKinds implements selective.
func (t *failureChecker) observedKinds() []history.Kind {
	return []history.Kind{history.FaultBegan, history.Transition, history.Observed, history.Orchestrated, history.WorkerRegistered}
}

func (t *failureChecker) observeEvent(e *history.Event, _ *life) {
	switch e.Kind {
	case history.FaultBegan:
		t.struck = true
	case history.Transition, history.Observed:
		t.noteDeed(e)
	case history.Orchestrated:
		delete(t.done, deedKey{e.Execution, execution.TimeoutMonitor})
		delete(t.done, deedKey{e.Execution, execution.DeadLetterHandler})
	case history.WorkerRegistered:
		// endpointChanges handles changes of endpoints.
	default:
	}
	t.changes.observeEvent(e)
}

func (t *failureChecker) endRun(bool) {}

// noteFailedCall notes a call that was answered with an error.
func (t *failureChecker) noteFailedCall(p Part, under any, call, text string, again bool) {
	t.s.countOccasion(t.i)
	t.failed[p.Process] = true
	of := t.parts[p.Task]
	if of == nil {
		of = new(partFailures)
		t.parts[p.Task] = of
	}
	of.any = true
	of.noteRepeat(call, under)
	if again && mustRepeat(call) && of.unsure.call == "" && of.repeated != under {
		of.unsure, of.made = failure{call, text, t.s.now.At}, under
	}
	of.forgetCall(call)
	of.open = append(of.open, failure{call, text, t.s.now.At})
}

// forgetCall forgets the failures of a call that was repeated successfully.
func (f *partFailures) forgetCall(call string) {
	kept := f.open[:0]
	for _, one := range f.open {
		if one.call != call {
			kept = append(kept, one)
		}
	}
	f.open = kept
}

// longestCompared is the number of bytes of an error's first line that a log line must contain; long lines
// are cut.
const longestCompared = 200

func (f *partFailures) noteLogged(text string) {
	for _, one := range f.open {
		want, _, _ := strings.Cut(one.text, "\n")
		if strings.Contains(text, want[:min(len(want), longestCompared)]) {
			// The part may log only the first of several errors with the same cause.
			f.open = f.open[:0]
			return
		}
	}
}

func (t *failureChecker) judgeLine(p Part, l Line) {
	t.changes.judgeLine(p, l)
	of := t.parts[p.Task]
	if of != nil && l.Error != "" {
		of.noteLogged(l.Error)
	}
	switch {
	case l.Empty:
		t.s.countOccasion(t.i)
		t.s.recordViolation(t.i, 0, "%s: %s logs %q with an empty error field", p.Process, p.Name, l.Text)
	case l.Warns && l.Error != "" && !t.struck && !t.failed[p.Process]:
		t.s.countOccasion(t.i)
		t.s.recordViolation(t.i, 0, "%s: %s logs %q with the error %q, but no call of that process has failed, and no fault has begun", p.Process, p.Name, l.Text, l.Error)
	}
}

// noteSuppressed notes a line that the rate limit suppressed and counted.
func (t *failureChecker) noteSuppressed(p Part) {
	if of := t.parts[p.Task]; of != nil {
		of.open = of.open[:0]
	}
}

func (t *failureChecker) judgePass(p Part, loop string, failed bool) {
	t.s.countOccasion(t.i)
	of := t.parts[p.Task]
	switch {
	case !failed && of != nil && len(of.open) > 0:
		f := of.open[0]
		t.s.recordViolation(t.i, 0, "%s: a pass of %s counts as successful, but its call %s failed at %v (%s), and was neither repeated successfully nor logged", p.Process, loop, f.call, f.at, f.text)
	case failed && !t.struck && !t.failed[p.Process]:
		t.s.recordViolation(t.i, 0, "%s: a pass of %s counts as failed, but no call of that process has failed, and no fault has begun", p.Process, loop)
	}
}

// judgeWait judges the open failures of a part that begins to wait for its next pass.
func (t *failureChecker) judgeWait(p Part) {
	of := t.parts[p.Task]
	if of == nil {
		return
	}
	if f := of.unsure; f.call != "" {
		t.s.recordViolation(t.i, 0, "%s: %s waits for its next pass, and has not repeated its call %s, whose outcome is unknown since %v (%s): no other part acts soon on what it may have written", p.Process, p.Name, f.call, f.at, f.text)
	}
	if len(of.open) > 0 {
		f := of.open[0]
		t.s.recordViolation(t.i, 0, "%s: %s waits for its next pass, but its call %s failed at %v (%s), and was neither repeated successfully nor logged", p.Process, p.Name, f.call, f.at, f.text)
	}
	delete(t.parts, p.Task)
}

// judgeDoneContext records a violation: a part knows that a context is done and still waits or makes a call
// under it. The wait or call returns immediately, so a loop around it may spin.
func (t *failureChecker) judgeDoneContext(p Part, what string, since time.Duration) {
	t.s.countOccasion(t.i)
	t.s.recordViolation(t.i, 0, "%s: %s %s under a context, although it saw at %v that this context was done", p.Process, p.Name, what, since)
}

// judgeUndeclared records a violation: a process consumes a queue without declaring it first. If the broker
// has cancelled a consumer, the queue may have been deleted or have lost its bindings.
func (t *failureChecker) judgeUndeclared(process, queue string, taken bool) {
	t.s.countOccasion(t.i)
	why := "since the session was opened"
	if taken {
		why = "since the broker cancelled a consumer of the session"
	}
	t.s.recordViolation(t.i, 0, "%s consumes queue %s over a session on which it has not declared this queue %s", process, queue, why)
}
