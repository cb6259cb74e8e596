package store

import (
	"time"

	"handoff/core/execution"
)

// Orchestration is the terminal handling of one row.
type Orchestration struct {
	ID execution.ID
	// Retry is the new row to create; nil for none.
	Retry *Retry
}

// Retry is the next row of a chain.
type Retry struct {
	Count  int
	Reason execution.Reason
	// Delay is the backoff, counted from the moment of the step.
	Delay time.Duration
	// Free is how many retries of a chain may cost none, if this is one of those: it follows an end that is
	// nobody's failure. While fewer have been free, the row that follows may be retried once more than this
	// one; afterwards the retry counts, and is not created if none are left; so it does if the chain's request allowed no retries
	// and the action has been started. 0 if the retry counts.
	Free int
}

// Orchestrated is the outcome of one Orchestration.
type Orchestrated struct {
	// Applied is false if the row's end had been handled before.
	Applied bool
	// Retry is the created row; 0 for none.
	Retry execution.ID
	// Children says that the chain has ended and that its children must be settled.
	Children bool
}

// Settled is the answer of SettleChildren for one chain.
type Settled struct {
	// Started are the ids of the children that became due. Skipped are those that were cancelled.
	Started []execution.ID
	Skipped []execution.ID
	// More says that other children of the chain still wait.
	More bool
}
