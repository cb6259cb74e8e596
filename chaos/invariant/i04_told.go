package invariant

import (
	"maps"
	"time"

	"handoff/chaos/history"
	"handoff/core/execution"
)

// This file is the part of invariant 4 about a worker that learns that its incarnation is over
// (defects D12, D14). Whichever call brings this answer, the worker must end its actions at once:
// another worker may be about to run the same executions. Only the simulated world reports the
// answers to calls.

// wordOf is when a process was first told that an incarnation is over, and which process that was.
type wordOf struct {
	process string
	at      time.Duration
}

// hear notes which process is told what, and which process has ended.
func (src *singleRunChecker) hear(e *history.Event) {
	if len(src.told) > 0 {
		src.heed(e.At)
	}
	switch e.Kind {
	case history.ToldGone:
		if _, known := src.told[e.Incarnation]; !known {
			src.told[e.Incarnation] = wordOf{e.Process, e.At}
		}
		if e.Count > 0 {
			src.succeeded[e.Process] = e.Worker
		}
	case history.ProcessStarted, history.ProcessCrashed, history.ProcessStopped:
		delete(src.succeeded, e.Process)
		src.letOff(e.Process)
	case history.ProcessPaused, history.ProcessFrozen:
		// A halted process can't end anything; its machine ends the actions by the fence.
		src.letOff(e.Process)
	case history.WorkerRegistered:
		if worker, known := src.succeeded[e.Process]; known && worker == e.Worker {
			src.s.violate(src.i, 0, "%s registered as incarnation %d of worker %d after it was told that another process has taken that name", e.Process, e.Incarnation, e.Worker)
		}
	default:
	}
	if len(src.told) > 0 {
		src.s.wake(e.At)
	}
}

// letOff forgets what a process was told.
func (src *singleRunChecker) letOff(process string) {
	maps.DeleteFunc(src.told, func(_ execution.Incarnation, t wordOf) bool { return t.process == process })
}

// heed judges the incarnations whose actions should have ended by now.
func (src *singleRunChecker) heed(now time.Duration) {
	for of, t := range src.told { //detlint:ok each is judged by itself, and of several the first violation is found in one step
		if now-t.at <= src.s.prompt() {
			continue
		}
		delete(src.told, of)
		if src.frozen[t.process] {
			continue
		}
		src.s.judged(src.i)
		var left *liveAction
		for _, live := range src.running.All() {
			for k := range live {
				if a := &live[k]; a.of == of && a.machine == t.process && (left == nil || a.execution < left.execution) {
					left = a
				}
			}
		}
		if left != nil {
			src.s.violate(src.i, left.execution, "%s was told at %v that its incarnation %d is over, and its action of execution %d at epoch %d, begun at %v, still ran %v later",
				t.process, t.at, of, left.execution, left.epoch, left.since, now-t.at)
		}
	}
}
