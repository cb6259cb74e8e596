package fault

import (
	"slices"
	"strings"
	"time"

	"handoff/core/broker"
	"handoff/core/config"
)

// The servers, as targets and as other ends of links.
const (
	Broker   = "broker"
	Database = "database"
	// Executors is the other end of the links over which executors probe workers' health.
	Executors = "executors"
)

// OtherEnds lists the other ends of a process's links. A worker has a link to the executors for its
// health probes only. No process has a link to one particular other process.
func OtherEnds() []string { return []string{Broker, Database, Executors} }

// The selectors: targets that stand for some or all processes of a kind. "any" and "half" are drawn
// when the fault begins.
const (
	AnyWorker     = "any worker"
	AnyExecutor   = "any executor"
	HalfWorkers   = "half the workers"
	EveryExecutor = "every executor"
	EveryWorker   = "every worker"
	EveryProcess  = "every process"
)

// The executors' queues, as targets of queue faults. A worker's name stands for the worker's own queue.
const (
	RequestedQueue     = "requested"
	StatusChangedQueue = "status_changed"
	CompletedQueue     = "completed"
	DeadLetterQueue    = "dead_letters"
)

// ExecutorQueues lists the executors' queues.
func ExecutorQueues() []string {
	return []string{RequestedQueue, StatusChangedQueue, CompletedQueue, DeadLetterQueue}
}

// EveryMessage stands for every type of message.
const EveryMessage = "*"

// Direction is the direction in which a link is affected, seen from the fault's target.
type Direction string

// The directions.
const (
	Both     Direction = "both"
	Outgoing Direction = "outgoing" // messages that the target sends
	Incoming Direction = "incoming" // messages that are sent to the target
)

func directionNames() []string { return []string{string(Both), string(Outgoing), string(Incoming)} }

// Span is a duration drawn between two bounds, inclusive; equal bounds make it fixed.
type Span struct{ Least, Most time.Duration }

// Cluster lists a scenario's processes by name, in the order of the file.
type Cluster struct{ Executors, Workers []string }

// Select returns the processes that a target may refer to and how many of them the fault strikes: a named
// process itself, one of all for "any", half of them rounded up, or all. It returns none for a server or an
// executors' queue.
func (c Cluster) Select(target string) (names []string, count int) {
	switch target {
	case Broker, Database, RequestedQueue, StatusChangedQueue, CompletedQueue, DeadLetterQueue:
		return nil, 0
	case AnyWorker:
		return slices.Clone(c.Workers), 1
	case AnyExecutor:
		return slices.Clone(c.Executors), 1
	case HalfWorkers:
		return slices.Clone(c.Workers), (len(c.Workers) + 1) / 2
	case EveryWorker:
		return slices.Clone(c.Workers), len(c.Workers)
	case EveryExecutor:
		return slices.Clone(c.Executors), len(c.Executors)
	case EveryProcess:
		return append(slices.Clone(c.Executors), c.Workers...), len(c.Executors) + len(c.Workers)
	}
	return []string{target}, 1
}

// Processes lists the targets that a fault on a process may name.
func (c Cluster) Processes() []string {
	names := append(slices.Clone(c.Executors), c.Workers...)
	names = append(names, AnyExecutor, EveryExecutor)
	if len(c.Workers) > 0 {
		names = append(names, AnyWorker, HalfWorkers, EveryWorker)
	}
	return append(names, EveryProcess)
}

// WorkerTargets lists the targets that a fault on workers may name.
func (c Cluster) WorkerTargets() []string {
	names := slices.Clone(c.Workers)
	if len(c.Workers) > 0 {
		names = append(names, AnyWorker, HalfWorkers, EveryWorker)
	}
	return names
}

// queueBindings returns the bindings of the queues that a target names: one of the executors' queues, or
// those of the drawn workers. A worker that has not registered yet has no queue.
func queueBindings(x *Injection, target string, mq config.RabbitMQ, w Registry) []broker.Binding {
	one := func(pattern, queue string) broker.Binding {
		return broker.Binding{Exchange: broker.ExchangeExecutions, Pattern: pattern, Queue: queue}
	}
	switch target {
	case RequestedQueue:
		return []broker.Binding{one(broker.KeyRequested, broker.QueueRequested)}
	case StatusChangedQueue:
		return []broker.Binding{one(broker.KeyStatusChanged, broker.QueueStatusChanged)}
	case CompletedQueue:
		return []broker.Binding{one(broker.KeyCompleted, broker.QueueCompleted)}
	case DeadLetterQueue:
		dead := mq.DeadLetter.Exchange
		return []broker.Binding{{Exchange: dead, Pattern: "#", Queue: broker.DeadLetterQueue(dead)}}
	}
	var all []broker.Binding
	for _, r := range w.Registered() {
		if slices.Contains(x.Targets, r.Name) {
			all = append(all, one(broker.DispatchKey(r.ID), broker.WorkerQueue(r.ID)))
		}
	}
	return all
}

// spacedName returns a kind's name with spaces instead of underscores.
func spacedName(kind string) string { return strings.ReplaceAll(kind, "_", " ") }
