package invariant

import (
	"math"
	"time"

	"handoff/chaos/history"
	"handoff/core/config"
	"handoff/core/execution"
)

// uncountedDoublings is how much take-backs that do not count add to the backoff, at most.
const uncountedDoublings = 5

// takenBack judges the delay of a take-back. It is the backoff of as many as were taken back before: the dispatches that
// counted, or all of them up to five, whichever is more.
func (c *retryChecker) takenBack(e *history.Event, l *life) {
	n := 0
	if l != nil && e.OldEpoch > 0 {
		// Each dispatch and each take-back has raised the epoch.
		n = max(int(l.dispatches), min(int(e.OldEpoch-1)/2, uncountedDoublings))
	}
	lowest, highest := pauses(c.s.config.Retry, n)
	if lowest <= 0 {
		return
	}
	c.s.judged(c.i)
	if delay := e.Due - c.s.database(e.At); delay < lowest-c.s.tolerance || delay > highest+c.s.tolerance {
		c.s.violate(c.i, e.Execution, "execution %d was taken back and is due after %v; after %d take-backs before this one its backoff is %v to %v",
			e.Execution, max(0, delay), n, lowest, highest)
	}
}

// pauses are the shortest and the longest delay after n others, by the formula of the contract: base x multiplier^n, more
// or less by the jitter, and then the cap. A millisecond on each side is for rounding.
func pauses(r config.Retry, n int) (lowest, highest time.Duration) {
	middle := float64(r.BaseBackoffSecs) * math.Pow(r.BackoffMultiplier, float64(n)) //detlint:ok compared here, and never written
	capped := func(seconds float64) time.Duration {
		return time.Duration(min(seconds, float64(r.MaxBackoffSecs)) * float64(time.Second)) //detlint:ok compared here, and never written
	}
	return max(0, capped(middle*(1-r.JitterFactor))-time.Millisecond), capped(middle*(1+r.JitterFactor)) + time.Millisecond
}

// waits says whether a transition makes an execution wait for its backoff: what a worker gives back is due at once.
func waits(e *history.Event) bool {
	return e.From == execution.Scheduled && e.To == execution.Requested && e.By != execution.Worker
}
