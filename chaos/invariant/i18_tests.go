package invariant

import (
	"time"

	"handoff/chaos/history"
	"handoff/chaos/oracle"
	"handoff/core/broker"
	"handoff/core/execution"
)

// This file is the part of invariant 18 about how often executors test the dead letter path, and about writes
// that the executor must know to be refused.

// canaryPeriod is the interval at which an executor tests the dead letter path. canaryTakes is the maximum
// duration of a test.
const (
	canaryPeriod = 5 * time.Minute
	canaryTakes  = 10 * time.Second
)

// canaryTest is the last test of the dead letter path by one executor.
type canaryTest struct {
	// began is when the test began, and latest when its last message was sent.
	began, latest time.Duration
}

// judgeCanary judges whether a test of the dead letter path follows the previous test too soon. Executors
// test at their start and once a period. A test may come sooner after an unreadable message or any trouble,
// and at each look for idle queues.
func (wc *workChecker) judgeCanary(e *history.Event) {
	p := wc.s.roads.byName[e.Process]
	if p == nil || p.worker {
		return
	}
	last := wc.tests[e.Process]
	if last != nil && e.At-last.latest <= canaryTakes {
		last.latest = e.At
		return
	}
	wc.tests[e.Process] = &canaryTest{began: e.At, latest: e.At}
	if last == nil || !wc.isUndisturbed(last.began) || !p.isClear(last.began) || wc.unread.presentSince(last.began-canaryPeriod) {
		return
	}
	if wc.anyWorkerRetired(last.began-canaryTakes, e.At) {
		return
	}
	wc.s.countOccasion(wc.i)
	if took := e.At - last.began; took < canaryPeriod-clockDrift(canaryPeriod) {
		wc.s.recordViolation(wc.i, 0, "%s tested the dead letter path at %v and again %v later, although nothing was wrong meanwhile; it does so every %v", e.Process, last.began, took, canaryPeriod)
	}
}

// anyWorkerRetired reports whether, between from and at, an executor may have looked at the queues of a
// worker that had been gone for the queues' retention.
func (wc *workChecker) anyWorkerRetired(from, at time.Duration) bool {
	for _, t := range wc.s.workers.All() {
		until := at
		if t.superseded {
			until = t.supersededA
		}
		if oracle.Gone(t.lifecycle) && until >= from && wc.elapsedSince(t.renewed, until) >= wc.s.config.Executor.QueueRetention {
			return true
		}
	}
	return false
}

// judgeMissingCanary judges whether an executor tests the dead letter path at all. A test declares separate
// queues before it sends a message. While the broker creates no queue, every attempt ends before its first
// message, and the history shows no test. A hostile header can cause this minutes after the fault that sent
// it.
func (wc *workChecker) judgeMissingCanary(process string, now time.Duration) {
	last, within := wc.tests[process], canaryPeriod+clockDrift(canaryPeriod)+canaryTakes+2*wc.s.promptBound()
	p := wc.s.roads.byName[process]
	if last == nil || now-last.began <= within || !wc.isUndisturbed(last.began) || !p.isClear(last.began) {
		return
	}
	if wc.s.ledger.hasStruck(makesNoQueue, "", 0, now) {
		return
	}
	wc.s.countOccasion(wc.i)
	wc.s.recordViolation(wc.i, 0, "%s tested the dead letter path at %v, and has not done so again at %v; it does so every %v", process, last.began, now, canaryPeriod)
}

// isUndisturbed reports whether nothing has gone wrong anywhere since from, nor in the recovery time before
// it. What a fault leaves behind in the broker may hinder a test long afterwards.
func (wc *workChecker) isUndisturbed(from time.Duration) bool {
	from = wc.s.recoveryStart(from)
	return wc.faults == 0 && (wc.faultOver == 0 || wc.faultOver < from) && wc.s.roads.serversClear(from)
}

// judgeRefusedWrite judges an executor's write that matched no row. Another process may have changed the row
// after the executor read it, but only within the time of a few calls.
func (wc *workChecker) judgeRefusedWrite(e *history.Event, l *life) {
	switch e.By {
	case execution.DeadLetterHandler, execution.TimeoutMonitor, execution.Reconciler, execution.Scheduler:
	default:
		return
	}
	from := e.At - 2*wc.s.promptBound()
	if p := wc.s.roads.byName[e.Process]; !p.isClear(wc.s.recoveryStart(from)) || !wc.s.roads.serversClear(wc.s.recoveryStart(from)) {
		return
	}
	wc.s.countOccasion(wc.i)
	over := false
	since := from
	switch {
	case l != nil:
		since = l.entered
		over = since < from
	default:
		over = wc.handled.At(e.Execution) == nil
	}
	if over {
		wc.s.recordViolation(wc.i, e.Execution, "%s wrote to epoch %d of execution %d for the %v, and was refused: its row had changed by %v, and a process that read it after that would know", e.Process, e.Epoch, e.Execution, e.By, since)
	}
}

// rememberHandledEnd records that an execution's end was handled, and forgets that after two prompt bounds.
func (wc *workChecker) rememberHandledEnd(e *history.Event) {
	wc.handled.Set(e.Execution, true)
	wc.recent.add(watchEntry{at: e.At + 2*wc.s.promptBound(), id: e.Execution})
	for w, any := wc.recent.first(); any && w.at < e.At; w, any = wc.recent.first() {
		wc.recent.drop()
		wc.handled.Delete(w.id)
	}
}

// isCanary reports whether a message tests the dead letter path.
func isCanary(e *history.Event) bool { return broker.Type(e.Type) == broker.DeadLetterCanary }
