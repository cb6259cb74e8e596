package invariant

import (
	"fmt"
	"time"

	"handoff/chaos/fault"
	"handoff/chaos/history"
	"handoff/chaos/oracle"
	"handoff/core/execution"
)

// reapingCheck is the part of invariant 2 about lost workers, with two rules. Executors mark a worker lost
// only for good reason, and write no other lifecycle. And a monitor that has watched for less than a lease
// can't know which workers are dead (defects D35, D47, D58).
type reapingCheck struct {
	i *Invariant
	s *Suite
	// woke is when each process was last resumed or thawed.
	woke map[string]time.Duration
	// down is when the database went down. up is when it last returned from an outage so long that every
	// executor must have detected it. Both are negative if that never happened.
	down, up time.Duration
	// back is when the database last returned from an outage of any length.
	back time.Duration
	// batch counts the workers that were marked lost in the step step.
	step  uint64
	batch int
}

func newReapingCheck(i *Invariant, s *Suite) *reapingCheck {
	return &reapingCheck{i: i, s: s, woke: make(map[string]time.Duration), down: -1, up: -1, back: -1}
}

// driftTolerance limits how fast a process's clock may run: too fast by at most 1/driftTolerance.
const driftTolerance = 10

func (r *reapingCheck) observeEvent(e *history.Event) {
	x := r.s.config.Executor
	switch e.Kind {
	case history.ProcessResumed, history.ProcessThawed:
		r.woke[e.Process] = e.At
	case history.DatabaseDown:
		// If faults overlap, the database works again when the first of them ends.
		if r.down < 0 {
			r.down = e.At
		}
	case history.DatabaseUp:
		if r.down >= 0 && e.At-r.down > r.s.config.Worker.HeartbeatInterval+x.ReconcileInterval+2*x.StatementTimeout {
			r.up = e.At
		}
		r.down, r.back = -1, e.At
	default:
	}
}

// warmupObjection returns why a process has not watched long enough to mark workers lost, empty if it has.
func (r *reapingCheck) warmupObjection(e *history.Event) string {
	lease := oracle.Lease(&r.s.config.Worker)
	warm := lease - lease/driftTolerance
	if at, known := r.s.started[e.Process]; known && e.At-at < warm {
		return fmt.Sprintf("%s was started %v ago and has not watched for the time of a lease yet", e.Process, e.At-at)
	}
	if woke, slept := r.woke[e.Process]; slept && e.At-woke < warm || r.s.hindrances.lasting > 0 {
		// The write may have been sent before the process was halted, or delayed by the network.
		return ""
	}
	if r.up >= 0 && e.At-r.up < warm {
		return fmt.Sprintf("the database came back %v ago, and workers have the time of a lease to come back too", e.At-r.up)
	}
	return ""
}

// lossObjection returns why an incarnation must not be marked lost now; empty if it may.
func (r *reapingCheck) lossObjection(e *history.Event) string {
	t := r.s.workers.Get(e.Incarnation)
	// A database that lost its latest writes itself reports the incarnations in these as lost.
	if e.Lifecycle != execution.Lost || t == nil || t.process == e.Process || e.Process == fault.Database {
		return ""
	}
	r.s.countOccasion(r.i)
	if e.Step != r.step {
		r.step, r.batch = e.Step, 0
	}
	r.batch++
	if ends := r.s.fleet.leaseEnd(t); e.At < ends-r.s.tolerance {
		return fmt.Sprintf("its lease ends only in %v", ends-e.At)
	}
	if why := r.warmupObjection(e); why != "" {
		return why
	}
	return r.brakeObjection(e)
}

// brakeObjection returns why the brake must have held, empty if it need not have. No worker may be marked
// lost for two leases after the brake had to engage. After that the brake lets through one worker a second,
// so several in one step are too many.
func (r *reapingCheck) brakeObjection(e *history.Event) string {
	f, x := r.s.fleet, r.s.config.Executor
	// The data read before the write is at most two statements old.
	margin := 2*x.StatementTimeout + time.Second
	as := reaper{process: e.Process, margin: margin, watching: max(r.s.hindrances.lastEnd, r.s.started[e.Process]), started: r.s.started[e.Process], back: r.back}
	if r.s.hindrances.lasting > 0 {
		as.watching = e.At
	}
	h := f.headcountAt(e.At, as)
	if r.batch > 1 {
		// Workers marked earlier in this step are already among the lost.
		if h.mustBrake(f.brakes, h.lost+1) {
			return fmt.Sprintf("it was marked together with others: %d of %d workers were marked lost within the time of a lease, so the brake may let through only one a second", h.lost+1, h.alive)
		}
		return ""
	}
	// Count only leases that the reaper must consider over: it saw the last heartbeat a pass late at most.
	as.margin += 2 * x.ReconcileInterval
	h = f.headcountAt(e.At, as)
	held := f.episode + oracle.HeldFor(&r.s.config.Worker)
	// After a database outage the reaper watches every worker anew, so for the duration of a lease it
	// considers no lease over.
	anew := r.back > f.episode
	if h.mustBrake(f.brakes, h.over+h.lost) && f.episode >= 0 && !anew && e.At < held-r.s.tolerance-examineInterval {
		return fmt.Sprintf("%d of %d workers had lost their leases, so the brake had to hold until %v", h.over+h.lost, h.alive, held)
	}
	return ""
}
