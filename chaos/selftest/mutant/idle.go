package mutant

import (
	"context"
	"slices"
	"sync"
	"time"

	"handoff/core/broker"
	"handoff/core/execution"
)

func init() {
	registerMutants(
		Mutant{
			Name: "kept-letters-deleted", Source: "D28", Expected: 6, Scenario: "queue-keeps-its-dead",
			About: "an executor deletes an idle queue that looks empty, and with it the dead letters that the queue keeps because they have no route",
			Broker: func(p Process, b broker.Broker) broker.Broker {
				if !p.Executor() {
					return b
				}
				shared := &dispatchTimes{given: make(map[execution.WorkerID]time.Duration)}
				return &sessionWrapper{b, func(s broker.Session) broker.Session { return &queueDeletingSession{s, p, shared} }}
			},
		},
	)
}

// queueDeletingSession deletes the queues of workers without a dispatch during the retention, as soon as they
// seem empty.
type queueDeletingSession struct {
	broker.Session
	p Process
	*dispatchTimes
}

// dispatchTimes has the time of each worker's last dispatch. All sessions of a process share it.
type dispatchTimes struct {
	mu    sync.Mutex
	given map[execution.WorkerID]time.Duration
}

// Publish implements broker.Session.
func (qds *queueDeletingSession) Publish(ctx context.Context, ms []broker.Message) []broker.Outcome {
	now := qds.p.Host.Monotonic()
	qds.mu.Lock()
	for i := range ms {
		if ds := ms[i].Envelope.Dispatches; len(ds) > 0 {
			qds.given[ds[0].Worker] = now
		}
	}
	qds.mu.Unlock()
	return qds.Session.Publish(ctx, ms)
}

// QueueState implements broker.Session.
func (qds *queueDeletingSession) QueueState(ctx context.Context, queue string) (broker.QueueState, error) {
	var idle []execution.WorkerID
	now := qds.p.Host.Monotonic()
	qds.mu.Lock()
	for worker, at := range qds.given { //detlint:ok they are sorted below
		if now-at >= qds.p.Config.Executor.QueueRetention {
			idle = append(idle, worker)
			delete(qds.given, worker)
		}
	}
	qds.mu.Unlock()
	slices.Sort(idle)
	for _, worker := range idle {
		for _, q := range broker.WorkerQueues(qds.p.Config.MessageQueue.RabbitMQ, worker) {
			qds.p.Acted("deletes a queue without testing the dead letter path")
			_, _ = qds.Session.DeleteIdle(ctx, q)
		}
	}
	return qds.Session.QueueState(ctx, queue)
}
