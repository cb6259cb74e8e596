package store

import (
	"time"

	"handoff/core/execution"
)

// DeadLetter is a message that died, kept for inspection for message_queue.rabbitmq.dead_letter.ttl_ms
// (flaw D26: the queue itself is no archive, its depth would say nothing).
type DeadLetter struct {
	// Key is zero when the message could not be read.
	Key execution.Key
	// Queue is where the message died, and Reason why: x-death's reason, or "malformed".
	Queue  string
	Reason string
	// XDeath is the whole x-death header as JSON, nil where the message had none.
	XDeath []byte
	Body   []byte
	// Outcome says in a word what the handler did with it.
	Outcome string
	// Open says that nobody has dealt with it: it waits for an operator to discard or replay it.
	Open bool
}

// StoredDeadLetter is a dead letter as it is kept.
type StoredDeadLetter struct {
	ID int64
	DeadLetter
	ReceivedAt time.Time
	// HandledAt is zero for as long as it is open.
	HandledAt time.Time
}

// DeadLetterQuery asks for a page of dead letters, newest first.
type DeadLetterQuery struct {
	// Open asks only for those that nobody has dealt with.
	Open bool
	// Before is the id under which the page begins; 0 for the newest.
	Before int64
	Limit  int
}

// Survey is what the database counts for the gauges of telemetry.
type Survey struct {
	// Waiting are the executions that have not ended, by status; statuses without any are left out.
	Waiting []Waiting
	// OrchestrationLag is how long ago the oldest execution ended whose end is not handled.
	OrchestrationLag time.Duration
	// DeadLettersOpen counts the dead letters that nobody has dealt with.
	DeadLettersOpen int
	// Slots are the actions that have a limit of concurrency, or whose executions still hold slots of one, in the order
	// of the bytes of their refs.
	Slots []SlotsInUse
}

// SlotsInUse is how many concurrency slots the executions of an action hold.
type SlotsInUse struct {
	ActionRef string
	Count     int
}

// Waiting counts the executions in a status, and says how long the first of them has waited. A requested execution
// waits from the moment at which it is due, so a child that waits for its parent is only counted.
type Waiting struct {
	Status execution.Status
	Count  int
	Oldest time.Duration
}
