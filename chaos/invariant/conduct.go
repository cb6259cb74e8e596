package invariant

import "time"

// Conduct is what a world says of the parts of the core beside the history: which call of which part failed, what the part
// logged, when it went to wait, and what it holds. Invariants 29 and 30 judge it. Only the simulated world has it: real
// daemons don't show their tasks. What is said must be said as it happens, in any order of parts.
type Conduct struct {
	told *toldChecker
	held *heldChecker
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
		}
	}
	if c.told == nil && c.held == nil {
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

// Failing says whether calls of a part have failed since it waited last and stand open: only then CallAnswered matters.
func (c *Conduct) Failing(task uint64) bool {
	return c.told != nil && len(c.told.parts) > 0 && c.told.parts[task] != nil
}

// CallAnswered says that a call was answered without an error.
func (c *Conduct) CallAnswered(p Part, call string) {
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

// Probed says how a process has found a health endpoint at a moment. by is the process's identity, which another one of that name does not
// have.
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
