package store

import "time"

// Kept is a kind of row that is deleted after a configured time.
type Kept uint8

// The kinds, in the order in which they are purged: a worker is deleted after its older incarnations.
const (
	KeptExecutions Kept = iota
	KeptTransitions
	KeptRefusedResults
	KeptExpiries
	KeptIncarnations
	KeptWorkers

	keptKinds
)

// AllKept lists the kinds.
func AllKept() []Kept {
	all := make([]Kept, keptKinds)
	for i := range all {
		all[i] = Kept(i)
	}
	return all
}

// String returns the kind's name, as in the configuration and in figures.
func (k Kept) String() string {
	return [...]string{"executions", "transitions", "refused_results", "expiries", "incarnations", "workers"}[k]
}

// Purge describes one bounded step of a purge.
type Purge struct {
	What Kept
	// Age is the minimum time since the row was last in use; see Executor.Purge.
	Age time.Duration
	// After is the position behind which the step begins: 0, or Purged.Next of the previous step. Only kinds
	// whose rows are deleted out of order need it; the others ignore it.
	After int64
	// Limit bounds the rows that the step examines.
	Limit int
	// DryRun makes the step return the usual answer but delete nothing.
	DryRun bool
}

// Purged is the result of a Purge step.
type Purged struct {
	// Removed is the number of deleted rows.
	Removed int
	// Next is the After of the next step; 0 if this step has reached the end, so that the next one starts
	// over.
	Next int64
	// More reports whether the step reached its limit, so that another step may find more. A step that
	// examined only executions younger than the age has reached the end, even if it was full: all later ones
	// are younger still.
	More bool
	// First is the first execution that the step has examined, if it was created VisibleAfter ago or
	// earlier; else 0. No execution can appear before it.
	First int64
}

// VisibleAfter is the age of an execution after which all earlier ones are visible: no transaction that
// creates executions takes that long.
const VisibleAfter = time.Hour
