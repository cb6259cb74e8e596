package invariant

import (
	"maps"
	"slices"
	"time"

	"handoff/chaos/dense"
	"handoff/chaos/history"
	"handoff/chaos/oracle"
	"handoff/core/execution"
)

// gracefulStop returns invariant 10 (defects D36 to D40).
func gracefulStop() *Invariant {
	i := &Invariant{
		Number: 10, Name: "graceful stop", Conduct: true,
		Statement: "A worker that stops on a signal, or because an operator drains it, begins no claim once it has begun to deregister. After that it claims nothing. Its running actions have the shutdown timeout to finish, and are ended then. Its executions are finished or handed back. Its process ends in time.",
		Needs:     []history.Kind{history.Transition, history.WorkerLifecycle, history.ProcessStopping, history.ProcessStopped},
	}
	i.make = func(s *Suite) checker {
		return &gracefulChecker{
			stood: make(map[string]time.Duration),
			i:     i, s: s, running: make(map[string][]runningAction), stopping: make(map[string]time.Duration), asked: make(map[string]drainRequest),
			drainLearned: make(map[string]time.Duration),
			wished:       make(map[string]bool), present: make(map[execution.WorkerID]string),
		}
	}
	return i
}

type gracefulChecker struct {
	i *Invariant
	s *Suite
	// held counts the executions that each incarnation is running.
	held dense.Table[execution.Incarnation, int]
	// running holds the running actions of each process, and deadlines the deadline of each stopping process;
	// see i10_deadline.go.
	running   map[string][]runningAction
	deadlines []stopDeadline
	// disturbed is when a fault other than a stop could last excuse a worker. disturbing is the number of
	// such faults that have not ended.
	disturbed  time.Duration
	disturbing int
	// stopping is when each process was asked to stop, or began to stop because an operator drains it.
	stopping map[string]time.Duration
	// asked holds the stored drain request of each process.
	asked map[string]drainRequest
	// drainLearned is when each process in asked could first learn of the drain, from the reply to a renewal
	// or to a registration.
	drainLearned map[string]time.Duration
	// wished holds the processes that an operator is trying to drain. present is, for each worker, the live
	// process that last registered it.
	wished  map[string]bool
	present map[execution.WorkerID]string
	// stood is when each process was last halted or resumed.
	stood map[string]time.Duration
}

// preventsGracefulStop reports whether a kind of fault can keep a worker from stopping gracefully. Faults
// that merely request a graceful stop can't.
func preventsGracefulStop(kind string) bool {
	return kind != "stop" && kind != "drain" && kind != "cordon"
}

// observedKinds implements selective.
func (g *gracefulChecker) observedKinds() []history.Kind { return besidesMessages() }

func (g *gracefulChecker) isTimedChecker() {}

func (g *gracefulChecker) observeEvent(e *history.Event, l *life) {
	g.trackActions(e)
	switch e.Kind {
	case history.FaultBegan:
		if e.Text == "drain" {
			g.noteDrainAttempt(e, true)
		}
		if preventsGracefulStop(e.Text) {
			g.disturbing++
			g.disturbed = e.At
		}
	case history.FaultEnded:
		if e.Text == "drain" {
			g.noteDrainAttempt(e, false)
		}
		if preventsGracefulStop(e.Text) {
			g.disturbing--
			g.disturbed = e.At
		}
	case history.ProcessStopping:
		g.stopping[e.Process] = e.At
		g.startDeadline(e.Process, e.At)
	case history.ProcessStarted:
		// A request to stop or to drain is void if the process was already down.
		delete(g.stopping, e.Process)
		delete(g.asked, e.Process)
		delete(g.drainLearned, e.Process)
	case history.ProcessPaused, history.ProcessResumed, history.ProcessFrozen, history.ProcessThawed:
		g.stood[e.Process] = e.At
	case history.ProcessCrashed:
		g.forgetProcess(e.Process)
	case history.ProcessStopped:
		g.judgeStopTime(e.Process, e.At)
		g.forgetProcess(e.Process)
	case history.WorkerRegistered:
		g.present[e.Worker] = e.Process
		g.noteDrainLearned(e)
	case history.WorkerCordoned:
		g.noteDrainStored(e)
	case history.HeartbeatRenewed:
		if len(g.asked) > 0 {
			g.noteDrainLearned(e)
			g.judgeDrainStart(e)
		}
	case history.WorkerLifecycle:
		g.noteDraining(e)
		if e.Lifecycle == execution.Stopped {
			g.judgeStopped(e)
		}
	case history.Transition:
		g.judgeTransition(e, l)
	default:
	}
	if len(g.deadlines) > 0 {
		g.s.wakeAt(e.At)
	}
}

// judgeStopped requires that a worker that reports that it has stopped runs no execution.
func (g *gracefulChecker) judgeStopped(e *history.Event) {
	t := g.s.workers.Get(e.Incarnation)
	if t == nil || !g.isUndisturbed(t) {
		return
	}
	g.s.countOccasion(g.i)
	if held := g.held.Get(e.Incarnation); held > 0 {
		g.s.recordViolation(g.i, 0, "incarnation %d of worker %d stopped while %d executions were still running on it", e.Incarnation, e.Worker, held)
	}
}

// isUndisturbed reports whether no disturbing fault was present since the worker began to drain or shortly
// before.
func (g *gracefulChecker) isUndisturbed(t *session) bool {
	return g.disturbing == 0 && (g.disturbed == 0 || g.disturbed < t.since-oracle.Lease(&g.s.config.Worker))
}

func (g *gracefulChecker) judgeTransition(e *history.Event, l *life) {
	if oracle.Claimed(e.From) && !oracle.Claimed(e.To) {
		if held := g.held.At(e.Incarnation); held != nil {
			if *held--; *held == 0 {
				g.held.Delete(e.Incarnation)
			}
		}
	}
	t := g.s.workers.Get(e.Incarnation)
	if e.To == execution.Running {
		*g.held.Make(e.Incarnation)++
		g.judgeClaim(e, t)
		return
	}
	if t == nil || l == nil || !oracle.Claimed(e.From) || t.lifecycle != execution.Draining || !g.isUndisturbed(t) {
		return
	}
	g.s.countOccasion(g.i)
	if e.Reason == execution.HeartbeatStale || e.Reason == execution.WorkerLost {
		g.s.recordViolation(g.i, e.Execution, "execution %d ended as %v (%v) while its worker was draining, %v after it began to: it was neither finished nor handed back",
			e.Execution, e.To, e.Reason, e.At-t.since)
	}
}

// judgeClaim judges a claim by a worker that is leaving or gone. A claim that was under way when the
// worker began to drain is lawful.
func (g *gracefulChecker) judgeClaim(e *history.Event, t *session) {
	if t == nil {
		return
	}
	underWay := 2 * g.s.config.Worker.StatementTimeout
	switch {
	case oracle.Gone(t.lifecycle):
		g.s.countOccasion(g.i)
		g.s.recordViolation(g.i, e.Execution, "%s claimed execution %d although its incarnation %d is %v", e.Process, e.Execution, e.Incarnation, t.lifecycle)
	case t.lifecycle == execution.Draining && g.isUndisturbed(t):
		g.s.countOccasion(g.i)
		if e.At > t.since+underWay {
			g.s.recordViolation(g.i, e.Execution, "%s claimed execution %d although its incarnation %d has been draining for %v", e.Process, e.Execution, e.Incarnation, e.At-t.since)
		}
	}
}

// judgeStopTime judges how long a process took to stop.
func (g *gracefulChecker) judgeStopTime(process string, at time.Duration) {
	asked, graceful := g.stopping[process]
	w := g.s.config.Worker
	bound := w.ShutdownTimeout + w.KillGrace + 10*max(w.StatementTimeout, g.s.config.Executor.StatementTimeout)
	if p := g.s.roads.byName[process]; p != nil && p.worker {
		// The bound of docs/worker.md, "Stop", plus the time for one reaction.
		bound = w.ShutdownTimeout + w.KillGrace + 6*w.StatementTimeout + g.s.promptBound()
	}
	if !graceful || g.disturbing != 0 || g.disturbed != 0 && g.disturbed >= asked-oracle.Lease(&w) {
		return
	}
	g.s.countOccasion(g.i)
	if at-asked > bound {
		g.s.recordViolation(g.i, 0, "%s took %v to stop; the bound is %v", process, at-asked, bound)
	}
}

func (g *gracefulChecker) endRun(bool) {
	for _, process := range slices.Sorted(maps.Keys(g.stopping)) {
		g.judgeStopTime(process, g.s.now.At)
	}
}
