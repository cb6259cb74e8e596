package invariant

import "time"

// This file is the part of invariant 18 about a worker whose queue has useless messages ahead of its
// dispatches (docs/queues.md, "Messages that nobody should have sent"). After ten messages that led to no
// claim, it must query the database for its dispatches, within a second and at most once a second. It need
// not if all its slots may have been taken meanwhile.

// Numbers of the contract that no configuration key changes.
const (
	fruitless  = 10
	lookBehind = time.Second
)

// lookBehindState records a worker's questions, the calls that query the database for its dispatches.
type lookBehindState struct {
	// sure reports whether, since its last question, the worker has certainly had a free slot and nothing
	// kept it from the next question.
	sure bool
	// asked reports whether a question is under way. answered is when the last question was answered.
	asked    bool
	answered time.Duration
	// wasted is the number of useless messages since the last question, and enough is when the tenth came.
	wasted int
	enough time.Duration
}

// noteHeld notes that the worker holds another execution.
func (b *lookBehindState) noteHeld(c *Calls) { b.sure = b.sure && len(c.runs) < c.capacity }

// Wastes notes a message that led to no claim.
func (c *Calls) Wastes(now time.Duration) {
	c.judgeNextQuestion(now)
	c.behind.countWasted(c, now)
}

func (b *lookBehindState) countWasted(_ *Calls, now time.Duration) {
	if b.wasted++; b.wasted == fruitless {
		b.enough = now
	}
}

// Hindered notes that something may keep the worker from asking the database for its dispatches.
func (c *Calls) Hindered() { c.behind.sure = false }

// nextDue returns the latest lawful time for the worker's next question, and whether it must ask one.
func (b *lookBehindState) nextDue() (at time.Duration, known bool) {
	return max(b.enough, b.answered+lookBehind), b.sure && !b.asked && b.wasted >= fruitless
}

// judgeNextQuestion judges whether the worker's next question is overdue.
func (c *Calls) judgeNextQuestion(now time.Duration) {
	due, known := c.behind.nextDue()
	if c.work == nil || !known || c.gone || c.lease.fenced || now >= c.fenceTime() || now <= due+callsTime {
		return
	}
	c.behind.sure = false
	if p := c.s.roads.byName[c.process]; p == nil || p.held > 0 || c.wasHaltedSince(c.s.currentTime()-(now-due)-lookBehind) ||
		c.s.ledger.hasStruck(isSick, c.process, 0, c.s.currentTime()-(now-due)-longestRest) {
		return
	}
	c.s.countOccasion(c.work.i)
	c.s.recordViolation(c.work.i, 0, "%s had a free slot and %d messages that led to no claim, and has not asked the database for its dispatches, which was due %v ago", c.process, c.behind.wasted, now-due)
}

// callsTime is the longest time between a call and the reason for it, if nothing delays the call.
const callsTime = 100 * time.Millisecond

// LooksBehind judges a question that the worker is about to ask.
func (c *Calls) LooksBehind(now time.Duration) {
	c.judgeNextQuestion(now)
	b := &c.behind
	if c.work != nil && !c.gone && b.answered > 0 {
		c.s.countOccasion(c.work.i)
		if pause := now - b.answered; pause < lookBehind-sameMoment {
			c.s.recordViolation(c.work.i, 0, "%s asked the database for its dispatches %v after the last answer; it may ask once every %v", c.process, pause, lookBehind)
		}
	}
	b.asked, b.wasted = true, 0
}

// LookedBehind records that a question was answered.
func (c *Calls) LookedBehind(now time.Duration) {
	b := &c.behind
	b.asked, b.answered = false, now
	b.sure = c.draining < 0 && len(c.runs) < c.capacity
}
