package mutant

import (
	"context"

	"handoff/core/broker"
	"handoff/core/execution"
	"handoff/core/store"
)

// This file plants daemons that treat a message of several dispatches as a single dispatch.

func init() {
	register(
		Mutant{
			Name: "block-acknowledged-first", Source: "D20", Expected: 24, Scenario: "messages-of-many",
			About: "a worker acknowledges a message of several dispatches before it has claimed them, so dispatches that are too late never reach the dead letter handler",
			Broker: func(p Process, b broker.Broker) broker.Broker {
				if !p.Worker {
					return b
				}
				return &sessions{b, func(s broker.Session) broker.Session { return &settled{s, p} }}
			},
		},
		Mutant{
			Name: "one-refusal-refuses-all", Source: "D9", Expected: 20, Scenario: "messages-of-many",
			About: "if one claim of a batch is refused, a worker begins none of the executions, not even those that it has claimed",
			Store: func(p Process, c store.Store) store.Store {
				if !p.Worker {
					return c
				}
				return unanimous{c, p}
			},
		},
		Mutant{
			Name: "messages-counted-as-one", Source: "D42", Expected: 9, Scenario: "messages-of-many",
			About: "an executor counts the messages that wait at a worker and not the dispatches in them, so a worker gets more than it has room for",
			Statements: unguarded("counted what waits at a worker as one", each(func(w *store.WorkerRow) {
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
				return &sessions{b, func(s broker.Session) broker.Session {
					return &translator{Session: s, change: func(d *broker.Delivery) {
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

// settled is a session of a worker whose blocks are acknowledged on arrival. The core can't settle
// them any more.
type settled struct {
	broker.Session
	p Process
}

// Consume implements broker.Session.
func (s *settled) Consume(ctx context.Context, queue string, prefetch int) (broker.Consumer, error) {
	c, err := s.Session.Consume(ctx, queue, prefetch)
	if err != nil || !broker.IsWorkerQueue(queue) {
		return c, err
	}
	return &settler{c, s.p}, nil
}

type settler struct {
	broker.Consumer
	p Process
}

// Receive implements broker.Consumer.
func (s *settler) Receive(ctx context.Context) (broker.Delivery, error) {
	d, err := s.Consumer.Receive(ctx)
	if err == nil && len(d.Envelope.Dispatches) > 1 {
		s.p.Acted("acknowledged a message of several dispatches before it had claimed them", dispatched(d.Envelope)...)
		s.Consumer.Ack(d)
	}
	return d, err
}

// Ack implements broker.Consumer.
func (s *settler) Ack(d broker.Delivery) {
	if len(d.Envelope.Dispatches) < 2 {
		s.Consumer.Ack(d)
	}
}

// Reject implements broker.Consumer.
func (s *settler) Reject(d broker.Delivery, requeue bool) {
	if len(d.Envelope.Dispatches) < 2 {
		s.Consumer.Reject(d, requeue)
	}
}

// unanimous is a store of a worker that treats one refused claim as the refusal of all claims of
// the call.
type unanimous struct {
	store.Store
	p Process
}

// Claim implements store.Store.
func (u unanimous) Claim(ctx context.Context, w store.WorkerKey, cs []store.Claim) ([]store.ClaimResult, error) {
	results, err := u.Store.Claim(ctx, w, cs)
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
			u.p.Acted("gave up a claim that was granted, because of another one", cs[i].Key.ID)
			results[i].Applied, results[i].Row.Incarnation = false, 0
		}
	}
	return results, err
}
