package invariant

import "time"

// This file is the part of invariant 15 about the run figures that a worker sends with its heartbeats.
// Executors judge the worker's health by these figures, and operators read them. They must match the runs of
// its incarnation within the configured window.

// windowParts is the number of parts into which a worker divides the window. The worker drops one part at a
// time (docs/worker.md).
const windowParts = 60

// countedEnd is the end of a run that counts in the figures, because the database has stored it.
type countedEnd struct {
	at, took time.Duration
	blamed   bool
}

// countedEnds holds the ends of an incarnation's runs, the oldest first, without those older than the window.
type countedEnds struct {
	recent []countedEnd
	// took and failed are kept as sums over recent, because a busy worker has thousands of ends in a window
	// and reports often.
	took        time.Duration
	failed      int
	consecutive int
	lastFailure time.Duration
}

func (e *countedEnds) addEnd(now, took time.Duration, blamed bool) {
	e.recent = append(e.recent, countedEnd{now, took, blamed})
	e.took += took
	if !blamed {
		e.consecutive = 0
		return
	}
	e.failed++
	e.consecutive++
	e.lastFailure = now
}

// forgetOld removes the ends older than the window.
func (e *countedEnds) forgetOld(now, window time.Duration) {
	for len(e.recent) > 0 && now-e.recent[0].at > window+sameMoment {
		e.took -= e.recent[0].took
		if e.recent[0].blamed {
			e.failed--
		}
		e.recent = e.recent[1:]
	}
}

// RunFigures holds a worker's figures about its runs, as it reports them.
type RunFigures struct {
	Total, Failed, Consecutive int
	LastFailure, Average       time.Duration
}

// Reports judges run figures that the worker is about to send.
func (c *Calls) Reports(now time.Duration, f RunFigures) {
	if c.alerts == nil {
		return
	}
	i, window := c.alerts.i, c.s.config.Health.Window
	c.s.countOccasion(i)
	e := &c.ends
	e.forgetOld(now, window)
	most := RunFigures{Total: len(e.recent), Failed: e.failed}
	least, took := most, e.took
	// The worker may already have dropped the oldest part of its window.
	for _, end := range e.recent {
		if now-end.at < window-window/windowParts-sameMoment {
			break
		}
		least.Total--
		if end.blamed {
			least.Failed--
		}
	}
	switch {
	case f.Total < least.Total || f.Total > most.Total || f.Failed < least.Failed || f.Failed > most.Failed:
		c.s.recordViolation(i, 0, "%s reports %d runs, %d of them failed, within %v; there were %d, and %d failed", c.process, f.Total, f.Failed, window, most.Total, most.Failed)
	case f.Consecutive != e.consecutive:
		c.s.recordViolation(i, 0, "%s reports %d failures since the last run that was none; there were %d", c.process, f.Consecutive, e.consecutive)
	case f.Failed+f.Consecutive > 0 && absDifference(f.LastFailure, now-e.lastFailure) > sameMoment:
		c.s.recordViolation(i, 0, "%s reports that its last failure was %v ago; it was %v ago", c.process, f.LastFailure, now-e.lastFailure)
	case most.Total > 0 && least.Total == most.Total && absDifference(f.Average, took/time.Duration(most.Total)) > sameMoment:
		c.s.recordViolation(i, 0, "%s reports that a run takes %v on average; it was %v", c.process, f.Average, took/time.Duration(most.Total))
	case f.Total == 0 && f.Average != 0:
		c.s.recordViolation(i, 0, "%s reports that a run takes %v on average, and no run within %v", c.process, f.Average, window)
	}
}

func absDifference(a, b time.Duration) time.Duration { return max(a-b, b-a) }
