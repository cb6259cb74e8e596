package invariant

import "time"

// This file is the part of invariant 18 about a worker that looks behind messages that come to nothing (docs/queues.md,
// "Messages that nobody should have sent"): once ten of them have, it asks the database what is dispatched to it, at most
// once a second and no later than that. Where it may have had all its slots taken meanwhile, it need not ask.

// The numbers of the contract that no key changes.
const (
	fruitless  = 10
	lookBehind = time.Second
)

// behindOf is what is known of a worker's looks.
type behindOf struct {
	// sure says that it has had a free slot since its last look, and nothing kept it from the next one.
	sure bool
	// asked says that a look is under way; answered is when the last one was.
	asked    bool
	answered time.Duration
	// wasted counts messages since it looked last, and enough is when the tenth came.
	wasted int
	enough time.Duration
}

// holds notes that the worker holds another execution.
func (b *behindOf) holds(c *Calls) { b.sure = b.sure && len(c.runs) < c.capacity }

// Wastes notes a message that came to nothing.
func (c *Calls) Wastes(now time.Duration) {
	c.look(now)
	c.behind.wastes(c, now)
}

func (b *behindOf) wastes(_ *Calls, now time.Duration) {
	if b.wasted++; b.wasted == fruitless {
		b.enough = now
	}
}

// Hindered notes that something may keep the worker from its next look.
func (c *Calls) Hindered() { c.behind.sure = false }

// due is when the next look is due at the latest; known says that one is.
func (b *behindOf) due() (at time.Duration, known bool) {
	return max(b.enough, b.answered+lookBehind), b.sure && !b.asked && b.wasted >= fruitless
}

// look judges whether a look is overdue.
func (c *Calls) look(now time.Duration) {
	due, known := c.behind.due()
	if c.work == nil || !known || c.gone || c.lease.fenced || now >= c.fence() || now <= due+callsTime {
		return
	}
	c.behind.sure = false
	if p := c.s.roads.byName[c.process]; p == nil || p.held > 0 || c.stood(c.s.present()-(now-due)-lookBehind) {
		return
	}
	c.s.judged(c.work.i)
	c.s.violate(c.work.i, 0, "%s had a free slot and %d messages that came to nothing, and %v after it was to ask what is dispatched to it it has not", c.process, c.behind.wasted, now-due)
}

// callsTime is how long it may take from a reason to call until the call is made where nothing is in between.
const callsTime = 100 * time.Millisecond

// LooksBehind judges a look that is about to be sent.
func (c *Calls) LooksBehind(now time.Duration) {
	c.look(now)
	b := &c.behind
	if c.work != nil && !c.gone && b.answered > 0 {
		c.s.judged(c.work.i)
		if pause := now - b.answered; pause < lookBehind-sameMoment {
			c.s.violate(c.work.i, 0, "%s asked what is dispatched to it %v after it was told; it may once every %v", c.process, pause, lookBehind)
		}
	}
	b.asked, b.wasted = true, 0
}

// LookedBehind notes the answer.
func (c *Calls) LookedBehind(now time.Duration) {
	b := &c.behind
	b.asked, b.answered = false, now
	b.sure = c.draining < 0 && len(c.runs) < c.capacity
}
