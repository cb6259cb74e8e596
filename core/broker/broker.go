// Package broker declares what the core needs of a message broker ([Broker], [Session],
// [Consumer]), and defines the core's exchanges, queues and messages. No other package defines any.
// It also has the layer above that each process uses: [Client] keeps a session open, [Notifier] publishes
// hints, and [Canary] tests the dead letter path.
//
// The model is AMQP 0-9-1 as RabbitMQ implements it, reduced to the parts in use: sessions that end,
// mandatory publishes with confirms, and consumers that acknowledge by delivery. A session is one connection.
// When it ends, every delivery that was not settled (acknowledged or rejected) returns to its queue. A
// delivery can only be settled over its own session. This matters because delivery tags restart with each
// connection: over a new one, a late acknowledgement would settle another message.
//
// Messages are hints. Nothing here promises that a message arrives once, in order, or at all. The database is
// authoritative, and the parts find there what a lost message would have reported.
package broker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"handoff/core/execution"
)

// Broker opens sessions.
type Broker interface {
	// Connect opens one session, or returns ErrUnavailable or the context's error.
	Connect(ctx context.Context) (Session, error)
}

// Errors of sessions and consumers, to be tested with errors.Is. An error that is none of these and
// not the context's means that the request itself was wrong.
var (
	// ErrUnavailable: no connection could be opened; nothing was sent.
	ErrUnavailable = errors.New("broker unavailable")
	// ErrClosed: the session has ended; every unsettled delivery returns to its queue.
	ErrClosed = errors.New("broker session closed")
	// ErrCancelled: the broker cancelled the consumer. Its queue was deleted or moved (RabbitMQ rule 32), or
	// the consumer kept a delivery for too long (rule 31, from 4.3 on). The session lives on, but the broker
	// may still assign messages to the cancelled consumer. Closing the session returns those messages to the
	// queue.
	ErrCancelled = errors.New("consumer cancelled by the broker")
	// ErrPrecondition: a queue or exchange exists with other settings (406, defect D27).
	ErrPrecondition = errors.New("queue or exchange exists with other settings")
	// ErrUnanswered: the broker did not answer a declaration within DeclareWait.
	ErrUnanswered = errors.New("the broker does not answer for a queue or exchange")
)

// DeclareWait bounds the time of all declarations of one call. A classic queue whose process
// hangs never answers.
const DeclareWait = 10 * time.Second

// Unanswered returns the error of a declaration that the broker did not answer in time. what names the queue,
// exchange or binding; empty if unknown.
func Unanswered(what string) error {
	return fmt.Errorf("declare %s: %w within %v, although it takes connections. A process of the broker may hang: see "+
		"`rabbitmqctl list_unresponsive_queues`, with -p where the virtual host is not /; if it stays so, restart that node of the broker",
		cmp.Or(what, "the topology"), ErrUnanswered, DeclareWait)
}

// Session is one connection to the broker. Its methods may be used by several tasks.
type Session interface {
	// Declare declares exchanges, queues and bindings; repeating it is harmless. A queue that
	// exists with other settings is ErrPrecondition. A declaration that the broker does not answer
	// within DeclareWait is ErrUnanswered: it may still take effect, and the session stays open.
	Declare(ctx context.Context, t Topology) error
	// Limited returns the sorted names of queues that this session declared with Queue.KeepsReturned, but
	// that already existed with the broker's delivery limit. They drop or dead-letter messages that are
	// returned often, unless a policy, which clients can't see, lifts the limit.
	Limited() []string
	// DeleteIdle deletes a queue if it has no consumers and no waiting messages. For a classic queue RabbitMQ
	// checks and deletes in one step. For a quorum queue it offers no such condition (540), so one request
	// checks and the next deletes. A consumer that subscribes between the two loses its queue, and a message
	// that arrives between them is lost.
	DeleteIdle(ctx context.Context, q Queue) (QueueFate, error)
	// QueueState reads the state of a queue and changes nothing (a passive declaration). Ready does not count
	// messages that consumers hold unacknowledged. A missing queue is not an error: Exists is false.
	QueueState(ctx context.Context, queue string) (QueueState, error)
	// Publish sends messages mandatory, persistent and confirmed, pipelined. It returns exactly one
	// outcome for each message, in order. It returns when all outcomes are known, or when the
	// session or the context ends; the missing outcomes are then Unknown or NotSent.
	Publish(ctx context.Context, ms []Message) []Outcome
	// Consume subscribes to a queue. It holds at most prefetch unsettled deliveries at a time.
	Consume(ctx context.Context, queue string, prefetch int) (Consumer, error)
	// Blocked reports whether the broker has announced that it blocks publishers (memory or disk alarm), so
	// that publishes wait.
	Blocked() bool
	// Closed reports whether the session has ended.
	Closed() bool
	// Wait returns nil as soon as the session has ended, for whatever reason, or the context's error
	// if the context ends first. By the connection's heartbeats it also detects the end of an idle session.
	Wait(ctx context.Context) error
	// Close ends the session. Unsettled deliveries go back to their queues.
	Close()
}

// Consumer is one subscription of one session.
type Consumer interface {
	// Receive waits for the next delivery. It returns ErrClosed, ErrCancelled or the context's error.
	Receive(ctx context.Context) (Delivery, error)
	// Ack settles a delivery. It is sent but not confirmed: it may be lost with the session, so an
	// acknowledgement is never a proof.
	Ack(d Delivery)
	// Reject settles a delivery negatively. With requeue it returns to its old place in the queue;
	// without, it goes to the dead letter exchange.
	Reject(d Delivery, requeue bool)
	// Cancel stops new deliveries; the consumer can still settle earlier ones.
	Cancel(ctx context.Context) error
}

// QueueFate is the result of an attempt to delete a queue.
type QueueFate uint8

// The fates. The zero value is the safe one.
const (
	// QueueInUse: the queue was kept, because it has a consumer or waiting messages.
	QueueInUse QueueFate = iota
	QueueDeleted
	// QueueAbsent: no queue has that name.
	QueueAbsent
)

// String names the fate for logs.
func (q QueueFate) String() string { return [...]string{"in use", "deleted", "absent"}[q] }

// QueueState is a broker's report on a queue.
type QueueState struct {
	// Exists is false if no queue has that name; everything else is then 0.
	Exists bool
	// Ready is the number of messages that wait to be delivered. It excludes delivered, unacknowledged
	// messages, and dead letters that a quorum queue keeps because they have no route.
	Ready int
	// Consumers is the number of the queue's subscriptions, whether they take messages or not.
	Consumers int
}

// Outcome is the result of one publish.
type Outcome uint8

// The outcomes.
const (
	// Unknown: the session or the context ended before the broker answered, or the broker gets no answer from
	// the queue. The message may have been stored, once or not at all.
	Unknown Outcome = iota
	// Confirmed: every queue that the message was routed to has stored it.
	Confirmed
	// Returned: no queue was bound to its key (312 NO_ROUTE); nothing was stored.
	Returned
	// Nacked: the broker refused it (queue length limit, internal error), or it could not be encoded.
	// Nothing was stored.
	Nacked
	// NotSent: nothing was sent. No session was open, the session or the context ended before, or
	// the queue behind that key has not confirmed earlier messages.
	NotSent
)

// String names the outcome for logs.
func (o Outcome) String() string {
	return [...]string{"unknown", "confirmed", "returned", "nacked", "not sent"}[o]
}

// Message is a message to publish.
type Message struct {
	Exchange   string
	RoutingKey string
	Envelope   Envelope
}

// Delivery is a message as a consumer receives it.
type Delivery struct {
	// Tag identifies the delivery within its consumer's session.
	Tag         uint64
	RoutingKey  string
	Redelivered bool
	Envelope    Envelope
	// Malformed is the reason why the message, its headers or its body, could not be read; nil if it could.
	// If it is set, Envelope is empty and Body is the message as received.
	Malformed error
	Body      []byte
	// Deaths is the x-death header, newest first; empty if the message never died.
	Deaths []Death
}

// Death is one entry of x-death: it counts a message's deaths in one queue for one reason.
type Death struct {
	Queue  string
	Reason DeathReason
	Count  int
	// Time is when it first died in this queue, by the broker's clock, in whole seconds.
	Time time.Time
}

// DeathReason is the reason in x-death (RabbitMQ rule 15).
type DeathReason uint8

// The reasons for which a message is dead-lettered.
const (
	DeathUnknown DeathReason = iota
	DeathExpired
	DeathRejected
	DeathMaxLength
	DeathDeliveryLimit
)

// String returns the reason as in the header.
func (d DeathReason) String() string {
	return [...]string{"unknown", "expired", "rejected", "maxlen", "delivery_limit"}[d]
}

// Type is the message type of an envelope.
type Type uint8

// The message types of the contract.
const (
	NoType Type = iota
	ExecutionRequested
	ExecutionScheduled
	ExecutionStatusChanged
	ExecutionCompleted
	ExecutionCancel
	// DeadLetterCanary is a test message that an executor lets expire; it belongs to no execution.
	DeadLetterCanary
)

// Types is the number of values of Type, NoType included.
const Types = int(DeadLetterCanary) + 1

// String returns the type's name in a message.
func (t Type) String() string {
	return [...]string{"", "execution.requested", "execution.scheduled", "execution.status_changed", "execution.completed", "execution.cancel", "dead_letter.canary"}[t]
}

// Envelope wraps every payload. Only the payload that Type names is set.
type Envelope struct {
	MessageID     string
	Type          Type
	CorrelationID string
	// Timestamp is the publisher's wall clock. It is for readers, never for decisions.
	Timestamp time.Time
	// Version is VersionBlock for a block of dispatches, WireVersion for every other message.
	Version int

	// Dispatches is the content of ExecutionScheduled: at least one dispatch, all for the same incarnation of
	// a worker. A message with several is called a block. A block is stored, delivered and settled as one
	// message, but each of its dispatches is claimed and judged separately.
	Dispatches []Dispatch
	// Unread are the dispatches of a block that could not be read. Only Decode sets it. The other
	// dispatches of the block stay valid.
	Unread []UnreadDispatch
	// Changes is the content of hints, which may be about many executions: ExecutionRequested,
	// ExecutionCancel, ExecutionStatusChanged and ExecutionCompleted. Of the first two only the keys matter.
	// A DeadLetterCanary has no changes.
	Changes []Change
}

// Dispatch hands off one epoch of one execution to one incarnation of one worker.
type Dispatch struct {
	Key         execution.Key
	Worker      execution.WorkerID
	Incarnation execution.Incarnation
	Action      execution.Action
	Parameters  []byte
}

// UnreadDispatch is a dispatch of a block that could not be read: the reason, and its part of the body.
type UnreadDispatch struct {
	Why  string
	Body []byte
}

// Change is one change of an execution's status.
type Change struct {
	Key      execution.Key
	From, To execution.Status
	// Handled reports whether the step that ended the execution also handled its end. The hint then only
	// means that the worker has a free slot.
	Handled bool
}
