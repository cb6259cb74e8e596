package store

import (
	"crypto/sha256"

	"handoff/core/execution"
)

// ExecutionQuery asks for a page of executions, newest first. A filter that is zero lets all pass.
type ExecutionQuery struct {
	Status    execution.Status
	ActionRef string
	// Worker is the present or last owner, Parent the first row of the chain whose children are wanted.
	Worker execution.WorkerID
	Parent execution.ID
	// Before is the id under which the page begins; 0 for the newest. After is the id above which it ends, 0 for none: a
	// filter that hardly anything passes is looked through no farther.
	Before, After execution.ID
	Limit         int

	// IDs asks for just these rows, newest first; nothing above counts then. WithParameters asks for their parameters,
	// Digests for the digests of those and their size.
	IDs            []execution.ID
	WithParameters bool
	Digests        bool
}

// Listed is an execution as lists have it: without Parameters, Result and the action's Entrypoint, so that a page of
// them stays small whatever executions carry.
type Listed struct {
	execution.Execution
	// Digest is the SHA-256 of the parameters' text, and Size its length in bytes, where the query asked for them.
	Digest [sha256.Size]byte
	Size   int
	// Unreadable says why this program can't read the row, of which only the ID is set then; empty if it can.
	Unreadable string
}

// MaxChain bounds the rows of a chain that Chain returns: actions have at most 100 retries.
const MaxChain = 500

// Matches says that an execution passes the filters.
func (q *ExecutionQuery) Matches(e *execution.Execution) bool {
	return (q.Status == execution.None || e.Status == q.Status) && (q.ActionRef == "" || e.Action.Ref == q.ActionRef) &&
		(q.Worker == 0 || e.Worker == q.Worker) && (q.Parent == 0 || e.Parent == q.Parent) && (q.Before == 0 || e.ID < q.Before) && e.ID > q.After
}

// WorkerQuery asks for a page of workers, in the order of their ids. A filter that is zero lets all pass.
type WorkerQuery struct {
	ID    execution.WorkerID
	Name  string
	After execution.WorkerID
	Limit int
}

// Matches says that a worker may be in the page.
func (q *WorkerQuery) Matches(w *WorkerRow) bool {
	return (q.ID == 0 || w.ID == q.ID) && (q.Name == "" || w.Name == q.Name) && w.ID > q.After
}
