package invariant

import (
	"time"

	"handoff/chaos/oracle"
	"handoff/core/execution"
)

// This file is the part of invariant 4 about the fences that a worker sets for its actions. Each fence must
// be exactly the deadline of the latest known lease. A later fence lets an action outlive the lease. An
// earlier one ends the action too soon if the next renewal is late.

// sameMoment is the maximum difference between two clock readings within one step of the core.
const sameMoment = 10 * time.Millisecond

// leaseKnowledge is what a worker process knows about its lease.
type leaseKnowledge struct {
	// renewed is when the last answered renewal was sent.
	renewed time.Duration
	// fenced reports whether an answer came after the end of the lease, which voids the lease.
	fenced bool
}

// fenceTime returns when the worker must fence itself, by its own clock.
func (c *Calls) fenceTime() time.Duration {
	w := &c.s.config.Worker
	return c.lease.renewed + oracle.Lease(w) - w.FenceMargin
}

// Renewed records that a heartbeat, which the worker sent at sent, was answered.
func (c *Calls) Renewed(now, sent time.Duration) {
	c.judgeNextQuestion(now)
	if now >= c.fenceTime() {
		c.lease.fenced = true
	}
	if !c.lease.fenced {
		c.lease.renewed = max(c.lease.renewed, sent)
	}
}

// Answered records that incarnation i's heartbeat with this number was answered.
func (c *Calls) Answered(i execution.Incarnation, number uint64) {
	for s := c.s.later; s != nil; s = s.later {
		s.noteAnsweredBeat(i, number)
	}
}

// Fences judges a fence that the worker sets for an action, when it starts it or later.
func (c *Calls) Fences(key execution.Key, given time.Duration) {
	if c.single == nil || c.gone || c.lease.fenced {
		return
	}
	c.s.countOccasion(c.single.i)
	want := c.fenceTime() + c.s.config.Worker.KillGrace
	if given < want-sameMoment || given > want+sameMoment {
		c.s.recordViolation(c.single.i, key.ID, "%s gave the action of execution %d (epoch %d) a fence that lies %v after the deadline of its lease: it is to be the latest one",
			c.process, key.ID, key.Epoch, given-want)
	}
}
