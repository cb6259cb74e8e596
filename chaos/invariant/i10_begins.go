package invariant

import (
	"time"

	"handoff/core/execution"
)

// judgeFirstClaim judges the first claim for an execution. A worker that has begun to report to the database
// that it drains must not claim; it releases executions that wait for a slot. Claims sent at the very time of
// the report are lawful.
func (c *Calls) judgeFirstClaim(key execution.Key) {
	g := c.graceful
	if g == nil || c.draining < 0 || c.gone {
		return
	}
	at := c.s.currentTime()
	if at == c.draining || c.wasHaltedSince(c.draining) {
		return
	}
	c.s.countOccasion(g.i)
	c.s.recordViolation(g.i, key.ID, "%s sent its first claim of execution %d (epoch %d) %v after it had begun to tell the database that it drains",
		c.process, key.ID, key.Epoch, at-c.draining)
}

// wasHaltedSince reports whether the process was halted or resumed at or after since, by the run's clock.
func (c *Calls) wasHaltedSince(since time.Duration) bool {
	if c.graceful == nil {
		return false
	}
	at, ever := c.graceful.stood[c.process]
	return ever && at >= since
}
