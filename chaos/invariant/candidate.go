package invariant

import (
	"slices"
	"time"

	"handoff/chaos/history"
	"handoff/chaos/oracle"
	"handoff/core/execution"
)

// never is later than any moment of a run.
const never = time.Duration(1<<63 - 1)

// candidate is one incarnation, seen as a possible target of dispatches, according to the history.
type candidate struct {
	worker      execution.WorkerID
	incarnation execution.Incarnation
	runtimes    []string
	capacity    int
	state       execution.Lifecycle
	// left says that it has drained or stopped, or was lost or superseded. These states are
	// permanent.
	left      bool
	leaseEnds time.Duration
	// leaseOver is when the lease ends by a clock that is never set.
	leaseOver time.Duration
	consuming bool
	// unhealthy says that an executor may consider it unhealthy, surelyUnhealthy that every
	// executor must.
	unhealthy, surelyUnhealthy bool
	load                       int
	// claims is the number of runs that it has begun.
	claims int
	// waiting is the number of dispatches that it has not claimed.
	waiting int

	// failures are the ends of runs for reasons that blame the worker, the latest last: the true
	// figures, to compare its reports with.
	failures []ownFailure
	// snapshots is the evidence for its health over time, the oldest first.
	snapshots []snapshot

	// Each is the time since which a condition holds without a break, never if it does not hold
	// now. fitSince: it could be given work. goodSince: it could be given work and was not
	// unhealthy. wellSince: it could be given work and was not surely unhealthy. idleSince: it
	// holds nothing.
	fitSince, goodSince, wellSince, idleSince time.Duration
	// fitUntil is the end of the last period, longer than brief, in which it could be given work.
	// Executors look at waiting executions twice, brief apart, so they rightly know nothing of
	// shorter periods.
	fitUntil, brief time.Duration
	// wellUntil is the end of the last period in which it could be given work and was not surely
	// unhealthy.
	wellUntil time.Duration
	// roomSince is the time since which it has held less than its capacity; never while it is full.
	roomSince time.Duration
	// busySince is the time since which it has held something; never while it holds nothing.
	busySince time.Duration
	// freed is when executions were last taken from it, the latest last, no more than its capacity.
	freed []time.Duration
}

// ownFailure is the end of a run for a reason that blames the worker.
type ownFailure struct {
	key execution.Key
	// process wrote the end.
	process string
	// at is when the database last answered it. A run counts for its worker from the answer on, and
	// a worker that gets none writes the end again.
	at time.Duration
}

// answered notes that the database refused a write of an end that it has already. The answers
// before may have been lost, so the worker may learn of the end only now.
func (w *candidate) answered(e *history.Event) {
	for n, f := range w.failures {
		if f.key == (execution.Key{ID: e.Execution, Epoch: e.Epoch}) && f.process == e.Process {
			f.at = e.At
			w.failures = append(slices.Delete(w.failures, n, n+1), f)
			return
		}
	}
}

// snapshot is the evidence for a worker's health, valid from a moment on.
type snapshot struct {
	from                       time.Duration
	total, failed, consecutive int
	// lastFailure is by the database's clock.
	lastFailure time.Duration
	// expired are the ends of dispatches that it left unclaimed while it stayed active, by the
	// database's clock, which counts their age.
	expired []time.Duration
}

// known is the latest snapshot.
func (w *candidate) known() snapshot {
	if n := len(w.snapshots); n > 0 {
		return w.snapshots[n-1]
	}
	return snapshot{}
}

func (w *candidate) lifecycle(e *history.Event, cordoned bool) {
	w.state = e.Lifecycle
	w.left = w.left || e.Lifecycle >= execution.Draining
	if e.Lifecycle == execution.Active && !w.left {
		w.begin(e.At, cordoned)
		return
	}
	w.unfit(e.At)
	w.fitSince, w.goodSince, w.wellSince = never, never, never
}

// unfit notes that the worker could be given work until at.
func (w *candidate) unfit(at time.Duration) {
	w.fitUntil = w.lastFit(at)
	w.bad(at)
}

// bad notes that the worker was not surely unhealthy until at.
func (w *candidate) bad(at time.Duration) {
	if w.wellSince != never {
		w.wellUntil = max(w.wellUntil, min(at, w.leaseOver))
	}
}

// lastFit is the end of the latest period, longer than brief, in which the worker could be given
// work. It is negative if there was none.
func (w *candidate) lastFit(now time.Duration) time.Duration {
	if until := min(now, w.leaseOver); w.fitSince != never && until-w.fitSince > w.brief {
		return max(w.fitUntil, until)
	}
	return w.fitUntil
}

// beat renews the lease. now is the database's clock, by which leases end.
func (w *candidate) beat(e *history.Event, now time.Duration, cordoned bool) {
	if now > w.leaseEnds {
		// The lease was over, so the periods begin anew.
		w.unfit(e.At)
		w.fitSince, w.goodSince, w.wellSince = never, never, never
	}
	w.leaseEnds, w.leaseOver, w.consuming = e.Due, e.At+e.Due-now, e.Limit == 1
	w.settle(e.At, cordoned)
}

func (w *candidate) begin(at time.Duration, cordoned bool) {
	w.idleSince, w.roomSince, w.busySince = at, at, never
	w.settle(at, cordoned)
}

// settle updates the times after a change.
func (w *candidate) settle(at time.Duration, cordoned bool) {
	fit := w.state == execution.Active && !w.left && w.consuming && !cordoned
	switch {
	case !fit:
		w.unfit(at)
	case w.surelyUnhealthy:
		w.bad(at)
	}
	w.fitSince = since(w.fitSince, at, fit)
	w.goodSince = since(w.goodSince, at, fit && !w.unhealthy)
	w.wellSince = since(w.wellSince, at, fit && !w.surelyUnhealthy)
}

// since returns before, or at if the condition has just begun to hold; never if it does not hold.
func since(before, at time.Duration, holds bool) time.Duration {
	switch {
	case !holds:
		return never
	case before == never:
		return at
	}
	return before
}

// offers says that the worker could be given an execution of a runtime, apart from its health. now
// is the database's clock.
func (w *candidate) offers(runtime string, now time.Duration) bool {
	return w.fitSince != never && now <= w.leaseEnds && slices.Contains(w.runtimes, runtime)
}

// given counts a dispatch to the worker.
func (w *candidate) given(at time.Duration) {
	if w.load++; w.load == 1 {
		w.busySince = at
	}
	w.waiting++
	w.idleSince = never
	if w.load >= w.capacity {
		w.roomSince = never
	}
}

// released counts an execution that a transition takes from the worker.
func (w *candidate) released(e *history.Event) {
	if e.From == execution.Scheduled && w.waiting > 0 {
		w.waiting--
	}
	if held := e.From == execution.Scheduled || oracle.Claimed(e.From); !held || oracle.Claimed(e.To) || w.load == 0 {
		return
	}
	if w.freed = append(w.freed, e.At); len(w.freed) > w.capacity {
		w.freed = slices.Delete(w.freed, 0, 1)
	}
	if w.load--; w.load == 0 {
		w.idleSince, w.busySince = e.At, never
	}
	if w.load < w.capacity && w.roomSince == never {
		w.roomSince = e.At
	}
}

// seemedFull says that an executor that looked at the workers at that moment or later may take it
// for full. What was taken from the worker since then still counts for the executor, beside what it
// has given the worker in the same pass.
func (w *candidate) seemedFull(look time.Duration) bool {
	load := w.load
	for _, at := range w.freed {
		if at >= look {
			load++
		}
	}
	return load >= w.capacity
}
