package invariant

import (
	"slices"
	"time"

	"handoff/chaos/history"
	"handoff/chaos/oracle"
	"handoff/core/execution"
)

// never is a moment that does not come.
const never = time.Duration(1<<63 - 1)

// candidate is what the history has said of one incarnation as somebody who may get work.
type candidate struct {
	worker      execution.WorkerID
	incarnation execution.Incarnation
	runtimes    []string
	capacity    int
	state       execution.Lifecycle
	// left says that it has drained, stopped or was lost or superseded: none of these ever passes.
	left      bool
	leaseEnds time.Duration
	// leaseOver is when the lease ends by a clock that nobody moves.
	leaseOver time.Duration
	consuming bool
	unhealthy bool
	load      int
	// claims is how much it has begun to run.
	claims int
	// waiting is how many dispatches it has not claimed.
	waiting int

	// failures are the runs that ended for a reason that blames the worker: the truth about what it reports.
	failures []time.Duration
	// snapshots are what was known of its health, and from when on.
	snapshots []snapshot

	// fitSince, goodSince and idleSince are since when it could be given work, could and was not unhealthy,
	// and holds nothing; never if it is not so.
	fitSince, goodSince, idleSince time.Duration
	// fitUntil is when it could be given work the last time for longer than brief, while it can't be. Executors that look
	// twice at what waits, that far apart, rightly know nothing of a shorter time between.
	fitUntil, brief time.Duration
	// goodUntil is when it could be given work and was not unhealthy the last time, while it is not so.
	goodUntil time.Duration
	// roomSince is since when it has held less than its capacity; never while it is full.
	roomSince time.Duration
	// busySince is since when it has held something; never while it holds nothing.
	busySince time.Duration
}

// snapshot is the evidence for a worker's health from a moment on.
type snapshot struct {
	from                       time.Duration
	total, failed, consecutive int
	lastFailure                time.Duration
	// expired are the dispatches that it left unclaimed while it stayed active.
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
	w.fitSince, w.goodSince = never, never
}

// unfit notes that the worker could be given work until then.
func (w *candidate) unfit(at time.Duration) {
	w.fitUntil = w.lastFit(at)
	w.bad(at)
}

// bad notes that the worker was not unhealthy until then.
func (w *candidate) bad(at time.Duration) {
	if w.goodSince != never {
		w.goodUntil = max(w.goodUntil, min(at, w.leaseOver))
	}
}

// lastFit is when the worker could be given work the last time, for longer than brief. It is negative if it never could.
func (w *candidate) lastFit(now time.Duration) time.Duration {
	if until := min(now, w.leaseOver); w.fitSince != never && until-w.fitSince > w.brief {
		return max(w.fitUntil, until)
	}
	return w.fitUntil
}

// beat renews the lease; now is the database's clock, on which leases end.
func (w *candidate) beat(e *history.Event, now time.Duration, cordoned bool) {
	if now > w.leaseEnds {
		// It was over: what held since before that begins anew.
		w.unfit(e.At)
		w.fitSince, w.goodSince = never, never
	}
	w.leaseEnds, w.leaseOver, w.consuming = e.Due, e.At+e.Due-now, e.Limit == 1
	w.settle(e.At, cordoned)
}

func (w *candidate) begin(at time.Duration, cordoned bool) {
	w.idleSince, w.roomSince, w.busySince = at, at, never
	w.settle(at, cordoned)
}

// settle brings the moments up to date after a change.
func (w *candidate) settle(at time.Duration, cordoned bool) {
	fit := w.state == execution.Active && !w.left && w.consuming && !cordoned
	switch {
	case !fit:
		w.unfit(at)
	case w.unhealthy:
		w.bad(at)
	}
	w.fitSince = since(w.fitSince, at, fit)
	w.goodSince = since(w.goodSince, at, fit && !w.unhealthy)
}

// since is the moment from which on something holds.
func since(before, at time.Duration, holds bool) time.Duration {
	switch {
	case !holds:
		return never
	case before == never:
		return at
	}
	return before
}

// offers says that the worker could be given an execution of a runtime, by all but its health; now is the
// database's clock.
func (w *candidate) offers(runtime string, now time.Duration) bool {
	return w.fitSince != never && now <= w.leaseEnds && slices.Contains(w.runtimes, runtime)
}

// given counts a dispatch to it.
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

// released counts what a transition takes from it.
func (w *candidate) released(e *history.Event) {
	if e.From == execution.Scheduled && w.waiting > 0 {
		w.waiting--
	}
	if held := e.From == execution.Scheduled || oracle.Claimed(e.From); !held || oracle.Claimed(e.To) || w.load == 0 {
		return
	}
	if w.load--; w.load == 0 {
		w.idleSince, w.busySince = e.At, never
	}
	if w.load < w.capacity && w.roomSince == never {
		w.roomSince = e.At
	}
}
