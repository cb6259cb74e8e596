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
	// Executors is the other end of the links on which workers are probed.
	Executors = "executors"
)

// OtherEnds lists what a process has links to. Workers have one to the executors for their health probes and for nothing
// else; to a single other process nobody has one.
func OtherEnds() []string { return []string{Broker, Database, Executors} }

// The selectors: targets that stand for some or all processes of a kind. Which ones "any" and "half" mean is drawn when
// the fault begins.
const (
	AnyWorker     = "any worker"
	AnyExecutor   = "any executor"
	HalfWorkers   = "half the workers"
	EveryExecutor = "every executor"
	EveryWorker   = "every worker"
	EveryProcess  = "every process"
)

// The executors' queues, as targets of queue faults; a worker's name stands for its own.
const (
	RequestedQueue     = "requested"
	StatusChangedQueue = "status_changed"
	CompletedQueue     = "completed"
	DeadLetterQueue    = "dead_letters"
)

// ExecutorQueues lists the queues that belong to no worker.
func ExecutorQueues() []string {
	return []string{RequestedQueue, StatusChangedQueue, CompletedQueue, DeadLetterQueue}
}

// EveryMessage stands for every type of message.
const EveryMessage = "*"

// Direction is which way a link is affected, seen from the fault's target.
type Direction string

// The directions.
const (
	Both     Direction = "both"
	Outgoing Direction = "outgoing" // what the target sends
	Incoming Direction = "incoming" // what is sent to the target
)

func directions() []string { return []string{string(Both), string(Outgoing), string(Incoming)} }

// Span is a duration that is drawn between two bounds, both included; equal bounds fix it.
type Span struct{ Least, Most time.Duration }

// Cluster is the processes of a scenario by their names, in the order of the file.
type Cluster struct{ Executors, Workers []string }

// Select says which processes a target may mean and how many of them are struck: one of one for a name, one of all for
// "any", half of them rounded up, or all. None for a server or a queue of the executors.
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

// Processes lists what a fault on a process may name.
func (c Cluster) Processes() []string {
	names := append(slices.Clone(c.Executors), c.Workers...)
	names = append(names, AnyExecutor, EveryExecutor)
	if len(c.Workers) > 0 {
		names = append(names, AnyWorker, HalfWorkers, EveryWorker)
	}
	return append(names, EveryProcess)
}

// WorkerTargets lists what a fault on workers may name.
func (c Cluster) WorkerTargets() []string {
	names := slices.Clone(c.Workers)
	if len(c.Workers) > 0 {
		names = append(names, AnyWorker, HalfWorkers, EveryWorker)
	}
	return names
}

// bindings returns the bindings of the queues that a target names: one queue of the executors, or those of the workers
// that were drawn. A worker that has not registered yet has no queue.
func bindings(x *Injection, target string, mq config.RabbitMQ, w Registry) []broker.Binding {
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

// plain is a kind's name in words.
func plain(kind string) string { return strings.ReplaceAll(kind, "_", " ") }
