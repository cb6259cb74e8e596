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

// gracefulStop is invariant 10 (defects D36 to D40).
func gracefulStop() *Invariant {
	i := &Invariant{
		Number: 10, Name: "graceful stop",
		Statement: "A worker that stops on a signal, or because an operator drains it, begins no claim once it has begun to deregister. After that it claims nothing. Its running actions have the shutdown timeout to finish, and are ended then. Its executions are finished or handed back. Its process ends in time.",
		Needs:     []history.Kind{history.Transition, history.WorkerLifecycle, history.ProcessStopping, history.ProcessStopped},
	}
	i.make = func(s *Suite) checker {
		return &gracefulChecker{
			stood: make(map[string]time.Duration),
			i:     i, s: s, running: make(map[string][]stoppable), stopping: make(map[string]time.Duration), asked: make(map[string]request),
			told:   make(map[string]time.Duration),
			wished: make(map[string]bool), present: make(map[execution.WorkerID]string),
		}
	}
	return i
}

type gracefulChecker struct {
	i *Invariant
	s *Suite
	// held counts the executions that each incarnation runs.
	held dense.Table[execution.Incarnation, int]
	// running holds the actions of each process. deadlines holds the stopping processes, with the
	// time by which all their actions must have ended; see i10_deadline.go.
	running   map[string][]stoppable
	deadlines []stopDeadline
	// disturbed is the last moment at which a fault other than a stop could excuse a worker.
	// disturbing counts such faults that last.
	disturbed  time.Duration
	disturbing int
	// stopping is when each process was asked to stop, or began to stop because an operator asked
	// for it.
	stopping map[string]time.Duration
	// asked holds the processes that an operator drains.
	asked map[string]request
	// told is when each of these could first learn of the drain: with the answer to a renewal or to
	// a registration.
	told map[string]time.Duration
	// wished holds the processes that an operator is about to drain. present is the live process
	// that last registered each worker.
	wished  map[string]bool
	present map[execution.WorkerID]string
	// stood is when each process last halted or resumed.
	stood map[string]time.Duration
}

// excuses says whether a kind of fault can keep a worker from a graceful stop. Faults that
// themselves ask for one excuse nothing.
func excuses(kind string) bool { return kind != "stop" && kind != "drain" && kind != "cordon" }

// hears implements selective.
func (c *gracefulChecker) hears() []history.Kind { return besidesMessages() }

func (c *gracefulChecker) timed() {}

func (c *gracefulChecker) observe(e *history.Event, l *life) {
	c.actions(e)
	switch e.Kind {
	case history.FaultBegan:
		if e.Text == "drain" {
			c.wishes(e, true)
		}
		if excuses(e.Text) {
			c.disturbing++
			c.disturbed = e.At
		}
	case history.FaultEnded:
		if e.Text == "drain" {
			c.wishes(e, false)
		}
		if excuses(e.Text) {
			c.disturbing--
			c.disturbed = e.At
		}
	case history.ProcessStopping:
		c.stopping[e.Process] = e.At
		c.stops(e.Process, e.At)
	case history.ProcessStarted:
		// A request to stop or to drain that found the process already down doesn't count.
		delete(c.stopping, e.Process)
		delete(c.asked, e.Process)
		delete(c.told, e.Process)
	case history.ProcessPaused, history.ProcessResumed, history.ProcessFrozen, history.ProcessThawed:
		c.stood[e.Process] = e.At
	case history.ProcessCrashed:
		c.ended(e.Process)
	case history.ProcessStopped:
		c.stopped(e.Process, e.At)
		c.ended(e.Process)
	case history.WorkerRegistered:
		c.present[e.Worker] = e.Process
		c.tells(e)
	case history.WorkerCordoned:
		c.drained(e)
	case history.HeartbeatRenewed:
		if len(c.asked) > 0 {
			c.tells(e)
			c.heard(e)
		}
	case history.WorkerLifecycle:
		c.leaves(e)
		if e.Lifecycle == execution.Stopped {
			c.left(e)
		}
	case history.Transition:
		c.transition(e, l)
	default:
	}
	if len(c.deadlines) > 0 {
		c.s.wake(e.At)
	}
}

// left judges that a stopped worker runs nothing.
func (c *gracefulChecker) left(e *history.Event) {
	t := c.s.workers.Get(e.Incarnation)
	if t == nil || !c.undisturbed(t) {
		return
	}
	c.s.judged(c.i)
	if held := c.held.Get(e.Incarnation); held > 0 {
		c.s.violate(c.i, 0, "incarnation %d of worker %d stopped while %d executions were still running on it", e.Incarnation, e.Worker, held)
	}
}

// undisturbed says that no other fault has struck since the worker began to drain, or shortly
// before.
func (c *gracefulChecker) undisturbed(t *session) bool {
	return c.disturbing == 0 && (c.disturbed == 0 || c.disturbed < t.since-oracle.Lease(&c.s.config.Worker))
}

func (c *gracefulChecker) transition(e *history.Event, l *life) {
	if oracle.Claimed(e.From) && !oracle.Claimed(e.To) {
		if held := c.held.At(e.Incarnation); held != nil {
			if *held--; *held == 0 {
				c.held.Delete(e.Incarnation)
			}
		}
	}
	t := c.s.workers.Get(e.Incarnation)
	if e.To == execution.Running {
		*c.held.Make(e.Incarnation)++
		c.claimed(e, t)
		return
	}
	if t == nil || l == nil || !oracle.Claimed(e.From) || t.lifecycle != execution.Draining || !c.undisturbed(t) {
		return
	}
	c.s.judged(c.i)
	if e.Reason == execution.HeartbeatStale || e.Reason == execution.WorkerLost {
		c.s.violate(c.i, e.Execution, "execution %d ended as %v (%v) while its worker was draining, %v after it began to: it was neither finished nor handed back",
			e.Execution, e.To, e.Reason, e.At-t.since)
	}
}

// claimed judges a claim by a worker that is leaving or gone. A claim that was under way when the
// worker began to drain is lawful.
func (c *gracefulChecker) claimed(e *history.Event, t *session) {
	if t == nil {
		return
	}
	underWay := 2 * c.s.config.Worker.StatementTimeout
	switch {
	case oracle.Gone(t.lifecycle):
		c.s.judged(c.i)
		c.s.violate(c.i, e.Execution, "%s claimed execution %d although its incarnation %d is %v", e.Process, e.Execution, e.Incarnation, t.lifecycle)
	case t.lifecycle == execution.Draining && c.undisturbed(t):
		c.s.judged(c.i)
		if e.At > t.since+underWay {
			c.s.violate(c.i, e.Execution, "%s claimed execution %d although its incarnation %d has been draining for %v", e.Process, e.Execution, e.Incarnation, e.At-t.since)
		}
	}
}

// stopped judges how long a process took to stop.
func (c *gracefulChecker) stopped(process string, at time.Duration) {
	asked, graceful := c.stopping[process]
	w := c.s.config.Worker
	bound := w.ShutdownTimeout + w.KillGrace + 10*max(w.StatementTimeout, c.s.config.Executor.StatementTimeout)
	if p := c.s.roads.byName[process]; p != nil && p.worker {
		// docs/worker.md, "Stop"; plus the time of a call that should take none.
		bound = w.ShutdownTimeout + w.KillGrace + 6*w.StatementTimeout + c.s.prompt()
	}
	if !graceful || c.disturbing != 0 || c.disturbed != 0 && c.disturbed >= asked-oracle.Lease(&w) {
		return
	}
	c.s.judged(c.i)
	if at-asked > bound {
		c.s.violate(c.i, 0, "%s took %v to stop; the bound is %v", process, at-asked, bound)
	}
}

func (c *gracefulChecker) end(bool) {
	for _, process := range slices.Sorted(maps.Keys(c.stopping)) {
		c.stopped(process, c.s.now.At)
	}
}
