package invariant

import (
	"slices"
	"time"

	"handoff/chaos/history"
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

// patient judges that what no worker fits has waited for its grace: since it was due, and since a worker fitted it last.
func (c *placementChecker) patient(e *history.Event, l *life) {
	grace := c.s.config.Executor.UnschedulableGrace
	if c.s.stepped > 0 && c.s.stepped >= e.At-grace || e.At < c.s.setBack+grace {
		return
	}
	c.s.judged(c.i)
	if x := c.s.config; c.brokerUp >= 0 && e.At-c.brokerUp < x.MessageQueue.RabbitMQ.ReconnectMax+2*x.Executor.StatementTimeout {
		c.s.violate(c.i, e.Execution, "execution %d failed for want of workers %v after the broker came back at %v; the workers have %v to come back, too, before anybody may conclude that there are none",
			e.Execution, e.At-c.brokerUp, c.brokerUp, x.MessageQueue.RabbitMQ.ReconnectMax+2*x.Executor.StatementTimeout)
	}
	last := c.lastFit(l, e.At)
	// The claim under which it was decided, and the look before that, are older than the failure.
	if waited := e.At - max(l.waits, last); waited < grace-c.s.tolerance {
		c.s.violate(c.i, e.Execution, "execution %d failed for want of workers after %v; it has been due since %v, a worker fitted it until %v, and its grace is %v",
			e.Execution, waited, l.waits, last, grace)
	}
}

// nobodyIsBetter says that every worker that has fitted a runtime since a moment was unhealthy all the while: then they get
// work like any other.
func (c *placementChecker) nobodyIsBetter(runtime string, since, now time.Duration) bool {
	for _, w := range c.candidates {
		if !slices.Contains(w.runtimes, runtime) {
			continue
		}
		last := w.goodUntil
		if w.goodSince != never {
			last = w.lastFit(now)
		}
		if last >= since {
			return false
		}
	}
	return true
}
