package invariant

import (
	"time"

	"handoff/core/execution"
)

// This file is the part of invariant 23 about a worker's calls for one execution. After any error the worker
// waits before it repeats the call, longer after each error.

// The calls that a worker repeats.
const (
	callClaim = iota
	callFinish
	callKeep

	lastCall = callKeep
)

// pauses holds, for each call, the minimum and maximum pause between two attempts (docs/contract.md, "Numbers
// that no key changes"). Each pause is drawn from the upper half of its range.
var pauses = [...]struct { //detlint:ok a constant table, never written
	what        string
	least, most time.Duration
}{
	callClaim:  {"claim", 100 * time.Millisecond, 2 * time.Second},
	callFinish: {"write the end", 100 * time.Millisecond, 5 * time.Second},
	callKeep:   {"keep the refused end", 200 * time.Millisecond, 2 * time.Second},
}

// attempt is the last attempt of one call about an execution.
type attempt struct {
	failed bool
	at     time.Duration
	words  string
	times  int
}

func (a *attempt) noteAnswer(now time.Duration, failed bool) { a.failed, a.at = failed, now }

// judgeRepetition judges the pause before a call that may be a repetition.
func (c *Calls) judgeRepetition(now time.Duration, key execution.Key, r *callsOfRun, call int, words string) {
	a, p := &r.attempts[call], &pauses[call]
	same := a.failed && a.words == words
	a.words, a.failed = words, false
	if !same {
		// After an answer, or for another text, the pauses start from the minimum, as they do for another
		// delivery of the same dispatch.
		a.times = 0
		return
	}
	if c.away == nil {
		return
	}
	pause := min(p.most, p.least<<min(a.times, 10)) / 2
	a.times++
	c.s.countOccasion(c.away.i)
	if now-a.at < pause-sameMoment {
		c.s.recordViolation(c.away.i, key.ID, "%s asked to %s of execution %d (epoch %d) again, in the same words, %v after an error; it is to wait %v at least",
			c.process, p.what, key.ID, key.Epoch, now-a.at, pause)
	}
}
