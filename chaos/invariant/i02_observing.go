package invariant

import (
	"fmt"
	"time"

	"handoff/chaos/history"
	"handoff/chaos/oracle"
	"handoff/core/config"
	"handoff/core/execution"
)

// Parts that only observe (executor.timeout_monitor, executor.health_probes) change no status. They record
// what they would have done, and these records must obey the rules for real changes. Invariant 12 requires
// that such a part records in time what no other part can detect.

// monitorObserves reports whether the timeout monitor only observes and must not change a status.
func (s *Suite) monitorObserves() bool { return s.config.Executor.TimeoutMonitor == config.Observe }

// judgeObservation judges a recorded observation.
func (o *ownershipChecker) judgeObservation(e *history.Event, l *life) {
	o.s.countOccasion(o.i)
	if e.By != execution.TimeoutMonitor {
		o.judgeOutage(e)
		return
	}
	why := ""
	switch would := *e; {
	case !o.s.monitorObserves():
		why = "it is to act, not to observe"
	case l == nil || l.epoch != e.Epoch:
		why = "the execution has gone on since"
	case l.observed && !o.mayBeForgotten(l, e):
		why = "that was recorded before"
	default:
		would.Kind, would.From, would.OldEpoch = history.Transition, l.status, e.Epoch
		switch {
		case !o.s.transitions.May(e.By, l.status, e.To):
			why = fmt.Sprintf("it may never change %v to %v", l.status, e.To)
		case l.status == execution.Scheduled:
			why = o.scheduledReclaimObjection(&would, l)
		default:
			why = o.claimedReclaimObjection(&would, l)
		}
	}
	if why != "" {
		o.s.recordViolation(o.i, e.Execution, "the %v (%s) recorded that it would change execution %d at epoch %d to %v, without grounds: %s",
			e.By, e.Process, e.Execution, e.Epoch, e.To, why)
	}
}

// mayBeForgotten reports whether the last observation may have been deleted, because it is as old as dead
// letters may become. The monitor then records it again if it still holds.
func (o *ownershipChecker) mayBeForgotten(l *life, e *history.Event) bool {
	return o.s.mayBePurged(l.observedAt, e.At)
}

// mayBePurged reports whether an observation from the time at may have been deleted by now. Observations are
// kept as long as dead letters, even if the outage lasts.
func (s *Suite) mayBePurged(at, now time.Duration) bool {
	return s.databaseTime(now)-at >= oracle.DeadLettersKept(&s.config.MessageQueue.RabbitMQ)-s.tolerance
}

// judgeOutage judges the prober's record of the beginning or end of an outage.
func (o *ownershipChecker) judgeOutage(e *history.Event) {
	t := o.s.workers.Get(e.Incarnation)
	why := ""
	switch {
	case o.s.config.Executor.HealthProbes != config.Observe:
		why = "it is not to observe"
	case t == nil || t.worker != e.Worker:
		why = "that worker never registered"
	case (e.Count > 0) == t.outage && !o.s.mayBePurged(t.outageAt, e.At):
		why = "that was recorded before"
	case e.Count > 0 && (t.superseded || t.lifecycle != execution.Active):
		why = fmt.Sprintf("its worker is %v, and nobody would choose it", t.lifecycle)
	}
	if why != "" {
		o.s.recordViolation(o.i, 0, "the health prober (%s) recorded an outage of incarnation %d (begins: %v), without grounds: %s", e.Process, e.Incarnation, e.Count > 0, why)
	}
}
