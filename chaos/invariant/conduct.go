package invariant

import (
	"time"

	"handoff/core/broker"
)

// Conduct is what a world says of the parts of the core beside the history: which call of which part failed, what the part
// logged, when it went to wait, what it holds, and what it sends. Invariants 18, 26, 29 and 30 judge it. Only the simulated
// world has it: real daemons don't show their tasks. What is said must be said as it happens, in any order of parts.
type Conduct struct {
	told  *toldChecker
	held  *heldChecker
	work  *workChecker
	hints *hintChecker
}

// Conduct returns where a world says how the parts of the core behave; nil if nobody judges it.
func (s *Suite) Conduct() *Conduct {
	var c Conduct
	for _, one := range s.checkers {
		switch one := one.(type) {
		case *toldChecker:
			c.told = one
		case *heldChecker:
			c.held = one
		case *wakeChecker:
			c.hints = one.hints
		case *workChecker:
			c.work = one
		}
	}
	if c.told == nil && c.held == nil && c.work == nil && c.hints == nil {
		return nil
	}
	return &c
}

// CallFailed says that the world has answered a call with an error. again says that the same call may be answered otherwise.
func (c *Conduct) CallFailed(p Part, call, text string, again bool) {
	if c.told != nil {
		c.told.callFailed(p, call, text, again)
	}
}

// NamesNothing says that a part makes a call that could name several things, and names none: it can do nothing, and costs
// what any call costs.
func (c *Conduct) NamesNothing(p Part, call string) {
	if c.work != nil {
		c.work.s.judged(c.work.i)
		c.work.s.violate(c.work.i, 0, "%s: %s made the call %s with nothing in it", p.Process, p.Name, call)
	}
}

// Failing says whether calls of a part have failed since it waited last and stand open: only then CallAnswered matters.
func (c *Conduct) Failing(task uint64) bool {
	return c.told != nil && len(c.told.parts) > 0 && c.told.parts[task] != nil
}

// CallAnswered says that a call was answered without an error.
func (c *Conduct) CallAnswered(p Part, call string) {
	if c.told == nil {
		return
	}
	if of := c.told.parts[p.Task]; of != nil {
		of.answered(call)
		if of.unsure.call == call {
			of.unsure = failure{}
		}
	}
}

// Logged says that a part has written a line that carries an error, or should, or that tells of a worker.
func (c *Conduct) Logged(p Part, l Line) {
	if c.told != nil {
		c.told.line(p, l)
	}
}

// Says says that a part has written a line about an execution.
func (c *Conduct) Says(p Part, l Line) {
	if c.told != nil {
		c.told.says(p, l)
	}
}

// Probed says how a process has found a health endpoint at a moment. by is the process's identity, which another one of
// that name does not have.
func (c *Conduct) Probed(by any, process, url string, now time.Duration, failed bool) {
	if c.told != nil {
		c.told.changes.probed(by, process, url, now, failed)
	}
}

// Suppressed says that a line was counted and not written.
func (c *Conduct) Suppressed(p Part) {
	if c.told != nil {
		c.told.suppressed(p)
	}
}

// Counted says that a part has counted a pass of its loop.
func (c *Conduct) Counted(p Part, loop string, failed bool) {
	if c.told != nil {
		c.told.counted(p, loop, failed)
	}
}

// Waits says that a part goes to wait for something that it or another part sets off. deadlines are the contexts with a
// deadline that it has made and not ended, without those that it waits under, plain those without a deadline.
func (c *Conduct) Waits(p Part, deadlines, plain int) {
	if c.told != nil {
		c.told.waits(p)
	}
	if c.held != nil {
		c.held.waits(p, deadlines, plain)
	}
}

// Ends says that a part has come to its end by itself, and how many contexts it has made and not ended.
func (c *Conduct) Ends(p Part, contexts int) {
	if c.told != nil {
		delete(c.told.parts, p.Task)
	}
	if c.held != nil {
		c.held.ends(p, contexts)
	}
}

// CalledTooLate says that a part has made a call under a deadline of its own that it had ended at that moment.
func (c *Conduct) CalledTooLate(p Part, call string, ended time.Duration) {
	if c.held != nil {
		c.held.cancelled(p, call, ended)
	}
}

// Starts says that a process starts a part, and how many tasks it has with it.
func (c *Conduct) Starts(p Part, worker bool, concurrency, tasks int) {
	if c.held != nil {
		c.held.tasks(p, worker, concurrency, tasks)
	}
}

// Sessions says how many sessions of the broker a process holds after it has opened one.
func (c *Conduct) Sessions(process string, open int) {
	if c.held != nil {
		c.held.sessions(process, open)
	}
}

// Consumers says how often a process consumes a queue over one session, after it has begun once more.
func (c *Conduct) Consumers(process, queue string, open int) {
	if c.held != nil {
		c.held.consumers(process, queue, open)
	}
}

// Publishing says that a process is about to send a message of hints.
func (c *Conduct) Publishing(process string, m *broker.Message, at time.Duration) {
	if c.hints != nil {
		c.hints.publishing(process, m, at)
	}
}

// Published says what the process was told of a message of hints that it has sent over a session.
func (c *Conduct) Published(process string, over Open, m *broker.Message, o broker.Outcome, at time.Duration) {
	if c.hints != nil {
		c.hints.outcome(process, over, m, o, at)
	}
}

// GoesOn says that a part waits or calls under a context of whose end it has been told.
func (c *Conduct) GoesOn(p Part, what string, since time.Duration) {
	if c.told != nil {
		c.told.goesOn(p, what, since)
	}
}

// Undeclared says that a process is about to consume a queue over a session, and has declared nothing over it since it was
// opened, or since the broker took a consumer from it.
func (c *Conduct) Undeclared(process, queue string, taken bool) {
	if c.told != nil {
		c.told.undeclared(process, queue, taken)
	}
}
