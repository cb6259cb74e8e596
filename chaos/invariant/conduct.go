package invariant

import (
	"time"

	"handoff/core/broker"
)

// Conduct receives reports about what the core's parts do that the history does not record: failed calls, log
// lines, waits, contexts and sessions held, and hints sent. Invariants 18, 26, 29 and 30 judge them. Only the
// simulated world makes them, because real daemons don't show their tasks. Each report must be made as its
// subject happens; the order among parts doesn't matter.
type Conduct struct {
	failures *failureChecker
	held     *heldChecker
	work     *workChecker
	hints    *hintChecker
}

// Conduct returns the receiver of these reports; nil if no judged invariant uses them.
func (s *Suite) Conduct() *Conduct {
	var c Conduct
	for _, one := range s.checkers {
		switch one := one.(type) {
		case *failureChecker:
			c.failures = one
		case *heldChecker:
			c.held = one
		case *wakeChecker:
			c.hints = one.hints
		case *workChecker:
			c.work = one
		}
	}
	if c.failures == nil && c.held == nil && c.work == nil && c.hints == nil {
		return nil
	}
	return &c
}

// CallFailed reports that a call was answered with an error. again reports whether the call may succeed if it
// is repeated. A call may have several answers; under identifies the call.
func (c *Conduct) CallFailed(p Part, under any, call, text string, again bool) {
	if c.failures != nil {
		c.failures.noteFailedCall(p, under, call, text, again)
	}
}

// NamesNothing reports a call with an empty list, which has no effect but costs as much as any other call.
func (c *Conduct) NamesNothing(p Part, call string) {
	if c.work != nil {
		c.work.s.countOccasion(c.work.i)
		c.work.s.recordViolation(c.work.i, 0, "%s: %s made the call %s with an empty list", p.Process, p.Name, call)
	}
}

// Failing reports whether the part has failed calls since its last wait that it has neither logged nor
// repeated. Only then does CallAnswered matter.
func (c *Conduct) Failing(task uint64) bool {
	return c.failures != nil && len(c.failures.parts) > 0 && c.failures.parts[task] != nil
}

// AnyFailing reports whether Failing holds for any part.
func (c *Conduct) AnyFailing() bool { return c.failures != nil && len(c.failures.parts) > 0 }

// CallAnswered reports a call that was answered without an error.
func (c *Conduct) CallAnswered(p Part, under any, call string) {
	if c.failures == nil {
		return
	}
	if of := c.failures.parts[p.Task]; of != nil {
		of.forgetCall(call)
		of.noteRepeat(call, under)
	}
}

// Logged reports a part's log line if the line has an error, should have one, or is about a worker.
func (c *Conduct) Logged(p Part, l Line) {
	if c.failures != nil {
		c.failures.judgeLine(p, l)
	}
}

// Says reports a log line about an execution.
func (c *Conduct) Says(p Part, l Line) {
	if c.failures != nil {
		c.failures.judgeDeedLine(p, l)
	}
}

// Probed reports the result of probing a health endpoint. by identifies the prober's process; a later process
// with the same name has a different identity.
func (c *Conduct) Probed(by any, process, url string, now time.Duration, failed bool) {
	if c.failures != nil {
		c.failures.changes.judgeProbe(by, process, url, now, failed)
	}
}

// Suppressed reports a log line that was counted but not written.
func (c *Conduct) Suppressed(p Part) {
	if c.failures != nil {
		c.failures.noteSuppressed(p)
	}
}

// Counted reports that a part has incremented the metric of its loop's passes.
func (c *Conduct) Counted(p Part, loop string, failed bool) {
	if c.failures != nil {
		c.failures.judgePass(p, loop, failed)
	}
}

// Waits reports that a part begins to wait for something that it or another part triggers. deadlines is the
// number of contexts with a deadline that it has created and not cancelled, except those under which it
// waits; plain is the number of those without a deadline.
func (c *Conduct) Waits(p Part, deadlines, plain int) {
	if c.failures != nil {
		c.failures.judgeWait(p)
	}
	if c.held != nil {
		c.held.judgeWaiting(p, deadlines, plain)
	}
}

// Ends reports that a part has ended by itself. contexts counts contexts that it created and did not cancel.
func (c *Conduct) Ends(p Part, contexts int) {
	if c.failures != nil {
		delete(c.failures.parts, p.Task)
	}
	if c.held != nil {
		c.held.judgeEnded(p, contexts)
	}
}

// CalledTooLate reports a call under a context with a deadline that the part itself had created, and had
// already cancelled at ended.
func (c *Conduct) CalledTooLate(p Part, call string, ended time.Duration) {
	if c.held != nil {
		c.held.judgeLateCall(p, call, ended)
	}
}

// Starts reports that a process starts a part. tasks is the number of the process's tasks, this one included.
func (c *Conduct) Starts(p Part, worker bool, concurrency, tasks int) {
	if c.held != nil {
		c.held.judgeTasks(p, worker, concurrency, tasks)
	}
}

// Sessions reports the number of broker sessions that a process holds after opening one.
func (c *Conduct) Sessions(process string, open int) {
	if c.held != nil {
		c.held.judgeSessions(process, open)
	}
}

// Consumers reports how many consumers of a queue a process has on one session, after it started another.
func (c *Conduct) Consumers(process, queue string, open int) {
	if c.held != nil {
		c.held.judgeConsumers(process, queue, open)
	}
}

// Publishing reports that a process is about to send a message with hints.
func (c *Conduct) Publishing(process string, m *broker.Message, at time.Duration) {
	if c.hints != nil {
		c.hints.judgePublishing(process, m, at)
	}
}

// Published reports the broker's answer to a message with hints that the process sent over a session.
func (c *Conduct) Published(process string, over Open, m *broker.Message, o broker.Outcome, at time.Duration) {
	if c.hints != nil {
		c.hints.noteOutcome(process, over, m, o, at)
	}
}

// GoesOn reports that a part waits or makes a call under a context that it knows to be done.
func (c *Conduct) GoesOn(p Part, what string, since time.Duration) {
	if c.failures != nil {
		c.failures.judgeDoneContext(p, what, since)
	}
}

// Undeclared reports that a process is about to consume a queue that it has not declared on this session.
// taken reports whether the broker has cancelled one of the session's consumers: then only a later
// declaration counts.
func (c *Conduct) Undeclared(process, queue string, taken bool) {
	if c.failures != nil {
		c.failures.judgeUndeclared(process, queue, taken)
	}
}
