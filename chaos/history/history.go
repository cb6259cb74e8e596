// Package history is the record of a run: its events, with their times, subjects and causes. Both worlds
// write it, invariants judge it, and reports draw it.
//
// Each event is written where the fact arises, not where it is reported: transitions by the database, dead
// letters by the broker, runs of actions by the machine that executes them. So errors of the core can't
// falsify it.
package history

import (
	"time"

	"handoff/core/execution"
)

// Kind is the kind of an event.
type Kind uint8

// The kinds of events. Each comment lists the fields that an event sets in addition to At, Step and Process.
const (
	NoKind Kind = iota

	// ProcessStarted, ProcessCrashed, ProcessStopping (asked to stop), ProcessStopped (exited by
	// itself), ProcessPaused, ProcessResumed, ProcessFrozen, ProcessThawed: Process.
	ProcessStarted
	ProcessCrashed
	ProcessStopping
	ProcessStopped
	ProcessPaused
	ProcessResumed
	ProcessFrozen
	ProcessThawed

	// FaultBegan, FaultEnded, FaultTouched: Fault, Text (its kind). FaultBegan and FaultEnded have Count (1
	// if the fault can hinder an executor), Process (the targets: names separated by commas, or the server)
	// and Queue (the other ends of links, the type of messages, or a table). FaultTouched is the evidence
	// that a fault made a difference to a Process, or to a Message with its Type in a Queue.
	FaultBegan
	FaultEnded
	FaultTouched

	// ActionDefined: Action, Count (its limit of concurrency, 0 for none).
	ActionDefined
	// Created: Execution, Chain, Count (retry count), Limit (max_retries), Due (a retry's earliest start, 0
	// for an original), Reason (of the retry), To, By, Action, Key (its idempotency key), Related (the first
	// row of the parent's chain, 0 unless it is a child), Worker (to which it is pinned, or 0), Text (the
	// runtime), RunTimeout (0 in an audit, which doesn't contain it) and DispatchTimeout (0: as configured).
	Created
	// KeyKnown: Execution, Key, Process, Due (the age of the execution, by the database's clock). The answer
	// to a request was the execution that an earlier request had created under the same idempotency key.
	KeyKnown
	// ChildStarted: Execution, Related. A child became due because its parent's chain completed.
	ChildStarted
	// CancelRequested: Execution (the chain's last row), Chain, From (its status), Action. The
	// request was accepted.
	CancelRequested
	// SlotTaken, SlotFreed: Execution, Action, Count (the slot's number).
	SlotTaken
	SlotFreed
	// Transition: Execution, Chain, Epoch (after), OldEpoch, Named, From, To, By, Reason, Worker
	// and Incarnation (of the row: after a take-back the previous owner, else the owner after the
	// transition), Writer, Process (which wrote), Count (dispatches used), Due (requested: not
	// before; scheduled: dispatch deadline; running, canceling: run deadline), Text (the error of a
	// failure and its message), Related (in an audit: the parent of a skipped child).
	Transition
	// StaleWrite: Execution, Epoch, To, By. A guarded write matched no row.
	StaleWrite
	// Orchestrated: Execution, Chain, From (its terminal status), Reason, Related (the retry, or
	// 0), Due (the time since its end). The terminal handling was committed.
	Orchestrated
	// PublishedMarked: Execution, Epoch.
	PublishedMarked
	// RefusedResult: Execution, Epoch, Incarnation, To.
	RefusedResult
	// DeadLetterStored: Execution, Epoch, Reason.
	DeadLetterStored
	// Observed: a part in observe mode recorded what it would have done. Timeout monitor: By,
	// Execution, Epoch, To, Reason, Worker, Incarnation. Prober: Worker, Incarnation, Count (1 if
	// an outage of the worker's health endpoint began, 0 if it ended).
	Observed

	// WorkerRegistered: Worker, Incarnation, Due (the lease's end, database clock), Limit (capacity), Text
	// (its runtimes, separated by spaces). WorkerLifecycle: Worker, Incarnation, Lifecycle. HeartbeatRenewed:
	// Worker, Incarnation, Count (beat), Due (the lease's end), Limit (1 if its consumer is alive).
	// HealthReported, for stored figures with a failure and the first ones without: Worker, Incarnation,
	// Count (consecutive failures), Limit (failures within the window), Message (runs within the window), Due
	// (the time of the last failure). WorkerCordoned: Worker, Count (1 on, 0 off).
	WorkerRegistered
	WorkerLifecycle
	HeartbeatRenewed
	HealthReported
	WorkerCordoned

	// Messages, with Message (its id), Type, Execution and Epoch (of a dispatch), Queue. A message with
	// several dispatches gives one event for each dispatch, always together; Limit is the position of the
	// dispatch, from 1, or 0 if it is the only one. Published: the broker has routed the message, to Count
	// queues. PublishReturned: to no queue. Enqueued; Delivered (Process, Count: how many ends a hint calls
	// handled; only in simulation); Acked (Process, Fault: why its body was unreadable, if it was); Requeued;
	// Expired and Rejected (Count 1 if, because of the message's header, the broker from then on creates no
	// queue and moves no dead letter; only in simulation); DeadLettered (Queue: where it died; it was routed
	// to Count queues); Dropped (Fault names the cause; empty if the broker dropped it by its own rules).
	Published
	PublishReturned
	Enqueued
	Delivered
	Acked
	Requeued
	Expired
	Rejected
	DeadLettered
	Dropped

	// ActionStarted: Execution, Chain, Epoch, Worker, Incarnation, Process (the machine). ActionEnded: the
	// same and To (outcome), Reason, and Count (the exit code of a failure; 0 if the action gave its reason
	// in words or was ended by a signal). Count is not hashed, so existing hashes stay valid.
	ActionStarted
	ActionEnded

	// DatabaseDown, DatabaseUp, BrokerDown, BrokerUp: the server. BrokerUp has Count 1 if the broker still
	// holds a message that stops it from creating queues; see Expired.
	DatabaseDown
	DatabaseUp
	BrokerDown
	BrokerUp

	// ClockStepped: Process (the server whose clock it is), Due (the shift).
	ClockStepped

	// AlertFired, AlertResolved: Fault (the alert's name).
	AlertFired
	AlertResolved

	// Logged: Text, a line of the core's own log. Only in full records and never hashed.
	Logged
	// Quiescent: every accepted execution has ended and every queue is empty.
	Quiescent

	// MutantActed: Process, Text, Execution (0 if it concerns no particular one). A planted mutant just
	// made a difference. Only in full records and never hashed. It is declared here because a hash contains
	// a kind's number.
	MutantActed
	// EndAsked: Execution, Epoch, Incarnation, Process (the machine), Due (the time from the
	// request to the kill). A worker asked an action to end. Never hashed, like the two above, so
	// existing hashes stay valid. Only the simulated machine writes it.
	EndAsked
	// ToldGone: Process, Worker, Incarnation, Count (1 if another process has taken the name). The worker
	// received the answer that its incarnation has ended. Never hashed. Only the simulated database writes
	// it.
	ToldGone
	// Hinted: Process, Message, Type, Execution, Epoch, From, To, Worker (to whose queue a
	// cancellation goes), Key (the message's id), Limit (the number of changes in the message),
	// Count (to how many queues it was routed, -1 if the broker refused it). One event for each
	// change that a published message reports. Never hashed. Only the simulated broker writes it.
	Hinted
	// ConsumerTimedOut: Process, Queue, Message, Type, Execution and Epoch (of a dispatch), Due (how long
	// it was held), Count (0: the broker has ended the session; 1: the queue has requeued it and cancelled
	// the consumer). A delivery stayed unacknowledged for too long. Only the simulated broker writes it.
	ConsumerTimedOut
	// ReturnedTooOften, with the fields of Expired: the broker removed a message because it returned to its
	// queue too often (RabbitMQ's delivery limit). It follows the Requeued of the last return, and the same
	// events follow it as after Expired. It is declared here because a hash contains a kind's number.
	ReturnedTooOften
	// DatabaseRewound: Process, Due (a time of the run). The database is as it was at that time, because a
	// replica that had stopped following then has taken over. WorkerLifecycle events of the incarnations
	// that the rewind changed follow.
	DatabaseRewound
	// RowUnreadable: Execution, Count (1: the row's content is now unreadable to every program of the run;
	// 0: the old content is restored), Fault.
	RowUnreadable
	// Purged: Execution (the first row of a chain that was deleted with all its rows), Process, Count
	// (how many rows), Due (the age that the purge named).
	Purged
	// WorkerPurged: Worker, Incarnation, Process, Count (1: the worker was deleted with this
	// incarnation, its latest; 0: the incarnation alone), Due (the age that the purge named).
	WorkerPurged
	// RowLocked: Execution, Count (1: another program's session holds a lock on the row, so no process
	// can change it; 0: the lock is released), Fault.
	RowLocked

	kinds
)

// Kinds is the number of values of Kind, NoKind included.
const Kinds = int(kinds)

// ForReaders reports whether events of the kind are only for readers of records: they are not hashed, and
// no trigger waits for them. Invariants also judge them, except the first two kinds.
func (k Kind) ForReaders() bool {
	switch k {
	case Logged, MutantActed, EndAsked, ToldGone, Hinted:
		return true
	default:
		return false
	}
}

// Event is one event of a run. Fields that its kind does not list are zero.
type Event struct {
	// At is the time since the start of the run: virtual, or monotonic in a live run.
	At time.Duration
	// Step is the kernel's step, or the event's number in a live run.
	Step uint64

	// The small fields are adjacent, because each event is copied a few times. Lifecycle belongs to
	// Incarnation, and Type to Message.
	Kind      Kind
	From, To  execution.Status
	By        execution.Part
	Reason    execution.Reason
	Lifecycle execution.Lifecycle
	Type      uint8

	Execution execution.ID
	Chain     execution.ID
	Related   execution.ID
	Epoch     execution.Epoch
	OldEpoch  execution.Epoch
	// Named is the epoch that the writer's guard named; it differs from OldEpoch only if a guard is missing.
	Named execution.Epoch

	Worker      execution.WorkerID
	Incarnation execution.Incarnation
	// Writer is the incarnation that wrote, or 0 if the writer is not a worker.
	Writer execution.Incarnation

	Message uint64
	Count   int64
	Limit   int64
	// Due is a time on the database's clock, relative to the start of the run.
	Due time.Duration
	// RunTimeout and DispatchTimeout are the timeouts that apply to a new row.
	RunTimeout, DispatchTimeout time.Duration

	// Names. The writer interns them, so comparing and copying is cheap.
	Process string
	Action  string
	Key     string
	Queue   string
	Fault   string
	Text    string
}

// Sink receives the events of one run, in order. An event is valid only during the call.
type Sink interface {
	Observe(e *Event)
}

// Tee passes every event to several sinks, in order.
type Tee []Sink

// Observe implements Sink.
func (t Tee) Observe(e *Event) {
	for _, s := range t {
		s.Observe(e)
	}
}
