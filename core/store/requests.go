package store

import (
	"encoding/json"
	"fmt"
	"time"

	"handoff/core/config"
	"handoff/core/execution"
)

// NewExecution is a request to run an action.
type NewExecution struct {
	ActionRef  string
	Parameters json.RawMessage
	// IdempotencyKey makes it harmless to repeat the request within execution.KeyLifetime. Without
	// a key a repeated request creates another execution.
	IdempotencyKey string
	// Parent is any row of the parent chain, if the execution is a workflow child; else 0.
	Parent execution.ID
	// Pinned is the only worker that may run it; 0 for any.
	Pinned execution.WorkerID
	// Limits replace the action's limits for this execution and its retries. A negative limit is an
	// error.
	Limits execution.Limits
	// Actor asks for it, as in Reclaim.Actor.
	Actor string
}

// Created is the outcome of one NewExecution.
type Created struct {
	ID execution.ID
	// Existed says that the idempotency key had been used before, and that ID is the execution
	// created then.
	Existed bool
	// UnknownAction says that nothing was created because the action does not exist. UnknownWorker
	// says the same if the worker it is pinned to has never registered.
	UnknownAction bool
	// UnknownParent says that nothing was created because the parent does not exist.
	UnknownParent bool
	UnknownWorker bool
	// Skipped says that the row was cancelled in the same step, because its parent's chain had not
	// completed and its end was already handled.
	Skipped bool
}

// Cancellation is the answer to a request to cancel a chain. Applied says that it was accepted. Row
// is the chain's last row after the step; its ID is zero if there is no such execution.
type Cancellation struct{ Outcome }

// ActionQuery asks for a page of at most Limit actions whose refs come after After. A Ref that is
// not empty asks for this action alone.
type ActionQuery struct {
	Ref, After string
	Limit      int
}

// Matches says whether an action may be in the page.
func (q *ActionQuery) Matches(ref string) bool { return ref > q.After && (q.Ref == "" || q.Ref == ref) }

// TransitionQuery asks for a page of the audit of one execution.
type TransitionQuery struct {
	Execution execution.ID
	// The page begins behind the line After; 0 begins with the first.
	After int64
	Limit int
}

// Transition is one line of the audit. From is None for the creation.
type Transition struct {
	// Line grows from one line to the next.
	Line int64
	// Unknown names the values of the line that this program does not know; their fields are left
	// at zero. Empty if there are none.
	Unknown  string
	From, To execution.Status
	// Epoch is the row's epoch after the change.
	Epoch execution.Epoch
	// By is the part that wrote. Writer is the incarnation if a worker wrote.
	By     execution.Part
	Writer execution.Incarnation
	// Worker and Incarnation are the owner: before the change if it took the row back, otherwise
	// after it.
	Worker      execution.WorkerID
	Incarnation execution.Incarnation
	Reason      execution.Reason
	// Actor asked for it, as in Reclaim.Actor; empty for the own decisions of executors and
	// workers.
	Actor string
	At    time.Time
}

// WorkerKey names one incarnation of one worker.
type WorkerKey struct {
	ID          execution.WorkerID
	Incarnation execution.Incarnation
}

// WorkerRow is a worker as the database's clock judges it at the moment of the call.
type WorkerRow struct {
	WorkerKey
	Name          string
	Lifecycle     execution.Lifecycle
	Runtimes      []string
	Capacity      int
	ConsumerAlive bool
	// Beat is the number of its latest heartbeat.
	Beat uint64
	// LastBeat is the time of its latest heartbeat, zero before the first. It is for display, not
	// for comparisons.
	LastBeat time.Time
	// SinceBeat is the time since its latest heartbeat or, before the first, since its
	// registration.
	SinceBeat time.Duration
	// LeaseOverFor is how long ago the lease ended; zero or less while it is valid.
	LeaseOverFor time.Duration
	// Load counts the rows that are scheduled at this incarnation or run on it. Queued counts only
	// the scheduled ones.
	Load, Queued int
	// FullFor is how long every slot of the incarnation has been taken, since the claim that took
	// the last one; 0 while a slot is free. A dispatch that waits at this worker may have to wait
	// as long again.
	FullFor time.Duration
	// Cordoned says that an operator keeps new work away, for the reason CordonReason.
	// CordonChangedBy is the Actor of the latest Cordon, set or lifted.
	Cordoned        bool
	CordonReason    string
	CordonChangedBy string
	// Figures are the latest figures that the incarnation reported. Their ages are brought up to
	// the present.
	Figures execution.Figures
	// Expired lists dispatches that were taken back because the incarnation left them unclaimed
	// past their deadline while it stayed active (Reclaim.Counts): how long ago each was taken
	// back, latest first, a hundred at most. The worker can't report those itself.
	Expired []time.Duration
	// HealthURL is the address of its health endpoint; empty for none.
	HealthURL string
	// Messages is the latest version of a dispatch message that the worker says it reads. 0 means
	// that it does not say, and reads the first version.
	Messages int
	// Unreadable says which values of the row this program can't read; their fields are left at
	// zero. Empty if there are none.
	Unreadable string
}

// LeaseValid says whether now ≤ lease_expires_at (defect D34).
func (w *WorkerRow) LeaseValid() bool { return w.LeaseOverFor <= 0 }

// Evidence returns all known failures of the worker within the window: those that it reports, and
// the dispatches that it left unclaimed, which it can't report. The unclaimed ones count as
// consecutive failures, whatever the worker has run since: a successful run says nothing about the
// dispatches that it does not pick up.
func (w *WorkerRow) Evidence(window time.Duration) execution.Figures {
	f := w.Figures
	for i, ago := range w.Expired {
		if ago > window {
			break
		}
		if i == 0 && (f.Failed+f.Consecutive == 0 || ago < f.LastFailure) {
			f.LastFailure = ago
		}
		f.Total++
		f.Failed++
		f.Consecutive++
	}
	return f
}

// Fits says whether the worker may get an execution of this runtime now, whatever its health.
func (w *WorkerRow) Fits(runtime string) bool {
	if w.Unreadable != "" || w.Lifecycle != execution.Active || !w.LeaseValid() || !w.ConsumerAlive || w.Cordoned {
		return false
	}
	return w.Runs(runtime)
}

// Runs says whether the worker offers a runtime.
func (w *WorkerRow) Runs(runtime string) bool {
	for _, r := range w.Runtimes {
		if r == runtime {
			return true
		}
	}
	return false
}

// SchedulingClaim asks for due rows to schedule. Requested rows wait in lanes: one for each
// runtime, and one for each runtime and worker that rows are pinned to. Rows of the lanes that
// Demands names come first, oldest due first across all lanes.
type SchedulingClaim struct {
	Executor string
	Expiry   time.Duration
	// Demands says how many rows of each lane can be placed. A lane whose workers are all full is
	// named with a limit of 0: then nothing of it is claimed, and it costs nothing, however many
	// rows wait there.
	Demands []Demand
	// Pools bounds the rows of all demands of a pool together. The index is the pool's number.
	Pools []int
	// Others bounds the rows of lanes that Demands does not name. No worker fits those rows; they
	// are claimed so that the scheduler can say so. They come after the named rows, ordered by
	// runtime and then by the worker that they are pinned to, and get only the slots that named
	// rows left.
	Others int
}

// Demand asks for rows of one lane. A lane that is named twice gets the sum of both limits.
type Demand struct {
	Runtime string
	// Pinned is the worker that the rows are pinned to; 0 for unpinned rows.
	Pinned execution.WorkerID
	// Limit bounds the rows of this lane. Rows pinned to one worker share its capacity: over all
	// runtimes together, the claim takes at most the largest of that worker's limits.
	Limit int
	// Pool is the number, from 0, of the set of workers that can run the rows. Demands with a
	// worker in common name the same pool. A pool without an entry in SchedulingClaim.Pools has no
	// bound of its own.
	Pool int
}

// Dispatch hands one claimed row to a worker. Key has the epoch of the scheduling claim.
type Dispatch struct {
	Key    execution.Key
	Worker WorkerKey
	// Timeout is how long the dispatch may wait until a worker claims it.
	Timeout time.Duration
	// Limit is how many rows the worker may hold including this one; 0 for any number. The database
	// judges it by its own count, so that two executors do not fill one worker twice (defect D42).
	// If they dispatch at the very same moment, both counts in a real database may miss the other's
	// rows.
	Limit int
}

// DueDispatch asks to move due rows straight from requested to scheduled.
type DueDispatch struct {
	Executor string
	// Expiry is the duration of the scheduling claim, which the row has only for a moment: the row
	// keeps it, like that of any claim.
	Expiry time.Duration
	// Timeout is how long a dispatch may wait until a worker claims it, unless the row's action
	// sets its own.
	Timeout time.Duration
	// Offers are the free places of workers. No two offers have a runtime in common.
	Offers []Offer
}

// Offer is the free places of a set of workers that all offer the same runtimes.
type Offer struct {
	Runtimes []string
	// Spread has the worker of the first row, of the second, and so on. Packed has as many places,
	// for the case that at least as many rows are due: then more rows may be waiting, and
	// consecutive rows go to one worker.
	Spread, Packed []Place
}

// Place is a worker that may get one more row. Limit is how many rows it may hold including that
// one, as in Dispatch; 0 for any number.
type Place struct {
	Worker WorkerKey
	Limit  int
}

// DueDispatched is the answer to a DueDispatch.
type DueDispatched struct {
	// Rows are in their state after the step. The rows of one offer are in the order of their
	// places.
	Rows []execution.Execution
	// Full says that in some offer at least as many rows were due as it has places, so that more
	// may wait.
	Full bool
	// Unfit counts the rows that stayed as they are because the worker of their place no longer
	// fitted.
	Unfit int
	// Others says that rows are due which this step does not take: rows of other lanes, and rows
	// that avoid a worker.
	Others bool
}

// Cordon is an operator's order to keep new work from a worker, or to lift that. It belongs to the
// worker's name and outlives the incarnation.
type Cordon struct {
	Worker execution.WorkerID
	// On sets the cordon; false lifts it.
	On     bool
	Reason string
	// Drain also asks the process of the present incarnation to drain and stop. Its next heartbeat
	// tells it, even if that belongs to a later incarnation of the process.
	Drain bool
	// Actor asks for it, as in Reclaim.Actor.
	Actor string
}

// DispatchResult is the answer to a Dispatch.
type DispatchResult struct {
	Outcome
	// WorkerUnfit says that the claim is still valid but the worker no longer fitted.
	WorkerUnfit bool
}

// Outcome is the answer to a guarded write. If the write was refused, Row is the row's current
// state: a writer whose earlier attempt had an unknown outcome recognises its own write in it.
type Outcome struct {
	Applied bool
	// From is the row's status before the step. If the step was refused, it is the status of Row.
	From execution.Status
	// Row is the row after the step; its ID is zero if no such row exists.
	Row execution.Execution
}

// Park gives a row back without scheduling it.
type Park struct {
	Key execution.Key
	// Delay is how long the row waits before it is due again.
	Delay time.Duration
	// Unschedulable says that no worker fits at all. If the fitting workers are only full, it is
	// false, and the grace does not run.
	Unschedulable bool
	// Grace is how long a row may stay unschedulable before it fails with Result.
	//
	// A row's grace starts anew if the row was due for longer than Patience before any executor
	// looked at it, because meanwhile a worker may have fitted. It also starts anew if the row's
	// claim expired.
	//
	// Watched is for how long the caller knows that no worker fitted, even if it did not look at
	// this row, which may have waited for a concurrency slot. A new grace began that long ago, but
	// not before the old one. Seen is how long ago the caller saw a fitting worker, 0 if it never
	// did: no grace began before that.
	Grace    time.Duration
	Patience time.Duration
	Watched  time.Duration
	Seen     time.Duration
	Result   execution.Result
}

// ReclaimCause is why rows need attention, and why a part may reclaim them.
type ReclaimCause uint8

// The causes. Each comment names the statuses that the cause covers and when the cause applies.
const (
	NoCause ReclaimCause = iota
	// Unclaimed: scheduled for at least Age.
	Unclaimed
	// DeadLettered: scheduled, and its message died. Only for Reclaim: the dead letter is the
	// evidence, and the epoch is the guard.
	DeadLettered
	// Undeliverable: scheduled, and its message was returned or refused. Only for Reclaim.
	Undeliverable
	// Unpublished: scheduled for at least Age and never confirmed by the broker.
	Unpublished
	// UnpublishedLate: unpublished, scheduled for at least Age, and past half of the time until the
	// dispatch deadline. If its message arrived now, the worker would have little or no time left
	// to claim it.
	UnpublishedLate
	// OwnerGone: scheduled or running at an incarnation that is lost, stopped or superseded; or
	// scheduled at one that is draining. For a running row, the lease of that incarnation must also
	// have ended at least Age ago, so that its actions have ended (defect D15).
	OwnerGone
	// Overrun: running, and its run deadline passed at least Age ago.
	Overrun
	// ClaimExpired: scheduling, and the claim has expired.
	ClaimExpired
	// Unorchestrated: terminal for at least Age without terminal handling. Only for Find.
	Unorchestrated
	// Unanswered: canceling for at least Age. Only for Find.
	Unanswered
	// Unsettled: the first row of a chain whose end was handled and whose children may still wait
	// to be settled, if none was settled within the last Age. Only for Find.
	Unsettled
)

// String is the cause's name in logs and in the guard of PostgreSQL's statement.
func (g ReclaimCause) String() string {
	names := [...]string{
		"none", "unclaimed", "dead_lettered", "undeliverable", "unpublished", "unpublished_late", "owner_gone", "overrun",
		"claim_expired", "unorchestrated", "unanswered", "unsettled",
	}
	if int(g) >= len(names) {
		return fmt.Sprintf("ground %d", uint8(g))
	}
	return names[g]
}

// Finding asks for rows that need attention for one cause.
type Finding struct {
	Cause ReclaimCause
	Age   time.Duration
	Limit int
	// Skip excludes rows: a pass names the rows that it could not handle, so that Find returns the
	// rows behind them.
	Skip []execution.ID
}

// Reclaim takes back one row at one epoch.
type Reclaim struct {
	// Key was read before the call, so its epoch was committed before the call.
	Key   execution.Key
	Cause ReclaimCause
	// Age is that of the Finding, if the cause has one: the guard judges it again.
	Age    time.Duration
	By     execution.Part
	Reason execution.Reason
	// Result is the result of the row if it fails.
	Result execution.Result

	// Policy applies to rows that were never claimed: Fail, or Reschedule until MaxDispatches is
	// used up. A row taken from a draining worker is always rescheduled: an orderly stop fails
	// nothing (defect D37).
	Policy        config.Unclaimed
	MaxDispatches int
	// Counts says that this reclaim uses up a dispatch if the worker could have claimed the row: if
	// at the moment of the step it is still the same active incarnation, and was not full at any
	// time since the dispatch. The reclaim then also counts against the worker's health.
	//
	// If the worker went away, the execution is not to blame. If the row waited behind other runs,
	// neither is to blame: so Policy does not fail a row that waited at a full worker either, but
	// reschedules it. A worker is full while every run slot is taken: either a heartbeat said so
	// (Beat.WasFull), or as many rows run there now as it has slots.
	Counts bool
	// Delay is how long a rescheduled row waits before it is due.
	Delay time.Duration
	// Actor is the name of the token of the request that asks for it, for the audit. It is empty if
	// no token was needed, or if no request asked. The audit records it only if By is the dead
	// letter handler, which also does the replays that people ask for.
	Actor string

	// To is the terminal status of a row that was claimed. A row that is canceling ends as
	// cancelled, whatever To says.
	To execution.Status
}

// Reap marks one incarnation lost.
type Reap struct {
	WorkerKey
	// Beat is the heartbeat number that has not changed for a full lease, as the caller saw.
	Beat uint64
}

// Orchestration is the terminal handling of one row.
type Orchestration struct {
	ID execution.ID
	// Retry is the new row to create; nil for none.
	Retry *Retry
}

// Retry is the next row of a chain.
type Retry struct {
	Count  int
	Reason execution.Reason
	// Delay is the backoff, counted from the moment of the step.
	Delay time.Duration
}

// Orchestrated is the outcome of one Orchestration.
type Orchestrated struct {
	// Applied is false if the row's end had been handled before.
	Applied bool
	// Retry is the created row; 0 for none.
	Retry execution.ID
	// Children says that the chain has ended and that its children must be settled.
	Children bool
}

// Settled is the answer of SettleChildren for one chain.
type Settled struct {
	// Started are the ids of the children that became due. Skipped are those that were cancelled.
	Started []execution.ID
	Skipped []execution.ID
	// More says that other children of the chain still wait.
	More bool
}

// Registration is a worker process that announces itself.
type Registration struct {
	// Process is a number that the process drew at its start. Attempt grows with every attempt to
	// register: an attempt that arrives after a later one has no effect. Otherwise a delayed
	// request could supersede the very process that sent it.
	Process uint64
	Attempt uint64
	// After is the latest incarnation of the name that the process knows of; 0 for none.
	After execution.Incarnation

	Name     string
	Runtimes []string
	Capacity int
	Lease    time.Duration
	// HealthURL is the address of the worker's health endpoint; empty for none.
	HealthURL string
}

// Registered is the answer to a Registration.
type Registered struct {
	WorkerKey
}

// Beat is a heartbeat.
type Beat struct {
	WorkerKey
	// Number grows by one with every attempt of this incarnation, from 1. Acknowledged is the
	// largest number that was answered; 0 for none. A database that does not know the acknowledged
	// beat has lost writes, and the incarnation is over (ErrLost).
	Number, Acknowledged uint64
	Lease                time.Duration
	// ConsumerAlive says that the worker would receive a dispatch. A deaf worker that sends
	// heartbeats is the worst kind (defect D32).
	ConsumerAlive bool
	// Held is the registry: every execution from before its claim until after its end.
	Held []execution.Key
	// WasFull says that every run slot was taken at some moment of this incarnation. FullAgo is how
	// long ago that was last: 0 while all are taken. The guard of Reclaim uses both to tell whether
	// a row waited behind others.
	WasFull bool
	FullAgo time.Duration
	// Messages is the latest version of a dispatch message that the worker reads.
	Messages int
	// Figures say how the runs of this incarnation ended. Health is what the worker's configuration
	// derives from them.
	Figures execution.Figures
	Health  execution.Health
}

// BeatReply is the answer to a heartbeat.
type BeatReply struct {
	// Lost lists executions that the worker holds but no longer owns; it kills those actions.
	Lost []execution.Key
	// Cancel lists executions that the worker holds and is asked to end.
	Cancel []execution.Key
	// Drain says that an operator asks the worker to drain and stop.
	Drain bool
	// Starting says that, as the database knows, the worker has not become active. A worker that has
	// said so says it again: a failover to a copy that lacks the latest writes may have lost it,
	// and a starting worker gets no work.
	Starting bool
	// Ended are the rows that the heartbeat ended because the worker does not hold them, ordered by
	// id.
	Ended []Outcome
}

// Claim takes ownership of one dispatched epoch.
type Claim struct {
	Key execution.Key
	// Beat is the number of the latest heartbeat that had begun when this claim entered the
	// worker's registry.
	Beat uint64
}

// ClaimResult is the answer to a Claim.
type ClaimResult struct {
	Outcome
	// DeadlinePassed says that the row is still scheduled at this epoch, but that it is too late to
	// claim it.
	DeadlinePassed bool
}

// Finish is the end of one run.
type Finish struct {
	Key    execution.Key
	To     execution.Status
	Reason execution.Reason
	Result execution.Result
}

// CancelledResult is the result of a row that was cancelled before any worker claimed it.
func CancelledResult() execution.Result {
	return execution.Result{Error: "Execution cancelled", Message: "it was cancelled before a worker claimed it", FailedBy: execution.API}
}

// SkippedResult is the result of a child whose parent did not complete.
func SkippedResult() execution.Result {
	return execution.Result{Error: "Execution skipped", Message: "its parent did not complete", FailedBy: execution.ExecutionManager}
}
