package invariant

import (
	"slices"
	"time"

	"handoff/chaos/dense"
	"handoff/chaos/history"
	"handoff/chaos/oracle"
	"handoff/core/execution"
)

// leftLying returns invariant 24 (defects D19, D20, D21): a worker that leaves its dispatches unclaimed must
// be detected, and an execution that no worker claims must end.
func leftLying() *Invariant {
	i := &Invariant{
		Number: 24, Name: "left lying counts", Conduct: true, Across: true,
		Statement: "A dispatch counts as used if a live worker with a free slot left it unclaimed until its time was over. It does not count if it waited behind others until it was sent back. No message is sent back before its time is over, or acknowledged before it is claimed. A message that came too late to be claimed dies at once, so that the dead letter handler can act.",
		Needs:     []history.Kind{history.Transition, history.WorkerRegistered, history.HeartbeatRenewed, history.StaleWrite, history.Rejected, history.FaultBegan},
		Whole:     []history.Kind{history.Acked, history.Delivered, history.Requeued},
		Part:      "only what does not depend on how messages are delivered, requeued and acknowledged; this history does not record all of that",
	}
	i.make = func(s *Suite) checker {
		return &lyingChecker{i: i, s: s, bound: 3 * s.config.Worker.StatementTimeout, kept: keptChecker{i, s, make(map[execution.Key]openDeliveries)}}
	}
	return i
}

// workerClaims holds the number of executions that an incarnation has claimed and not ended, and until when
// that number was last above 0.
type workerClaims struct {
	worker  execution.WorkerID
	claimed int64
	until   time.Duration
	// beat is the time of the last renewal, and refused that of the last refused claim. doubt is when both
	// may have been under way at the same time: the worker may have reported slots as taken by claims that
	// were then refused.
	beat, refused, doubt time.Duration
	slots                slots
}

// lateClaim is a claim that came too late. Its message must be rejected.
type lateClaim struct {
	id      execution.ID
	epoch   execution.Epoch
	process string
	worker  execution.WorkerID
	at      time.Duration
}

type lyingChecker struct {
	i  *Invariant
	s  *Suite
	of dense.Table[execution.Incarnation, *workerClaims]
	// late holds the few claims that were refused for lateness and whose message was not rejected yet. bound
	// is the maximum time until then: before it rejects, the worker reports that it was full.
	late  []lateClaim
	bound time.Duration
	// waited holds the dispatches that a worker has rejected after they had waited there behind other runs.
	waited map[execution.ID]queueWait
	kept   keptChecker
}

// queueWait holds a rejected dispatch's epoch, and until when its worker's slots were all taken while it
// waited.
type queueWait struct {
	epoch execution.Epoch
	until time.Duration
}

// observedKinds implements selective.
func (lc *lyingChecker) observedKinds() []history.Kind {
	return []history.Kind{
		history.WorkerRegistered, history.HeartbeatRenewed, history.StaleWrite, history.Rejected, history.Requeued,
		history.Dropped, history.Transition, history.Delivered, history.Acked,
	}
}

func (lc *lyingChecker) isTimedChecker() {}

func (lc *lyingChecker) observeEvent(e *history.Event, l *life) {
	lc.kept.observeEvent(e, l)
	if len(lc.late) > 0 {
		lc.judgeLateClaims(e.At)
		lc.s.wakeAt(e.At)
	}
	switch e.Kind {
	case history.WorkerRegistered:
		for n, w := range lc.of.All() {
			if w.worker == e.Worker && w.claimed == 0 {
				lc.of.Delete(n)
			}
		}
		lc.of.Set(e.Incarnation, &workerClaims{worker: e.Worker, until: -1, doubt: -1, beat: -1, refused: -1, slots: slots{capacity: e.Limit}})
	case history.HeartbeatRenewed:
		if w := lc.of.Get(e.Incarnation); w != nil {
			w.beat = e.At
			lc.noteDoubt(w, e.At)
		}
	case history.StaleWrite:
		if e.To == execution.Running && e.By == execution.Worker {
			for n, w := range lc.of.All() {
				if t := lc.s.workers.Get(n); t != nil && t.process == e.Process {
					w.refused = e.At
					lc.noteDoubt(w, e.At)
				}
			}
		}
		if l != nil && e.To == execution.Running && e.By == execution.Worker && l.status == execution.Scheduled && l.epoch == e.Epoch && lc.isTooLate(l, e.At) {
			lc.noteRefusedClaim(e, l)
		}
	case history.Rejected:
		if l != nil {
			lc.judgeSentBack(e, l)
			lc.noteWaitBehindOthers(e, l)
		}
		lc.forgetLateClaim(e)
	case history.Requeued, history.Dropped:
		lc.forgetLateClaim(e)
	case history.Transition:
		if l == nil {
			return
		}
		if e.From == execution.Scheduled {
			lc.forgetLateClaim(e)
			lc.judgeTakeBack(e, l)
			lc.judgeBlame(e, l)
		}
		lc.countClaim(e)
	case history.Delivered, history.Acked:
		// keptChecker has already handled the event.
	default:
	}
}

// noteDoubt records that a refused claim may have been under way during a renewal of the lease. With that
// renewal the worker reported a slot as taken that it had to free. The row's present owner doesn't matter.
func (lc *lyingChecker) noteDoubt(w *workerClaims, now time.Duration) {
	if w.refused >= 0 && w.beat >= 0 && max(now-w.beat, now-w.refused) < lc.s.config.Worker.StatementTimeout {
		w.doubt = now
	}
}

func (lc *lyingChecker) countClaim(e *history.Event) {
	w := lc.of.Get(e.Incarnation)
	if w != nil {
		w.slots.countRun(e)
	}
	switch {
	case w == nil:
	case oracle.Claimed(e.To) && !oracle.Claimed(e.From):
		w.claimed++
	case oracle.Claimed(e.From) && !oracle.Claimed(e.To):
		if w.claimed--; w.claimed <= 0 {
			w.claimed, w.until = 0, e.At
		}
	}
}

// isTooLate reports whether a dispatch's claim deadline has passed by the database's clock.
func (lc *lyingChecker) isTooLate(l *life, at time.Duration) bool {
	t := lc.s.workers.Get(l.incarnation)
	if t == nil {
		return false
	}
	_, gone := t.goneSince()
	return !gone && lc.s.databaseTime(at) >= l.due+lc.s.tolerance && lc.s.databaseTime(at) < t.leaseEnds
}

func (lc *lyingChecker) noteRefusedClaim(e *history.Event, l *life) {
	if l.delivered == 0 || l.expired || l.rejected {
		// The worker no longer has the message: it was requeued when a connection ended, and may
		// have died since; or it was lost with its queue, or was unreadable.
		return
	}
	lc.s.countOccasion(lc.i)
	if !slices.ContainsFunc(lc.late, func(r lateClaim) bool { return r.id == e.Execution }) {
		lc.late = append(lc.late, lateClaim{e.Execution, e.Epoch, e.Process, l.worker, e.At})
		lc.s.wakeAt(e.At)
	}
}

// forgetLateClaim removes a late claim: its message was rejected, requeued or dropped, or its execution is no
// longer scheduled.
func (lc *lyingChecker) forgetLateClaim(e *history.Event) {
	if len(lc.late) > 0 {
		lc.late = slices.DeleteFunc(lc.late, func(r lateClaim) bool { return r.id == e.Execution && r.epoch == max(e.OldEpoch, e.Epoch-1, r.epoch) })
	}
}

// judgeSentBack requires that a worker keeps a dispatch for as long as it may wait, unless the claim was
// refused. A delivery that finds every slot taken waits for its dispatch timeout, or until the broker would
// reclaim it. Both count from the first delivery, not from a redelivery.
func (lc *lyingChecker) judgeSentBack(e *history.Event, l *life) {
	if l.status != execution.Scheduled || l.epoch != e.Epoch || l.delivered == 0 || e.Fault != "" || lc.s.databaseTime(e.At) >= l.due-lc.s.tolerance ||
		lc.s.stepped >= l.delivered || lc.s.ledger.hasStruck(itsClock|databaseClock|databaseFails|standsStill, lc.workerProcess(l), l.worker, l.delivered) {
		return
	}
	// A message of several dispatches is rejected as a whole. In histories of real servers, that event comes
	// before the claim of each dispatch, where its status allows it.
	if lc.s.tolerance > clockTolerance && e.Limit > 0 {
		return
	}
	wait := oracle.WaitForSlot(&lc.s.config, l.dispatchTimeout)
	lc.s.countOccasion(lc.i)
	if had := e.At - l.arrived; had < wait-wait/driftTolerance {
		lc.s.recordViolation(lc.i, e.Execution, "execution %d was sent back by worker %d at epoch %d after %v; it may wait for a free slot for %v, and its claim for another %v",
			e.Execution, l.worker, e.Epoch, had, wait, l.due-lc.s.databaseTime(e.At))
	}
}

// noteWaitBehindOthers records a dispatch that its worker rejects after it waited there while every slot was
// taken. The worker first reports to the database that it was full, unless it has already done so.
func (lc *lyingChecker) noteWaitBehindOthers(e *history.Event, l *life) {
	// A message that the broker sent to a deaf worker, or over a bad link, may not have arrived yet.
	const hinders = standsStill | itsClock | toDatabase | toBroker | isDeaf | isMute | hasTwin | databaseFails | databaseClock
	w := lc.of.Get(l.incarnation)
	if w == nil || e.Fault != "" || l.status != execution.Scheduled || l.epoch != e.Epoch || l.delivered == 0 ||
		lc.s.stepped >= l.entered || lc.s.ledger.hasStruck(hinders, lc.workerProcess(l), l.worker, l.entered) {
		return
	}
	until := w.slots.fullUntil
	if w.slots.isFull() {
		until = e.At
	}
	// A dispatch waits at the worker only after its delivery.
	if until < l.delivered+lc.s.promptBound() {
		return
	}
	if lc.waited == nil {
		lc.waited = make(map[execution.ID]queueWait)
	}
	lc.waited[l.id] = queueWait{l.epoch, until}
}

// judgeBlame requires that a rejected dispatch that waited behind other runs doesn't count (defect D20).
func (lc *lyingChecker) judgeBlame(e *history.Event, l *life) {
	w, any := lc.waited[e.Execution]
	if !any {
		return
	}
	delete(lc.waited, e.Execution)
	if w.epoch != l.epoch || e.By != execution.DeadLetterHandler && e.By != execution.TimeoutMonitor || lc.s.stepped >= l.entered || lc.s.ledger.hasStruck(databaseClock|databaseFails, "", 0, l.entered) {
		return
	}
	lc.s.countOccasion(lc.i)
	if e.Count > l.dispatches {
		lc.s.recordViolation(lc.i, e.Execution, "execution %d was sent back by worker %d at epoch %d, and its dispatch counts, although every slot there was taken at %v and the message had come at %v: the worker did not report that it was full before it sent the message back",
			e.Execution, l.worker, l.epoch, w.until, l.delivered)
	}
}

// workerProcess returns the process of the worker to which an execution is dispatched, empty if it is
// unknown.
func (lc *lyingChecker) workerProcess(l *life) string {
	if t := lc.s.workers.Get(l.incarnation); t != nil {
		return t.process
	}
	return ""
}

// judgeLateClaims judges the late claims whose message should have been rejected by now. Trouble of the
// worker or the broker postpones the judgement.
func (lc *lyingChecker) judgeLateClaims(now time.Duration) {
	const hinders = standsStill | itsClock | toDatabase | toBroker | isMute | hasTwin | losesQueue | isWithdrawn | brokerFails | databaseFails | databaseClock
	for _, r := range lc.late {
		l := lc.s.lives.Get(r.id)
		if now-r.at <= lc.bound || l == nil || l.epoch != r.epoch || lc.s.ledger.hasStruck(hinders, r.process, r.worker, r.at-lc.bound) {
			continue
		}
		lc.s.recordViolation(lc.i, r.id, "%s was refused its claim of execution %d at epoch %d at %v, because it came too late, and has not rejected the message since; the bound is %v, and until then only the timeout monitor can find it",
			r.process, r.id, r.epoch, r.at, lc.bound)
	}
	lc.late = slices.DeleteFunc(lc.late, func(r lateClaim) bool {
		l := lc.s.lives.Get(r.id)
		return l == nil || l.epoch != r.epoch || now-r.at > 4*lc.bound
	})
}

// longestRest is the longest pause of a worker that could not start an action (core/worker/starts.go). During
// the pause, deliveries wait as if behind other runs.
const longestRest = 30 * time.Second

// judgeTakeBack judges whether an expired dispatch should have counted against its worker: the dispatch
// reached the broker, its time was over by every clock, and the worker was active and idle all that time,
// renewed its lease and could write. If the message came to the worker later, or was stuck in its queue, the
// worker did not leave it unclaimed.
func (lc *lyingChecker) judgeTakeBack(e *history.Event, l *life) {
	byTime := e.Reason == execution.QueueTimeout || e.Reason == execution.DispatchTimeout
	if !byTime || e.By != execution.TimeoutMonitor && e.By != execution.DeadLetterHandler {
		return
	}
	t, w := lc.s.workers.Get(l.incarnation), lc.of.Get(l.incarnation)
	if t == nil || w == nil || t.superseded || t.lifecycle != execution.Active || t.since > l.entered || !l.published ||
		l.arrived > 0 && lc.s.databaseTime(l.arrived) >= l.due-lc.s.tolerance ||
		l.arrived == 0 && lc.s.ledger.hasStruck(losesQueue, t.process, t.worker, l.entered) ||
		lc.s.ledger.hasStruck(isSick, t.process, t.worker, l.entered-longestRest) {
		return
	}
	// A slot becomes free when the answer to the write of the end has come.
	idle := w.claimed == 0 && w.until+lc.s.promptBound() < l.entered && w.doubt < l.entered
	clocks := itsClock | databaseClock | standsStill
	// While the worker can't write, unanswered claims occupy its slots.
	claims := clocks | toDatabase | databaseFails
	// An executor that gets late answers doesn't know how long the dispatch waited, and doesn't count it
	// against the worker. It reads the database's clock when something is late. If one clock has jumped since
	// its last reading, it doesn't know how much time passed before the jump.
	const moved = standsStill | itsClock
	if !idle || lc.s.stepped > 0 || lc.s.ledger.hasStruck(moved, e.Process, 0, 0) || lc.s.setBack > l.entered || lc.s.databaseTime(e.At) < l.due ||
		lc.s.started[e.Process] > l.entered || lc.s.ledger.hasStruck(claims, e.Process, 0, l.entered) || lc.s.ledger.hasStruck(claims, t.process, 0, l.entered-lc.s.config.Worker.StatementTimeout) {
		return
	}
	lc.s.countOccasion(lc.i)
	if e.Count > l.dispatches {
		return
	}
	lc.s.recordViolation(lc.i, e.Execution, "execution %d was taken back by the %v at %v (%v) and its dispatch does not count, although %s has been active since %v, had nothing claimed since the dispatch at %v, and left it lying",
		e.Execution, e.By, e.At, e.Reason, t.process, t.since, l.entered)
}

func (lc *lyingChecker) endRun(bool) { lc.judgeLateClaims(lc.s.now.At) }
