package invariant

import (
	"time"

	"handoff/chaos/dense"
	"handoff/chaos/history"
	"handoff/chaos/oracle"
	"handoff/core/execution"
)

// singleRun returns invariant 4 (defects D12, D15).
func singleRun() *Invariant {
	i := &Invariant{
		Number: 4, Name: "one run at a time",
		Statement: "An epoch is claimed and run once, by the worker that claimed it. No two actions of one chain run at a time. No action outlives its lease, or the moment at which its worker is told that the lease is over. An action's fence is the latest deadline of its lease. A process that is told of a successor never registers again.",
		Needs:     []history.Kind{history.Transition, history.ActionStarted, history.ActionEnded, history.HeartbeatRenewed},
	}
	i.make = func(s *Suite) checker {
		return &singleRunChecker{i: i, s: s, frozen: make(map[string]bool), goneNotices: make(map[execution.Incarnation]goneNotice), supersededProcesses: make(map[string]execution.WorkerID)}
	}
	return i
}

// liveAction is an action whose process has started and not ended, whether or not its worker is alive.
type liveAction struct {
	execution execution.ID
	epoch     execution.Epoch
	machine   string
	of        execution.Incarnation
	since     time.Duration
	// misjudged is when an executor wrongly ended its execution because of a step of the database's clock
	// that the executor could not know of; 0 if none did.
	misjudged time.Duration
}

type singleRunChecker struct {
	i *Invariant
	s *Suite
	// running holds the live actions by chain. spared holds empty lists for reuse.
	running dense.Table[execution.ID, []liveAction]
	spared  [][]liveAction
	// frozen holds the machines that were frozen. They are exempt: their clocks stood still, so their fences
	// could not work.
	frozen map[string]bool
	// goneNotices holds, for each incarnation that is over, the reply that notified its live process.
	// supersededProcesses holds the processes that were notified of a successor, with their worker.
	goneNotices         map[execution.Incarnation]goneNotice
	supersededProcesses map[string]execution.WorkerID
}

// observedKinds implements selective.
func (src *singleRunChecker) observedKinds() []history.Kind {
	return []history.Kind{
		history.ToldGone, history.ProcessStarted, history.ProcessCrashed, history.ProcessStopped, history.ProcessPaused,
		history.ProcessFrozen, history.WorkerRegistered, history.Transition, history.ActionStarted, history.ActionEnded,
	}
}

func (src *singleRunChecker) isTimedChecker() {}

func (src *singleRunChecker) observeEvent(e *history.Event, l *life) {
	src.observeNotice(e)
	switch e.Kind {
	case history.Transition:
		if l != nil {
			src.judgeTransition(e, l)
		}
	case history.ProcessFrozen:
		src.frozen[e.Process] = true
	case history.ActionStarted:
		src.observeStart(e, l)
	case history.ActionEnded:
		src.judgeActionEnd(e)
		chain := chainOf(e, l)
		live := src.running.Get(chain)
		for k := range live {
			if live[k].execution == e.Execution && live[k].epoch == e.Epoch && live[k].machine == e.Process {
				live = append(live[:k], live[k+1:]...)
				break
			}
		}
		if len(live) == 0 {
			src.running.Delete(chain)
			if live != nil {
				src.spared = append(src.spared, live)
			}
		} else {
			src.running.Set(chain, live)
		}
	case history.ToldGone, history.ProcessStarted, history.ProcessCrashed, history.ProcessStopped, history.ProcessPaused, history.WorkerRegistered:
		// observeNotice has already handled the event.
	default:
	}
}

// judgeTransition judges claims, and ends that a part other than the worker wrote.
func (src *singleRunChecker) judgeTransition(e *history.Event, l *life) {
	if oracle.Claimed(e.From) && oracle.Terminal(e.To) && e.By != execution.Worker && !src.anyFrozen(l.chain) {
		src.s.countOccasion(src.i)
		switch {
		case l.running <= 0:
		case src.couldNotKnow(e, l):
			src.markMisjudged(e, l)
		default:
			src.s.recordViolation(src.i, e.Execution, "the %v (%s) ended execution %d as %v while its action still ran", e.By, e.Process, e.Execution, e.To)
		}
	}
	if e.To == execution.Running {
		src.s.countOccasion(src.i)
		if l.claims > 0 {
			src.s.recordViolation(src.i, e.Execution, "epoch %d of execution %d was claimed a second time, by %s", e.Epoch, e.Execution, e.Process)
		}
	}
}

// couldNotKnow reports whether a deadline seemed over only because of a step of the database's clock of which
// the timeout monitor could not know: its executor may have first read that clock after the step
// (docs/ownership.md, "Two clocks").
func (src *singleRunChecker) couldNotKnow(e *history.Event, l *life) bool {
	return e.By == execution.TimeoutMonitor && src.s.missedStep(e.Process) > l.entered
}

// markMisjudged records that the monitor ended an execution whose action still ran, for a reason that was
// wrong although the monitor could not know that.
func (src *singleRunChecker) markMisjudged(e *history.Event, l *life) {
	live := src.running.Get(l.chain)
	for k := range live {
		if live[k].execution == e.Execution {
			live[k].misjudged = e.At
		}
	}
}

// mayOverlap reports whether an action may run alongside its chain's next action: its worker's clock was
// stopped, or its execution was misjudged. In that case the worker learns of the end with its next heartbeat,
// or its lease ends.
func (src *singleRunChecker) mayOverlap(a *liveAction, now time.Duration) bool {
	return src.frozen[a.machine] || a.misjudged > 0 && now <= a.misjudged+oracle.Lease(&src.s.config.Worker)+src.s.tolerance
}

// judgeActionEnd judges whether an action that ends has outlived its lease.
func (src *singleRunChecker) judgeActionEnd(e *history.Event) {
	t := src.s.workers.Get(e.Incarnation)
	if t == nil || src.frozen[e.Process] {
		return
	}
	src.s.countOccasion(src.i)
	if e.At > t.renewed+oracle.Lease(&src.s.config.Worker)+src.s.tolerance {
		src.s.recordViolation(src.i, e.Execution, "the action of execution %d at epoch %d ran on %s until %v after the end of the lease of incarnation %d",
			e.Execution, e.Epoch, e.Process, e.At-t.renewed-oracle.Lease(&src.s.config.Worker), e.Incarnation)
	}
}

func (src *singleRunChecker) anyFrozen(chain execution.ID) bool {
	for _, a := range src.running.Get(chain) {
		if src.frozen[a.machine] {
			return true
		}
	}
	return false
}

// chainOf returns the chain of an action. Executions with a live action are not retired.
func chainOf(e *history.Event, l *life) execution.ID {
	if l == nil {
		return e.Execution
	}
	return l.chain
}

func (src *singleRunChecker) observeStart(e *history.Event, l *life) {
	chain := chainOf(e, l)
	if !src.frozen[e.Process] {
		src.judgeStart(e, l, chain)
	}
	live := src.running.Make(chain)
	if n := len(src.spared); *live == nil && n > 0 {
		*live, src.spared = src.spared[n-1], src.spared[:n-1]
	}
	*live = append(*live, liveAction{execution: e.Execution, epoch: e.Epoch, machine: e.Process, of: e.Incarnation, since: e.At})
}

func (src *singleRunChecker) judgeStart(e *history.Event, l *life, chain execution.ID) {
	src.s.countOccasion(src.i)
	live := src.running.Get(chain)
	for k := range live {
		if other := &live[k]; !src.mayOverlap(other, e.At) {
			src.s.recordViolation(src.i, e.Execution, "%s started the action of execution %d at epoch %d while that of execution %d at epoch %d still ran on %s",
				e.Process, e.Execution, e.Epoch, other.execution, other.epoch, other.machine)
			return
		}
	}
	switch {
	case l == nil || l.claims == 0 && e.Epoch == l.epoch:
		src.s.recordViolation(src.i, e.Execution, "%s started the action of execution %d at epoch %d, which nobody has claimed", e.Process, e.Execution, e.Epoch)
	case e.Epoch == l.epoch && l.started > 0:
		src.s.recordViolation(src.i, e.Execution, "%s started the action of execution %d at epoch %d a second time", e.Process, e.Execution, e.Epoch)
	case e.Epoch == l.epoch && e.Incarnation != l.incarnation:
		src.s.recordViolation(src.i, e.Execution, "%s started the action of execution %d at epoch %d, which incarnation %d has claimed", e.Process, e.Execution, e.Epoch, l.incarnation)
	}
}

func (src *singleRunChecker) endRun(bool) { src.judgeGoneIncarnations(src.s.now.At) }
