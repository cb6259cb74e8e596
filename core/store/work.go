package store

import (
	"time"

	"handoff/core/execution"
)

// Registration is a worker process that announces itself.
type Registration struct {
	// Process is a number that the process drew at its start. Attempt grows with every attempt to
	// register: an attempt that arrives after a later one has no effect. Otherwise a delayed
	// request could supersede the very process that sent it.
	Process uint64
	Attempt uint64
	// After is the latest incarnation of the name that the process knows of; 0 for none.
	After execution.Incarnation

	Name     string
	Runtimes []string
	Capacity int
	Lease    time.Duration
	// HealthURL is the address of the worker's health endpoint; empty for none.
	HealthURL string
}

// Registered is the answer to a Registration.
type Registered struct {
	WorkerKey
}

// Beat is a heartbeat.
type Beat struct {
	WorkerKey
	// Number grows by one with every attempt of this incarnation, from 1. Acknowledged is the
	// largest number that was answered; 0 for none. A database that does not know the acknowledged
	// beat has lost writes, and the incarnation is over (ErrLost).
	Number, Acknowledged uint64
	Lease                time.Duration
	// ConsumerAlive says that the worker would receive a dispatch. A deaf worker that sends
	// heartbeats is the worst kind (defect D32).
	ConsumerAlive bool
	// Held is the registry: every execution from before its claim until after its end.
	Held []execution.Key
	// WasFull says that every run slot was taken at some moment of this incarnation, or that the worker
	// rested because it could not start actions. FullAgo is how long ago that was last: 0 while it lasts. The guard of Reclaim uses both to tell whether
	// a row waited behind others.
	WasFull bool
	FullAgo time.Duration
	// Messages is the latest version of a dispatch message that the worker reads.
	Messages int
	// Figures say how the runs of this incarnation ended. Health is what the worker's configuration
	// derives from them.
	Figures execution.Figures
	Health  execution.Health
}

// BeatReply is the answer to a heartbeat.
type BeatReply struct {
	// Lost lists executions that the worker holds but no longer owns; it kills those actions.
	Lost []execution.Key
	// Cancel lists executions that the worker holds and is asked to end.
	Cancel []execution.Key
	// Drain says that an operator asks the worker to drain and stop.
	Drain bool
	// Starting says that, as the database knows, the worker has not become active. A worker that has
	// said so says it again: a failover to a copy that lacks the latest writes may have lost it,
	// and a starting worker gets no work.
	Starting bool
	// Ended are the rows that the heartbeat ended because the worker does not hold them, ordered by
	// id.
	Ended []Outcome
	// Incomplete is why Lost and Ended may lack rows; nil if they are complete. The lease is renewed all
	// the same, and the next heartbeat finds the rest.
	Incomplete error
}

// Claim takes ownership of one dispatched epoch.
type Claim struct {
	Key execution.Key
	// Beat is the number of the latest heartbeat that had begun when this claim entered the
	// worker's registry.
	Beat uint64
}

// ClaimResult is the answer to a Claim.
type ClaimResult struct {
	Outcome
	// DeadlinePassed says that the row is still scheduled at this epoch, but that it is too late to
	// claim it.
	DeadlinePassed bool
}

// Finish is the end of one run.
type Finish struct {
	Key    execution.Key
	To     execution.Status
	Reason execution.Reason
	Result execution.Result
}
