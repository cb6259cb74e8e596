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
// or less by the jitter, and then the cap. A few milliseconds on each side are for rounding.
func pauses(r config.Retry, n int) (lowest, highest time.Duration) {
	const rounding = 3 * time.Millisecond
	multiplier, jitter := perMillion(r.BackoffMultiplier), perMillion(r.JitterFactor)
	ceiling := time.Duration(r.MaxBackoffSecs) * time.Second
	middle := time.Duration(r.BaseBackoffSecs) * time.Second / time.Microsecond
	for range n {
		// Beyond the cap, whatever the jitter takes off, nothing changes any more.
		if middle*time.Microsecond > 100*ceiling {
			break
		}
		middle = middle * multiplier / million
	}
	spread := middle * jitter / million
	lowest, highest = (middle-spread)*time.Microsecond, (middle+spread)*time.Microsecond
	return max(0, min(lowest, ceiling)-rounding), min(highest, ceiling) + rounding
}

// million is the whole of a share in whole numbers.
const million = 1_000_000

// perMillion turns a configured factor into a whole number, once and rounded.
func perMillion(factor float64) time.Duration { return time.Duration(math.Round(factor * million)) } //detlint:ok one rounding, the same everywhere

// waits says whether a transition makes an execution wait for its backoff: what a worker gives back is due at once.
func waits(e *history.Event) bool {
	return e.From == execution.Scheduled && e.To == execution.Requested && e.By != execution.Worker
}
