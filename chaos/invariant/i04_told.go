package invariant

import (
	"maps"
	"time"

	"handoff/chaos/history"
	"handoff/core/execution"
)

// This file is the part of invariant 4 about a worker that learns that its incarnation is over (defects D12,
// D14). Whichever reply reports this, the worker must end its actions immediately, because another worker may
// be about to run the same executions. Only the simulated world reports the answers to calls.

// goneNotice is the first reply that notified a process that its incarnation is over.
type goneNotice struct {
	process string
	at      time.Duration
}

// observeNotice notes which processes were notified of the end of their incarnation, and which have ended.
func (src *singleRunChecker) observeNotice(e *history.Event) {
	if len(src.goneNotices) > 0 {
		src.judgeGoneIncarnations(e.At)
	}
	switch e.Kind {
	case history.ToldGone:
		if _, known := src.goneNotices[e.Incarnation]; !known {
			src.goneNotices[e.Incarnation] = goneNotice{e.Process, e.At}
		}
		if e.Count > 0 {
			src.supersededProcesses[e.Process] = e.Worker
		}
	case history.ProcessStarted, history.ProcessCrashed, history.ProcessStopped:
		delete(src.supersededProcesses, e.Process)
		src.forgetNotices(e.Process)
	case history.ProcessPaused, history.ProcessFrozen:
		// A halted process can't end its actions; its machine ends them at the fence.
		src.forgetNotices(e.Process)
	case history.WorkerRegistered:
		if worker, known := src.supersededProcesses[e.Process]; known && worker == e.Worker {
			src.s.recordViolation(src.i, 0, "%s registered as incarnation %d of worker %d after it was told that another process has taken that name", e.Process, e.Incarnation, e.Worker)
		}
	default:
	}
	if len(src.goneNotices) > 0 {
		src.s.wakeAt(e.At)
	}
}

// forgetNotices removes the notices of a process.
func (src *singleRunChecker) forgetNotices(process string) {
	maps.DeleteFunc(src.goneNotices, func(_ execution.Incarnation, t goneNotice) bool { return t.process == process })
}

// judgeGoneIncarnations judges whether the actions of incarnations that are over have ended in time.
func (src *singleRunChecker) judgeGoneIncarnations(now time.Duration) {
	for of, t := range src.goneNotices { //detlint:ok each is judged by itself, and of several the first violation is found in one step
		if now-t.at <= src.s.promptBound() {
			continue
		}
		delete(src.goneNotices, of)
		if src.frozen[t.process] {
			continue
		}
		src.s.countOccasion(src.i)
		var left *liveAction
		for _, live := range src.running.All() {
			for k := range live {
				if a := &live[k]; a.of == of && a.machine == t.process && (left == nil || a.execution < left.execution) {
					left = a
				}
			}
		}
		if left != nil {
			src.s.recordViolation(src.i, left.execution, "%s was told at %v that its incarnation %d is over, and its action of execution %d at epoch %d, begun at %v, still ran %v later",
				t.process, t.at, of, left.execution, left.epoch, left.since, now-t.at)
		}
	}
}
