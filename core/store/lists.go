package store

import (
	"crypto/sha256"

	"handoff/core/execution"
)

// ExecutionQuery asks for a page of executions, newest first. A zero filter passes all.
type ExecutionQuery struct {
	Status    execution.Status
	ActionRef string
	// Worker is the present or last owner. Parent is the first row of the chain whose children are
	// wanted.
	Worker execution.WorkerID
	Parent execution.ID
	// The page has only ids below Before (0 begins with the newest) and above After (0 for no
	// bound). After bounds the search of a narrow filter.
	Before, After execution.ID
	Limit         int

	// IDs asks for exactly these rows, newest first; the fields above then have no effect.
	// WithParameters asks for their parameters, Digests for the digests and sizes of the
	// parameters.
	IDs            []execution.ID
	WithParameters bool
	Digests        bool
}

// Listed is an execution in a list: without Parameters, Result and the action's Entrypoint, so that
// a page stays small however large those are.
type Listed struct {
	execution.Execution
	// Digest is the SHA-256 of the parameters' text, and Size its length in bytes. Both are set
	// only if the query asked for them.
	Digest [sha256.Size]byte
	Size   int
	// Unreadable says why this program can't read the row; empty if it can. Of an unreadable row
	// only the ID is set.
	Unreadable string
}

// MaxChain bounds the rows of a chain that Chain returns: actions have at most 100 retries.
const MaxChain = 500

// Matches says whether an execution passes the filters.
func (q *ExecutionQuery) Matches(e *execution.Execution) bool {
	return (q.Status == execution.None || e.Status == q.Status) && (q.ActionRef == "" || e.Action.Ref == q.ActionRef) &&
		(q.Worker == 0 || e.Worker == q.Worker) && (q.Parent == 0 || e.Parent == q.Parent) && (q.Before == 0 || e.ID < q.Before) && e.ID > q.After
}

// WorkerQuery asks for a page of workers, ordered by id. A zero filter passes all.
type WorkerQuery struct {
	ID    execution.WorkerID
	Name  string
	After execution.WorkerID
	Limit int
}

// Matches says whether a worker passes the filters.
func (q *WorkerQuery) Matches(w *WorkerRow) bool {
	return (q.ID == 0 || w.ID == q.ID) && (q.Name == "" || w.Name == q.Name) && w.ID > q.After
}
