package invariant

import (
	"time"

	"handoff/chaos/history"
	"handoff/core/config"
	"handoff/core/execution"
)

// unready is the time since which a worker's heartbeats have said that it receives no dispatches.
// Such a worker is up but not ready, and its health endpoint says so.
type unready map[execution.Incarnation]time.Duration

// unrecorded demands that a prober that only observes records its findings within its bound. A
// prober that asks only whether the process is up finds nothing, and a prober that acts records
// nothing.
func (c *detectionChecker) unrecorded(e *history.Event) {
	t := c.s.workers.Get(e.Incarnation)
	if c.s.config.Executor.HealthProbes != config.Observe || !c.s.config.Health.Enabled || t == nil {
		return
	}
	since, known := c.unready[e.Incarnation]
	c.overRecorded(e, t)
	switch {
	case e.Limit > 0 || t.outage || t.lifecycle != execution.Active:
		delete(c.unready, e.Incarnation)
	case !known:
		c.unready[e.Incarnation] = e.At
	case c.s.calm.hindering > 0:
	default:
		c.s.judged(c.i)
		if e.At > max(since, c.s.calm.since)+c.s.bounds.Probes {
			c.s.violate(c.i, 0, "no prober has recorded that the health endpoint of worker %d (incarnation %d) is not ready: the worker has said since %v that it receives no dispatches; the bound for that is %v",
				e.Worker, e.Incarnation, since, c.s.bounds.Probes)
		}
	}
}

// overRecorded demands that probers also record the end of an outage: a worker that answers again
// is no longer the last choice. Anything that may hinder a probe postpones the judgement.
func (c *detectionChecker) overRecorded(e *history.Event, t *session) {
	since, known := c.ready[e.Incarnation]
	switch {
	case e.Limit == 0 || !t.outage || t.lifecycle != execution.Active || c.s.purged(t.outageAt, e.At):
		delete(c.ready, e.Incarnation)
	case !known:
		c.ready[e.Incarnation] = e.At
	case c.s.calm.hindering > 0 || c.broken > 0:
	default:
		c.s.judged(c.i)
		if e.At > max(since, c.s.calm.since, c.mended)+c.s.bounds.Probes {
			c.s.violate(c.i, 0, "no prober has recorded that the health endpoint of worker %d (incarnation %d) is ready again: the worker has said since %v that it receives dispatches; the bound for that is %v",
				e.Worker, e.Incarnation, since, c.s.bounds.Probes)
		}
	}
}
