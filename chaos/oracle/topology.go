package oracle

import (
	"fmt"
	"time"

	"handoff/core/config"
	"handoff/core/execution"
)

// Exchange is an exchange of "Exchanges, queues, bindings" in docs/queues.md. Everything on that
// page is durable.
type Exchange struct{ Name, Kind string }

// Queue is a queue with its arguments. 0 and empty mean that an argument is not set. KeepsReturned reports
// whether the queue has no delivery limit.
type Queue struct {
	Name, Type         string
	TTL                time.Duration
	DeadLetterExchange string
	KeepsReturned      bool
}

// Binding is a rule that routes messages with a key to a queue.
type Binding struct{ Exchange, Key, Queue string }

// Topology holds the declarations of a process.
type Topology struct {
	Exchanges []Exchange
	Queues    []Queue
	Bindings  []Binding
}

// executions is the exchange for all messages except dead letters.
const executions = "attune.executions"

// ExecutorTopology returns the declarations of each executor.
func ExecutorTopology(r *config.RabbitMQ) (t Topology) {
	t.Exchanges = []Exchange{{executions, "topic"}}
	for _, hint := range []string{"requested", "status_changed", "completed"} {
		queue := "attune.executor." + hint
		t.Queues = append(t.Queues, Queue{Name: queue, Type: r.QueueType})
		t.Bindings = append(t.Bindings, Binding{executions, "execution." + hint, queue})
	}
	return t.withDeadLetters(r).withoutDeliveryLimits()
}

// WorkerTopology returns the declarations of a worker.
func WorkerTopology(r *config.RabbitMQ, id execution.WorkerID) (t Topology) {
	t.Exchanges = []Exchange{{executions, "topic"}}
	work, cancels := fmt.Sprintf("worker.%d.executions", id), fmt.Sprintf("worker.%d.cancels", id)
	t.Queues = []Queue{{Name: work, Type: r.QueueType}, {Name: cancels, Type: r.QueueType, TTL: time.Minute}}
	if r.DeadLetter.Enabled {
		t.Queues[0].TTL, t.Queues[0].DeadLetterExchange = QueueTTL(r), r.DeadLetter.Exchange
	}
	t.Bindings = []Binding{
		{executions, fmt.Sprintf("execution.dispatch.worker.%d", id), work},
		{executions, fmt.Sprintf("execution.cancel.worker.%d", id), cancels},
	}
	return t.withDeadLetters(r).withoutDeliveryLimits()
}

// withoutDeliveryLimits removes the delivery limits of queues without a dead letter exchange. With a limit,
// such a queue would lose a message that is returned too often.
func (t Topology) withoutDeliveryLimits() Topology {
	for i := range t.Queues {
		t.Queues[i].KeepsReturned = t.Queues[i].DeadLetterExchange == ""
	}
	return t
}

// withDeadLetters adds the dead letter path, which executors and workers declare.
func (t Topology) withDeadLetters(r *config.RabbitMQ) Topology {
	if r.DeadLetter.Enabled {
		queue := r.DeadLetter.Exchange + ".queue"
		t.Exchanges = append(t.Exchanges, Exchange{r.DeadLetter.Exchange, "topic"})
		t.Queues = append(t.Queues, Queue{Name: queue, Type: r.QueueType})
		t.Bindings = append(t.Bindings, Binding{r.DeadLetter.Exchange, "#", queue})
	}
	return t
}
