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
	register(
		Mutant{
			Name: "kept-letters-deleted", Source: "D28", Expected: 6, Scenario: "queue-keeps-its-dead",
			About: "an executor deletes an idle queue that looks empty, and with it the dead letters that the queue keeps because they have no route",
			Broker: func(p Process, b broker.Broker) broker.Broker {
				if !p.Executor() {
					return b
				}
				shared := &gifts{given: make(map[execution.WorkerID]time.Duration)}
				return &sessions{b, func(s broker.Session) broker.Session { return &tidy{s, p, shared} }}
			},
		},
	)
}

// tidy deletes the queues of workers that got no dispatch for the retention, as soon as they look
// empty.
type tidy struct {
	broker.Session
	p Process
	*gifts
}

// gifts is when each worker got its last dispatch. All sessions of a process share it.
type gifts struct {
	mu    sync.Mutex
	given map[execution.WorkerID]time.Duration
}

// Publish implements broker.Session.
func (t *tidy) Publish(ctx context.Context, ms []broker.Message) []broker.Outcome {
	now := t.p.Host.Monotonic()
	t.mu.Lock()
	for i := range ms {
		if ds := ms[i].Envelope.Dispatches; len(ds) > 0 {
			t.given[ds[0].Worker] = now
		}
	}
	t.mu.Unlock()
	return t.Session.Publish(ctx, ms)
}

// QueueState implements broker.Session.
func (t *tidy) QueueState(ctx context.Context, queue string) (broker.QueueState, error) {
	var idle []execution.WorkerID
	now := t.p.Host.Monotonic()
	t.mu.Lock()
	for worker, at := range t.given { //detlint:ok they are sorted below
		if now-at >= t.p.Config.Executor.QueueRetention {
			idle = append(idle, worker)
			delete(t.given, worker)
		}
	}
	t.mu.Unlock()
	slices.Sort(idle)
	for _, worker := range idle {
		for _, q := range broker.WorkerQueues(t.p.Config.MessageQueue.RabbitMQ, worker) {
			t.p.Acted("deletes a queue without testing the dead letter path")
			_, _ = t.Session.DeleteIdle(ctx, q)
		}
	}
	return t.Session.QueueState(ctx, queue)
}
