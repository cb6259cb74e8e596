package store

import (
	"crypto/sha256"
	"time"

	"handoff/core/execution"
)

// ExecutionQuery selects a page of executions, newest first. A zero filter selects all.
type ExecutionQuery struct {
	Status    execution.Status
	ActionRef string
	// Worker is the present or last owner. Parent is the first row of the chain whose children are wanted.
	Worker execution.WorkerID
	Parent execution.ID
	// Reason is the failure reason.
	Reason execution.Reason
	// Created and Ended bound when the execution was created and when it ended. A bound of Ended
	// leaves out executions that have not ended.
	Created, Ended Period
	// The page has only ids below Before (0 begins with the newest) and above After (0 for no
	// bound). After bounds the search of a narrow filter.
	Before, After execution.ID
	Limit         int

	// IDs selects exactly these rows, newest first; the fields above then have no effect. WithParameters
	// includes their parameters, Digests the digests and sizes of the parameters.
	IDs            []execution.ID
	WithParameters bool
	Digests        bool

	// OnlyIDs requests only the ids of the executions that the filters select, so that many can be counted at
	// once.
	OnlyIDs bool
}

// Period is a span of the database's time, from From to before To. A zero From or To leaves that side open.
type Period struct{ From, To time.Time }

// Contains reports whether a time is in the period. Only a period without bounds contains the zero moment,
// which stands for an event that has not happened.
func (p Period) Contains(moment time.Time) bool {
	if p == (Period{}) {
		return true
	}
	return !moment.IsZero() && !moment.Before(p.From) && (p.To.IsZero() || moment.Before(p.To))
}

// Listed is an execution in a list: without Parameters, Result and the action's Entrypoint, so that
// a page stays small however large those are.
type Listed struct {
	execution.Execution
	// Digest is the SHA-256 of the parameters' text, and Size its length in bytes. Both are set
	// only if the query asked for them.
	Digest [sha256.Size]byte
	Size   int
	// Unreadable is the reason why this program can't read the row; empty if it can. An unreadable row has
	// only its ID.
	Unreadable string
}

// MaxChain bounds the rows of a chain that Chain returns: actions have at most 100 retries.
const MaxChain = 500

// Matches reports whether an execution passes the filters.
func (eq *ExecutionQuery) Matches(e *execution.Execution) bool {
	return (eq.Status == execution.None || e.Status == eq.Status) && (eq.ActionRef == "" || e.Action.Ref == eq.ActionRef) &&
		(eq.Worker == 0 || e.Worker == eq.Worker) && (eq.Parent == 0 || e.Parent == eq.Parent) &&
		(eq.Reason == execution.NoReason || e.FailureReason == eq.Reason) && eq.Created.Contains(e.Created) && eq.Ended.Contains(e.Ended) && (eq.Before == 0 || e.ID < eq.Before) && e.ID > eq.After
}

// WorkerQuery selects a page of workers, ordered by id. A zero filter selects all.
type WorkerQuery struct {
	ID    execution.WorkerID
	Name  string
	After execution.WorkerID
	Limit int
}

// Matches reports whether a worker passes the filters.
func (wq *WorkerQuery) Matches(w *WorkerRow) bool {
	return (wq.ID == 0 || w.ID == wq.ID) && (wq.Name == "" || w.Name == wq.Name) && w.ID > wq.After
}
