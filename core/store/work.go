package store

import (
	"time"

	"handoff/core/execution"
)

// Registration is the request of a worker process for a new incarnation.
type Registration struct {
	// Process is a number that the process drew at its start. Attempt grows with every attempt to
	// register: an attempt that arrives after a later one has no effect. Otherwise a delayed
	// request could supersede the very process that sent it.
	Process uint64
	Attempt uint64
	// After is the latest incarnation of this name that the process knows; 0 for none.
	After execution.Incarnation

	Name     string
	Runtimes []string
	Capacity int
	Lease    time.Duration
	// HealthURL is the address of the worker's health endpoint; empty for none.
	HealthURL string
}

// Registered is the result of a Registration.
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
	// ConsumerAlive reports whether the worker would receive a dispatch. A worker that sends heartbeats but
	// receives nothing is the worst kind (defect D32).
	ConsumerAlive bool
	// Held is the registry: every execution from before its claim until after its end.
	Held []execution.Key
	// WasFull reports whether, at some moment of this incarnation, every run slot was taken or the worker
	// paused because it could not start actions. FullAgo is the time since that was last so; 0 while it is
	// so. The guard of Reclaim uses both to decide whether a row waited behind others.
	WasFull bool
	FullAgo time.Duration
	// Messages is the latest version of a dispatch message that the worker reads.
	Messages int
	// Figures counts how the runs of this incarnation ended. The worker's health is derived from them by its
	// configuration.
	Figures execution.Figures
	Health  execution.Health
}

// BeatReply is the result of a heartbeat.
type BeatReply struct {
	// Lost lists executions that the worker holds but no longer owns; it kills those actions.
	Lost []execution.Key
	// Cancel lists executions that the worker holds and is asked to end.
	Cancel []execution.Key
	// Drain reports whether an operator asks the worker to drain and stop.
	Drain bool
	// Starting reports whether, according to the database, the worker has not become active yet. An active
	// worker then repeats its report, because a starting worker gets no work. The first report may have been
	// lost by a failover to a replica without the latest writes.
	Starting bool
	// Ended are the rows that the heartbeat ended because the worker does not hold them, ordered by id.
	Ended []Outcome
	// Incomplete is the reason why Lost and Ended may lack rows; nil if they are complete. The lease is
	// renewed regardless, and the next heartbeat finds the rest.
	Incomplete error
}

// Claim takes ownership of one dispatched epoch.
type Claim struct {
	Key execution.Key
	// Beat is the number of the latest heartbeat that had begun when this claim entered the
	// worker's registry.
	Beat uint64
}

// ClaimResult is the result of a Claim.
type ClaimResult struct {
	Outcome
	// DeadlinePassed reports whether the row is still scheduled at this epoch but it is too late to claim it.
	DeadlinePassed bool
}

// Finish is the end of one run.
type Finish struct {
	Key    execution.Key
	To     execution.Status
	Reason execution.Reason
	Result execution.Result
}
