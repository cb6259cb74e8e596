package invariant

import "time"

// This file is the part of invariant 21 about a worker whose claim was refused because its lease is over by
// the database's clock. That clock may have been set forwards. The worker must not wait for its next regular
// heartbeat, because it can't claim anything until a heartbeat has renewed the lease. Only the simulated
// world reports calls.

// renewalNeed records one incarnation's need to renew its lease. Times are on the process's clock.
type renewalNeed struct {
	// over is when the first claim since the last heartbeat was refused for this reason, 0 if none was.
	// present is the same time by the run's clock.
	over, present time.Duration
	// ended is when the last heartbeat was answered.
	ended time.Duration
}

// LeaseOver notes that a claim was refused because the worker's lease is over.
func (c *Calls) LeaseOver(now time.Duration) {
	if c.renewal.over == 0 {
		c.renewal.over, c.renewal.present = now, c.s.currentTime()
	}
}

// Beats judges a heartbeat that the worker is about to send after a refused claim. The refusal may have come
// while the previous heartbeat was under way. After that, the worker may first report that it is active.
func (c *Calls) Beats(now time.Duration) {
	r := &c.renewal
	if r.over == 0 || c.service == nil {
		return
	}
	over, present := r.over, r.present
	r.over = 0
	c.s.countOccasion(c.service.i)
	within := c.s.promptBound() + c.s.config.Worker.StatementTimeout
	late := now - max(over, r.ended)
	if late <= within || c.s.ledger.hasStruck(standsStill|itsClock|hasTwin, c.process, 0, present-within) {
		return
	}
	c.s.recordViolation(c.service.i, 0, "%s was told by a claim that its lease is over, and began its next heartbeat only %v after that, or after the end of a heartbeat that was under way; %v is allowed", c.process, late, within)
}

// Beaten records that a heartbeat was answered or has failed.
func (c *Calls) Beaten(now time.Duration) { c.renewal.ended = now }
