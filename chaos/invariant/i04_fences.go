package invariant

import (
	"time"

	"handoff/chaos/oracle"
	"handoff/core/execution"
)

// This file is the part of invariant 4 about the fences that a worker gives its actions: each is the latest deadline of its
// lease, to the letter. One that is later lets an action outlive the lease; one that is earlier ends it before its time, if
// the next renewal is late.

// sameMoment is how far two readings of one clock may lie apart that the core takes for one step.
const sameMoment = 10 * time.Millisecond

// leaseOf is what a worker process knows of its lease.
type leaseOf struct {
	// renewed is when the last renewal that was answered was sent.
	renewed time.Duration
	// fenced says that the lease was over when an answer came, so that it counts no more.
	fenced bool
}

// fence is when the worker has to fence itself.
func (c *Calls) fence() time.Duration {
	w := &c.s.config.Worker
	return c.lease.renewed + oracle.Lease(w) - w.FenceMargin
}

// Renewed notes that a heartbeat was answered that was sent at a moment.
func (c *Calls) Renewed(now, sent time.Duration) {
	c.look(now)
	if now >= c.fence() {
		c.lease.fenced = true
	}
	if !c.lease.fenced {
		c.lease.renewed = max(c.lease.renewed, sent)
	}
}

// Fences judges a fence that the worker gives an action, when it starts it or later.
func (c *Calls) Fences(key execution.Key, given time.Duration) {
	if c.single == nil || c.gone || c.lease.fenced {
		return
	}
	c.s.judged(c.single.i)
	want := c.fence() + c.s.config.Worker.KillGrace
	if given < want-sameMoment || given > want+sameMoment {
		c.s.violate(c.single.i, key.ID, "%s gave the action of execution %d (epoch %d) a fence that lies %v after the deadline of its lease: it is to be the latest one",
			c.process, key.ID, key.Epoch, given-want)
	}
}
