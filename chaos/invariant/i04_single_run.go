package invariant

import (
	"time"

	"handoff/chaos/dense"
	"handoff/chaos/history"
	"handoff/chaos/oracle"
	"handoff/core/execution"
)

// singleRun is invariant 4 (defects D12, D15).
func singleRun() *Invariant {
	i := &Invariant{
		Number: 4, Name: "one run at a time",
		Statement: "An epoch is claimed and run once, by the worker that claimed it. No two actions of one chain run at a time. No action outlives its lease, or the moment at which its worker is told that the lease is over. An action's fence is the latest deadline of its lease. A process that is told of a successor never registers again.",
		Needs:     []history.Kind{history.Transition, history.ActionStarted, history.ActionEnded, history.HeartbeatRenewed},
	}
	i.make = func(s *Suite) checker {
		return &singleRunChecker{i: i, s: s, frozen: make(map[string]bool), told: make(map[execution.Incarnation]wordOf), succeeded: make(map[string]execution.WorkerID)}
	}
	return i
}

// liveAction is an action between its start and the end of its process, whether or not its worker
// is alive.
type liveAction struct {
	execution execution.ID
	epoch     execution.Epoch
	machine   string
	of        execution.Incarnation
	since     time.Duration
	// misjudged is when an executor that could not know of a step of the database's clock ended its
	// execution, 0 if none did.
	misjudged time.Duration
}

type singleRunChecker struct {
	i *Invariant
	s *Suite
	// running holds the live actions by chain; spared holds empty lists to use again.
	running dense.Table[execution.ID, []liveAction]
	spared  [][]liveAction
	// frozen machines are exempt: their clocks were stopped too, so their fences could not work.
	frozen map[string]bool
	// told holds, for live processes, the incarnations that they were told are over. succeeded
	// holds the processes that were told of a successor, with the worker.
	told      map[execution.Incarnation]wordOf
	succeeded map[string]execution.WorkerID
}

// hears implements selective.
func (c *singleRunChecker) hears() []history.Kind {
	return []history.Kind{
		history.ToldGone, history.ProcessStarted, history.ProcessCrashed, history.ProcessStopped, history.ProcessPaused,
		history.ProcessFrozen, history.WorkerRegistered, history.Transition, history.ActionStarted, history.ActionEnded,
	}
}

func (c *singleRunChecker) timed() {}

func (c *singleRunChecker) observe(e *history.Event, l *life) {
	c.hear(e)
	switch e.Kind {
	case history.Transition:
		if l != nil {
			c.transition(e, l)
		}
	case history.ProcessFrozen:
		c.frozen[e.Process] = true
	case history.ActionStarted:
		c.started(e, l)
	case history.ActionEnded:
		c.outlived(e)
		chain := chainOf(e, l)
		live := c.running.Get(chain)
		for k := range live {
			if live[k].execution == e.Execution && live[k].epoch == e.Epoch && live[k].machine == e.Process {
				live = append(live[:k], live[k+1:]...)
				break
			}
		}
		if len(live) == 0 {
			c.running.Delete(chain)
			if live != nil {
				c.spared = append(c.spared, live)
			}
		} else {
			c.running.Set(chain, live)
		}
	case history.ToldGone, history.ProcessStarted, history.ProcessCrashed, history.ProcessStopped, history.ProcessPaused, history.WorkerRegistered:
		// The hear method has handled it.
	default:
	}
}

// transition judges claims, and ends that the worker itself didn't write.
func (c *singleRunChecker) transition(e *history.Event, l *life) {
	if oracle.Claimed(e.From) && oracle.Terminal(e.To) && e.By != execution.Worker && !c.anyFrozen(l.chain) {
		c.s.judged(c.i)
		switch {
		case l.running <= 0:
		case c.unaware(e, l):
			c.misjudge(e, l)
		default:
			c.s.violate(c.i, e.Execution, "the %v (%s) ended execution %d as %v while its action still ran", e.By, e.Process, e.Execution, e.To)
		}
	}
	if e.To == execution.Running {
		c.s.judged(c.i)
		if l.claims > 0 {
			c.s.violate(c.i, e.Execution, "epoch %d of execution %d was claimed a second time, by %s", e.Epoch, e.Execution, e.Process)
		}
	}
}

// unaware says that the timeout monitor could not know that only a step of the database's clock
// made a deadline pass: its executor may have read that clock only after the step
// (docs/ownership.md, "Two clocks").
func (c *singleRunChecker) unaware(e *history.Event, l *life) bool {
	return e.By == execution.TimeoutMonitor && c.s.missedStep(e.Process) > l.entered
}

// misjudge notes that the monitor ended an execution while its action still ran, and could not know
// better.
func (c *singleRunChecker) misjudge(e *history.Event, l *life) {
	live := c.running.Get(l.chain)
	for k := range live {
		if live[k].execution == e.Execution {
			live[k].misjudged = e.At
		}
	}
}

// excused says that an action may run beside the next one of its chain: its worker's clock was
// stopped, or its execution was misjudged. The worker learns of that with its next heartbeat, or its
// lease ends.
func (c *singleRunChecker) excused(a *liveAction, now time.Duration) bool {
	return c.frozen[a.machine] || a.misjudged > 0 && now <= a.misjudged+oracle.Lease(&c.s.config.Worker)+c.s.tolerance
}

// outlived judges, at the end of an action, whether it outlived its lease.
func (c *singleRunChecker) outlived(e *history.Event) {
	t := c.s.workers.Get(e.Incarnation)
	if t == nil || c.frozen[e.Process] {
		return
	}
	c.s.judged(c.i)
	if e.At > t.renewed+oracle.Lease(&c.s.config.Worker)+c.s.tolerance {
		c.s.violate(c.i, e.Execution, "the action of execution %d at epoch %d ran on %s until %v after the end of the lease of incarnation %d",
			e.Execution, e.Epoch, e.Process, e.At-t.renewed-oracle.Lease(&c.s.config.Worker), e.Incarnation)
	}
}

func (c *singleRunChecker) anyFrozen(chain execution.ID) bool {
	for _, a := range c.running.Get(chain) {
		if c.frozen[a.machine] {
			return true
		}
	}
	return false
}

// chainOf is the chain of an action. Executions with a live action are not retired.
func chainOf(e *history.Event, l *life) execution.ID {
	if l == nil {
		return e.Execution
	}
	return l.chain
}

func (c *singleRunChecker) started(e *history.Event, l *life) {
	chain := chainOf(e, l)
	if !c.frozen[e.Process] {
		c.judge(e, l, chain)
	}
	live := c.running.Make(chain)
	if n := len(c.spared); *live == nil && n > 0 {
		*live, c.spared = c.spared[n-1], c.spared[:n-1]
	}
	*live = append(*live, liveAction{execution: e.Execution, epoch: e.Epoch, machine: e.Process, of: e.Incarnation, since: e.At})
}

func (c *singleRunChecker) judge(e *history.Event, l *life, chain execution.ID) {
	c.s.judged(c.i)
	live := c.running.Get(chain)
	for k := range live {
		if other := &live[k]; !c.excused(other, e.At) {
			c.s.violate(c.i, e.Execution, "%s started the action of execution %d at epoch %d while that of execution %d at epoch %d still ran on %s",
				e.Process, e.Execution, e.Epoch, other.execution, other.epoch, other.machine)
			return
		}
	}
	switch {
	case l == nil || l.claims == 0 && e.Epoch == l.epoch:
		c.s.violate(c.i, e.Execution, "%s started the action of execution %d at epoch %d, which nobody has claimed", e.Process, e.Execution, e.Epoch)
	case e.Epoch == l.epoch && l.started > 0:
		c.s.violate(c.i, e.Execution, "%s started the action of execution %d at epoch %d a second time", e.Process, e.Execution, e.Epoch)
	case e.Epoch == l.epoch && e.Incarnation != l.incarnation:
		c.s.violate(c.i, e.Execution, "%s started the action of execution %d at epoch %d, which incarnation %d has claimed", e.Process, e.Execution, e.Epoch, l.incarnation)
	}
}

func (c *singleRunChecker) end(bool) { c.heed(c.s.now.At) }
