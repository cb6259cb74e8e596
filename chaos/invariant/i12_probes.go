package invariant

import (
	"time"

	"handoff/chaos/history"
	"handoff/core/config"
	"handoff/core/execution"
)

// sinceByIncarnation holds since when each incarnation has been in some state.
type sinceByIncarnation map[execution.Incarnation]time.Duration

// judgeUnrecordedOutage requires that an observing prober records the outage of a worker whose heartbeats
// report that it receives no dispatches: the worker's health endpoint is then not ready. A prober that only
// tests whether the process is up would miss it. A prober that acts records nothing.
func (dc *detectionChecker) judgeUnrecordedOutage(e *history.Event) {
	t := dc.s.workers.Get(e.Incarnation)
	if dc.s.config.Executor.HealthProbes != config.Observe || !dc.s.config.Health.Enabled || t == nil {
		return
	}
	since, known := dc.unready[e.Incarnation]
	dc.judgeUnrecordedRecovery(e, t)
	switch {
	case e.Limit > 0 || t.outage || t.lifecycle != execution.Active:
		delete(dc.unready, e.Incarnation)
	case !known:
		dc.unready[e.Incarnation] = e.At
	case dc.s.hindrances.lasting > 0:
	default:
		dc.s.countOccasion(dc.i)
		if e.At > max(since, dc.s.hindrances.lastEnd)+dc.s.bounds.Probes {
			dc.s.recordViolation(dc.i, 0, "no prober has recorded that the health endpoint of worker %d (incarnation %d) is not ready: the worker has said since %v that it receives no dispatches; the bound for that is %v",
				e.Worker, e.Incarnation, since, dc.s.bounds.Probes)
		}
	}
}

// judgeUnrecordedRecovery requires that observing probers also record the end of an outage, because a
// recovered worker should no longer be the last choice. Anything that may hinder a probe postpones the
// judgement.
func (dc *detectionChecker) judgeUnrecordedRecovery(e *history.Event, t *session) {
	since, known := dc.ready[e.Incarnation]
	switch {
	case e.Limit == 0 || !t.outage || t.lifecycle != execution.Active || dc.s.mayBePurged(t.outageAt, e.At):
		delete(dc.ready, e.Incarnation)
	case !known:
		dc.ready[e.Incarnation] = e.At
	case dc.s.hindrances.lasting > 0 || dc.broken > 0:
	default:
		dc.s.countOccasion(dc.i)
		if e.At > max(since, dc.s.hindrances.lastEnd, dc.mended)+dc.s.bounds.Probes {
			dc.s.recordViolation(dc.i, 0, "no prober has recorded that the health endpoint of worker %d (incarnation %d) is ready again: the worker has said since %v that it receives dispatches; the bound for that is %v",
				e.Worker, e.Incarnation, since, dc.s.bounds.Probes)
		}
	}
}
