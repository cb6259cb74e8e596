package store

import (
	"time"

	"handoff/core/execution"
)

// Orchestration is a request for the terminal handling of one row.
type Orchestration struct {
	ID execution.ID
	// Retry is the new row to create; nil for none.
	Retry *Retry
}

// Retry is the next row of a chain.
type Retry struct {
	Count  int
	Reason execution.Reason
	// Delay is the backoff, counted from when the step is made.
	Delay time.Duration
	// Free is 0 if the retry counts. Otherwise the retry follows an end that is not a failure, and may be
	// free; Free is then the number of free retries that a chain may have. While fewer retries have been
	// free, the new row may be retried once more than this one. Otherwise the retry counts, and is not
	// created if none are left. It also counts if the chain's request allowed no retries and the action has
	// been started.
	Free int
}

// Orchestrated is the outcome of one Orchestration.
type Orchestrated struct {
	// Applied is false if the row's end had already been handled.
	Applied bool
	// Retry is the created row; 0 for none.
	Retry execution.ID
	// Children reports whether the chain has ended and its children must be settled.
	Children bool
}

// Settled is the result of SettleChildren for one chain.
type Settled struct {
	// Started holds the ids of the children that became due, Skipped those of the cancelled ones.
	Started []execution.ID
	Skipped []execution.ID
	// More reports whether further children of the chain are still waiting.
	More bool
}
