package invariant

import (
	"cmp"
	"slices"
	"time"

	"handoff/chaos/history"
	"handoff/chaos/oracle"
	"handoff/core/execution"
)

// promptWakes returns invariant 26 (defects D22, D46): messages are hints, and a process acts on a hint that
// has arrived.
func promptWakes() *Invariant {
	i := &Invariant{
		Number: 26, Name: "wakes are acted on", Conduct: true, Across: true,
		Statement: "While nothing is wrong on the way, an end is handled, a child is started and a due execution goes to a worker with room at once. None of them waits for the next periodic look. The writer of a claim, an end or a request to end a run publishes one correct hint about it at once.",
		Needs:     []history.Kind{history.Transition, history.Orchestrated, history.WorkerRegistered, history.WorkerLifecycle, history.HeartbeatRenewed, history.ProcessStarted},
	}
	i.make = func(s *Suite) checker {
		return &wakeChecker{i: i, roster: newRoster(s), limited: make(map[string]bool), blamed: make(map[execution.WorkerID]time.Duration), deep: make(map[execution.WorkerID]time.Duration), hints: newHintChecker(i, s)}
	}
	return i
}

type wakeChecker struct {
	roster
	i      *Invariant
	agenda agenda
	// rooms holds the checks of workers that got room, the earliest first.
	rooms []capacityCheck
	// limited holds the actions with a concurrency limit. Their executions may wait for a slot.
	limited map[string]bool
	// blamed is when a failure or dispatch was last counted against each worker. While it counts, the worker
	// may be the last choice.
	blamed map[execution.WorkerID]time.Duration
	// deep is when each worker last had too many waiting dispatches, so that executors consider it unhealthy.
	// Executors detect the end of that state with their next periodic look.
	deep  map[execution.WorkerID]time.Duration
	hints *hintChecker
}

// capacityCheck is a check of a worker, made at the time at if the worker has had room all along from since.
type capacityCheck struct {
	at, since time.Duration
	w         *candidate
}

// observedKinds implements selective.
func (wc *wakeChecker) observedKinds() []history.Kind {
	return []history.Kind{
		history.ActionDefined, history.HealthReported, history.Created, history.ChildStarted, history.Orchestrated,
		history.WorkerLifecycle, history.WorkerRegistered, history.HeartbeatRenewed, history.WorkerCordoned,
		history.ProcessStarted, history.Hinted, history.Transition,
	}
}

func (wc *wakeChecker) isTimedChecker() {}

func (wc *wakeChecker) observeEvent(e *history.Event, l *life) {
	wc.checkDue(e.At)
	wc.hints.observeEvent(e, l)
	wc.s.wakeAt(wc.hints.nextCheck())
	wc.observeWorkers(e)
	switch e.Kind {
	case history.ActionDefined:
		wc.limited[e.Action] = e.Count > 0
	case history.HealthReported:
		if e.Limit > 0 || e.Count > 0 {
			wc.blamed[e.Worker] = e.At
		}
	case history.Created:
		wc.checkWhenDue(e, e.At)
	case history.ChildStarted:
		wc.checkWhenDue(e, e.At)
	case history.Orchestrated:
		if e.Related == 0 {
			wc.checkChildren(e)
		}
	case history.WorkerLifecycle:
		if w := wc.byIncarnation.Get(e.Incarnation); w != nil && e.Lifecycle == execution.Active {
			wc.checkRoom(w, e.At, wc.s.config.Executor.ReconcileInterval)
		}
	case history.Transition:
		wc.judgeTransition(e, l)
	case history.WorkerRegistered, history.HeartbeatRenewed, history.WorkerCordoned, history.ProcessStarted, history.Hinted:
		// The roster and hintChecker have already handled the event.
	default:
	}
}

func (wc *wakeChecker) judgeTransition(e *history.Event, l *life) {
	if w := wc.byIncarnation.Get(e.Incarnation); w != nil {
		before, deep := w.roomSince, wc.isTooDeep(w)
		if w.countRelease(e); before == never && w.roomSince != never {
			wc.checkRoom(w, e.At, 0)
		}
		if e.To == execution.Scheduled {
			w.countDispatch(e.At)
		}
		if deep || wc.isTooDeep(w) {
			wc.deep[w.worker] = e.At
		}
		if e.From == execution.Scheduled && l != nil && e.Count > l.dispatches {
			wc.blamed[w.worker] = e.At
		}
	}
	switch {
	case oracle.Terminal(e.To) && wc.isPathClear(e.Process, wc.s.recoveryStart(e.At)):
		wc.s.countOccasion(wc.i)
		wc.agenda.scheduleCheck(wc.s, e.At+wc.s.promptBound(), e.Execution, e.Epoch, e.To)
	case e.To == execution.Requested:
		wc.checkWhenDue(e, e.At)
	}
}

// isTooDeep reports whether executors consider a worker unhealthy because too many dispatches wait there.
// Invariant 9 judges whether such a worker may get work that is not pinned to it.
func (wc *wakeChecker) isTooDeep(w *candidate) bool {
	h := &wc.s.config.Health
	return h.Enabled && w.waiting >= h.QueueDepthUnhealthy
}

// isPathClear reports whether hints from a process to the executors met no trouble at or after from.
func (wc *wakeChecker) isPathClear(process string, from time.Duration) bool {
	p := wc.s.roads.byName[process]
	return wc.s.roads.hintsArrive(from) && (p == nil || p.isClear(from))
}

// checkWhenDue schedules a check of an execution for one prompt bound after it is due for a worker.
func (wc *wakeChecker) checkWhenDue(e *history.Event, at time.Duration) {
	if wc.s.roads.hintsArrive(wc.s.recoveryStart(at)) {
		wc.agenda.scheduleCheck(wc.s, max(at, e.Due-wc.s.skew)+wc.s.promptBound(), e.Execution, e.Epoch, execution.Requested)
	}
}

// checkRoom schedules a check of a worker for two prompt bounds plus more after the worker got room.
func (wc *wakeChecker) checkRoom(w *candidate, at, more time.Duration) {
	if !wc.s.roads.hintsArrive(wc.s.recoveryStart(at)) {
		return
	}
	r := capacityCheck{at: at + more + 2*wc.s.promptBound(), since: at, w: w}
	i, _ := slices.BinarySearchFunc(wc.rooms, r, func(a, b capacityCheck) int { return cmp.Compare(a.at, b.at) })
	wc.rooms = slices.Insert(wc.rooms, i, r)
	wc.s.wakeAt(r.at)
}

// checkChildren schedules checks of the children that must be settled after the end of a chain.
func (wc *wakeChecker) checkChildren(e *history.Event) {
	for _, id := range wc.s.orphans.waiting[e.Chain] {
		wc.agenda.scheduleCheck(wc.s, e.At+wc.s.promptBound(), id, 0, execution.Requested)
	}
}

func (wc *wakeChecker) checkDue(now time.Duration) {
	for l, due := wc.agenda.nextDue(wc.s, now); due; l, due = wc.agenda.nextDue(wc.s, now) {
		wc.judgeUnchanged(l, now)
	}
	for len(wc.rooms) > 0 && wc.rooms[0].at <= now {
		r := wc.rooms[0]
		if wc.rooms = wc.rooms[1:]; r.w.roomSince == r.since {
			wc.judgeLeftOut(r.w, now)
		}
	}
	if len(wc.rooms) > 0 {
		wc.s.wakeAt(wc.rooms[0].at)
	}
}

// judgeUnchanged judges an execution that has been unchanged for as long as a reaction may take.
func (wc *wakeChecker) judgeUnchanged(l *life, now time.Duration) {
	switch {
	case l.hidden:
		// No executor can act on an unreadable row, and no message announces that it has become readable.
	case oracle.Terminal(l.status):
		if l.orchestrated || l.shown > l.entered || wc.s.isKnownFinding(wc.i, l.id) || !wc.isPathClear(l.by, wc.s.recoveryStart(l.entered)) {
			return
		}
		if more := l.entered + wc.s.promptBound() + wc.endsAhead(l)*passTime; now <= more {
			wc.agenda.scheduleCheck(wc.s, more, l.id, l.epoch, l.status)
		} else {
			wc.s.recordViolation(wc.i, l.id, "execution %d is %v since %v, and nobody has handled its end within %v", l.id, l.status, l.entered, wc.s.promptBound())
		}
	case l.orphan:
		if more := l.parentEnded + time.Duration(l.ahead+1)*wc.s.promptBound(); now <= more {
			wc.agenda.scheduleCheck(wc.s, more, l.id, l.epoch, l.status)
		} else if wc.s.roads.hintsArrive(wc.s.recoveryStart(l.parentEnded)) {
			wc.s.countOccasion(wc.i)
			wc.s.recordViolation(wc.i, l.id, "execution %d waits for its parent, execution %d, whose end was handled at %v", l.id, l.parent, l.parentEnded)
		}
	case wc.waitsForWorker(l, now):
		wc.s.countOccasion(wc.i)
		for _, w := range wc.candidates {
			if wc.canTake(w, l, now) {
				wc.judgeWaiting(l, w, now)
				return
			}
		}
	}
}

// judgeLeftOut judges the executions that wait while a worker has room.
func (wc *wakeChecker) judgeLeftOut(w *candidate, now time.Duration) {
	var first *life
	for _, l := range wc.s.lives.All() {
		if l.status == execution.Requested && (first == nil || l.id < first.id) && wc.waitsForWorker(l, now) && wc.canTake(w, l, now) {
			first = l
		}
	}
	wc.s.countOccasion(wc.i)
	if first != nil {
		wc.judgeWaiting(first, w, now)
	}
}

// endsAhead returns the number of full batches of ends that precede an execution's end: ends that wait
// together with it, and ends that executors have handled since it was written.
func (wc *wakeChecker) endsAhead(l *life) time.Duration {
	n := wc.s.endsHandled - l.endsBefore
	for _, o := range wc.s.lives.All() {
		if o != l && oracle.Terminal(o.status) && !o.orchestrated && o.entered <= l.entered {
			n++
		}
	}
	return time.Duration(n / max(1, wc.s.config.Executor.BatchSize))
}

// passTime is longer than the time that an executor takes to dispatch a batch, or to handle a batch of ends.
const passTime = 100 * time.Millisecond

// stuckWait is longer than the time that a pass of the scheduler waits for a hanging queue's confirm
// (docs/queues.md, "A broker that is half well"). After that wait, the scheduler sends nothing more there.
const stuckWait = 1500 * time.Millisecond

// judgeWaiting judges an execution that waits although a worker has room. An execution with more than one
// batch ahead of it may wait for one pass per batch, and one pass may wait for each queue that hangs. An
// executor that has given up its session makes no pass until it has reconnected.
func (wc *wakeChecker) judgeWaiting(l *life, w *candidate, now time.Duration) {
	more := wc.knownSince(l) + wc.s.promptBound() + wc.batchesAhead(l)*passTime + wc.s.roads.stuckQueues(wc.knownSince(l))*stuckWait
	if again := wc.s.reconnectBound(); slices.ContainsFunc(wc.s.roads.executors, func(p *road) bool { return p.givenUp.presentSince(wc.knownSince(l) - again) }) {
		more += again
	}
	if now < more {
		wc.agenda.scheduleCheck(wc.s, more, l.id, l.epoch, l.status)
		return
	}
	wc.s.recordViolation(wc.i, l.id, "execution %d is due for a worker since %v and waits at %v although worker %d (incarnation %d) has had room since %v and could be given it since %v; it holds %d of %d",
		l.id, wc.knownSince(l), now, w.worker, w.incarnation, w.roomSince, w.fitSince, w.load, w.capacity)
}

// knownSince returns the earliest time at which executors can know that an execution waits for a worker.
func (wc *wakeChecker) knownSince(l *life) time.Duration {
	since := max(l.entered, l.due-wc.s.skew)
	if l.shown > 0 {
		since = max(since, l.shown+wc.s.config.Executor.ReconcileInterval)
	}
	return since
}

// batchesAhead returns the number of full batches of executions that wait together with an execution, or were
// dispatched since it became due.
func (wc *wakeChecker) batchesAhead(l *life) time.Duration {
	since, n := wc.knownSince(l), 0
	for _, o := range wc.s.lives.All() {
		if o.status == execution.Requested && o.id <= l.id || o.status != execution.Requested && o.entered >= since {
			n++
		}
	}
	return time.Duration(n / max(1, wc.s.config.Executor.BatchSize))
}

// waitsForWorker reports whether an execution has been due for as long as a reaction may take and waits only
// for a worker.
func (wc *wakeChecker) waitsForWorker(l *life, now time.Duration) bool {
	since := wc.knownSince(l)
	return l.status == execution.Requested && !l.hidden && l.parent == 0 && !wc.limited[wc.s.actions[l.action]] && now-since >= wc.s.promptBound() &&
		wc.s.roads.hintsArrive(wc.s.recoveryStart(since)) && wc.isPathClear(l.by, wc.s.recoveryStart(l.entered))
}

// canTake reports whether a worker has been able to take an execution for as long as a reaction to its room
// may take: it is well, and nothing has been wrong with it.
func (wc *wakeChecker) canTake(w *candidate, l *life, now time.Duration) bool {
	prompt, s := wc.s.promptBound(), wc.s
	blamed, was := wc.blamed[w.worker]
	deep, queued := wc.deep[w.worker]
	t := s.workers.Get(w.incarnation)
	// No message announces a new worker: executors look once each reconcile interval.
	return w.worker != l.avoid && (!wc.isTooDeep(w) || l.pinned == w.worker) && (l.pinned == 0 || l.pinned == w.worker) && w.acceptsRuntime(l.runtime, s.databaseTime(now)) &&
		w.roomSince != never && now-w.roomSince >= 2*prompt && now-w.fitSince > s.config.Executor.ReconcileInterval+prompt &&
		(!was || now-blamed > 2*s.config.Health.Window) && (!queued || now-deep > s.config.Executor.ReconcileInterval+2*prompt) && t != nil && s.roads.byName[t.process].isClear(max(s.recoveryStart(w.roomSince), w.fitSince))
}

func (wc *wakeChecker) endRun(bool) {}
