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
	// IdempotencyKey makes repeating the request within execution.KeyLifetime harmless; empty means that it is not.
	IdempotencyKey string
	// Parent is any row of the chain that the execution is a workflow child of; 0 for none.
	Parent execution.ID
	// Pinned is the only worker that may run it, 0 for any.
	Pinned execution.WorkerID
	// Limits replace what the action says, for this execution and its retries. A negative one is an error.
	Limits execution.Limits
	// Actor is who asks, as Reclaim.Actor.
	Actor string
}

// Created is the outcome of one NewExecution.
type Created struct {
	ID execution.ID
	// Existed says that the idempotency key had been used before.
	Existed bool
	// UnknownAction says that nothing was created, because no such action exists, and UnknownWorker
	// because the worker that it is pinned to has never registered.
	UnknownAction bool
	// UnknownParent says that nothing was created, because the parent does not exist.
	UnknownParent bool
	UnknownWorker bool
	// Skipped says that the row was cancelled in the same step, because its parent's chain had ended otherwise than
	// completed and been handled.
	Skipped bool
}

// Cancellation is what became of a request to cancel a chain. Applied says that it was accepted; Row is
// the chain's last row after the step, its ID zero if there is no such execution.
type Cancellation struct{ Outcome }

// ActionQuery asks for a page of at most Limit actions: those whose refs come after After, or the one that Ref
// names where it is not empty.
type ActionQuery struct {
	Ref, After string
	Limit      int
}

// Matches says that an action may be in the page.
func (q *ActionQuery) Matches(ref string) bool { return ref > q.After && (q.Ref == "" || q.Ref == ref) }

// TransitionQuery asks for a page of the audit of one execution.
type TransitionQuery struct {
	Execution execution.ID
	// After is the Line behind which the page begins, 0 for the first.
	After int64
	Limit int
}

// Transition is one line of the audit. From is None for the creation.
type Transition struct {
	// Line grows from line to line.
	Line int64
	// Unknown says which of the line's words this program does not know: they are left out below. Empty for none.
	Unknown  string
	From, To execution.Status
	// Epoch is the row's after the change.
	Epoch execution.Epoch
	// By is the part that wrote, Writer the incarnation if it was a worker's.
	By     execution.Part
	Writer execution.Incarnation
	// Worker and Incarnation are the owner: before a take-back, else after.
	Worker      execution.WorkerID
	Incarnation execution.Incarnation
	Reason      execution.Reason
	// Actor is who asked for it, as Reclaim.Actor; empty for what executors and workers do by themselves.
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
	// LastBeat is when its latest heartbeat was, the zero time before the first; it is to be shown, not compared with.
	LastBeat time.Time
	// SinceBeat is how long ago its latest heartbeat was, or its registration before the first.
	SinceBeat time.Duration
	// LeaseOverFor is how long ago the lease ended: zero or less while it is valid.
	LeaseOverFor time.Duration
	// Load counts the rows that are scheduled at this incarnation or run on it, Queued those of them
	// that are scheduled.
	Load, Queued int
	// FullFor is how long every slot of the incarnation has been taken, counted from the claim that took the last
	// one; 0 while a slot is free. A dispatch that waits there may have to wait as long again.
	FullFor time.Duration
	// Cordoned says that an operator keeps new work away, CordonReason why. CordonChangedBy is the Actor of the Cordon
	// that was set or lifted last.
	Cordoned        bool
	CordonReason    string
	CordonChangedBy string
	// Figures are what the incarnation reported last, as old as they are now.
	Figures execution.Figures
	// Expired is how long ago each of the dispatches was taken back that the incarnation had left
	// unclaimed past their deadline while it stayed active (Reclaim.Counts): the latest first, a
	// hundred at most. The worker can't report those.
	Expired []time.Duration
	// HealthURL is where its health endpoint answers, empty for none.
	HealthURL string
	// Messages is the latest version of a dispatch message that it says it reads; 0 for one that says nothing of it, which
	// reads the first.
	Messages int
	// Unreadable says what of the row this program can't read, and leaves at zero; empty for nothing.
	Unreadable string
}

// LeaseValid says that now ≤ lease_expires_at (defect D34).
func (w *WorkerRow) LeaseValid() bool { return w.LeaseOverFor <= 0 }

// Evidence is everything that is known of the worker's failures within the window: what it reports, and
// the dispatches that it left unclaimed, which it can't report. Those count as consecutive whatever it
// ran since: what it picks up says nothing of what it leaves lying.
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

// Fits says whether the worker may be given an execution of this runtime now, whatever its health.
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

// SchedulingClaim asks for due rows to schedule. Requested rows wait in lanes: one for each runtime, and one for
// each runtime and worker that rows are pinned to. Rows of the lanes that Demands names come first, oldest due
// first across all lanes.
type SchedulingClaim struct {
	Executor string
	Expiry   time.Duration
	// Demands says how many rows of each lane can be placed. A lane whose workers are all full is named with a
	// limit of 0: nothing of it is claimed, and looking at it costs nothing, however many rows wait there.
	Demands []Demand
	// Pools bounds the rows that all demands of a pool get together, by the number of the pool.
	Pools []int
	// Others bounds the rows of lanes that Demands does not name. No worker fits those; they are claimed so that
	// the scheduler can say so. They come after the named rows, ordered by runtime and then by the worker that
	// they are pinned to, and get only the slots that named rows left.
	Others int
}

// Demand asks for rows of one lane. A lane that is named twice gets the sum of both limits.
type Demand struct {
	Runtime string
	// Pinned is the worker that the rows are pinned to; 0 stands for unpinned rows.
	Pinned execution.WorkerID
	// Limit bounds the rows of this lane. Rows pinned to one worker share its room: over all runtimes together no
	// more are claimed than the largest of that worker's limits.
	Limit int
	// Pool is the number, from 0, of the set of workers that the rows can go to: demands that have workers in
	// common name the same pool. A pool that SchedulingClaim.Pools does not mention has no bound of its own.
	Pool int
}

// Dispatch hands one claimed row to a worker. Key is the epoch of the scheduling claim.
type Dispatch struct {
	Key    execution.Key
	Worker WorkerKey
	// Timeout is how long the dispatch may wait for its claim.
	Timeout time.Duration
	// Limit is how many rows the worker may hold with this one; 0 for any number. It is judged by the
	// count in the database, so that two executors do not fill one worker twice (defect D42). Where they
	// dispatch at the very same moment a real database may count before either.
	Limit int
}

// DueDispatch asks to move due rows straight from requested to scheduled.
type DueDispatch struct {
	Executor string
	// Expiry is of the scheduling claim that the row has had for a moment: it stays in the row, as that of any claim.
	Expiry time.Duration
	// Timeout is how long a dispatch may wait for its claim where the row's action does not say.
	Timeout time.Duration
	// Offers say what workers can take. No two of them have a runtime in common.
	Offers []Offer
}

// Offer is what a set of workers can take that all offer the same runtimes.
type Offer struct {
	Runtimes []string
	// Spread has the worker of the first row, of the second, and so on. Packed has as many, for when at least as many
	// rows are due: then more may wait than are taken, and rows in a row go to one worker.
	Spread, Packed []Place
}

// Place is a worker that may be given one more row. Limit is how many it may hold with it, as in Dispatch; 0 for any
// number.
type Place struct {
	Worker WorkerKey
	Limit  int
}

// DueDispatched is what became of a DueDispatch.
type DueDispatched struct {
	// Rows are as they are after the step, those of one offer in the order of their places.
	Rows []execution.Execution
	// Full says that in some offer as many rows were due as it has places, so that more may wait.
	Full bool
	// Unfit counts the rows that stayed as they are because the worker of their place did not fit any more.
	Unfit int
	// Others says that rows are due which this step does not take: those of other lanes, and those that avoid a worker.
	Others bool
}

// Cordon is an operator's word on a worker's name: it outlives the incarnation.
type Cordon struct {
	Worker execution.WorkerID
	// On cordons, false lifts it.
	On     bool
	Reason string
	// Drain asks the process of the present incarnation, beside the cordon, to drain and stop; its next heartbeat
	// tells it, be it that of a later incarnation.
	Drain bool
	// Actor is who asks, as Reclaim.Actor.
	Actor string
}

// DispatchResult says what became of a Dispatch.
type DispatchResult struct {
	Outcome
	// WorkerUnfit says that the claim still stands but the worker did not fit any more.
	WorkerUnfit bool
}

// Outcome says what became of a guarded write. When it was refused, Row is what stands there now,
// which is how a writer whose earlier attempt had an unknown outcome recognises its own write.
type Outcome struct {
	Applied bool
	// From is the row's status before the step; where it was refused that is the status of Row.
	From execution.Status
	// Row is the row after the step; its ID is zero if no such row exists.
	Row execution.Execution
}

// Park gives up scheduling a row for now.
type Park struct {
	Key execution.Key
	// Delay is how long the row waits before it is due again.
	Delay time.Duration
	// Unschedulable says that no worker fits at all, as opposed to all of them being full; only
	// then the grace runs.
	Unschedulable bool
	// Grace is how long a row may be unschedulable in a row before it fails with Result. A row that was
	// due for longer than Patience before anybody looked starts its grace anew: while nobody looked,
	// nobody knows whether a worker fitted. So does one whose claim expired. Watched is for how long the
	// caller knows that none did, though it did not look at this row, which may have waited for a
	// concurrency slot: the new grace has begun so long ago, but not before the old one. Seen is how long ago
	// the caller saw one that fitted, 0 if it has seen none: no grace has begun before that.
	Grace    time.Duration
	Patience time.Duration
	Watched  time.Duration
	Seen     time.Duration
	Result   execution.Result
}

// ReclaimCause is why rows need attention, and why a reclaim of them is lawful.
type ReclaimCause uint8

// The causes. Each names the statuses that it covers and when the database finds it given.
const (
	NoCause ReclaimCause = iota
	// Unclaimed: scheduled for at least Age.
	Unclaimed
	// DeadLettered: scheduled, and its message died. Only for Reclaim: the dead letter is the
	// evidence, the epoch the guard.
	DeadLettered
	// Undeliverable: scheduled, and its message was returned or refused. Only for Reclaim.
	Undeliverable
	// Unpublished: scheduled for at least Age and never confirmed by the broker.
	Unpublished
	// UnpublishedLate: unpublished, scheduled for at least Age, and past half of the time until the dispatch deadline:
	// whoever got its message now would have little time left to claim it, or none.
	UnpublishedLate
	// OwnerGone: scheduled or running at an incarnation that is lost, stopped or superseded; or
	// scheduled at one that is draining. A running row needs in addition that the lease of that
	// incarnation ended at least Age ago, so that its actions have ended (defect D15).
	OwnerGone
	// Overrun: running, and its run deadline passed at least Age ago.
	Overrun
	// ClaimExpired: scheduling, and the claim has expired.
	ClaimExpired
	// Unorchestrated: terminal for at least Age without terminal handling. Only for Find.
	Unorchestrated
	// Unanswered: canceling for at least Age. Only for Find.
	Unanswered
	// Unsettled: the first row of a chain whose end was handled and whose children may still wait to be settled,
	// none of them settled within the last Age. Only for Find.
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

// Finding asks for rows that need attention on one cause.
type Finding struct {
	Cause ReclaimCause
	Age   time.Duration
	Limit int
	// Skip excludes rows: a pass names those that it could not handle, so that Find returns the rows behind them.
	Skip []execution.ID
}

// Reclaim takes one epoch of one row back.
type Reclaim struct {
	// Key is one that was read: of an epoch that was committed before the call.
	Key   execution.Key
	Cause ReclaimCause
	// Age is the Finding's, where the cause has one: it is judged again in the guard.
	Age    time.Duration
	By     execution.Part
	Reason execution.Reason
	// Result is what a failed row is left with.
	Result execution.Result

	// Policy, for rows that were never claimed: Fail, or Reschedule until MaxDispatches is used up. What is
	// taken from a worker that drains is rescheduled in any case: to stop in order fails nothing (defect D37).
	Policy        config.Unclaimed
	MaxDispatches int
	// Counts says that this take-back counts as a used dispatch if the worker could have claimed the row: at the
	// moment of the step it is still the same active incarnation, and it was not full at any time since the
	// dispatch. It then also counts against the worker's health. The execution is not to blame for a worker that
	// went away, and nobody is to blame for waiting behind other runs: a row that waited at a full worker is not
	// failed by Policy either, but rescheduled. A worker is full while every run slot is taken: it has said so
	// with a heartbeat (Beat.WasFull), or as many rows run there now as it has slots.
	Counts bool
	// Delay is how long a rescheduled row waits before it is due.
	Delay time.Duration
	// Actor is the name of the token of the request that asks for it, for the audit; empty where no token was needed, or
	// nobody asked. The audit has it only where By is the dead letter handler, on whose behalf replays are asked for.
	Actor string

	// To is the terminal status of a row that was claimed. One that is canceling ends as cancelled whatever
	// To says.
	To execution.Status
}

// Reap marks one incarnation lost.
type Reap struct {
	WorkerKey
	// Beat is the heartbeat number that the caller has seen unchanged for a full lease.
	Beat uint64
}

// Orchestration is the terminal handling of one row.
type Orchestration struct {
	ID execution.ID
	// Retry is the new row to create, nil for none.
	Retry *Retry
}

// Retry is the next row of a chain.
type Retry struct {
	Count  int
	Reason execution.Reason
	// Delay is the backoff, from the moment of the step.
	Delay time.Duration
}

// Orchestrated is the outcome of one Orchestration.
type Orchestrated struct {
	// Applied is false when somebody else had done it.
	Applied bool
	// Retry is the row that was created, 0 for none.
	Retry execution.ID
	// Children says that the chain has ended and has children to settle.
	Children bool
}

// Settled is the answer of SettleChildren for one chain.
type Settled struct {
	// Started and Skipped are the ids of the children that became due and that were cancelled.
	Started []execution.ID
	Skipped []execution.ID
	// More says that other children of the chain still wait.
	More bool
}

// Registration is a worker process announcing itself.
type Registration struct {
	// Process is a number that the process drew at its start, and Attempt grows with its every
	// attempt to register: an attempt that arrives after a later one has no effect. Without them a
	// request that the network held back would supersede the very process that sent it.
	Process uint64
	Attempt uint64
	// After is the latest incarnation of the name that the process has seen, 0 for none.
	After execution.Incarnation

	Name     string
	Runtimes []string
	Capacity int
	Lease    time.Duration
	// HealthURL is where the worker's health endpoint answers, empty for none.
	HealthURL string
}

// Registered is the answer to a Registration.
type Registered struct {
	WorkerKey
}

// Beat is a heartbeat.
type Beat struct {
	WorkerKey
	// Number grows by one with every attempt of this incarnation, from 1. Acknowledged is the largest that was answered,
	// 0 for none: a database that has not had it has lost writes, and the incarnation is over (ErrLost).
	Number, Acknowledged uint64
	Lease                time.Duration
	// ConsumerAlive says that the worker would receive a dispatch (a deaf worker that heartbeats is
	// the worst kind, defect D32).
	ConsumerAlive bool
	// Held is the registry: everything from before its claim to after its end.
	Held []execution.Key
	// WasFull says that every run slot was taken at some moment of this incarnation, and FullAgo how long ago that
	// was last: 0 while all are taken. The guard of Reclaim uses it to tell whether a row waited behind others.
	WasFull bool
	FullAgo time.Duration
	// Messages is the latest version of a dispatch message that the worker reads.
	Messages int
	// Figures are how the runs of this incarnation ended, Health what its configuration makes of them.
	Figures execution.Figures
	Health  execution.Health
}

// BeatReply is the answer to a heartbeat.
type BeatReply struct {
	// Lost lists what the worker holds but does not own any more; it kills those actions.
	Lost []execution.Key
	// Cancel lists what it holds and is asked to end.
	Cancel []execution.Key
	// Drain says that an operator wants the worker to drain and stop.
	Drain bool
	// Ended are the rows that were ended because the worker does not hold them, ordered by id.
	Ended []Outcome
}

// Claim takes ownership of one dispatched epoch.
type Claim struct {
	Key execution.Key
	// Beat is the number of the latest heartbeat that was begun when this claim entered the
	// worker's registry.
	Beat uint64
}

// ClaimResult says what became of a Claim.
type ClaimResult struct {
	Outcome
	// DeadlinePassed says that the row is still scheduled at this epoch, but too late to be claimed.
	DeadlinePassed bool
}

// Finish is the end of one run.
type Finish struct {
	Key    execution.Key
	To     execution.Status
	Reason execution.Reason
	Result execution.Result
}

// CancelledResult is what a row is left with that was cancelled before anybody claimed it.
func CancelledResult() execution.Result {
	return execution.Result{Error: "Execution cancelled", Message: "it was cancelled before a worker claimed it", FailedBy: execution.API}
}

// SkippedResult is what a child is left with whose parent did not complete.
func SkippedResult() execution.Result {
	return execution.Result{Error: "Execution skipped", Message: "its parent did not complete", FailedBy: execution.ExecutionManager}
}
