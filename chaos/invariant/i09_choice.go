package invariant

import (
	"time"
)

// avoided is a worker that an execution should have got instead of the one that it was to avoid; nil if there was none. It
// fitted, was well and had room for as long as the decision may be old.
func (c *placementChecker) avoided(w *candidate, now time.Duration, l *life) *candidate {
	if l.avoid != w.worker || l.pinned != 0 {
		return nil
	}
	c.s.judged(c.i)
	return c.better(w, now, l, func(other *candidate) time.Duration { return other.roomSince })
}

// overlooked is a worker that had nothing to do for so long that every executor knows it to be well, when an execution went
// to one that has work already; nil if there was none. Executors learn from their probes, too, who is well, so the question
// is only asked when nothing has hindered them for as long as probes take to find out.
func (c *placementChecker) overlooked(w *candidate, now time.Duration, l *life) *candidate {
	if w.load == 0 || l.pinned != 0 || c.s.calm.hindering > 0 || now-c.s.calm.since < c.s.bounds.Probes || now < c.s.setBack+c.s.bounds.Probes {
		return nil
	}
	c.s.judged(c.i)
	return c.better(w, now, l, func(other *candidate) time.Duration {
		if !c.spotless(other, now) {
			return never
		}
		return other.idleSince
	})
}

// better is a worker that fits an execution at least as well as w, by what an executor can know, and for which something
// has held since a moment that is old enough.
func (c *placementChecker) better(w *candidate, now time.Duration, l *life, since func(*candidate) time.Duration) *candidate {
	old := now - c.memory
	for _, other := range c.candidates {
		if other.worker == w.worker || other.worker == l.avoid || !other.offers(l.runtime, c.s.shown(old, now)) || other.goodSince > old {
			continue
		}
		if from := since(other); from <= old && from != never {
			return other
		}
	}
	return nil
}

// spotless says that nothing makes a worker the last choice among the healthy ones: it has no failure of its own within
// the window, and left nothing lying.
func (c *placementChecker) spotless(w *candidate, now time.Duration) bool {
	h := c.s.config.Health
	s := w.known()
	if s.consecutive > 0 || s.failed > 0 {
		return false
	}
	if n := len(s.expired); n > 0 && now-s.expired[n-1] <= h.Window+h.Window/10 {
		return false
	}
	n := len(w.failures)
	return n == 0 || now-w.failures[n-1] > h.Window+h.Window/10
}
