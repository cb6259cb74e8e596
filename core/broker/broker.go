// Package broker declares what the core needs of a message broker, and the one place where its
// exchanges, queues and messages are described.
//
// The model is AMQP 0-9-1 as RabbitMQ implements it, reduced to what is used: sessions that end,
// mandatory publishes with confirms, and consumers that acknowledge by delivery. A session is one
// connection; when it ends, everything that was received over it belongs to the broker again, and
// acknowledging it over another session is impossible by construction (delivery tags are not
// versioned: acknowledging across generations settles somebody else's message).
//
// Messages are hints. Nothing here promises that one arrives once, in order, or at all.
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

// Errors of sessions and consumers. Others are wrapped and mean that the request itself was wrong.
var (
	// ErrUnavailable: no connection could be opened; nothing was sent.
	ErrUnavailable = errors.New("broker unavailable")
	// ErrClosed: the session has ended; what was received over it is requeued.
	ErrClosed = errors.New("broker session closed")
	// ErrCancelled: the broker cancelled the consumer, because its queue was deleted or moved (RabbitMQ rule 32), or because
	// it kept a delivery for too long (rule 31, from 4.3 on). The session lives on, but the broker may still give out over it
	// to the consumer that is gone: who wants those messages closes it.
	ErrCancelled = errors.New("consumer cancelled by the broker")
	// ErrPrecondition: a queue or exchange exists with other settings (406, defect D27).
	ErrPrecondition = errors.New("queue or exchange exists with other settings")
	// ErrUnanswered: the broker did not answer a declaration within DeclareWait.
	ErrUnanswered = errors.New("the broker does not answer for a queue or exchange")
)

// DeclareWait is how long all declarations of one call may take: a classic queue whose process hangs answers none.
const DeclareWait = 10 * time.Second

// Unanswered is the error of a declaration that was given up. what is the queue, exchange or binding, empty where that is
// not known.
func Unanswered(what string) error {
	return fmt.Errorf("declare %s: %w within %v, although it takes connections. A process of the broker may hang: see "+
		"`rabbitmqctl list_unresponsive_queues`, with -p where the virtual host is not /; if it stays so, restart that node of the broker",
		cmp.Or(what, "the topology"), ErrUnanswered, DeclareWait)
}

// Session is one connection to the broker. Its methods may be used by several tasks.
type Session interface {
	// Declare declares exchanges, queues and bindings; repeating it is harmless. A queue that
	// exists with other settings is ErrPrecondition. What the broker has not answered within DeclareWait is ErrUnanswered:
	// it may still come to be, and the session stays open.
	Declare(ctx context.Context, t Topology) error
	// Limited names, sorted, the queues declared over this connection that should keep what comes back
	// (Queue.KeepsReturned) but exist with the broker's delivery limit. A client can't see a policy that lifts the limit.
	Limited() []string
	// DeleteIdle deletes a queue that nobody consumes and in which no message waits. RabbitMQ judges both in the same
	// step for a classic queue. For a quorum queue it knows no condition (540), so there one request looks and the next
	// one deletes: who begins to use the queue between the two finds it gone, and a message that came in between is lost
	// with it.
	DeleteIdle(ctx context.Context, q Queue) (QueueFate, error)
	// QueueState looks at a queue and changes nothing (a passive declaration). What consumers hold unacknowledged is not
	// ready. That the queue does not exist is no error: Exists says so.
	QueueState(ctx context.Context, queue string) (QueueState, error)
	// Publish sends messages mandatory, persistent and confirmed, pipelined, and returns one
	// outcome for each, in order. It returns when all are known, or unknown because the session or
	// the context ended. It never returns fewer outcomes than messages.
	Publish(ctx context.Context, ms []Message) []Outcome
	// Consume subscribes to a queue. At most prefetch deliveries are unsettled at a time.
	Consume(ctx context.Context, queue string, prefetch int) (Consumer, error)
	// Blocked says that the broker holds publishers back (memory or disk alarm): publishes stall.
	Blocked() bool
	// Closed says that the session has ended.
	Closed() bool
	// Wait returns nil as soon as the session has ended, by whomever, or the context's error when that ends first. A
	// session that nobody uses ends too: then its heartbeats tell.
	Wait(ctx context.Context) error
	// Close ends the session. What was received and not settled goes back to its queues.
	Close()
}

// Consumer is one subscription of one session.
type Consumer interface {
	// Receive waits for the next delivery. It returns ErrClosed, ErrCancelled or the context's
	// error.
	Receive(ctx context.Context) (Delivery, error)
	// Ack settles a delivery. It is sent, not confirmed: it may be lost with the session, so an
	// acknowledgement is never a proof.
	Ack(d Delivery)
	// Reject settles a delivery negatively: back into the queue at its old place, or, without
	// requeue, to the dead letter exchange.
	Reject(d Delivery, requeue bool)
	// Cancel ends new deliveries; those received before can still be settled.
	Cancel(ctx context.Context) error
}

// QueueFate is what became of a queue that was to be deleted.
type QueueFate uint8

// The fates. The zero value is the careful one.
const (
	// QueueInUse: it is consumed, or messages wait in it; it stays.
	QueueInUse QueueFate = iota
	QueueDeleted
	// QueueAbsent: there is none of that name.
	QueueAbsent
)

// String names the fate for logs.
func (f QueueFate) String() string { return [...]string{"in use", "deleted", "absent"}[f] }

// QueueState is what a broker says of a queue.
type QueueState struct {
	// Exists is false if there is no queue of that name; everything else is 0 then.
	Exists bool
	// Ready is how many messages wait to be delivered. Messages that were delivered and not acknowledged are not
	// among them, nor are dead letters that a quorum queue keeps for want of a route.
	Ready int
	// Consumers is how many subscriptions the queue has, whether they take anything or not.
	Consumers int
}

// Outcome is what became of one publish.
type Outcome uint8

// The outcomes.
const (
	// Unknown: the session ended first; the message may have been stored, once or not at all.
	Unknown Outcome = iota
	// Confirmed: every queue that it was routed to has stored it.
	Confirmed
	// Returned: no queue was bound to its key (312 NO_ROUTE); nothing was stored.
	Returned
	// Nacked: the broker refused it (queue length limit, internal error); nothing was stored.
	Nacked
	// NotSent: nothing was sent, because no session was open, or because the queue behind that key confirms nothing.
	NotSent
)

// String names the outcome for logs.
func (o Outcome) String() string {
	return [...]string{"unknown", "confirmed", "returned", "nacked", "not sent"}[o]
}

// Message is something to publish.
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
	// Malformed is why the body could not be read, nil if it could. Body is kept then.
	Malformed error
	Body      []byte
	// Deaths is the x-death header, newest first; empty if the message never died.
	Deaths []Death
}

// Death is one entry of x-death: how often a message died in one queue for one reason.
type Death struct {
	Queue  string
	Reason DeathReason
	Count  int
	// Time is when it died there first, on the broker's clock, in whole seconds.
	Time time.Time
}

// DeathReason is x-death's reason (RabbitMQ rule 15).
type DeathReason uint8

// The reasons for which a message is dead-lettered.
const (
	DeathUnknown DeathReason = iota
	DeathExpired
	DeathRejected
	DeathMaxLength
	DeathDeliveryLimit
)

// String is the header's value.
func (r DeathReason) String() string {
	return [...]string{"unknown", "expired", "rejected", "maxlen", "delivery_limit"}[r]
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
	// DeadLetterCanary is a test message that an executor sends to its death; it is about no execution.
	DeadLetterCanary
)

// Types is how many values Type has, NoType included.
const Types = int(DeadLetterCanary) + 1

// String is the name on the wire.
func (t Type) String() string {
	return [...]string{"", "execution.requested", "execution.scheduled", "execution.status_changed", "execution.completed", "execution.cancel", "dead_letter.canary"}[t]
}

// Envelope wraps every payload. Exactly the payload that Type names is set.
type Envelope struct {
	MessageID     string
	Type          Type
	CorrelationID string
	// Timestamp is the publisher's wall clock; for readers, never for decisions.
	Timestamp time.Time
	// Version is VersionBlock for a message of several dispatches, WireVersion for any other.
	Version int

	// Dispatches belong to ExecutionScheduled: at least one, all for the same incarnation of a worker. Several are called a
	// block. A block is stored, delivered and settled as one message, and each of its dispatches is claimed and judged alone.
	Dispatches []Dispatch
	// Unread are those dispatches of a block that could not be read. Only Decode sets it: they cost none of the others.
	Unread []UnreadDispatch
	// Changes belongs to ExecutionRequested and ExecutionCancel (only the keys), ExecutionStatusChanged
	// and ExecutionCompleted: hints that may carry many executions. A DeadLetterCanary has none.
	Changes []Change
}

// Dispatch hands one epoch of one execution to one incarnation of one worker.
type Dispatch struct {
	Key         execution.Key
	Worker      execution.WorkerID
	Incarnation execution.Incarnation
	Action      execution.Action
	Parameters  []byte
}

// UnreadDispatch is a dispatch of a block that could not be read: why, and its part of the body.
type UnreadDispatch struct {
	Why  string
	Body []byte
}

// Change says that an execution changed its status.
type Change struct {
	Key      execution.Key
	From, To execution.Status
	// Handled says of an end that it was handled in the same step: nothing follows but that a worker has room.
	Handled bool
}
