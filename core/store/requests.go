package store

import (
	"encoding/json"
	"time"

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
func (a *ActionQuery) Matches(ref string) bool { return ref > a.After && (a.Ref == "" || a.Ref == ref) }

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

// CancelledResult is the result of a row that was cancelled before any worker claimed it.
func CancelledResult() execution.Result {
	return execution.Result{Error: "Execution cancelled", Message: "it was cancelled before a worker claimed it", FailedBy: execution.API}
}

// SkippedResult is the result of a child whose parent did not complete.
func SkippedResult() execution.Result {
	return execution.Result{Error: "Execution skipped", Message: "its parent did not complete", FailedBy: execution.ExecutionManager}
}
