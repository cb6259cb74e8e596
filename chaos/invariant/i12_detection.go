package invariant

import (
	"fmt"
	"slices"
	"time"

	"handoff/chaos/history"
	"handoff/chaos/oracle"
	"handoff/core/broker"
	"handoff/core/execution"
)

// timelyDetection returns invariant 12 (defects D7, D8, D13, D22, D58).
func timelyDetection() *Invariant {
	i := &Invariant{
		Number: 12, Name: "detection in time", Conduct: true,
		Statement: "Each kind of stuck execution is found within its own bound. A part that only observes records it within that bound. The bound counts from the last moment at which a fault could hinder an executor. An executor that nothing hinders finds it within one pass of the part that looks for it.",
		Needs:     []history.Kind{history.Transition, history.HeartbeatRenewed, history.Published, history.Orchestrated},
	}
	i.make = func(s *Suite) checker {
		return &detectionChecker{i: i, s: s, unready: make(sinceByIncarnation), ready: make(sinceByIncarnation), idle: idleQueues{i: i, s: s}, dead: broker.DeadLetterQueue(s.config.MessageQueue.RabbitMQ.DeadLetter.Exchange)}
	}
	return i
}

// detectionChecker schedules a check of each live execution for the next time at which it may be overdue.
type detectionChecker struct {
	i     *Invariant
	s     *Suite
	watch watchQueue
	seq   uint32
	// canceling holds the executions that their worker was asked to end.
	canceling []pendingCancel
	// unready holds since when each worker has reported that it receives no dispatches. ready holds since
	// when each worker with a recorded outage has reported that it receives dispatches.
	unready, ready sinceByIncarnation
	// broken is the number of link faults that have not ended. During such a fault, the reply to a stored
	// renewal may be lost. mended is when the last link fault ended.
	broken int
	mended time.Duration
	idle   idleQueues
	// dead is the name of the dead letter queue, and letters the number of messages in it.
	dead    string
	letters int32
	// unhandled is the number of executions whose end is not handled yet.
	unhandled int32
}

// letterTime is how long an executor may take for each dead letter ahead in the queue.
const letterTime = 20 * time.Millisecond

// ofLinks reports whether a kind of fault can delay a reply to a worker for longer than the worker waits.
func ofLinks(kind string) bool {
	switch kind {
	case "partition", "latency", "slow_link", "reset":
		return true
	}
	return false
}

// pendingCancel is a request to end an execution, with the number of its worker's lease renewals since then.
type pendingCancel struct {
	id       execution.ID
	epoch    execution.Epoch
	owner    execution.Incarnation
	renewals int
	heard    time.Duration
}

// observedKinds implements selective.
func (dc *detectionChecker) observedKinds() []history.Kind {
	return []history.Kind{
		history.FaultBegan, history.FaultEnded, history.HeartbeatRenewed, history.Transition, history.Created, history.Orchestrated,
		history.Enqueued, history.Acked, history.Dropped, history.DeadLettered, history.PublishReturned, history.WorkerLifecycle,
		history.WorkerRegistered, history.Delivered, history.RowUnreadable, history.RowLocked,
	}
}

func (dc *detectionChecker) isTimedChecker() {}

func (dc *detectionChecker) observeEvent(e *history.Event, l *life) {
	dc.checkDue(e.At)
	dc.idle.observeEvent(e)
	dc.s.wakeAt(min(dc.watch.earliestTime(), dc.idle.next))
	switch e.Kind {
	case history.FaultBegan, history.FaultEnded:
		switch {
		case !ofLinks(e.Text):
		case e.Kind == history.FaultBegan:
			dc.broken++
		default:
			dc.broken--
			dc.mended = e.At
		}
	case history.HeartbeatRenewed:
		dc.noteRenewal(e)
		dc.judgeUnrecordedOutage(e)
	case history.Transition:
		dc.canceling = slices.DeleteFunc(dc.canceling, func(a pendingCancel) bool { return a.id == e.Execution })
		if e.To == execution.Canceling {
			dc.canceling = append(dc.canceling, pendingCancel{id: e.Execution, epoch: e.Epoch, owner: e.Incarnation})
		}
		if oracle.Terminal(e.To) && !oracle.Terminal(e.From) && l != nil {
			l.before = dc.unhandled
			dc.unhandled++
		}
		dc.checkSoon(watchEntry{at: e.At + time.Nanosecond, id: e.Execution, epoch: uint16(e.Epoch), in: e.To})
	case history.Created:
		if e.Related != 0 {
			dc.checkSoon(watchEntry{at: e.At + time.Nanosecond, id: e.Execution, in: execution.Requested})
		}
	case history.Orchestrated:
		dc.unhandled = max(0, dc.unhandled-1)
		if e.Related == 0 {
			for _, id := range dc.s.orphans.waiting[e.Chain] {
				dc.checkSoon(watchEntry{at: e.At + time.Nanosecond, id: id, in: execution.Requested})
			}
		}
	case history.Enqueued:
		if e.Queue == dc.dead {
			dc.letters++
		}
	case history.Acked, history.Dropped:
		if e.Queue == dc.dead {
			dc.letters = max(0, dc.letters-1)
		}
	case history.DeadLettered:
		if l != nil && l.epoch == e.Epoch && l.died == 0 {
			l.behind = dc.letters
		}
		dc.hastenChecks(e)
	case history.RowUnreadable, history.RowLocked:
		if e.Count == 0 && l != nil {
			dc.checkSoon(watchEntry{at: e.At + time.Nanosecond, id: l.id, epoch: uint16(l.epoch), in: l.status})
		}
	case history.PublishReturned, history.WorkerLifecycle:
		// These events can only make the deadline of a waiting execution earlier.
		dc.hastenChecks(e)
	case history.WorkerRegistered, history.Delivered:
		// idleQueues has handled it.
	default:
	}
}

// noteRenewal counts a renewal: by the third one, a worker must have learned of a cancellation.
func (dc *detectionChecker) noteRenewal(e *history.Event) {
	for i := range dc.canceling {
		a := &dc.canceling[i]
		if a.owner != e.Incarnation || dc.broken > 0 {
			continue
		}
		if a.renewals++; a.renewals == 3 {
			a.heard = e.At
		}
		if a.heard != 0 {
			// A worker that was away must end the execution within its bound from now on.
			dc.checkSoon(watchEntry{at: e.At + time.Nanosecond, id: a.id, epoch: uint16(a.epoch), in: execution.Canceling})
		}
	}
}

// cancellationLearned returns when the worker of a canceling execution must have learned of the request, 0 if
// it is not certain that it has.
func (dc *detectionChecker) cancellationLearned(id execution.ID) time.Duration {
	for i := range dc.canceling {
		if dc.canceling[i].id == id {
			return dc.canceling[i].heard
		}
	}
	return 0
}

// owedSince returns the time since which a worker could have ended an execution of whose cancellation it must
// have learned; 0 if it need not end it.
//
// During its lease, only the worker can end what it has claimed, so the worker's bound applies while it is
// up. A worker that has stopped, was declared lost or has a successor can't end anything any more. Nor can a
// process that has crashed or is halted, and without the database no worker can write an end. The executors
// reclaim the execution only when the lease has been over for the grace. Their bound always applies. When the
// worker recovers, its own bound counts anew.
func (dc *detectionChecker) owedSince(l *life) time.Duration {
	heard, t := dc.cancellationLearned(l.id), dc.s.workers.Get(l.incarnation)
	if heard == 0 || t == nil {
		return heard
	}
	if _, gone := t.goneSince(); gone || dc.s.roads.byName[t.process].isAway() || dc.s.ledger.causeLasts(toDatabase, t.process) {
		return 0
	}
	return max(heard, dc.s.roads.byName[t.process].lastTrouble())
}

// checkDue checks every execution whose check is due.
func (dc *detectionChecker) checkDue(now time.Duration) {
	for w, due := dc.watch.popDue(now); due; w, due = dc.watch.popDue(now) {
		dc.checkExecution(w, now)
	}
}

// numberEntry numbers entries by age, to distinguish entries for the same execution and time.
func (dc *detectionChecker) numberEntry(w watchEntry) watchEntry {
	dc.seq++
	w.seq = dc.seq
	return w
}

// checkSoon schedules a check of an execution at the next event that is later than this one.
func (dc *detectionChecker) checkSoon(w watchEntry) {
	dc.watch.soon.push(dc.numberEntry(w))
	dc.s.wakeAt(w.at)
}

// hastenChecks schedules checks of the executions whose deadline may be earlier because of an event.
func (dc *detectionChecker) hastenChecks(e *history.Event) {
	if e.Execution != 0 {
		dc.checkSoon(watchEntry{at: e.At + time.Nanosecond, id: e.Execution, epoch: uint16(e.Epoch), in: execution.Scheduled})
		return
	}
	was, soon := dc.s.workers.Get(e.Incarnation), e.At+time.Nanosecond
	if oracle.Gone(e.Lifecycle) && (was == nil || !oracle.Gone(was.lifecycle) && was.looked != soon) {
		// A recorded history may contain any number of losses of a worker at the same time.
		if was != nil {
			was.looked = soon
		}
		for id, l := range dc.s.lives.All() {
			if l.status == execution.Scheduled && l.incarnation == e.Incarnation {
				dc.watch.soon.push(watchEntry{at: soon, id: id, epoch: uint16(l.epoch), in: l.status})
				dc.s.wakeAt(soon)
			}
		}
	}
}

// checkExecution examines an execution: it needs no check, is overdue, or gets a later check.
func (dc *detectionChecker) checkExecution(w watchEntry, now time.Duration) {
	if dc.isStale(w) {
		return
	}
	l := dc.s.lives.Get(w.id)
	deadline, what := dc.earliestDeadline(l, &dc.s.bounds)
	if what == "" {
		return
	}
	// After a fault that may have hindered detection, the bound counts anew.
	bound := deadline.bound
	overdue := max(deadline.since+bound, max(dc.s.hindrances.lastEnd, dc.s.setBack)+bound+deadline.warm)
	if dc.s.hindrances.lasting > 0 {
		overdue = max(overdue, now+time.Second)
	} else {
		dc.s.countOccasion(dc.i)
	}
	if calm, why := dc.earliestDeadline(l, &dc.s.calmBounds); calm.since+calm.bound < overdue && dc.isUnhindered(l, calm) {
		dc.s.countOccasion(dc.i)
		deadline, bound, what, overdue = calm, calm.bound, why, calm.since+calm.bound
	}
	if now <= overdue {
		w.at = overdue + time.Nanosecond
		dc.watch.later.pruneStale(dc.isStale)
		dc.watch.later.push(dc.numberEntry(w))
		return
	}
	dc.s.recordViolation(dc.i, l.id, "execution %d, epoch %d: since %v %s; the bound for that is %v", l.id, l.epoch, deadline.since, what, bound)
}

// isUnhindered reports whether the servers and at least one executor have been unhindered since before the
// problem began. Any executor may hold a dead letter, so for dead letters it requires that of all executors.
func (dc *detectionChecker) isUnhindered(l *life, d deadline) bool {
	from := dc.s.recoveryStart(d.since) - d.warm
	switch {
	case d.bound == unbounded || dc.s.setBack > from:
		return false
	case l.died != 0:
		return dc.s.roads.hintsArrive(from)
	}
	return dc.s.roads.hasClearExecutor(from)
}

// isStale reports whether the execution has changed since this check was scheduled.
func (dc *detectionChecker) isStale(w watchEntry) bool {
	l := dc.s.lives.Get(w.id)
	return l == nil || uint16(l.epoch) != w.epoch || l.status != w.in || l.orchestrated
}

// deadline says since when a state is wrong, how long it may last (bound), and how much longer after a fault
// that hindered an executor (warm).
type deadline struct{ since, bound, warm time.Duration }

// unbounded is longer than any run.
const unbounded = 1_000_000 * time.Hour

// adaptToObserving adapts a deadline that only the timeout monitor watches, if the monitor only observes: it
// must record its observation by the deadline. After that no part is required to end the execution.
func (dc *detectionChecker) adaptToObserving(l *life, d deadline, what string) (deadline, string) {
	switch {
	case !dc.s.monitorObserves():
	case l.observed:
		d.bound = unbounded
	default:
		what += ", and the timeout monitor, which only observes, has not recorded that"
	}
	return d, what
}

// earliestDeadline returns the earliest deadline that applies to an execution in its present state, and what
// is wrong, empty if none applies. None applies while its row is unreadable. After that, the bound counts
// anew.
func (dc *detectionChecker) earliestDeadline(l *life, b *Bounds) (deadline, string) {
	if l.hidden {
		return deadline{}, ""
	}
	d, what := dc.readableDeadline(l, b)
	d.since = max(d.since, l.shown)
	return d, what
}

// readableDeadline does the work of earliestDeadline for an execution whose row can be read.
func (dc *detectionChecker) readableDeadline(l *life, b *Bounds) (deadline, string) {
	switch {
	case l.orphan:
		bound := b.Terminal + time.Duration(l.ahead)*b.ChildBatch
		return deadline{l.parentEnded, bound, 0}, fmt.Sprintf("the end of its parent, execution %d, has been handled, and it still waits", l.parent)
	case l.status == execution.Scheduling:
		return deadline{l.entered, b.Claim, 0}, "it has been claimed for scheduling and not scheduled"
	case l.status == execution.Scheduled:
		return dc.scheduledDeadline(l, b)
	case oracle.Claimed(l.status):
		// Both the database's clock and a clock that never jumps must have passed the deadline: a clock step
		// alone ends no run. The second clock is an executor's, which stops while its machine is frozen.
		over := max(l.due-dc.s.skew, l.due-(l.stamped-l.entered)+dc.s.roads.leastClockStoppage(l.entered, dc.s.now.At))
		best, what := dc.adaptToObserving(l, deadline{over, b.Overrun, b.Warmup}, "it has run past its deadline")
		if t := dc.s.workers.Get(l.incarnation); t != nil {
			since, more := dc.s.fleet.brakeDelay(t.renewed, b)
			if t.superseded {
				// No monitor has watched the last heartbeats. A monitor begins when it reads that the
				// incarnation was superseded.
				since = max(since, t.supersededA)
			}
			if dead := (deadline{since, b.WorkerDead + more, more}); dead.since+dead.bound < best.since+best.bound {
				best, what = dead, "its worker has not renewed its lease"
			}
		}
		if owed := dc.owedSince(l); owed != 0 && owed+b.Cancel < best.since+best.bound {
			best, what = deadline{owed, b.Cancel, 0}, "its worker has known of its cancellation and has not ended it"
		}
		return best, what
	case oracle.Terminal(l.status):
		// A pass handles the oldest ends first, at most mostBatches batches of them.
		x := dc.s.config.Executor
		passes := time.Duration(int(l.before) / (mostBatches * max(1, x.BatchSize)))
		return deadline{l.entered, b.Terminal + passes*x.ReconcileInterval, 0}, "it has been terminal and its end was not handled"
	}
	return deadline{}, ""
}

func (dc *detectionChecker) scheduledDeadline(l *life, b *Bounds) (best deadline, what string) {
	best, what = dc.adaptToObserving(l, deadline{l.entered, b.Unclaimed, b.Warmup}, "it has been scheduled and no worker has claimed it")
	consider := func(d deadline, why string) {
		if d.since+d.bound < best.since+best.bound {
			best, what = d, why
		}
	}
	if !l.published && !l.returned && !dc.s.queueStuck(l) {
		consider(deadline{l.entered, b.Publish, 0}, "it has been scheduled and its message was never published")
	}
	if l.returned && !l.published {
		consider(deadline{since: l.cameBack, bound: b.Publish}, "it has stayed scheduled although its message was returned")
	}
	if l.died != 0 && !l.givenUp {
		before := time.Duration(1 + int(l.behind)/max(1, dc.s.config.Executor.BatchSize))
		consider(deadline{l.died, b.DeadLetter + before*letterTime, 0}, "it has stayed scheduled although its message has died")
	}
	if t := dc.s.workers.Get(l.incarnation); t != nil {
		if since, gone := t.goneSince(); gone {
			consider(deadline{max(since, l.entered), b.OwnerGone, 0}, "it has stayed scheduled at a worker that is gone")
		}
	}
	return best, what
}

// endRun checks every execution whose check is due by the end of the run.
func (dc *detectionChecker) endRun(bool) {
	dc.checkDue(dc.s.now.At)
}
