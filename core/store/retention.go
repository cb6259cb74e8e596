package store

import "time"

// Kept is a kind of rows that leave after a time.
type Kept uint8

// The kinds, in the order in which they are purged: a worker leaves after its older incarnations.
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

// String is the name of the kind, as in the configuration and in figures.
func (k Kept) String() string {
	return [...]string{"executions", "transitions", "refused_results", "expiries", "incarnations", "workers"}[k]
}

// Purge asks for one bounded step of a purge.
type Purge struct {
	What Kept
	// Age is how long ago the row must have come out of use; see Executor.Purge.
	Age time.Duration
	// After is where the step begins to look: 0, or Purged.Next of the step before. Only the kinds
	// whose rows leave out of order need it, and others ignore it.
	After int64
	// Limit bounds the rows that the step looks at.
	Limit int
	// DryRun asks what the step would remove. It answers as if it had, and removes nothing.
	DryRun bool
}

// Purged is the answer.
type Purged struct {
	// Removed is how many rows have left.
	Removed int
	// Next is where the next step begins to look; 0 if this step has seen the end, so that the next
	// one begins anew.
	Next int64
	// More says that the step was full, so that another one may find more. A step that looked only
	// at executions created less than the age ago has seen the end, even if it was full: all behind
	// them are younger.
	More bool
	// First is the first execution that the step has looked at, if it was created VisibleAfter ago or
	// earlier; else 0. No execution can appear before it.
	First int64
}

// VisibleAfter is the age from which on an execution has none before it that cannot be seen yet: no
// transaction of the programs takes as long.
const VisibleAfter = time.Hour
