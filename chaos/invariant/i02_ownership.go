package invariant

import (
	"fmt"
	"time"

	"handoff/chaos/history"
	"handoff/chaos/oracle"
	"handoff/core/config"
	"handoff/core/execution"
)

// statusOwnership returns invariant 2 (defects D1, D2, D5, D37, D47, D58).
func statusOwnership() *Invariant {
	i := &Invariant{
		Number: 2, Name: "ownership",
		Statement: "Every status is written by the owner of that stage, or taken back for a lawful cause. A program changes no row that only a newer program can read, except for a requested cancellation. Parts that only observe write no status.",
		Needs:     []history.Kind{history.Transition, history.WorkerLifecycle, history.HeartbeatRenewed, history.Expired, history.Published},
	}
	i.make = func(s *Suite) checker { return &ownershipChecker{i: i, s: s, r: newReapingCheck(i, s)} }
	return i
}

type ownershipChecker struct {
	i *Invariant
	s *Suite
	r *reapingCheck
	// lost is a worker that was marked lost before its lease was over. That is lawful only if the next event
	// is the registration that supersedes the worker; otherwise early is the violation's text.
	lost  execution.WorkerID
	early string
}

// clockTolerance is how much too early the database may decide in true time, because its timestamps have a
// resolution of microseconds.
const clockTolerance = time.Millisecond

// observedKinds implements selective.
func (o *ownershipChecker) observedKinds() []history.Kind {
	return []history.Kind{
		history.ProcessResumed, history.ProcessThawed, history.DatabaseDown, history.DatabaseUp, history.WorkerLifecycle,
		history.Observed, history.Transition,
	}
}

func (o *ownershipChecker) isTimedChecker() {}

func (o *ownershipChecker) observeEvent(e *history.Event, l *life) {
	o.r.observeEvent(e)
	if o.lost != 0 {
		o.judgeEarlyLoss(e)
	}
	switch e.Kind {
	case history.WorkerLifecycle:
		if why := o.r.lossObjection(e); why != "" {
			o.lost = e.Worker
			o.s.wakeAt(e.At) // judged at the next event of any kind
			o.early = fmt.Sprintf("incarnation %d of worker %d was marked lost by %s: %s", e.Incarnation, e.Worker, e.Process, why)
		}
	case history.Observed:
		o.judgeObservation(e, l)
	case history.Transition:
		if l != nil || oracle.Terminal(e.From) {
			o.s.countOccasion(o.i)
		}
		if oracle.Terminal(e.From) {
			o.s.recordViolation(o.i, e.Execution, "execution %d had ended as %v, so it belonged to no part, but the %v (%s) wrote %v", e.Execution, e.From, e.By, e.Process, e.To)
			return
		}
		if l == nil {
			return
		}
		if e.By == execution.TimeoutMonitor && o.s.monitorObserves() {
			o.s.recordViolation(o.i, e.Execution, "execution %d was changed from %v to %v by the %v (%s), which is told to observe only", e.Execution, e.From, e.To, e.By, e.Process)
			return
		}
		if !o.s.transitions.May(e.By, e.From, e.To) {
			o.s.recordViolation(o.i, e.Execution, "execution %d was changed from %v to %v by the %v (%s), which may not make this change", e.Execution, e.From, e.To, e.By, e.Process)
			return
		}
		if why := o.changeObjection(e, l); why != "" {
			o.s.recordViolation(o.i, e.Execution, "execution %d was taken from %v to %v by the %v (%s) without grounds: %s", e.Execution, e.From, e.To, e.By, e.Process, why)
		}
	case history.ProcessResumed, history.ProcessThawed, history.DatabaseDown, history.DatabaseUp:
		// reapingCheck has judged the loss of workers.
	default:
	}
}

// judgeEarlyLoss judges the event after the loss of a lease that was not over. The loss is lawful only
// if this event is, in the same step, the registration of a new incarnation of the same name.
func (o *ownershipChecker) judgeEarlyLoss(e *history.Event) {
	if e.Kind != history.WorkerRegistered || e.Worker != o.lost {
		o.s.recordViolation(o.i, 0, "%s", o.early)
	}
	o.lost = 0
}

// changeObjection returns why a change of status was not justified, empty if it was.
func (o *ownershipChecker) changeObjection(e *history.Event, l *life) string {
	x := o.s.config.Executor
	switch {
	case l.hidden && e.By != execution.API:
		return "only a newer program can read its row, so only that program may change it"
	case e.By == execution.API && !o.s.cancelled[l.chain]:
		return "nobody has asked for the cancellation of its chain"
	case e.To == execution.Scheduling && o.s.cancelled[l.chain]:
		return "the cancellation of its chain was requested"
	case e.By == execution.ExecutionManager && l.parent == 0:
		return "it is a child of nobody"
	case e.By == execution.Worker && e.Writer != e.Incarnation:
		return fmt.Sprintf("it belongs to incarnation %d, and incarnation %d wrote", e.Incarnation, e.Writer)
	case e.To == execution.Running && o.s.databaseTime(e.At) > l.due+o.s.tolerance:
		return fmt.Sprintf("its dispatch deadline passed %v ago", o.s.databaseTime(e.At)-l.due)
	case e.From == execution.Scheduling && e.By == execution.Reconciler && o.s.databaseTime(e.At) < l.stamped+x.ClaimExpiry-o.s.tolerance:
		return "the scheduling claim has not expired"
	case e.From == execution.Scheduled && e.By != execution.Worker && e.To != execution.Cancelled:
		if l.tooOften && !l.expired && !l.rejected && e.Count > l.dispatches {
			return "the dispatch is counted, although its message died for returning to its queue too often, which is not the worker's fault"
		}
		if why := o.countObjection(e, l); why != "" {
			return why
		}
		return o.scheduledReclaimObjection(e, l)
	case oracle.Claimed(e.From) && e.By != execution.Worker && e.To != execution.Canceling:
		return o.claimedReclaimObjection(e, l)
	}
	return ""
}

// countObjection returns what is wrong with the dispatch count after a scheduled execution was reclaimed,
// empty if it is right. A dispatch counts only if its worker stays in service, and an unclaimed execution
// fails only when it has used up all its dispatches.
func (o *ownershipChecker) countObjection(e *history.Event, l *life) string {
	o.s.countOccasion(o.i)
	x := o.s.config.Executor
	used := e.Count > l.dispatches
	if used {
		t := o.s.workers.Get(l.incarnation)
		if t == nil || t.superseded || t.lifecycle != execution.Active {
			return "the dispatch is counted, although its worker did not stay"
		}
	}
	if late := e.Reason == execution.QueueTimeout || e.Reason == execution.DispatchTimeout; late && (used || e.To == execution.Failed) {
		lay, due := e.At-l.entered, l.due-l.stamped
		if e.By == execution.TimeoutMonitor {
			due = min(due, x.ScheduledTimeout) // the wait ends by then, even if the dispatch timeout is longer
		}
		// An executor that first read the database's clock after a step can't know of the step.
		if o.s.stepped > l.entered && lay+o.s.unseenBack(e.Process, l.entered) < due-due/5 && o.s.missedStep(e.Process) <= l.entered {
			return fmt.Sprintf("it may wait %v and has waited %v: only a step of the database's clock made it late", due, lay)
		}
	}
	if x.Unclaimed != config.Reschedule {
		return ""
	}
	spent := used && e.Count >= int64(x.MaxDispatches)
	switch {
	case e.To == execution.Failed && !spent:
		return fmt.Sprintf("it failed, but only %d of the %d allowed dispatches had expired unclaimed", e.Count, x.MaxDispatches)
	case e.To == execution.Requested && spent:
		return fmt.Sprintf("it is dispatched again, although %d of the %d allowed dispatches had expired unclaimed", e.Count, x.MaxDispatches)
	}
	return ""
}

// scheduledReclaimObjection returns why a scheduled execution must not be reclaimed, empty if it may.
func (o *ownershipChecker) scheduledReclaimObjection(e *history.Event, l *life) string {
	o.s.countOccasion(o.i)
	x := o.s.config.Executor
	switch e.By {
	case execution.TimeoutMonitor:
		if why := o.r.warmupObjection(e); why != "" {
			return why
		}
		if at := o.s.databaseTime(e.At); at < l.stamped+x.ScheduledTimeout-o.s.tolerance {
			return fmt.Sprintf("it has been scheduled for only %v; executor.scheduled_timeout is %v", at-l.stamped, x.ScheduledTimeout)
		}
		if e.To == execution.Failed && !l.marked {
			return "nothing shows that its message was ever sent"
		}
	case execution.DeadLetterHandler:
		if l.died == 0 && !l.expired && !l.rejected && !l.tooOften {
			return fmt.Sprintf("no message of epoch %d has died", e.OldEpoch)
		}
		if e.To == execution.Failed && l.orphanSentLate {
			return "its executor restarted before it sent the message, and sent it after the dispatch deadline"
		}
		// The handler must find out why the message died (defect D19): only a message whose time to live
		// expired is a queue timeout.
		if e.Reason == execution.QueueTimeout && l.rejected && !l.expired {
			return fmt.Sprintf("the given reason is %v, but its message had not expired: its worker had rejected it", e.Reason)
		}
		if l.tooOften && !l.expired && !l.rejected && e.Reason != execution.WorkerUnavailable {
			return fmt.Sprintf("the given reason is %v, but its message died because it had returned to its queue too often; the reason for that is %v", e.Reason, execution.WorkerUnavailable)
		}
	case execution.Scheduler:
		// A refusal by the broker leaves no event, but a return does.
		if l.published && !l.returned {
			return "its message was neither returned nor refused"
		}
	case execution.Reconciler:
		if t := o.s.workers.Get(l.incarnation); t != nil {
			if _, gone := t.goneSince(); gone || t.lifecycle == execution.Draining {
				return ""
			}
		}
		if !l.marked && e.To == execution.Failed {
			return "it fails as never picked up, although its message was never confirmed as sent"
		}
		// The action may set its own dispatch timeout, so due is used: it is still the dispatch deadline.
		if !l.marked && o.s.databaseTime(e.At) >= l.stamped+max(x.ConfirmTimeout, (l.due-l.stamped)/2)-o.s.tolerance {
			return ""
		}
		return "its worker is neither gone nor leaving, and its dispatch was published in time"
	default:
	}
	return ""
}

// claimedReclaimObjection returns why an execution that a worker owns must not be reclaimed, empty if it may.
func (o *ownershipChecker) claimedReclaimObjection(e *history.Event, l *life) string {
	o.s.countOccasion(o.i)
	grace := o.s.config.Executor.ReapGrace
	overrun := o.s.databaseTime(e.At) >= l.due+grace-o.s.tolerance
	switch {
	case e.To == execution.Timeout && !overrun:
		return fmt.Sprintf("its run deadline plus executor.reap_grace ends only in %v", l.due+grace-o.s.databaseTime(e.At))
	case e.To == execution.Timeout, e.To == execution.Cancelled && e.By == execution.TimeoutMonitor && overrun:
		return o.r.warmupObjection(e)
	}
	t := o.s.workers.Get(l.incarnation)
	if t == nil {
		return "its worker never registered"
	}
	if _, gone := t.goneSince(); !gone {
		return fmt.Sprintf("incarnation %d, which runs it, is %v", l.incarnation, t.lifecycle)
	}
	if at := o.s.databaseTime(e.At); at < t.leaseEnds+grace-o.s.tolerance {
		return fmt.Sprintf("the lease of its worker plus executor.reap_grace ends only in %v", t.leaseEnds+grace-at)
	}
	return ""
}

func (o *ownershipChecker) endRun(bool) {
	if o.lost != 0 {
		o.judgeEarlyLoss(&history.Event{})
	}
}
