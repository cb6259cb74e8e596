package invariant

import (
	"slices"
	"time"

	"handoff/chaos/history"
	"handoff/chaos/oracle"
	"handoff/core/execution"
)

// handedOn returns invariant 25 (defects D7, D8): an execution that an executor has claimed must not wait
// until another executor detects it.
func handedOn() *Invariant {
	i := &Invariant{
		Number: 25, Name: "handed on within the pass", Conduct: true,
		Statement: "A running executor whose database and broker answer publishes or gives back its scheduling claims within one pass. It marks in time each dispatch that the broker has confirmed and no worker has claimed. A claim marks its dispatch.",
		Needs:     []history.Kind{history.Transition, history.Published, history.ProcessStarted},
		Whole:     []history.Kind{history.PublishedMarked},
		Part:      "only that everything is published or given back; an audit does not record marks",
	}
	i.make = func(s *Suite) checker {
		return &handedOnChecker{i: i, s: s, hung: make(map[string][]time.Duration), unheard: make(map[dispatchRoute]time.Duration)}
	}
	return i
}

type handedOnChecker struct {
	i      *Invariant
	s      *Suite
	agenda agenda
	// unmarked holds the dispatches that must be marked or claimed, each with its deadline.
	unmarked agenda
	// hung holds, for each executor, when it committed dispatches that it then sent to a hanging queue: in
	// order, and without times older than hungFor.
	hung map[string][]time.Duration
	// unheard is when each executor last sent a dispatch to the hanging queue of each worker.
	unheard map[dispatchRoute]time.Duration
}

// dispatchRoute is the route of an executor's dispatches to a worker.
type dispatchRoute struct {
	executor string
	worker   execution.WorkerID
}

// observedKinds implements timed.
func (h *handedOnChecker) observedKinds() []history.Kind {
	return []history.Kind{history.Transition, history.Published, history.PublishedMarked}
}

func (*handedOnChecker) isTimedChecker() {}

func (h *handedOnChecker) observeEvent(e *history.Event, l *life) {
	for l, due := h.agenda.nextDue(h.s, e.At); due; l, due = h.agenda.nextDue(h.s, e.At) {
		h.judgeUnchanged(l, e.At)
	}
	for l, due := h.unmarked.nextDue(h.s, e.At); due; l, due = h.unmarked.nextDue(h.s, e.At) {
		h.judgeUnmarked(l, e.At)
	}
	if l != nil {
		h.judgeMark(e, l)
		if e.Kind == history.Published && l.status == execution.Scheduled && l.epoch == e.Epoch && h.s.queueStuck(l) {
			h.unheard[dispatchRoute{e.Process, l.worker}] = e.At
			if l.by == e.Process {
				h.noteHang(e.Process, l.entered)
			}
		}
	}
	if e.Kind == history.Transition && (e.To == execution.Scheduling || e.To == execution.Scheduled) && h.isClear(e.Process, e.To, h.s.recoveryStart(e.At)) {
		h.s.countOccasion(h.i)
		h.agenda.scheduleCheck(h.s, e.At+h.s.promptBound(), e.Execution, e.Epoch, e.To)
		if e.To == execution.Scheduled && h.s.recordsKind(history.PublishedMarked) {
			h.unmarked.scheduleCheck(h.s, e.At+h.s.promptBound()+oracle.MarkedWithin(&h.s.config), e.Execution, e.Epoch, e.To)
		}
	}
}

// isClear reports whether an executor that claimed or dispatched an execution had no trouble at or after
// from.
func (h *handedOnChecker) isClear(executor string, in execution.Status, from time.Duration) bool {
	r := &h.s.roads
	x := r.byName[executor]
	return x.isClear(from) && !x.worker && r.serversClear(from) && (in != execution.Scheduled || !r.dispatches.presentSince(from))
}

// hungFor is longer than the time after which any dispatch is judged here.
const hungFor = time.Minute

// noteHang records that a dispatch, committed at the time at, was sent to a queue that hangs.
func (h *handedOnChecker) noteHang(executor string, at time.Duration) {
	all := slices.DeleteFunc(h.hung[executor], func(of time.Duration) bool { return of < at-hungFor })
	if i, known := slices.BinarySearch(all, at); !known {
		all = slices.Insert(all, i, at)
	}
	h.hung[executor] = all
}

// waitsUntil returns until when an executor may keep a claim because its pass waits for a queue that hangs, 0
// if it doesn't wait. A pass first publishes the executions that it has placed, and then releases the rest.
func (h *handedOnChecker) waitsUntil(l *life) time.Duration {
	if all := h.hung[l.by]; len(all) > 0 && all[len(all)-1] >= l.entered {
		return l.entered + h.s.promptBound() + stuckWait
	}
	return 0
}

// oldestConfirm is how long a session waits for the confirm of a publish before the session is ended
// (docs/queues.md, "A broker that is half well").
const oldestConfirm = 30 * time.Second

// isQueueShut reports whether the executor of a dispatch could not yet know that the worker's queue answers.
// An executor sends nothing to a queue while a publish there waits for its confirm (docs/queues.md, "A broker
// that is half well"). After the hang, the broker first stores the messages that waited, and the confirm then
// arrives within one reaction. The reconciler publishes the rest; invariant 12 bounds that.
func (h *handedOnChecker) isQueueShut(l *life) bool {
	sent, any := h.unheard[dispatchRoute{l.by, l.worker}]
	return any && sent >= l.entered-oldestConfirm-h.s.promptBound() && h.s.queueStuckSince(l, l.entered-h.s.promptBound())
}

// judgeUnchanged judges an execution that was claimed or dispatched a while ago and still has that status.
func (h *handedOnChecker) judgeUnchanged(l *life, now time.Duration) {
	switch {
	case !h.isClear(l.by, l.status, h.s.recoveryStart(l.entered)):
	case l.status == execution.Scheduling && now <= h.waitsUntil(l):
		h.agenda.scheduleCheck(h.s, h.waitsUntil(l), l.id, l.epoch, l.status)
	case l.status == execution.Scheduling:
		h.s.recordViolation(h.i, l.id, "execution %d, epoch %d, was claimed for scheduling by %s at %v, which neither dispatched it nor gave it back within %v", l.id, l.epoch, l.by, l.entered, h.s.promptBound())
	case !l.published && !l.returned && !h.s.queueStuck(l) && !h.isQueueShut(l) && !h.s.roads.gaveUp(l.by, l.entered-h.s.promptBound()):
		h.s.recordViolation(h.i, l.id, "execution %d, epoch %d, was scheduled by %s at %v, which did not publish it within %v", l.id, l.epoch, l.by, l.entered, h.s.promptBound())
	}
}

// judgeMark requires that a claim marks its dispatch as published, and that apart from claims only scheduled
// executions are marked. A mark that outlives its dispatch prevents the next dispatch from being republished.
func (h *handedOnChecker) judgeMark(e *history.Event, l *life) {
	switch {
	case e.Kind == history.PublishedMarked:
		h.s.countOccasion(h.i)
		if l.status != execution.Scheduled || l.epoch != e.Epoch {
			h.s.recordViolation(h.i, l.id, "execution %d is marked by %s as published at epoch %d, and is %v at epoch %d: the next dispatch counts as sent before it is", l.id, e.Process, e.Epoch, l.status, l.epoch)
		}
	case e.Kind == history.Transition && e.To == execution.Running && h.s.recordsKind(history.PublishedMarked):
		h.s.countOccasion(h.i)
		if !l.marked {
			h.s.recordViolation(h.i, l.id, "execution %d, epoch %d, was claimed by %s, and is not marked as published: who reads the row can't tell that its dispatch was received", l.id, l.epoch, e.Process)
		}
	}
}

// judgeUnmarked judges a dispatch that has been unclaimed for longer than its executor may take to mark it.
// The confirms of one step arrive together, after the executor has waited for the confirms of a queue that
// hangs. If the executor gives up its session, they don't arrive.
func (h *handedOnChecker) judgeUnmarked(l *life, now time.Duration) {
	// A row that a foreign session has locked since can't be marked.
	if !l.published || l.returned || l.marked || l.hidden || l.shown > l.entered || h.s.queueStuck(l) || !h.isClear(l.by, l.status, h.s.recoveryStart(l.entered)) || h.s.roads.gaveUp(l.by, l.entered) {
		return
	}
	within := h.s.promptBound() + oracle.MarkedWithin(&h.s.config)
	if slices.ContainsFunc(h.hung[l.by], func(at time.Duration) bool { return (at - l.entered).Abs() <= h.s.promptBound()-callTime }) {
		within += stuckWait
	}
	if now <= l.entered+within {
		h.unmarked.scheduleCheck(h.s, l.entered+within, l.id, l.epoch, l.status)
		return
	}
	h.s.recordViolation(h.i, l.id, "execution %d, epoch %d, was scheduled by %s at %v, and its message was published; nobody has claimed it, and %s has not marked it within %v", l.id, l.epoch, l.by, l.entered, l.by, within)
}

func (h *handedOnChecker) endRun(bool) {}
