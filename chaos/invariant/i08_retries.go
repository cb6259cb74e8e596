package invariant

import (
	"time"

	"handoff/chaos/history"
	"handoff/chaos/oracle"
	"handoff/core/execution"
)

// boundedRetries is invariant 8 (defects D48 to D54).
func boundedRetries() *Invariant {
	i := &Invariant{
		Number: 8, Name: "bounded retries",
		Statement: "A retry follows only a failure for a retriable reason, inside its backoff window. A chain has at most max_retries of them, and none after its cancellation was requested. An execution that is taken back waits for a backoff that grows each time.",
		Needs:     []history.Kind{history.Created, history.Transition},
	}
	i.make = func(s *Suite) checker { return &retryChecker{i: i, s: s} }
	return i
}

type retryChecker struct {
	i *Invariant
	s *Suite
	// created is the retry whose handling is being committed: its Orchestrated event follows.
	created history.Event
}

// hears implements selective.
func (c *retryChecker) hears() []history.Kind {
	return []history.Kind{history.Created, history.Orchestrated, history.Transition}
}

func (c *retryChecker) observe(e *history.Event, l *life) {
	switch e.Kind {
	case history.Created:
		if e.Count > 0 {
			c.created = *e
			c.judge(e)
		}
	case history.Orchestrated:
		if e.Related != 0 && e.Related == c.created.Execution && l != nil {
			c.chained(e, l)
		}
	case history.Transition:
		if e.From == execution.Requested && e.To == execution.Scheduling && l != nil && l.due != 0 {
			c.scheduled(e, l)
		}
		if waits(e) {
			c.takenBack(e, l)
		}
	default:
	}
}

// scheduled judges that a delayed execution is not scheduled before it is due.
func (c *retryChecker) scheduled(e *history.Event, l *life) {
	c.s.judged(c.i)
	if c.s.database(e.At) < l.due-c.s.tolerance {
		c.s.violate(c.i, e.Execution, "execution %d was scheduled at %v, before it is due at %v", e.Execution, c.s.database(e.At), l.due)
	}
}

func (c *retryChecker) judge(e *history.Event) {
	c.s.judged(c.i)
	window := c.s.backoffs.After(int(e.Count) - 1)
	delay := e.Due - c.s.database(e.At)
	switch {
	case c.s.cancelled[e.Chain]:
		c.s.violate(c.i, e.Execution, "execution %d is retry %d of execution %d, whose cancellation was requested before", e.Execution, e.Count, e.Chain)
	case e.Count > e.Limit:
		c.s.violate(c.i, e.Execution, "execution %d is retry %d of execution %d, of which only %d are allowed", e.Execution, e.Count, e.Chain, e.Limit)
	case !oracle.Retriable(e.Reason):
		c.s.violate(c.i, e.Execution, "execution %d retries execution %d for the reason %q, which is not retriable", e.Execution, e.Chain, e.Reason)
	case !window.Holds(delay, c.s.tolerance):
		c.s.violate(c.i, e.Execution, "retry %d of execution %d is due after %v; its backoff is %v to %v", e.Count, e.Chain, delay.Round(time.Millisecond), window.Least, window.Most)
	}
}

func (c *retryChecker) chained(e *history.Event, l *life) {
	c.s.judged(c.i)
	switch n := &c.created; {
	case n.Chain != l.chain:
		c.s.violate(c.i, n.Execution, "execution %d retries execution %d and is chained to %d instead of %d", n.Execution, e.Execution, n.Chain, l.chain)
	case n.Count != l.retry+1:
		c.s.violate(c.i, n.Execution, "execution %d follows retry %d of execution %d as number %d", n.Execution, l.retry, l.chain, n.Count)
	case l.status == execution.Completed || l.status == execution.Cancelled:
		c.s.violate(c.i, n.Execution, "execution %d retries execution %d, which ended as %v", n.Execution, e.Execution, l.status)
	}
}

func (c *retryChecker) end(bool) {}
