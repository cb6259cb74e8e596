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
	// IdempotencyKey makes repeating the request harmless within execution.KeyLifetime. Without a key a
	// repeated request creates another execution.
	IdempotencyKey string
	// Parent is any row of the parent chain, if the execution is a workflow child; else 0.
	Parent execution.ID
	// Pinned is the only worker that may run it; 0 for any.
	Pinned execution.WorkerID
	// Limits replace the action's limits for this execution and its retries. A negative limit is an error.
	Limits execution.Limits
	// Actor is the requester, as in Reclaim.Actor.
	Actor string
}

// Created is the outcome of one NewExecution.
type Created struct {
	ID execution.ID
	// Existed reports whether the idempotency key had been used before. ID is then the execution created with
	// it.
	Existed bool
	// UnknownAction reports whether nothing was created because the action does not exist. UnknownWorker does
	// so if the worker that it is pinned to has never registered.
	UnknownAction bool
	// UnknownParent reports whether nothing was created because the parent does not exist.
	UnknownParent bool
	UnknownWorker bool
	// Skipped reports whether the row was cancelled in the same step, because its parent's chain had not
	// completed and its end was already handled.
	Skipped bool
}

// Cancellation is the result of a request to cancel a chain. Applied reports whether it was accepted. Row is
// the chain's last row after the step; its ID is zero if there is no such execution.
type Cancellation struct{ Outcome }

// ActionQuery selects a page of at most Limit actions whose refs come after After. If Ref is not empty, it
// selects only this action.
type ActionQuery struct {
	Ref, After string
	Limit      int
}

// Matches reports whether an action may be in the page.
func (a *ActionQuery) Matches(ref string) bool { return ref > a.After && (a.Ref == "" || a.Ref == ref) }

// TransitionQuery selects a page of one execution's audit.
type TransitionQuery struct {
	Execution execution.ID
	// The page begins behind the line After; 0 begins with the first.
	After int64
	Limit int
}

// Transition is one line of the audit. From is None for the creation.
type Transition struct {
	// Line is the line's number, which grows from one line to the next.
	Line int64
	// Unknown names the values of the line that this program does not know; their fields are left
	// at zero. Empty if there are none.
	Unknown  string
	From, To execution.Status
	// Epoch is the row's epoch after the change.
	Epoch execution.Epoch
	// By is the part that wrote the change. Writer is the incarnation if a worker wrote it.
	By     execution.Part
	Writer execution.Incarnation
	// Worker and Incarnation name the owner: the one before the change if it reclaimed the row, otherwise the
	// one after it.
	Worker      execution.WorkerID
	Incarnation execution.Incarnation
	Reason      execution.Reason
	// Actor is the requester, as in Reclaim.Actor; empty for decisions that executors and workers make
	// themselves.
	Actor string
	At    time.Time
}

// CancelledResult returns the result of a row that was cancelled before any worker claimed it.
func CancelledResult() execution.Result {
	return execution.Result{Error: "Execution cancelled", Message: "it was cancelled before a worker claimed it", FailedBy: execution.API}
}

// SkippedResult returns the result of a child whose parent did not complete.
func SkippedResult() execution.Result {
	return execution.Result{Error: "Execution skipped", Message: "its parent did not complete", FailedBy: execution.ExecutionManager}
}
