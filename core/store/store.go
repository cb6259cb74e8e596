// Package store declares the database as the core sees it: a set of atomic steps.
//
// Every method is one step that PostgreSQL can do in one guarded statement or one short transaction, for many
// rows at a time. The guard is inside the step: a row is only changed if it still is as the caller believes
// (id, status, epoch, and the step's other conditions). The newest version of the row decides. That makes
// every handler idempotent and every race harmless. Of two writers at one epoch, one finds the row and the
// other does not; the loser gets the current row.
//
// A call about several rows is a separate step for each of them, each at its own time, because a statement is
// repeated row by row if it failed, or waited for a row that another session had locked. An error is then
// about the whole call, although some of its rows may be done. An answer that names its row is valid even if
// an error comes with it. Any other row may have been applied, too, so the caller repeats the call for those
// with the same epochs.
//
// All times are the database's. Callers pass durations, and get durations or verdicts back. They
// never compare a database time with their own clock (defect D35).
//
// # Why epochs fence
//
// Each dispatch, reclaim and release raises the epoch in the same step that changes the status. A claim, a
// result or a reclaim names the epoch for which it was decided. So a decision takes effect only if none of
// these happened between it and its write. A late worker's result finds another epoch, and so does a late
// dead letter. A status that has become "scheduled" again (the ABA problem of defect D3) has a higher epoch.
// Terminal rows never change status, so a write to a terminal row is refused whatever its epoch.
package store

import (
	"context"
	"errors"
	"time"

	"handoff/core/execution"
)

// Errors that every method may return. Any other error means that the request itself was wrong; it is not
// retried.
var (
	// ErrUnavailable: the database could not be reached, or temporarily refused the call; nothing was
	// applied.
	ErrUnavailable = errors.New("database unavailable")
	// ErrUnknownOutcome: the connection or the deadline ended before the reply. The step was
	// applied wholly or not at all, and the caller can't know which.
	ErrUnknownOutcome = errors.New("database outcome unknown")
	// ErrSuperseded: a newer incarnation of the same worker name has registered.
	ErrSuperseded = errors.New("worker superseded by a newer incarnation")
	// ErrLost: the incarnation was marked lost or has stopped; the worker may register a new one.
	ErrLost = errors.New("worker incarnation is gone")
	// ErrLeaseOver: the incarnation is valid, but by the database's clock its lease had ended when the call
	// was made. Nothing was applied. If that clock was set forward, this happens to a healthy worker, so the
	// worker does not end its runs: it renews its lease and retries.
	ErrLeaseOver = errors.New("worker lease is over by the database's clock")
	// ErrUnreadable: a row has a value that this program does not know; a person or a newer program wrote it.
	// The error's text names the row and what is wrong with it.
	ErrUnreadable = errors.New("a row can't be read")
)

// Retriable reports whether err is temporary, so that the same call may succeed later.
func Retriable(err error) bool {
	return errors.Is(err, ErrUnavailable) || errors.Is(err, ErrUnknownOutcome)
}

// Store is everything that the core needs from the database: the union of the interfaces for each kind
// of process. Each process gets only its part.
type Store interface {
	Client
	Executor
	Worker
}

// Reader reads rows.
type Reader interface {
	// Executions returns the existing rows among ids, ordered by id. If it can't read some of them,
	// the error is ErrUnreadable and comes together with the others.
	Executions(ctx context.Context, ids []execution.ID) ([]execution.Execution, error)
}

// Client has the methods that the API needs.
type Client interface {
	Reader
	// Actions returns a page of the actions, in the byte order of their refs.
	Actions(ctx context.Context, q ActionQuery) ([]execution.Action, error)
	// PutActions inserts or replaces actions by their ref. PutBy is kept with each.
	PutActions(ctx context.Context, actions []execution.Action) error
	// Create inserts requested executions. If an item's idempotency key was used less than
	// execution.KeyLifetime ago, Create returns the row that was created then; an older key moves
	// to the new row. An unknown action, parent or pinned worker is the outcome of that item alone.
	//
	// A child (an item with a parent) waits until the parent's chain has ended and its end is handled. It
	// becomes due if the chain completed, and is cancelled otherwise. If the end is already handled, this is
	// decided at once. Create and the handling of the end both read the chain under a lock of its first row.
	// So no child is missed if both happen at the same moment.
	Create(ctx context.Context, items []NewExecution) ([]Created, error)
	// List returns a page of executions, newest first, without their large values. The page
	// contains unreadable rows, marked as such.
	List(ctx context.Context, q ExecutionQuery) ([]Listed, error)
	// Chain returns the rows of the chain that a row belongs to, in its order, in the form of List: at most
	// MaxChain, and none if there is no such row.
	Chain(ctx context.Context, id execution.ID) ([]Listed, error)
	// DeadLetters returns a page of stored dead letters, newest first, without XDeath and Body,
	// which may be large.
	DeadLetters(ctx context.Context, q DeadLetterQuery) ([]StoredDeadLetter, error)
	// DeadLetter returns one stored dead letter; false if it does not exist.
	DeadLetter(ctx context.Context, id int64) (StoredDeadLetter, bool, error)
	// SettleDeadLetter closes an open dead letter with an outcome, and returns whether it was open.
	// Actor is the requester, as in Reclaim.Actor.
	SettleDeadLetter(ctx context.Context, id int64, outcome, actor string) (bool, error)
	// Observations returns a page of the observations of parts that only observe, newest first.
	Observations(ctx context.Context, q ObservationQuery) ([]Observation, error)
	// DiscardDeadLetters closes the selected dead letters among the next open ones, the smallest
	// ids first. It leaves out those that another call is closing at the same time.
	DiscardDeadLetters(ctx context.Context, d DeadLetterDiscard, outcome string) (DeadLettersDiscarded, error)
	// SummarizeDeadLetters counts the stored dead letters of a time window, in groups.
	SummarizeDeadLetters(ctx context.Context, q DeadLetterSummaryQuery) (DeadLetterSummary, error)
	// Cancel requests that whole chains end, each named by any of its rows. The step records the request on
	// the chain's first row, after which no retry is added to the chain. It cancels the chain's last row if
	// no worker has claimed it, and makes it canceling if it runs. Guard: the chain is open: its last row is
	// not terminal, or a retry may still follow it. Repeating it is harmless. Actor is the requester, as in
	// Reclaim.Actor; the first one is kept.
	Cancel(ctx context.Context, ids []execution.ID, actor string) ([]Cancellation, error)

	// FindWorkers returns a page of the workers with their live load, ordered by id. The page
	// contains unreadable rows, marked as such.
	FindWorkers(ctx context.Context, q WorkerQuery) ([]WorkerRow, error)
	// SetCordon excludes a worker, whatever its incarnation, from new work, or includes it again. It returns
	// false if there is no such worker. The worker keeps the executions that it holds.
	SetCordon(ctx context.Context, c Cordon) (found bool, err error)
}

// Audit reads who changed an execution's status. The simulated database does not implement it, because its
// history contains more.
type Audit interface {
	// Transitions returns a page of the changes of one execution's status, oldest first. It returns
	// none if there is no such execution, or if the audit was switched off.
	Transitions(ctx context.Context, q TransitionQuery) ([]Transition, error)
	// Changes returns a page of the changes of all executions, in an order into which nothing is
	// inserted later. A reader that continues from the page's Next misses none and sees none twice,
	// even from another process or connection.
	Changes(ctx context.Context, q ChangeQuery) (ChangePage, error)
}

// API has the methods that the API's server needs. Reclaim serves the replay of a dead letter.
type API interface {
	Client
	Audit
	Reclaim(ctx context.Context, rs []Reclaim) ([]Outcome, error)
}

// Executor has the methods that the executor's parts need.
type Executor interface {
	Reader

	// Workers returns every worker in use with its live load, ordered by id, unreadable ones included and
	// marked as such. A worker is in use unless MarkQueuesDeleted has marked its newest incarnation. So the
	// answer grows with the workers that are present or left recently, not with all that ever registered. An
	// unreadable worker gets no work. Its lease counts like any other's, unless its lifecycle is unreadable.
	// It may reuse the memory of into, an earlier answer that is no longer read; nil for none.
	Workers(ctx context.Context, into []WorkerRow) ([]WorkerRow, error)

	// MarkQueuesDeleted records that the queues of workers are deleted, and returns for each worker whether
	// it did. Workers then leaves the worker out until it registers again. Guard: the incarnation is its
	// worker's newest, is stopped or lost, and holds no execution, so no part needs to watch it. Repeating it
	// is harmless. It does not wait for locks: it may leave out a worker that another transaction has locked.
	// ws must not name a worker twice.
	MarkQueuesDeleted(ctx context.Context, ws []WorkerKey) ([]bool, error)

	// ClaimForScheduling moves due requested rows to scheduling, for one executor, until the claim
	// expires: per lane at most the demand's limit, oldest due first.
	//
	// It skips rows that another executor is claiming at the same time, and rows whose action has a
	// concurrency limit and no free slot. A row with such an action takes a slot in the same step. It keeps
	// the slot until its end is handled or it becomes requested again. An unreadable row stays as it is and
	// does not displace others. The limits and the number of lanes bound the rows and locks that the step
	// takes, not the number of waiting rows or free slots.
	ClaimForScheduling(ctx context.Context, c SchedulingClaim) ([]execution.Execution, error)
	// Dispatch moves scheduling rows to scheduled at the next epoch. Guard: claimed by this
	// executor at this epoch. The worker's row, locked for the step, is this incarnation, active,
	// with a valid lease and a live consumer, not cordoned, and holds less than the limit.
	Dispatch(ctx context.Context, executor string, ds []Dispatch) ([]DispatchResult, error)
	// DispatchDue moves due requested rows straight to scheduled at the next epoch, in one step. It combines
	// a claim for scheduling with the dispatch that follows, and the audit has both transitions. It takes
	// rows without any restriction: no concurrency limit, not pinned, and no worker to avoid. Guard: the row
	// is due and requested, no other executor is taking it, and the worker that it goes to satisfies the
	// guard of Dispatch.
	//
	// The rows of an offer get its places in the order in which they are due. None overtakes a row that waits
	// for the same workers and that this step does not take. From the first such row on, all others stay, and
	// Others reports that ClaimForScheduling must be called. The places and the number of lanes bound the
	// rows and locks that the step takes, as in ClaimForScheduling.
	DispatchDue(ctx context.Context, d DueDispatch) (DueDispatched, error)
	// MarkPublished records the broker's confirms of dispatches: of rows that are scheduled at that
	// epoch and not marked yet. It silently skips other rows, because a claim marks the
	// rows that it takes. It waits for no lock: it returns the rows that another transaction has
	// locked, usually for a claim, and leaves them as they are. The caller retries those.
	MarkPublished(ctx context.Context, keys []execution.Key) (left []execution.Key, err error)
	// Park moves scheduling rows back to requested, or to failed if no worker has fitted for
	// longer than the grace. Guard: claimed by this executor at this epoch.
	Park(ctx context.Context, executor string, ps []Park) ([]Outcome, error)

	// Find returns at most f.Limit rows that need a part's attention, oldest first. They are candidates; the
	// guard of the following write decides. Find skips unreadable rows, which do not displace others; Survey
	// counts them.
	Find(ctx context.Context, f Finding) ([]execution.Execution, error)
	// Reclaim takes rows back from their holders. Guard: one of the statuses of its cause, at this epoch. A
	// cause that can cease is rechecked. A row that was never claimed fails, or counts against itself and its
	// worker, only if that worker could have claimed it: see Reclaim.Counts.
	Reclaim(ctx context.Context, rs []Reclaim) ([]Outcome, error)
	// ObserveReclaims records what reclaims would do, once for each dispatch and part, and changes no
	// execution. Guard: Reclaim's guard, and this dispatch is not recorded for this part yet.
	ObserveReclaims(ctx context.Context, rs []Reclaim) ([]Observed, error)
	// ObserveWorkers records the outages of workers' health endpoints, and returns for each item whether it
	// changed anything. A worker that is not ready begins an outage; guard: the incarnation is its worker's
	// newest, is active, and has no open outage. A worker that is ready ends its open outage, if it has one.
	ObserveWorkers(ctx context.Context, ws []ProbedWorker) ([]bool, error)
	// PurgeObservations deletes at most limit observations that were made at least age ago, the
	// oldest first, and returns how many it deleted.
	PurgeObservations(ctx context.Context, age time.Duration, limit int) (int, error)
	// Reap marks incarnations lost, after which no renewal counts, and returns for each whether it did.
	// Guard: this incarnation is not gone, its lease has ended, and its beat is still the one that the caller
	// has watched.
	Reap(ctx context.Context, rs []Reap) ([]bool, error)
	// Orchestrate commits the terminal handling of terminal rows, each exactly once: the mark and, with it,
	// the release of the slot, and the retry. If no retry follows and the chain has children, the same step
	// records on the chain's first row that they must be settled. Guard: not orchestrated yet; a retry is
	// unique by (original, count), and none joins a chain whose cancellation was requested. The retries of
	// one call are numbered in the order of its items.
	//
	// If some items are invalid, the error is returned together with the answers for the others.
	Orchestrate(ctx context.Context, os []Orchestration) ([]Orchestrated, error)
	// SettleChildren starts or skips children that wait for chains whose end was handled: at most `most` of
	// each chain, the smallest ids first. A chain is named by its first row, and its last row decides: if it
	// completed, the children start, otherwise they are skipped. Guard: the chain carries the note that it
	// has children to settle, and the child is still requested and waiting. The step skips chains and
	// children that another transaction has locked. When no child of a chain waits any more, it removes the
	// note. Otherwise it updates the note's time, so that a chain with many children goes behind the others.
	//
	// No child is missed between Orchestrate and SettleChildren. The note and a new child are both written
	// under the lock of the chain's first row. A child that was created before the note was committed is
	// visible to every transaction that sees the note. A child that is created after it finds the chain
	// handled, so it is decided at once and never waits. And only a step that has seen all waiting children
	// and settled every one of them removes the note.
	//
	// If some chains are invalid, the error is returned together with the answers for the others.
	SettleChildren(ctx context.Context, chains []execution.ID, most int) ([]Settled, error)
	// StoreDeadLetters keeps dead letters for inspection: all of them, or none if one is invalid. A
	// body beyond LongestBody is invalid.
	StoreDeadLetters(ctx context.Context, ds ...DeadLetter) error
	// PurgeDeadLetters deletes at most limit dead letters that were received at least age ago, the
	// oldest first, and returns how many it deleted.
	PurgeDeadLetters(ctx context.Context, age time.Duration, limit int) (int, error)
	// Clock reads the clock by which the database judges leases and deadlines.
	Clock(ctx context.Context) (time.Time, error)
	// Survey counts the values of the gauges.
	Survey(ctx context.Context) (Survey, error)
	// FreeSlots releases at most limit concurrency slots of executions that may hold none, and returns those
	// executions. No step leaves such a slot behind; manual changes of the database can.
	FreeSlots(ctx context.Context, limit int) ([]execution.ID, error)
	// ForgetKeys frees at most limit idempotency keys of executions that were created at least age
	// ago, and returns how many.
	ForgetKeys(ctx context.Context, age time.Duration, limit int) (int, error)
	// Purge deletes rows that went out of use at least p.Age ago, in one bounded step. It examines at most
	// p.Limit rows, skips locked ones, and never waits.
	//
	// Executions are deleted as whole chains, named by their first rows. Guard: each row of the chain ended
	// at least the age ago and its end is handled. None of its rows has an idempotency key. No chain has it
	// as its parent. The chain of its own parent, if that still exists, ended at least the age ago and is
	// handled. So children are deleted before their parents. A chain is longer than one row only by its
	// retries; the step takes no more chains than have p.Limit rows together, but at least one. Creating a
	// child locks the chain too: either it finds the chain gone, or the step finds the child.
	//
	// Transitions are deleted oldest first, and the step records the position up to which they are gone
	// (ChangePage.Gone). Refused results and expiries are deleted by their own time.
	//
	// An incarnation is deleted when its lease ended at least the age ago. Guard: it is stopped or lost, is
	// not the latest of its worker, and holds nothing. A worker is deleted with its latest incarnation, by
	// the end of that incarnation's lease. Guard: that incarnation is stopped or lost and holds nothing, the
	// worker has no other incarnation, is not cordoned, and no execution that has not ended is pinned to it.
	//
	// A dry run returns the same answer but deletes nothing.
	Purge(ctx context.Context, p Purge) (Purged, error)
}

// Worker has the methods that a worker needs. They name the acting incarnation, and refuse one that is
// gone with ErrLost or ErrSuperseded.
type Worker interface {
	Reader

	// Newest returns the latest incarnation of a worker name; 0 if it has never registered. A
	// registration names it as its predecessor.
	Newest(ctx context.Context, name string) (execution.Incarnation, error)
	// Register makes a new incarnation of a worker name, in lifecycle starting, with a full lease; later
	// registrations have greater numbers. In the same step an older incarnation that is not gone becomes
	// lost. Its renewals no longer count, and its work is reclaimed like that of any lost worker (defect
	// D14). If an operator asked the same process to drain, the request also applies to its new incarnation,
	// even if another process had the name in between.
	//
	// Guard: the name's latest incarnation is the predecessor that the registration names, or an
	// earlier attempt of the same process; else ErrLost. So a late request of a dead process does
	// not take the name from its successor.
	Register(ctx context.Context, r Registration) (Registered, error)
	// SetLifecycle moves an incarnation forward: active, draining, stopped. Repeating it is
	// harmless. Guard: this incarnation, not gone.
	SetLifecycle(ctx context.Context, w WorkerKey, to execution.Lifecycle) error
	// Heartbeat renews the lease, beginning now, and compares the worker's registry with the database. Rows
	// of this incarnation that were claimed before this beat but are not in its list end: running ones as
	// worker_lost, canceling ones as cancelled. Guard: this incarnation, not gone.
	Heartbeat(ctx context.Context, b Beat) (BeatReply, error)
	// Claim moves scheduled rows to running, and marks them published: the worker has received the dispatch,
	// whether or not its confirm was recorded. Guard: at this epoch, dispatched to this incarnation, which is
	// not gone and whose lease is valid (else ErrLeaseOver); dispatch deadline not reached (now < deadline).
	//
	// An error that is not Retriable may be about one row: the answers about the others are returned with it.
	// The same applies to Finish.
	Claim(ctx context.Context, w WorkerKey, cs []Claim) ([]ClaimResult, error)
	// Finish moves running rows to a terminal status. Guard: at this epoch, claimed by this incarnation. A
	// row may only become cancelled if its cancellation was requested, so that it is canceling.
	//
	// The same step also does the terminal handling (Executor.Orchestrate) of a row that completes and needs
	// no follow-up: it is the only row of its chain, has no children, and its action has no concurrency
	// limit. The row in the answer then has OrchestratedAt set. The guard is judged under the lock of the
	// row, which Create takes for a child as well. If a child was created before, the guard sees it and
	// leaves the handling to Orchestrate. A child that is created later finds the chain handled, and is due
	// at once.
	Finish(ctx context.Context, w WorkerKey, fs []Finish) ([]Outcome, error)
	// Release returns every scheduled row of a draining incarnation to requested, and returns
	// the rows at their new epochs, oldest dispatch first. An incarnation that does not drain keeps
	// its rows, and the answer is empty.
	Release(ctx context.Context, w WorkerKey) ([]execution.Key, error)
	// KeepRefusedResult stores the result of a worker that had lost the execution.
	KeepRefusedResult(ctx context.Context, w WorkerKey, f Finish) error
	// Dispatched returns at most limit rows that are scheduled at this incarnation and may still be claimed:
	// their dispatch deadline is not reached. The oldest dispatch comes first. The call changes nothing: the
	// worker must still claim each row, as after a message.
	Dispatched(ctx context.Context, w WorkerKey, limit int) ([]execution.Execution, error)
	// StoreDeadLetters keeps messages that the worker could not read, for inspection: all of them,
	// or none if one is invalid. A body beyond LongestBody is invalid.
	StoreDeadLetters(ctx context.Context, ds ...DeadLetter) error
}
