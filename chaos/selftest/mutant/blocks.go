package mutant

import (
	"context"

	"handoff/core/broker"
	"handoff/core/execution"
	"handoff/core/store"
)

// This file plants daemons that treat a message of several dispatches as a single dispatch.

func init() {
	registerMutants(
		Mutant{
			Name: "block-acknowledged-first", Source: "D20", Expected: 24, Scenario: "messages-of-many",
			About: "a worker acknowledges a message of several dispatches before it has claimed them, so dispatches that are too late never reach the dead letter handler",
			Broker: func(p Process, b broker.Broker) broker.Broker {
				if !p.Worker {
					return b
				}
				return &sessionWrapper{b, func(s broker.Session) broker.Session { return &earlyAckSession{s, p} }}
			},
		},
		Mutant{
			Name: "one-refusal-refuses-all", Source: "D9", Expected: 20, Scenario: "messages-of-many",
			About: "if one claim of a batch is refused, a worker begins none of the executions, not even those that it has claimed",
			Store: func(p Process, c store.Store) store.Store {
				if !p.Worker {
					return c
				}
				return claimRefusalStore{c, p}
			},
		},
		Mutant{
			Name: "messages-counted-as-one", Source: "D42", Expected: 9, Scenario: "messages-of-many",
			About: "an executor counts the messages that wait at a worker and not the dispatches in them, so a worker gets more than it has room for",
			Statements: dispatchUnguarded("counted what waits at a worker as one", forEachWorker(func(w *store.WorkerRow) {
				if w.Queued > 1 {
					w.Load -= w.Queued - 1
				}
			})),
		},
		Mutant{
			Name: "first-of-a-dead-block", Source: "D25", Expected: 12, Scenario: "messages-of-many",
			About: "the dead letter handler judges the first dispatch of a dead message and forgets the others",
			Broker: func(p Process, b broker.Broker) broker.Broker {
				if !p.Executor() {
					return b
				}
				return &sessionWrapper{b, func(s broker.Session) broker.Session {
					return &deliveryChangeSession{Session: s, change: func(d *broker.Delivery) {
						ds := d.Envelope.Dispatches
						if len(ds) < 2 {
							return
						}
						forgotten := make([]execution.ID, 0, len(ds))
						for i := range ds[1:] {
							forgotten = append(forgotten, ds[i+1].Key.ID)
						}
						p.Acted("forgot a dispatch of a dead message", forgotten...)
						d.Envelope.Dispatches = ds[:1]
					}}
				}}
			},
		},
	)
}

// earlyAckSession is a session of a worker whose blocks are acknowledged on arrival, so that the core can't
// settle them.
type earlyAckSession struct {
	broker.Session
	p Process
}

// Consume implements broker.Session.
func (e *earlyAckSession) Consume(ctx context.Context, queue string, prefetch int) (broker.Consumer, error) {
	c, err := e.Session.Consume(ctx, queue, prefetch)
	if err != nil || !broker.IsWorkerQueue(queue) {
		return c, err
	}
	return &earlyAckConsumer{c, e.p}, nil
}

type earlyAckConsumer struct {
	broker.Consumer
	p Process
}

// Receive implements broker.Consumer.
func (e *earlyAckConsumer) Receive(ctx context.Context) (broker.Delivery, error) {
	d, err := e.Consumer.Receive(ctx)
	if err == nil && len(d.Envelope.Dispatches) > 1 {
		e.p.Acted("acknowledged a message of several dispatches before it had claimed them", dispatchedIDs(d.Envelope)...)
		e.Consumer.Ack(d)
	}
	return d, err
}

// Ack implements broker.Consumer.
func (e *earlyAckConsumer) Ack(d broker.Delivery) {
	if len(d.Envelope.Dispatches) < 2 {
		e.Consumer.Ack(d)
	}
}

// Reject implements broker.Consumer.
func (e *earlyAckConsumer) Reject(d broker.Delivery, requeue bool) {
	if len(d.Envelope.Dispatches) < 2 {
		e.Consumer.Reject(d, requeue)
	}
}

// claimRefusalStore is a store of a worker that treats one refused claim as the refusal of all claims of
// the call.
type claimRefusalStore struct {
	store.Store
	p Process
}

// Claim implements store.Store.
func (c claimRefusalStore) Claim(ctx context.Context, w store.WorkerKey, cs []store.Claim) ([]store.ClaimResult, error) {
	results, err := c.Store.Claim(ctx, w, cs)
	granted := 0
	for i := range results {
		if results[i].Applied {
			granted++
		}
	}
	if granted == 0 || granted == len(cs) {
		return results, err
	}
	for i := range results {
		if results[i].Applied {
			c.p.Acted("gave up a claim that was granted, because of another one", cs[i].Key.ID)
			results[i].Applied, results[i].Row.Incarnation = false, 0
		}
	}
	return results, err
}
