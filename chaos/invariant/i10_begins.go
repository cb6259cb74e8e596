package invariant

import (
	"time"

	"handoff/core/execution"
)

// begins judges a claim that is sent for the first time: a worker that has begun to tell the database that it drains begins
// none. What waited for a slot then is given back. In the moment itself what was on its way may still be sent.
func (c *Calls) begins(key execution.Key) {
	g := c.graceful
	if g == nil || c.draining < 0 || c.gone {
		return
	}
	at := c.s.present()
	if at == c.draining || c.stood(c.draining) {
		return
	}
	c.s.judged(g.i)
	c.s.violate(g.i, key.ID, "%s sent its first claim of execution %d (epoch %d) %v after it had begun to tell the database that it drains",
		c.process, key.ID, key.Epoch, at-c.draining)
}

// stood says that the process has stood still, or gone on, since a moment of the run.
func (c *Calls) stood(since time.Duration) bool {
	if c.graceful == nil {
		return false
	}
	at, ever := c.graceful.stood[c.process]
	return ever && at >= since
}
