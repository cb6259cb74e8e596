package invariant

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"handoff/chaos/dense"
	"handoff/chaos/history"
	"handoff/chaos/oracle"
	"handoff/core/execution"
)

// explainedEnds returns invariant 17: every bad end has a cause in the run. A long queue, many executions or
// long runs are not causes, because overload is not failure.
func explainedEnds() *Invariant {
	i := &Invariant{
		Number: 17, Name: "earned", Conduct: true,
		Statement: "Every bad end has a cause in the run: each failure, abandonment, timeout, cancellation, lost worker and counted dispatch follows from a fault, an action or a request. Waiting behind other work is no cause.",
		Needs:     []history.Kind{history.Created, history.Transition, history.Orchestrated},
		Whole:     []history.Kind{history.FaultBegan, history.CancelRequested, history.HeartbeatRenewed, history.ActionEnded},
		Part: "only that every cancellation was requested, that every skipped child has a parent that did not complete, and that nothing fails for waiting at a worker " +
			"that was full the whole time; an audit does not record the faults and actions that explain other bad ends",
	}
	i.make = func(s *Suite) checker {
		return &earnedChecker{i: i, s: s, ledger: newLedger(), table: causeTable()}
	}
	return i
}

type earnedChecker struct {
	i      *Invariant
	s      *Suite
	ledger *ledger
	table  []causeRow
	slots  dense.Table[execution.Incarnation, *slots]
	// loss is the last event if a worker was lost in it; otherwise its Kind is NoKind.
	loss history.Event
	// skipped holds the children that were skipped before the handling of their parent's end was recorded.
	skipped []skippedChild
}

// skippedChild is a skipped child for which it is still open whether its parent's chain has failed.
type skippedChild struct {
	id, parent execution.ID
	at         time.Duration
}

// badEnd is a bad end of an execution, with the evidence about it.
type badEnd struct {
	*earnedChecker
	row *causeRow
	e   *history.Event
	l   *life
	t   *session
	at  *slots // nil if t is nil
}

// hasWholeEvidence reports whether the history records faults, runs and heartbeats. If it doesn't, only part
// of the rule is judged.
func (ec *earnedChecker) hasWholeEvidence() bool { return !ec.i.InPart(ec.s.holds) }

// observedKinds implements selective.
func (ec *earnedChecker) observedKinds() []history.Kind { return besidesRuns() }

func (ec *earnedChecker) isTimedChecker() {}

func (ec *earnedChecker) observeEvent(e *history.Event, l *life) {
	ec.judgeLoss(e)
	switch e.Kind {
	case history.WorkerLifecycle:
		if e.Lifecycle == execution.Lost && ec.hasWholeEvidence() {
			ec.loss = *e
			ec.s.wakeAt(e.At) // judged at the next event of any kind
		}
	case history.Transition:
		if l != nil && !oracle.Terminal(e.From) {
			ec.judgeTransition(e, l)
		}
		if at := ec.slots.Get(e.Incarnation); at != nil && oracle.Claimed(e.From) != oracle.Claimed(e.To) {
			at.countRun(e)
		}
	case history.Orchestrated:
		if len(ec.skipped) > 0 {
			ec.judgeSkippedChildren(e)
		}
	case history.WorkerRegistered:
		ec.ledger.observeEvent(e)
		ec.slots.Set(e.Incarnation, &slots{runtimes: e.Text, capacity: e.Limit})
	case history.HeartbeatRenewed:
		if at := ec.slots.Get(e.Incarnation); at != nil {
			at.beats = [3]time.Duration{e.At, at.beats[0], at.beats[1]}
		}
	default:
		ec.ledger.observeEvent(e)
	}
}

func (ec *earnedChecker) judgeTransition(e *history.Event, l *life) {
	counted := e.From == execution.Scheduled && e.Count > l.dispatches
	if e.To != execution.Failed && e.To != execution.Timeout && e.To != execution.Abandoned && e.To != execution.Cancelled && !counted {
		return
	}
	end := badEnd{earnedChecker: ec, e: e, l: l, t: ec.s.workers.Get(l.incarnation), at: ec.slots.Get(l.incarnation)}
	if why := end.overloadReason(counted); why != "" {
		ec.s.recordViolation(ec.i, e.Execution, "%s although it only had to wait: %s; waiting behind others is no cause", end.describeEnd(counted), why)
		return
	}
	for n := range ec.table {
		row := &ec.table[n]
		if row.reason == e.Reason && (row.by == execution.NoPart || row.by == e.By) {
			end.row = row
			break
		}
	}
	if end.row == nil {
		ec.s.countOccasion(ec.i)
		ec.s.recordViolation(ec.i, e.Execution, "%s, and the table of causes has no row for this reason", end.describeEnd(counted))
		return
	}
	if why := end.missingCause(); why != "" {
		ec.s.recordViolation(ec.i, e.Execution, "%s although nothing in this run explains it: %s", end.describeEnd(counted), why)
	}
}

// describeEnd returns in words how the execution ended, when, and by which part.
func (en *badEnd) describeEnd(counted bool) string {
	e := en.e
	what := "failed"
	switch {
	case counted && e.To == execution.Requested:
		what = "had a dispatch counted against " + en.workerName()
	case e.To == execution.Abandoned:
		what = "was abandoned"
	case e.To == execution.Timeout:
		what = "timed out"
	case e.To == execution.Cancelled:
		what = "ended"
	}
	return fmt.Sprintf("execution %d %s as %v at %v (by the %v, %s)", e.Execution, what, reasonName(e.Reason), e.At, e.By, e.Process)
}

func reasonName(r execution.Reason) string {
	if r == execution.NoReason {
		return "no reason"
	}
	return r.String()
}

// workerName returns the name of the worker that held the execution.
func (en *badEnd) workerName() string {
	if en.t == nil || en.t.process == "" {
		return fmt.Sprintf("worker %d", en.l.worker)
	}
	return en.t.process
}

// missingCause returns a complaint if the end has no cause, otherwise nothing.
func (en *badEnd) missingCause() string {
	row := en.row
	if !en.hasWholeEvidence() && en.e.Reason != execution.CancelRequested && en.e.Reason != execution.ParentFailed {
		return ""
	}
	en.s.countOccasion(en.i)
	// An action that fails by itself may give any reason.
	if en.e.By == execution.Worker && en.l.exited == execution.Failed && en.l.exit == en.e.Reason {
		return ""
	}
	if row.instead != nil {
		why := row.instead(en)
		if why == "" || row.causes == 0 || row.reason == execution.NoWorkers {
			return why
		}
		if en.isExplainedByFault(row.causes) {
			return ""
		}
		return why
	}
	if en.isExplainedByFault(row.causes) {
		return ""
	}
	return en.noCauseText(row.causes)
}

// isExplainedByFault reports whether a fault explains the end.
func (en *badEnd) isExplainedByFault(of cause) bool {
	if of&dispatchesFail != 0 && (!en.l.published || en.l.sentLate) {
		of |= executorFails
	}
	process := ""
	if en.t != nil {
		process = en.t.process
	}
	return en.ledger.hasStruck(of, process, en.l.worker, en.row.from(en)-en.s.tolerance)
}

// noCauseText describes the worker's state and the causes that would explain the end.
func (en *badEnd) noCauseText(of cause) string {
	was := "is not known"
	if en.t != nil && en.at != nil {
		was = fmt.Sprintf("was %v, last renewed its lease at %v and held %d executions with a capacity of %d", en.t.lifecycle, en.t.renewed, en.at.running, en.at.capacity)
	}
	return fmt.Sprintf("its worker %s %s; a cause would be %s since %v", en.workerName(), was, of.describeFor(en.workerName()), max(0, en.row.from(en)))
}

// overloadReason returns why the execution should have waited: its worker had no room, and the executor could
// know it, because a later heartbeat reported that the worker was full. Otherwise it returns nothing.
func (en *badEnd) overloadReason(counted bool) string {
	t, e := en.at, en.e
	unclaimed := counted || e.To == execution.Failed && (e.Reason == execution.QueueTimeout || e.Reason == execution.DispatchTimeout)
	if e.From != execution.Scheduled || !unclaimed || t == nil || en.t == nil || t.capacity == 0 {
		return ""
	}
	if _, gone := en.t.goneSince(); gone {
		return ""
	}
	en.s.countOccasion(en.i)
	if t.isFull() && t.fullSince <= en.l.entered {
		return fmt.Sprintf("its worker %s has held %d executions with a capacity of %d since %v, and it was dispatched there at %v", en.workerName(), t.running, t.capacity, t.fullSince, en.l.entered)
	}
	// The executor compares two times of the database's clock, when the worker was last full and when it got
	// the dispatch. A clock step between them makes the comparison wrong.
	if !en.hasWholeEvidence() || en.s.stepped > en.l.entered {
		return ""
	}
	known := t.knownUntil()
	switch {
	case t.isFull() && max(t.fullSince, en.l.entered) <= known:
		return fmt.Sprintf("its worker %s has held %d executions with a capacity of %d since %v, and said so with its heartbeat at %v", en.workerName(), t.running, t.capacity, t.fullSince, en.t.renewed)
	case t.fullUntil > 0 && max(t.fullFrom, en.l.entered) <= min(t.fullUntil, known):
		return fmt.Sprintf("its worker %s held %d executions with a capacity of %d from %v to %v, and said so with its heartbeat at %v; it was dispatched there at %v",
			en.workerName(), t.capacity, t.capacity, t.fullFrom, t.fullUntil, en.t.renewed, en.l.entered)
	}
	return ""
}

// ownEnd returns the complaint that the action didn't end by itself for this reason. badEnd.missingCause only
// calls it if that is so.
func (en *badEnd) ownEnd() string {
	switch {
	case en.l.exited == execution.None:
		return fmt.Sprintf("no action of this execution has ended at epoch %d", en.e.OldEpoch)
	case en.l.exited != execution.Failed:
		return fmt.Sprintf("its action ended as %v", en.l.exited)
	}
	return fmt.Sprintf("its action failed as %v", en.l.exit)
}

// cancelAsked returns a complaint if no client requested the chain's cancellation, otherwise nothing.
func (en *badEnd) cancelAsked() string {
	if en.s.cancelled[en.l.chain] {
		return ""
	}
	return fmt.Sprintf("nobody has asked to cancel its chain, %d", en.l.chain)
}

// parentEnded returns a complaint if the parent's chain has not failed, otherwise nothing. The handling of
// that failure is written in the same transaction as this end, and may follow it in the history.
func (en *badEnd) parentEnded() string {
	parent := en.l.parent
	if parent == 0 {
		// An audit names the parent only in the event of the skipped child's end.
		parent = en.e.Related
	}
	if parent == 0 {
		return "it waits for no parent"
	}
	switch en.s.ended.finalStatus(parent) {
	case execution.None:
		en.skipped = append(en.skipped, skippedChild{en.e.Execution, parent, en.e.At})
		return ""
	case execution.Completed:
		return fmt.Sprintf("its parent, execution %d, has completed", parent)
	default:
		return ""
	}
}

// judgeSkippedChildren judges the skipped children of a chain when the chain's end is handled.
func (ec *earnedChecker) judgeSkippedChildren(e *history.Event) {
	if e.Related != 0 {
		return
	}
	ec.skipped = slices.DeleteFunc(ec.skipped, func(child skippedChild) bool {
		if child.parent != e.Chain {
			return false
		}
		if e.From == execution.Completed {
			ec.s.recordViolation(ec.i, child.id, "execution %d ended as parent_failed at %v although its parent, execution %d, has completed", child.id, child.at, child.parent)
		}
		return true
	})
	// This chain's children are settled above. A remaining child older than the slack has waited too long for
	// its parent's end to be handled.
	if len(ec.skipped) > 0 && e.At > ec.skipped[0].at+ec.s.bounds.Slack {
		ec.reportOrphan()
	}
}

func (ec *earnedChecker) reportOrphan() {
	child := ec.skipped[0]
	ec.s.recordViolation(ec.i, child.id, "execution %d ended as parent_failed at %v although the chain of its parent, execution %d, has not ended", child.id, child.at, child.parent)
	ec.skipped = ec.skipped[:0]
}

// ranItsTime returns a complaint if the action has not run for its whole timeout, otherwise nothing. The
// timeout counts from when the worker sent the claim, up to one statement before the claim took effect.
func (en *badEnd) ranItsTime() string {
	now := en.s.databaseTime(en.e.At)
	// The timeout counts from when the worker sent the claim, which may have waited for a connection first.
	// If the dispatch was delivered more than once, the first delivery counts. If it never was, the worker
	// found the dispatch in the database at an unknown time.
	early := en.s.config.Worker.StatementTimeout
	if en.l.arrived > 0 {
		early = min(early, max((en.l.due-en.l.stamped)/2, en.l.entered-en.l.arrived))
	}
	if now >= en.l.due-early-en.s.tolerance || en.heldClaim() {
		return ""
	}
	return fmt.Sprintf("its run deadline is still %v away; it was claimed at %v", en.l.due-now, en.l.entered)
}

// silentClaim excuses an expired dispatch whose worker sent its claim over a connection that had gone silent.
// The worker detects that within the statement timeout and repeats the claim. So the dispatch is only excused
// if it could wait for hardly longer than that.
func (en *badEnd) silentClaim() string {
	left := en.l.due - en.s.skew - en.l.arrived
	if en.t != nil && en.l.arrived > 0 && left <= en.s.config.Worker.StatementTimeout+callTime && en.ledger.entryOf(en.t.process).silent.presentSince(en.l.arrived) {
		return ""
	}
	return en.noCauseText(en.row.causes)
}

// heldClaim reports whether the claim may have been under way for as long as the run timeout. The network can
// delay a claim and deliver it after a cut. The worker got no answer, so it counts the run from that claim,
// even if it has repeated it since. It sent the first claim after the dispatch arrived. Only trouble on the
// link to the database since then explains such a delay, and only until the link has recovered.
func (en *badEnd) heldClaim() bool {
	timeout := en.l.due - en.l.stamped
	if en.e.By != execution.Worker || en.t == nil || en.l.arrived == 0 || en.e.At < en.l.arrived+timeout-timeout/driftTolerance {
		return false
	}
	return en.ledger.hasStruck(toDatabase|databaseFails, en.t.process, en.t.worker, max(en.l.arrived, en.s.recoveryStart(en.l.entered)))
}

// noWorkers returns the complaint about a worker that offers the runtime without a cause for being unfit,
// empty if there is none.
func (en *badEnd) noWorkers() string {
	from := en.row.from(en) - en.s.tolerance
	if en.ledger.hasStruck(en.row.causes&serverCauses&^(dispatchesFail|makesNoQueue), "", 0, from) {
		return ""
	}
	for _, m := range en.s.fleet.members {
		if en.l.pinned != 0 && m.worker != en.l.pinned || !slices.Contains(strings.Fields(en.slots.Get(m.incarnation).runtimes), en.l.runtime) {
			continue
		}
		began := from
		if m.lifecycle >= execution.Draining {
			// What made the worker leave was present when it began to leave, which may be long ago.
			began = min(from, m.leaving-en.recoveryTime())
		}
		if en.ledger.hasStruck(en.row.causes&^serverCauses, m.process, m.worker, began) || en.hasNoQueue(m, began) {
			continue
		}
		if t := en.s.workers.Get(m.incarnation); t != nil && t.since >= from && t.lifecycle <= execution.Active {
			// The worker has only just registered and may not have been ready.
			continue
		}
		return fmt.Sprintf("worker %s offers %s, is %v and last renewed its lease at %v; a cause would be %s since %v",
			m.process, en.l.runtime, m.lifecycle, m.renewed, en.row.causes.describeFor(m.process), max(0, from))
	}
	return ""
}

// hasNoQueue reports whether a worker may have had no queue at or after from: the broker created none, and
// the worker was not yet in service or has lost its queue since from.
func (en *badEnd) hasNoQueue(m *member, from time.Duration) bool {
	return en.ledger.hasStruck(makesNoQueue, "", 0, from) &&
		(m.lifecycle < execution.Active || en.ledger.hasStruck(losesQueue, m.process, m.worker, en.ledger.noQueueFrom-en.recoveryTime()))
}

// judgeLostWorker requires a cause for the loss of a worker.
func (ec *earnedChecker) judgeLostWorker(e *history.Event) {
	t := ec.s.workers.Get(e.Incarnation)
	if t == nil {
		return
	}
	ec.s.countOccasion(ec.i)
	// A worker is lost for the same causes as its runs.
	end := badEnd{earnedChecker: ec, e: e, l: &life{worker: e.Worker}, t: t, at: ec.slots.Get(e.Incarnation), row: &causeRow{causes: noRenewal, from: sinceRenewal}}
	if !end.isExplainedByFault(noRenewal) {
		ec.s.recordViolation(ec.i, 0, "worker %s (incarnation %d) was marked lost by %s at %v although nothing in this run explains it: %s",
			t.process, e.Incarnation, e.Process, e.At, end.noCauseText(noRenewal))
	}
}

// judgeLoss judges a worker's loss at the event after it. If that event is the registration of a successor,
// the old incarnation was superseded, and not lost for want of a heartbeat. In that case only the ends of the
// executions that it held are judged.
func (ec *earnedChecker) judgeLoss(next *history.Event) {
	if ec.loss.Kind == history.NoKind {
		return
	}
	loss := ec.loss
	ec.loss = history.Event{}
	if next.Kind != history.WorkerRegistered || next.Worker != loss.Worker {
		ec.judgeLostWorker(&loss)
	}
}

func (ec *earnedChecker) endRun(bool) {
	ec.judgeLoss(&history.Event{})
	if len(ec.skipped) > 0 {
		ec.reportOrphan()
	}
}
