package store

import (
	"time"

	"handoff/core/execution"
)

// SchedulingClaim is a request for due rows to schedule. Requested rows wait in lanes: one for each runtime,
// and one for each runtime and worker that rows are pinned to. Rows of the lanes that Demands names come
// first, oldest due first across all lanes.
type SchedulingClaim struct {
	Executor string
	Expiry   time.Duration
	// Demands holds how many rows of each lane can be placed. A lane whose workers are all full has a limit
	// of 0: none of its rows is claimed, and it costs nothing, regardless of how many rows wait there.
	Demands []Demand
	// Pools bounds the rows of all demands of a pool together. The index is the pool's number.
	Pools []int
	// Others bounds the rows of lanes that Demands does not name. No worker fits those rows; they are claimed
	// so that the scheduler can report that. They come after the rows of the named lanes and get only the
	// slots that these leave free. They are ordered by runtime, and then by pinned worker.
	Others int
}

// Demand is a request for rows of one lane. A lane that is named twice gets the sum of both limits.
type Demand struct {
	Runtime string
	// Pinned is the worker that the rows are pinned to; 0 for unpinned rows.
	Pinned execution.WorkerID
	// Limit bounds the rows of this lane. Rows pinned to one worker share its capacity: over all
	// runtimes together, the claim takes at most the largest of that worker's limits.
	Limit int
	// Pool is the number, from 0, of the set of workers that can run the rows. Demands with a worker in
	// common name the same pool. A pool without an entry in SchedulingClaim.Pools has no bound of its own.
	Pool int
}

// Dispatch hands one claimed row to a worker. Key has the epoch of the scheduling claim.
type Dispatch struct {
	Key    execution.Key
	Worker WorkerKey
	// Timeout is how long the dispatch may wait until a worker claims it.
	Timeout time.Duration
	// Limit bounds the rows that the worker may hold, including this one; 0 for any number. The database
	// judges it by its own count, so that two executors do not fill one worker twice (defect D42). If they
	// dispatch simultaneously, each count in a real database may miss the other executor's rows.
	Limit int
}

// DueDispatch is a request to move due rows directly from requested to scheduled.
type DueDispatch struct {
	Executor string
	// Expiry is the duration of the scheduling claim. The row is claimed only for a moment, but keeps the
	// expiry as after any claim.
	Expiry time.Duration
	// Timeout is how long a dispatch may wait until a worker claims it, unless the row's action sets its own.
	Timeout time.Duration
	// Offers holds the free places of workers. No two offers have a runtime in common.
	Offers []Offer
}

// Offer holds the free places of workers that all offer the same runtimes.
type Offer struct {
	Runtimes []string
	// Spread has the worker of the first row, of the second, and so on. Packed has as many places, and is
	// used if at least as many rows are due. More rows may be waiting then, so consecutive rows go to one
	// worker.
	Spread, Packed []Place
}

// Place is a worker that may get one more row. Limit bounds the rows that it may hold, including that one, as
// in Dispatch; 0 for any number.
type Place struct {
	Worker WorkerKey
	Limit  int
}

// DueDispatched is the result of a DueDispatch.
type DueDispatched struct {
	// Rows are in their state after the step. The rows of one offer are in the order of their places.
	Rows []execution.Execution
	// Full reports whether, for some offer, at least as many rows were due as it has places, so that more may
	// be waiting.
	Full bool
	// Unfit counts the rows that stayed as they are because the worker of their place no longer fitted.
	Unfit int
	// Others reports whether rows are due that this step never takes: rows of other lanes, or rows that avoid
	// a worker.
	Others bool
}

// DispatchResult is the result of a Dispatch.
type DispatchResult struct {
	Outcome
	// WorkerUnfit reports whether the claim is still valid but the worker no longer fits.
	WorkerUnfit bool
}

// Outcome is the result of a guarded write. If the write was refused, Row is the row's current
// state: a writer whose earlier attempt had an unknown outcome recognises its own write in it.
type Outcome struct {
	Applied bool
	// From is the row's status before the step. If the step was refused, it is the status of Row.
	From execution.Status
	// Row is the row after the step; its ID is zero if no such row exists.
	Row execution.Execution
}

// Park is a request to release a claimed row without scheduling it.
type Park struct {
	Key execution.Key
	// Delay is how long the row waits before it is due again.
	Delay time.Duration
	// Unschedulable reports whether no worker fits at all. If the fitting workers are only full, it is
	// false, and the grace does not run.
	Unschedulable bool
	// Grace is how long a row may stay unschedulable before it fails with Result.
	//
	// A row's grace starts over if the row was due for longer than Patience before any executor looked at it,
	// because a worker may have fitted meanwhile. It also starts over if the row's claim expired.
	//
	// Watched is the time for which the caller knows that no worker fitted. It may not have examined this
	// row, which may have waited for a concurrency slot. A new grace begins that long ago, but not before the
	// old grace. Seen is the time since the caller saw a fitting worker, 0 if it never did; no grace begins
	// before that.
	Grace    time.Duration
	Patience time.Duration
	Watched  time.Duration
	Seen     time.Duration
	Result   execution.Result
}
