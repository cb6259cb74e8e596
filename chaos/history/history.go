// Package history is what happened, to whom, by whom and when: the one record that both worlds
// write, that invariants judge and that reports draw.
//
// An event is written where the truth is, not where it is claimed: transitions by the database,
// deaths by the broker, runs by the machine that runs them. The core cannot embellish it.
package history

import (
	"time"

	"handoff/core/execution"
)

// Kind is what happened.
type Kind uint8

// The kinds of events, with the fields that each one sets beside At, Step and Process.
const (
	NoKind Kind = iota

	// ProcessStarted, ProcessCrashed, ProcessStopping (was asked to stop), ProcessStopped (ended by
	// itself), ProcessPaused, ProcessResumed, ProcessFrozen, ProcessThawed: Process.
	ProcessStarted
	ProcessCrashed
	ProcessStopping
	ProcessStopped
	ProcessPaused
	ProcessResumed
	ProcessFrozen
	ProcessThawed

	// FaultBegan, FaultEnded, FaultTouched: Fault, Text (its kind). FaultBegan and FaultEnded have Count (1 if the
	// fault can hinder an executor), Process (whom it strikes: names separated by commas, or the server) and Queue
	// (the other ends of links, the type of messages). FaultTouched is the evidence that a fault made a difference
	// to something: to a Process, or to a Message with its Type in a Queue.
	FaultBegan
	FaultEnded
	FaultTouched

	// ActionDefined: Action, Count (its limit of concurrency, 0 for none).
	ActionDefined
	// Created: Execution, Chain, Count (retry count), Limit (max_retries), Due (a retry's earliest
	// start, 0 for an original), Reason (of the retry), To, By, Action, Key (its idempotency key), Related (the first row of
	// the parent's chain, 0 for no child), Worker (that it is pinned to, or 0), Text (the runtime), RunTimeout (0 in an
	// audit, which does not tell it) and DispatchTimeout (0: as configured).
	Created
	// KeyKnown: Execution, Key, Process, Due (the age of the execution, by the database's clock): a request was
	// answered with the execution that an earlier one had created under its idempotency key.
	KeyKnown
	// ChildStarted: Execution, Related: a child became due because its parent's chain has completed.
	ChildStarted
	// CancelRequested: Execution (the chain's last row), Chain, From (its status), Action: accepted.
	CancelRequested
	// SlotTaken, SlotFreed: Execution, Action, Count (the slot's number).
	SlotTaken
	SlotFreed
	// Transition: Execution, Chain, Epoch (after), OldEpoch, Named, From, To, By, Reason, Worker and
	// Incarnation (of the row: the owner before a take-back, else after), Writer, Process (who
	// wrote), Count (dispatches used), Due (requested: not before; scheduled: dispatch deadline;
	// running, canceling: run deadline), Text (the error of a failure and its message), Related (in an audit: the parent of
	// a child that was skipped).
	Transition
	// StaleWrite: Execution, Epoch, To, By: a guarded write that matched no row.
	StaleWrite
	// Orchestrated: Execution, Chain, From (its terminal status), Reason, Related (the retry, or 0),
	// Due (how long ago it had ended): the terminal handling was committed.
	Orchestrated
	// PublishedMarked: Execution, Epoch.
	PublishedMarked
	// RefusedResult: Execution, Epoch, Incarnation, To.
	RefusedResult
	// DeadLetterStored: Execution, Epoch, Reason.
	DeadLetterStored
	// Observed: a part that only observes recorded what it would do. Of the timeout monitor: By, Execution, Epoch, To,
	// Reason, Worker, Incarnation. Of the prober: Worker, Incarnation, Count (1 if an outage of the worker's health
	// endpoint began, 0 if it ended).
	Observed

	// WorkerRegistered: Worker, Incarnation, Due (the lease's end, database clock), Limit (capacity),
	// Text (its runtimes, with spaces between). WorkerLifecycle: Worker, Incarnation, Lifecycle.
	// HeartbeatRenewed: Worker, Incarnation, Count (beat), Due (the lease's end), Limit (1 if its consumer is alive).
	// HealthReported: Worker, Incarnation, Count (consecutive failures), Limit (failures within the
	// window), Message (runs within the window), Due (the moment of the last failure): figures with a
	// failure in them were stored, or the first ones without. WorkerCordoned: Worker, Count (1 on, 0 off).
	WorkerRegistered
	WorkerLifecycle
	HeartbeatRenewed
	HealthReported
	WorkerCordoned

	// Messages, with Message (its id), Type, Execution and Epoch (of a dispatch), Queue. A message of several dispatches is
	// told of as so many messages, one for each, which do everything together: Limit is the place of each, from 1, and 0
	// for a message that is alone.
	// Published: the broker has routed it (Count: to how many queues). PublishReturned: to none.
	// Enqueued, Delivered (Process, Count: how many ends a hint calls handled; only in simulation), Acked (Process; Fault: what made its body unreadable, if anything), Requeued, Expired
	// and Rejected (Count 1 if from then on the broker makes no queue and moves no dead letter, because of the message's
	// header; only in simulation), DeadLettered (Queue: where it died; it was routed to Count queues), Dropped (lost for a reason that Fault names; an empty Fault means the broker dropped it by its rules).
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

	// ActionStarted: Execution, Chain, Epoch, Worker, Incarnation, Process (the machine).
	// ActionEnded: the same and To (outcome) and Reason.
	ActionStarted
	ActionEnded

	// DatabaseDown, DatabaseUp, BrokerDown, BrokerUp: the server. BrokerUp has Count 1 if a message still lies there over
	// which the broker makes no queue; see Expired.
	DatabaseDown
	DatabaseUp
	BrokerDown
	BrokerUp

	// ClockStepped: Process (the server whose clock it is), Due (how far it was moved).
	ClockStepped

	// AlertFired, AlertResolved: Fault (the alert's name).
	AlertFired
	AlertResolved

	// Logged: Text, a line of the core's own log; only in full records and never hashed.
	Logged
	// Quiescent: everything accepted is finished and every queue is empty.
	Quiescent

	// MutantActed: Process, Text, Execution (0 for none in particular): a planted mutant made a difference at this
	// moment. Only in full records and never hashed; it stands at the end because a hash reads a kind by its number.
	MutantActed
	// EndAsked: Execution, Epoch, Incarnation, Process (the machine), Due (how long after the request it is killed): a worker
	// asked an action to end. Never hashed, like the two above, so that hashes stay what they were; only the simulated
	// machine tells it.
	EndAsked
	// PoliciesAsked: Count (how many questions), Text (the answers that are not the contract's, a line each): the core was
	// asked beside the run for its tables and policies (chaos/policies). Never hashed: it is no event of the run. Only the
	// simulated world asks.
	PoliciesAsked
	// ToldGone: Process, Worker, Incarnation, Count (1 if another process has taken the name): the answer to a worker's
	// statement said that its incarnation is over, and the worker has it. Never hashed; only the simulated database tells it.
	ToldGone
	// Hinted: Process, Message, Type, Execution, Epoch, From, To, Worker (whose queue a cancellation goes to), Key (the
	// message's id), Limit (how many changes the message tells of), Count (to how many queues it was routed, -1 if the broker
	// refused it): one for each change of which a published message tells. Never hashed; only the simulated broker tells it.
	Hinted
	// ConsumerTimedOut: Process, Queue, Message, Type, Execution and Epoch (of a dispatch), Due (how long it was held), Count
	// (0: the broker has ended the session; 1: the queue has taken it back and cancelled the consumer): a delivery stayed
	// unacknowledged for too long. Only the simulated broker tells it.
	ConsumerTimedOut
	// ReturnedTooOften, with the fields of Expired: the broker gave a message up because it came back to its queue more often
	// than that allows (RabbitMQ's delivery limit). It follows the Requeued of the last return, and is followed by the same
	// ends as Expired. It stands here because a hash reads a kind by its number.
	ReturnedTooOften
	// DatabaseRewound: Process, Due (the moment of the run): the database is as it was at that moment, because a replica took
	// over that had followed until then. The lifecycles of incarnations that are others now follow.
	DatabaseRewound
	// RowUnreadable: Execution, Count (1: from now on the row says what no program of the run can read; 0: it says again what
	// it said before), Fault.
	RowUnreadable

	kinds
)

// Kinds is how many values Kind has, NoKind included.
const Kinds = int(kinds)

// ForReaders says that events of the kind are not hashed, and that nothing waits for them. They stand in records for those
// who read them; by all but the first two invariants also judge.
func (k Kind) ForReaders() bool {
	switch k {
	case Logged, MutantActed, EndAsked, PoliciesAsked, ToldGone, Hinted:
		return true
	default:
		return false
	}
}

// Event is one thing that happened. Fields that a kind does not name are zero.
type Event struct {
	// At is virtual (or, live, monotonic) time since the start of the run.
	At time.Duration
	// Step is the kernel's step, or the event's number in a live run.
	Step uint64
	Kind Kind

	Execution execution.ID
	Chain     execution.ID
	Related   execution.ID
	Epoch     execution.Epoch
	OldEpoch  execution.Epoch
	// Named is the epoch that a writer named in its guard; it is OldEpoch unless a guard is missing.
	Named    execution.Epoch
	From, To execution.Status
	By       execution.Part
	Reason   execution.Reason

	Worker      execution.WorkerID
	Incarnation execution.Incarnation
	// Writer is the incarnation that wrote, 0 where no worker did.
	Writer    execution.Incarnation
	Lifecycle execution.Lifecycle

	Message uint64
	Type    uint8
	Count   int64
	Limit   int64
	// Due is a moment on the database's clock, as time since the start of the run.
	Due time.Duration
	// RunTimeout and DispatchTimeout are what counts for a row that is created.
	RunTimeout, DispatchTimeout time.Duration

	// Names; interned by the writer, so that comparing and copying them is cheap.
	Process string
	Action  string
	Key     string
	Queue   string
	Fault   string
	Text    string
}

// Sink receives the events of one run, in order. An event is only valid during the call.
type Sink interface {
	Observe(e *Event)
}

// Tee hands every event to several sinks, in their order.
type Tee []Sink

// Observe implements Sink.
func (t Tee) Observe(e *Event) {
	for _, s := range t {
		s.Observe(e)
	}
}
