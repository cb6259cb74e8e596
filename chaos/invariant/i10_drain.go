package invariant

import (
	"maps"
	"strings"
	"time"

	"handoff/chaos/fault"
	"handoff/chaos/history"
	"handoff/core/execution"
)

// lastDrainRenewal is the number of the renewal, after an operator's request to drain a worker, whose reply
// must have notified the worker. The first renewal after the request may fail, and the second may already
// have been under way.
const lastDrainRenewal = 3

// drainRequest is an operator's request to drain a process. It records when it was stored, and how often the
// process has renewed its lease since.
type drainRequest struct {
	at      time.Duration
	renewed int
}

// forgetLostRequests removes the requests stored after from, because the database has lost them.
func (g *gracefulChecker) forgetLostRequests(from time.Duration) {
	maps.DeleteFunc(g.asked, func(_ string, r drainRequest) bool { return r.at > from })
}

// noteDrainAttempt notes that an operator begins or stops trying to drain workers.
func (g *gracefulChecker) noteDrainAttempt(e *history.Event, begins bool) {
	for name := range strings.SplitSeq(e.Process, ",") {
		if delete(g.wished, name); begins {
			g.wished[name] = true
		}
	}
}

// noteDrainStored notes that the database has stored an operator's drain, which also cordons the worker. It
// applies to the process that registered last, which may be another process of the same name; without one it
// applies to none. A later cordon is not a drain, nor is a cordon that a standby restores when it takes over.
func (g *gracefulChecker) noteDrainStored(e *history.Event) {
	if e.Count != 1 || e.Process == fault.Database || len(g.wished) == 0 {
		return
	}
	process, wished := g.present[e.Worker], false
	for _, p := range g.s.roads.ofWorker[e.Worker] {
		if g.wished[p.name] {
			delete(g.wished, p.name)
			wished = true
		}
	}
	if wished && process != "" {
		g.asked[process] = drainRequest{at: e.At}
		delete(g.drainLearned, process)
	}
}

// noteDrainLearned records that a process could now learn that an operator is draining it.
func (g *gracefulChecker) noteDrainLearned(e *history.Event) {
	if _, asked := g.asked[e.Process]; asked && g.drainLearned[e.Process] == 0 {
		g.drainLearned[e.Process] = e.At
	}
}

// forgetProcess removes a process that has ended. Its supervisor may start another process of that name.
func (g *gracefulChecker) forgetProcess(process string) {
	delete(g.stopping, process)
	delete(g.asked, process)
	delete(g.drainLearned, process)
	maps.DeleteFunc(g.present, func(_ execution.WorkerID, p string) bool { return p == process })
}

// judgeDrainStart requires that a worker begins to drain when it learns of the request.
func (g *gracefulChecker) judgeDrainStart(e *history.Event) {
	r, asked := g.asked[e.Process]
	t := g.s.workers.Get(e.Incarnation)
	if !asked || t == nil || t.lifecycle != execution.Active || t.superseded || g.disturbing > 0 {
		return
	}
	r.renewed++
	if g.asked[e.Process] = r; r.renewed < lastDrainRenewal {
		return
	}
	g.s.countOccasion(g.i)
	if r.renewed > lastDrainRenewal {
		g.s.recordViolation(g.i, 0, "an operator drains %s (incarnation %d), it has renewed its lease %d times since, and it is still %v at %v",
			e.Process, e.Incarnation, r.renewed, t.lifecycle, e.At)
	}
}

// noteDraining records that a worker begins to stop. Its process must then end within the bound, whoever
// requested the stop.
func (g *gracefulChecker) noteDraining(e *history.Event) {
	t := g.s.workers.Get(e.Incarnation)
	if e.Lifecycle != execution.Draining || t == nil || t.superseded || t.joined < g.s.started[t.process] {
		// The event may be a delayed write by a process that has since ended.
		return
	}
	delete(g.asked, t.process)
	if _, known := g.stopping[t.process]; !known {
		g.stopping[t.process] = e.At
		g.startDeadline(t.process, e.At)
	}
}
