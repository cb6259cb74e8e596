// Package store declares the database as the core sees it: a set of atomic steps.
//
// Every method is one step that PostgreSQL can do in one guarded statement or one short
// transaction, for many rows at a time. The guard stands inside the step: a row is only changed if
// it still is what the caller believes (id, status, epoch, and what else the step names), judged
// on the newest version of the row. That is what makes every handler idempotent and every race
// harmless: of two writers at one epoch one finds a row and the other finds none, and the loser
// is told what stands there now.
//
// A call about several rows is such a step for each of them, at a moment of its own: a statement that fails
// is repeated row by row. An error then stands for the whole call, though some of its rows may be done; who
// gets one takes no row for undone, and asks again under the same epochs.
//
// Every moment is the database's clock. Callers give durations and get durations or verdicts back;
// they never compare a database time with a clock of their own (defect D35).
//
// # Why epochs fence
//
// Each dispatch and each take-back raises the epoch in the same step that changes the status. A
// claim, a result, a reclaim names the epoch it was decided on. So a decision takes effect only if
// no dispatch and no take-back came between it and its write: a late worker's result finds another
// epoch, a late dead letter finds another epoch, and a status that has come round to "scheduled"
// again (the ABA of defect D3) has a higher epoch. Terminal rows never change status, so a write that
// finds its row terminal is refused whatever its epoch.
package store

import (
	"context"
	"errors"
	"time"

	"handoff/core/execution"
)

// Errors of every method. All others mean that the request itself was wrong and are not retried.
var (
	// ErrUnavailable: the database was not reached, or refused for now; nothing was applied.
	ErrUnavailable = errors.New("database unavailable")
	// ErrUnknownOutcome: the connection or the deadline ended before the reply; the step was
	// applied wholly or not at all, and the caller can't know which.
	ErrUnknownOutcome = errors.New("database outcome unknown")
	// ErrSuperseded: a newer incarnation of the same worker name has registered.
	ErrSuperseded = errors.New("worker superseded by a newer incarnation")
	// ErrLost: the worker's incarnation was marked lost or has stopped; it may register anew.
	ErrLost = errors.New("worker incarnation is gone")
	// ErrLeaseOver: the incarnation is valid, but by the database's clock its lease was over when it asked.
	// Nothing was applied. A clock that was set forwards does this to a healthy worker, so the worker does not end
	// its runs: it renews its lease and asks again.
	ErrLeaseOver = errors.New("worker lease is over by the database's clock")
	// ErrUnreadable: a row says what this program does not know; somebody wrote it by hand, or a newer program did. The
	// error's text names the row and what is wrong with it.
	ErrUnreadable = errors.New("a row can't be read")
)

// Retriable says that err is a passing fault: the same call may succeed later.
func Retriable(err error) bool {
	return errors.Is(err, ErrUnavailable) || errors.Is(err, ErrUnknownOutcome)
}

// Store is everything that the core asks of the database. It is the union of what each kind of
// process uses, so that each can be handed only its part.
type Store interface {
	Client
	Executor
	Worker
}

// Reader reads rows.
type Reader interface {
	// Executions returns the rows that exist among ids, ordered by id. If some of them can't be read, the error is
	// ErrUnreadable and comes together with the others.
	Executions(ctx context.Context, ids []execution.ID) ([]execution.Execution, error)
}

// Client is what the API needs.
type Client interface {
	Reader
	// Actions returns a page of the actions, in the order of the bytes of their refs.
	Actions(ctx context.Context, q ActionQuery) ([]execution.Action, error)
	// PutActions inserts or replaces actions by their ref. PutBy is kept with each.
	PutActions(ctx context.Context, actions []execution.Action) error
	// Create inserts requested executions. An item whose idempotency key was used less than execution.KeyLifetime
	// ago returns the row that was created then; an older key moves to the new row. An unknown action, parent or
	// pinned worker is an outcome of that item alone.
	//
	// A child (an item with a parent) waits until the parent's chain has ended and been handled: it
	// becomes due when the chain completes, and is cancelled otherwise. A chain that has been handled
	// already decides at once. Both look at the chain under a lock of its first row, so no child is missed
	// by an end that comes at the same moment.
	Create(ctx context.Context, items []NewExecution) ([]Created, error)
	// List returns a page of executions, newest first, without what may be large. A row that can't be read stands in
	// its place and says so.
	List(ctx context.Context, q ExecutionQuery) ([]Listed, error)
	// Chain returns every row of the chain that a row belongs to, the first one first, at most MaxChain, as List does;
	// none if there is no such row.
	Chain(ctx context.Context, id execution.ID) ([]Listed, error)
	// DeadLetters returns a page of stored dead letters, newest first, without XDeath and Body, which may be large.
	DeadLetters(ctx context.Context, q DeadLetterQuery) ([]StoredDeadLetter, error)
	// DeadLetter returns one stored dead letter; false if there is none (any more).
	DeadLetter(ctx context.Context, id int64) (StoredDeadLetter, bool, error)
	// SettleDeadLetter closes an open dead letter with an outcome, and returns whether it was open. Actor is who asks, as
	// Reclaim.Actor.
	SettleDeadLetter(ctx context.Context, id int64, outcome, actor string) (bool, error)
	// Observations returns a page of what parts that only observe would have done, newest first.
	Observations(ctx context.Context, q ObservationQuery) ([]Observation, error)
	// DiscardDeadLetters closes the open dead letters that are selected among the next ones, the smallest ids first. One
	// that another call is closing at the same time is left to it.
	DiscardDeadLetters(ctx context.Context, d DeadLetterDiscard, outcome string) (DeadLettersDiscarded, error)
	// SummarizeDeadLetters counts the stored dead letters of a window of time, in groups.
	SummarizeDeadLetters(ctx context.Context, q DeadLetterSummaryQuery) (DeadLetterSummary, error)
	// Cancel asks for the end of whole chains, each named by any of its rows. The request is noted on the
	// chain's first row, after which no retry joins the chain, and the chain's last row is cancelled where
	// nobody has claimed it, and canceling where somebody runs it. Guard: the chain is open, which is to
	// say that its last row is not terminal, or may still be followed by a retry. Asking again is harmless.
	// Actor is who asks, as Reclaim.Actor; the first who asks is kept.
	Cancel(ctx context.Context, ids []execution.ID, actor string) ([]Cancellation, error)

	// FindWorkers returns a page of the workers with their live load, ordered by id. A row that can't be read stands in
	// its place and says so.
	FindWorkers(ctx context.Context, q WorkerQuery) ([]WorkerRow, error)
	// SetCordon keeps new work from a worker, by whatever incarnation, or lets it have some again. It
	// returns false if there is no such worker. What the worker holds is not touched.
	SetCordon(ctx context.Context, c Cordon) (found bool, err error)
}

// Audit reads who has changed what. The simulated database has none: its history says the same and more.
type Audit interface {
	// Transitions returns a page of the changes of one execution's status, oldest first; none if there is no such
	// execution, or if the audit was switched off.
	Transitions(ctx context.Context, q TransitionQuery) ([]Transition, error)
	// Changes returns a page of the changes of all executions, in an order into which nothing is put in afterwards: who
	// goes on from the page's Next misses none and sees none twice, however often the process or the connection was
	// another one.
	Changes(ctx context.Context, q ChangeQuery) (ChangePage, error)
}

// Executor is what the executor's parts need.
type Executor interface {
	Reader

	// Workers returns every worker with its live load, ordered by id. One that can't be read stands in its place and says
	// so: it gets no work, and its lease counts like any other's, unless nobody knows its lifecycle.
	Workers(ctx context.Context) ([]WorkerRow, error)

	// ClaimForScheduling moves due requested rows to scheduling, for one executor, until the claim expires: per
	// lane at most the demand's limit, oldest due first. Rows that another executor is claiming at the same time
	// are skipped, and so are rows whose action has a concurrency limit and no free slot: a row with such an
	// action takes one in the same step, keeps it until its end is handled, and gives it back when it becomes
	// requested again. A row that can't be read stays as it is, and takes no place of others. The rows and locks that the
	// step takes are bounded by the limits and the number of lanes,
	// not by the number of waiting rows or free slots.
	ClaimForScheduling(ctx context.Context, c SchedulingClaim) ([]execution.Execution, error)
	// Dispatch moves scheduling rows to scheduled at the next epoch. Guard: claimed by this
	// executor at this epoch; the worker's row, held for the step, is this incarnation, active,
	// with a valid lease and a live consumer, not cordoned, and holds less than the limit.
	Dispatch(ctx context.Context, executor string, ds []Dispatch) ([]DispatchResult, error)
	// DispatchDue moves due requested rows straight to scheduled at the next epoch, in one step: it is a claim for
	// scheduling and the dispatch that follows, at one moment, and the audit has both transitions. It takes rows against
	// which nothing speaks: without a concurrency limit, not pinned, and with no worker to avoid. Guard: the row is due and
	// requested, nobody else is taking it, and the guard of Dispatch for the worker that it goes to.
	//
	// The rows of an offer are dealt to its places in the order in which they are due. None overtakes a row that waits
	// for the same workers and that the step does not take: from the first such row on the others stay, and Others says that
	// ClaimForScheduling has to be asked. The rows and locks that the step takes are bounded by the places and the number
	// of lanes, as those of ClaimForScheduling.
	DispatchDue(ctx context.Context, d DueDispatch) (DueDispatched, error)
	// MarkPublished records the broker's confirm of dispatches that nobody has claimed: rows that are scheduled, at that
	// epoch, and not marked yet. Others are passed over in silence: a claim marks what it takes. It waits for no lock: rows
	// that somebody else has locked, usually for a claim, are left as they are and answered, to be asked about again.
	MarkPublished(ctx context.Context, keys []execution.Key) (left []execution.Key, err error)
	// Park gives scheduling rows back: to requested, or to failed when no worker has fitted for
	// longer than the grace. Guard: claimed by this executor at this epoch.
	Park(ctx context.Context, executor string, ps []Park) ([]Outcome, error)

	// Find returns at most f.Limit rows that need a part's attention, oldest first. What it finds
	// is a candidate; the guard of the write that follows decides. Rows that can't be read are passed over, and take no
	// places of others; Survey tells of them.
	Find(ctx context.Context, f Finding) ([]execution.Execution, error)
	// Reclaim takes rows back from whoever held them. Guard: one of the statuses of its cause, at this epoch; a
	// cause that can pass away is judged again. A row that was never claimed is only failed or counted, and only
	// counted against its worker, if that worker could have taken it: see Reclaim.Counts.
	Reclaim(ctx context.Context, rs []Reclaim) ([]Outcome, error)
	// ObserveReclaims records what reclaims would do, once for each dispatch and part, and changes no execution. Guard:
	// that of Reclaim, judged in the same way, and nobody has recorded this dispatch for this part before.
	ObserveReclaims(ctx context.Context, rs []Reclaim) ([]Observed, error)
	// ObserveWorkers records the outages of workers' health endpoints, and returns for each item whether it changed
	// anything. One that is not ready begins an outage; guard: the incarnation is its worker's newest and active, and
	// has no outage that lasts. One that is ready ends the outage that lasts, if there is one.
	ObserveWorkers(ctx context.Context, ws []ProbedWorker) ([]bool, error)
	// PurgeObservations deletes at most limit observations that were made at least age ago, the oldest first, and
	// returns how many it deleted.
	PurgeObservations(ctx context.Context, age time.Duration, limit int) (int, error)
	// Reap marks incarnations lost, after which no renewal counts, and returns for each whether it
	// did. Guard: this incarnation, not gone, its lease over, and still at the beat that the caller
	// has watched.
	Reap(ctx context.Context, rs []Reap) ([]bool, error)
	// Orchestrate commits the terminal handling of terminal rows, each exactly once: the mark and, with it, the
	// release of the slot, and the retry. Where no retry follows and the chain has children, the same step notes
	// on the chain's first row that they are to be settled. Guard: not orchestrated yet; a retry is unique by
	// (original, count), and none joins a chain whose cancellation was requested. The retries of one call are
	// numbered in the order of its items.
	//
	// If single items are invalid, the error comes together with the answers of the others.
	Orchestrate(ctx context.Context, os []Orchestration) ([]Orchestrated, error)
	// SettleChildren starts or skips children that wait for chains whose end was handled: at most `most` of each
	// chain, the smallest ids first. A chain is named by its first row; its last row decides: children are started
	// if it completed, else skipped. Guard: the chain carries the note that it has children to settle, and the
	// child is still requested and waits. A chain or child that another transaction has locked is passed over.
	// When no child of a chain waits any more, the note is removed; otherwise it gets a new date, so that a chain
	// with many children goes behind the others.
	//
	// No child is missed between Orchestrate and SettleChildren. Both this note and a child's creation are written
	// under the lock of the chain's first row. A child that was created before the note was committed is visible
	// to every transaction that sees the note. A child that is created after it finds the chain handled, is
	// decided at once and never waits. And the note is removed only by a step that has seen all waiting children
	// and has settled every one of them.
	//
	// If single chains are invalid, the error comes together with the answers of the others.
	SettleChildren(ctx context.Context, chains []execution.ID, most int) ([]Settled, error)
	// StoreDeadLetters keeps dead letters for inspection: all of them, or none if one is invalid. A body beyond
	// LongestBody is invalid.
	StoreDeadLetters(ctx context.Context, ds ...DeadLetter) error
	// PurgeDeadLetters deletes at most limit dead letters that were received at least age ago, the
	// oldest first, and returns how many it deleted.
	PurgeDeadLetters(ctx context.Context, age time.Duration, limit int) (int, error)
	// Clock reads the clock by which the database judges leases and deadlines.
	Clock(ctx context.Context) (time.Time, error)
	// Survey counts what the gauges show.
	Survey(ctx context.Context) (Survey, error)
	// FreeSlots gives back at most limit concurrency slots that are held by what may hold none, and returns
	// who held them. Nothing leaves such a slot behind; whoever edits the database by hand can.
	FreeSlots(ctx context.Context, limit int) ([]execution.ID, error)
	// ForgetKeys frees at most limit idempotency keys of executions that were created at least age ago,
	// and returns how many.
	ForgetKeys(ctx context.Context, age time.Duration, limit int) (int, error)
}

// Worker is what a worker needs. Its methods name the incarnation that acts, and refuse one that
// is gone with ErrLost or ErrSuperseded.
type Worker interface {
	Reader

	// Newest returns the latest incarnation of a worker name, 0 if it has never registered. A registration names
	// it as its predecessor.
	Newest(ctx context.Context, name string) (execution.Incarnation, error)
	// Register makes a new incarnation of a worker name, in lifecycle starting, with a full lease; later
	// registrations have greater numbers. In the same step an older incarnation that is not gone becomes lost, so
	// that its renewals no longer count and its work is reclaimed like that of any lost worker (defect D14). A drain that
	// an operator asked the same process for is asked of its new incarnation. Guard:
	// the name's latest incarnation is the predecessor that the registration names, or an earlier attempt of the
	// same process; else ErrLost. So a late request of a dead process does not take the name from its successor.
	Register(ctx context.Context, r Registration) (Registered, error)
	// SetLifecycle moves an incarnation forward: active, draining, stopped. Repeating it is
	// harmless. Guard: this incarnation, not gone.
	SetLifecycle(ctx context.Context, w WorkerKey, to execution.Lifecycle) error
	// Heartbeat renews the lease from now on and compares what the worker runs with what the
	// database says. Running rows of this incarnation that were claimed before this beat and are
	// not listed are ended as worker_lost, canceling ones as cancelled. Guard: this incarnation, not gone.
	Heartbeat(ctx context.Context, b Beat) (BeatReply, error)
	// Claim moves scheduled rows to running, and marks them published: who claims has received the dispatch, whether or not
	// its confirm was recorded. Guard: at this epoch, dispatched to this incarnation,
	// which is not gone and whose lease is valid (else ErrLeaseOver); dispatch deadline not reached (now < deadline).
	//
	// An error that is not Retriable may be about one row: the answers about the others come with it. So it is for Finish.
	Claim(ctx context.Context, w WorkerKey, cs []Claim) ([]ClaimResult, error)
	// Finish moves running rows to a terminal status. Guard: at this epoch, claimed by this
	// incarnation; to cancelled only where somebody has asked for that, so that the row is canceling.
	//
	// The same step is the terminal handling of a row that nothing can follow (Executor.Orchestrate): one that
	// completes, is the only row of its chain, has no children and an action without a concurrency limit.
	// OrchestratedAt of the row in the answer is set then. The guard is judged under the lock of the row, which
	// Create takes for a child as well: a child that was created before is seen, and keeps the handling for
	// Orchestrate; one that is created after it finds the chain handled, and is due at once.
	Finish(ctx context.Context, w WorkerKey, fs []Finish) ([]Outcome, error)
	// Release gives every scheduled row of a draining incarnation back to requested, and returns the
	// rows at the epochs that they have then, oldest dispatch first. An incarnation that does not drain
	// keeps its rows, and the answer is empty.
	Release(ctx context.Context, w WorkerKey) ([]execution.Key, error)
	// KeepRefusedResult stores the result of a worker that had lost the execution.
	KeepRefusedResult(ctx context.Context, w WorkerKey, f Finish) error
	// Dispatched returns at most limit rows that are scheduled at this incarnation and may still be claimed: their
	// dispatch deadline is not reached. The oldest dispatch comes first. It changes nothing: a claim decides, as for a
	// row of which a message told.
	Dispatched(ctx context.Context, w WorkerKey, limit int) ([]execution.Execution, error)
	// StoreDeadLetters keeps messages that the worker could not read, for inspection: all of them, or none if one is
	// invalid. A body beyond LongestBody is invalid.
	StoreDeadLetters(ctx context.Context, ds ...DeadLetter) error
}
