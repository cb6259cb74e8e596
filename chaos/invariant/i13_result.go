package invariant

import (
	"slices"
	"time"

	"handoff/chaos/history"
	"handoff/chaos/oracle"
	"handoff/core/execution"
)

// ownResult returns invariant 13 (defects D4, D13).
func ownResult() *Invariant {
	i := &Invariant{
		Number: 13, Name: "the run's own result",
		Statement: "The stored result is the one that the owning run computed. No execution is stored as completed unless its run completed. A worker does not report as lost a run that still goes on or has ended by itself. A worker that ends an action gives it the kill grace. It reports the true reason for the end. The message of an action's own failure begins with its exit status or its text. It says that no retry follows and why if retries are left and the reason allows none. No result is refused while its row waits for it. A result waits at most 2 ms for others to be written with it, and not beyond the fence. A process registers again only when its results are written.",
		Needs:     []history.Kind{history.Transition, history.ActionStarted, history.ActionEnded},
	}
	i.make = func(s *Suite) checker {
		return &resultChecker{i: i, s: s, asked: make(map[execution.ID]endRequest)}
	}
	return i
}

// runExit describes how the latest run of an unfinished execution ended.
type runExit struct {
	epoch  execution.Epoch
	to     execution.Status
	reason execution.Reason
	// code is the exit code of a failure, 0 if the action named its reason itself.
	code  uint8
	known bool
}

type resultChecker struct {
	i *Invariant
	s *Suite
	// asked is the first request to end each run.
	asked map[execution.ID]endRequest
}

// endRequest is a worker's request to end an action.
type endRequest struct {
	epoch execution.Epoch
	grace time.Duration
	at    time.Duration
}

// observedKinds implements selective.
func (r *resultChecker) observedKinds() []history.Kind {
	return []history.Kind{history.ActionEnded, history.Transition, history.EndAsked, history.RefusedResult, history.WorkerRegistered}
}

func (r *resultChecker) observeEvent(e *history.Event, l *life) {
	switch e.Kind {
	case history.ActionEnded:
		if l != nil && !oracle.Terminal(l.status) {
			l.ran = runExit{e.Epoch, e.To, e.Reason, uint8(e.Count), true} //nolint:gosec // exit codes end at 255
		}
	case history.Transition:
		if oracle.Claimed(e.From) && e.By == execution.Worker && oracle.Terminal(e.To) {
			r.judgeResult(e, l)
		}
		if oracle.Terminal(e.To) {
			delete(r.asked, e.Execution)
			if l != nil {
				l.ran = runExit{}
			}
		}
	case history.EndAsked:
		if old, known := r.asked[e.Execution]; l != nil && !oracle.Terminal(l.status) && (!known || old.epoch != e.Epoch) {
			r.asked[e.Execution] = endRequest{e.Epoch, e.Due, e.At}
		}
	case history.RefusedResult:
		if l != nil {
			r.judgeRefusal(e, l)
		}
	case history.WorkerRegistered:
		r.judgeReregistration(e)
	default:
	}
}

// judgeRefusal judges a result that the database refused because the row no longer belonged to its run.
func (r *resultChecker) judgeRefusal(e *history.Event, l *life) {
	r.s.countOccasion(r.i)
	if oracle.Claimed(l.status) && l.epoch == e.Epoch && l.incarnation == e.Incarnation {
		r.s.recordViolation(r.i, e.Execution, "the result of execution %d (%v) was refused at epoch %d to incarnation %d, whose run it still is", e.Execution, e.To, e.Epoch, e.Incarnation)
	}
}

// judgeReregistration judges a process that registers again after its start. Registering releases everything
// that the old incarnation holds, so the results of all its ended runs must be written before that.
func (r *resultChecker) judgeReregistration(e *history.Event) {
	old := r.previousIncarnation(e)
	if old == 0 {
		return
	}
	r.s.countOccasion(r.i)
	var given *life
	for _, l := range r.s.lives.All() {
		if l.incarnation == old && oracle.Claimed(l.status) && l.started > 0 && l.running == 0 && (given == nil || l.id < given.id) {
			given = l
		}
	}
	if given != nil {
		r.s.recordViolation(r.i, given.id, "%s registered as incarnation %d while its incarnation %d still had execution %d, whose run at epoch %d has ended: its result was not written before",
			e.Process, e.Incarnation, old, given.id, given.epoch)
	}
}

// previousIncarnation returns the last incarnation of the same worker that the same process has registered
// since its start, 0 if there is none.
func (r *resultChecker) previousIncarnation(e *history.Event) execution.Incarnation {
	for _, n := range slices.Backward(r.s.registered.Get(e.Worker)) {
		t := r.s.workers.Get(n)
		if t == nil || n >= e.Incarnation || t.worker != e.Worker {
			continue
		}
		if t.joined < r.s.started[e.Process] {
			return 0
		}
		if t.process == e.Process {
			return n
		}
	}
	return 0
}

// judgeKillGrace requires that an action that timed out, was cancelled or was ended for a stop got its kill
// grace. An action of a lost execution gets none, and at the fence only the rest of the lease is left.
func (r *resultChecker) judgeKillGrace(e *history.Event) {
	a, asked := r.asked[e.Execution]
	if !asked || a.epoch != e.OldEpoch || e.Reason != execution.RunTimeout && e.Reason != execution.WorkerShutdown && e.Reason != execution.CancelRequested {
		return
	}
	r.s.countOccasion(r.i)
	if want := r.s.config.Worker.KillGrace; a.grace < want {
		r.s.recordViolation(r.i, e.Execution, "%s ended execution %d (%v) with %v between the request at %v and the kill; its kill grace is %v",
			e.Process, e.Execution, e.Reason, a.grace, a.at, want)
	}
}

func (r *resultChecker) judgeResult(e *history.Event, l *life) {
	r.s.countOccasion(r.i)
	r.judgeKillGrace(e)
	var x runExit
	if l != nil {
		x = l.ran
	}
	ended := x.known && x.epoch == e.OldEpoch
	byItself := ended && x.to != execution.Cancelled
	switch {
	case e.Reason == execution.WorkerLost && l != nil && l.running > 0 && l.started > 0:
		r.s.recordViolation(r.i, e.Execution, "execution %d is stored as %v (%v) by %s, and its run at epoch %d goes on", e.Execution, e.To, e.Reason, e.Process, e.OldEpoch)
	case e.To == execution.Completed && (!byItself || x.to != execution.Completed):
		r.s.recordViolation(r.i, e.Execution, "execution %d is stored as completed by %s, and its run at epoch %d did not complete", e.Execution, e.Process, e.OldEpoch)
	case e.To == execution.Failed && byItself && x.to == execution.Completed:
		r.s.recordViolation(r.i, e.Execution, "execution %d is stored as failed (%v) by %s, and its run at epoch %d has completed", e.Execution, e.Reason, e.Process, e.OldEpoch)
	case e.To == execution.Failed && byItself && e.Reason != x.reason:
		r.s.recordViolation(r.i, e.Execution, "execution %d is stored as failed for %v by %s, and its run at epoch %d failed for %v%s", e.Execution, e.Reason, e.Process, e.OldEpoch, x.reason, x.codePhrase())
	case e.To == execution.Cancelled && byItself:
		r.s.recordViolation(r.i, e.Execution, "execution %d is stored as cancelled by %s, and its run at epoch %d has ended by itself", e.Execution, e.Process, e.OldEpoch)
	case e.To == execution.Timeout && byItself:
		r.s.recordViolation(r.i, e.Execution, "execution %d is stored as timed out by %s, and its run at epoch %d has ended by itself", e.Execution, e.Process, e.OldEpoch)
	case e.To == execution.Failed && byItself:
		r.judgeMessage(e, l, x)
	}
}

func (r *resultChecker) endRun(bool) {}
