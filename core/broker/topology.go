package broker

import (
	"strconv"
	"strings"
	"time"

	"handoff/core/config"
	"handoff/core/execution"
)

// Names of exchanges, queues and keys. They are defined only here: two services that declare
// different topologies do not crash, but receive nothing (defect D31).
const (
	ExchangeExecutions = "attune.executions"

	QueueRequested     = "attune.executor.requested"
	QueueStatusChanged = "attune.executor.status_changed"
	QueueCompleted     = "attune.executor.completed"

	KeyRequested     = "execution.requested"
	KeyStatusChanged = "execution.status_changed"
	KeyCompleted     = "execution.completed"

	workerQueuePrefix = "worker."
	workerQueueSuffix = ".executions"
	cancelQueueSuffix = ".cancels"
)

// cancelTTL is how long a hint to cancel stays useful. A worker that was disconnected for longer has lost its
// lease, and no longer owns its work (defect D60).
const cancelTTL = time.Minute

// WorkerQueue returns the name of a worker's dispatch queue. It is the same after a restart of the worker.
func WorkerQueue(id execution.WorkerID) string {
	return workerQueuePrefix + strconv.FormatInt(int64(id), 10) + workerQueueSuffix
}

// IsWorkerQueue reports whether a name is a WorkerQueue; a CancelQueue is not one. Only a dead letter from
// such a queue stands for a dispatch that died (defect D18).
func IsWorkerQueue(queue string) bool {
	return strings.HasPrefix(queue, workerQueuePrefix) && strings.HasSuffix(queue, workerQueueSuffix)
}

// DispatchKey returns the routing key of a worker's dispatches.
func DispatchKey(id execution.WorkerID) string {
	return "execution.dispatch.worker." + strconv.FormatInt(int64(id), 10)
}

// CancelQueue returns the name of a worker's cancel queue. They have their own queue because the worker takes
// nothing from its dispatch queue while it is full, and cancellations matter most then. The queue has no dead
// letter exchange: the heartbeat's reply also carries the cancellation.
func CancelQueue(id execution.WorkerID) string {
	return workerQueuePrefix + strconv.FormatInt(int64(id), 10) + cancelQueueSuffix
}

// CancelKey returns the routing key of a worker's cancellations.
func CancelKey(id execution.WorkerID) string {
	return "execution.cancel.worker." + strconv.FormatInt(int64(id), 10)
}

// DeadLetterQueue returns the name of the queue that is bound to the dead letter exchange.
func DeadLetterQueue(exchange string) string { return exchange + ".queue" }

// ExchangeKind is the routing rule of an exchange.
type ExchangeKind string

// The kinds in use. On a direct exchange "#" is an ordinary character; that is why the dead letter
// exchange is a topic (defect D17).
const (
	Topic  ExchangeKind = "topic"
	Direct ExchangeKind = "direct"
)

// Topology is a set of durable exchanges, queues and bindings.
type Topology struct {
	Exchanges []Exchange
	Queues    []Queue
	Bindings  []Binding
}

// Exchange is a durable exchange.
type Exchange struct {
	Name string
	Kind ExchangeKind
}

// Queue is a durable queue.
type Queue struct {
	Name string
	// Type is "quorum" or "classic".
	Type string
	// TTL is x-message-ttl; zero means messages do not expire.
	TTL time.Duration
	// DeadLetterExchange is x-dead-letter-exchange; if it is empty, dead messages are lost. A quorum queue
	// with a dead letter exchange dead-letters at least once, and refuses publishes when it overflows.
	DeadLetterExchange string
	// Expires is x-expires: the broker deletes the queue with its messages after this time without a consumer
	// (a quorum queue a few seconds later). Redeclaring a classic queue restarts the time. Zero means never.
	Expires time.Duration
	// KeepsReturned reports whether a message stays in the queue however often it is returned unacknowledged.
	// Otherwise a quorum queue of RabbitMQ 4 treats a message as poison when it is returned for the 21st
	// time. The message goes to the dead letter exchange, or is lost if there is none. A queue that already
	// exists is not changed; see Session.Limited.
	KeepsReturned bool
}

// Binding routes a key pattern of an exchange to a queue.
type Binding struct{ Exchange, Pattern, Queue string }

// ExecutorTopology returns the topology that every executor declares when it starts.
func ExecutorTopology(c config.RabbitMQ) Topology {
	t := Topology{
		Exchanges: []Exchange{{ExchangeExecutions, Topic}},
		Queues: []Queue{
			hintQueue(c, QueueRequested),
			hintQueue(c, QueueStatusChanged),
			hintQueue(c, QueueCompleted),
		},
		Bindings: []Binding{
			{ExchangeExecutions, KeyRequested, QueueRequested},
			{ExchangeExecutions, KeyStatusChanged, QueueStatusChanged},
			{ExchangeExecutions, KeyCompleted, QueueCompleted},
		},
	}
	return t.withDeadLetters(c)
}

// hintQueue returns a queue that the executors share for hints. It has no dead letter exchange.
func hintQueue(c config.RabbitMQ, name string) Queue {
	return Queue{Name: name, Type: c.QueueType, KeepsReturned: true}
}

// WorkerQueues returns a worker's two queues: for dispatches and for cancellations.
func WorkerQueues(c config.RabbitMQ, id execution.WorkerID) []Queue {
	// A message that returns too often becomes a dead letter, and its execution is reclaimed without blaming
	// the worker. Without dead lettering it would be lost.
	q := Queue{Name: WorkerQueue(id), Type: c.QueueType, KeepsReturned: !c.DeadLetter.Enabled}
	if c.DeadLetter.Enabled {
		q.TTL = c.WorkerQueueTTL()
		q.DeadLetterExchange = c.DeadLetter.Exchange
	}
	return []Queue{q, {Name: CancelQueue(id), Type: c.QueueType, TTL: cancelTTL, KeepsReturned: true}}
}

// WorkerTopology returns the topology that a worker declares before it becomes active.
func WorkerTopology(c config.RabbitMQ, id execution.WorkerID) Topology {
	t := Topology{
		Exchanges: []Exchange{{ExchangeExecutions, Topic}},
		Queues:    WorkerQueues(c, id),
		Bindings: []Binding{
			{ExchangeExecutions, DispatchKey(id), WorkerQueue(id)},
			{ExchangeExecutions, CancelKey(id), CancelQueue(id)},
		},
	}
	return t.withDeadLetters(c)
}

// withDeadLetters adds the dead letter path. Executors and workers both declare it, because a
// message that dies before the path exists is lost.
func (t Topology) withDeadLetters(c config.RabbitMQ) Topology {
	if !c.DeadLetter.Enabled {
		return t
	}
	queue := DeadLetterQueue(c.DeadLetter.Exchange)
	t.Exchanges = append(t.Exchanges, Exchange{c.DeadLetter.Exchange, Topic})
	t.Queues = append(t.Queues, Queue{Name: queue, Type: c.QueueType, KeepsReturned: true})
	t.Bindings = append(t.Bindings, Binding{c.DeadLetter.Exchange, "#", queue})
	return t
}
