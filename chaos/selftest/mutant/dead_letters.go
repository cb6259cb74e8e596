package mutant

import (
	"context"
	"sync"

	"handoff/core/broker"
	"handoff/core/execution"
	"handoff/core/store"
)

// This file plants dead letter handlers and consumers that misread messages, lose them, or circulate them.

func init() {
	registerMutants(
		Mutant{
			Name: "death-reason-ignored", Source: "D19", Expected: 2, Scenario: "ttl-race",
			About: "the dead letter handler treats every death as an expiry, even a rejection by the worker",
			Broker: func(p Process, b broker.Broker) broker.Broker {
				if p.Worker {
					return b
				}
				return &sessionWrapper{b, func(s broker.Session) broker.Session {
					return &deliveryChangeSession{Session: s, change: func(d *broker.Delivery) {
						if len(d.Deaths) > 0 && d.Deaths[0].Reason != broker.DeathExpired {
							p.Acted("treated a rejected message as expired")
							deaths := append([]broker.Death(nil), d.Deaths...)
							deaths[0].Reason = broker.DeathExpired
							d.Deaths = deaths
						}
					}}
				}}
			},
		},
		Mutant{
			Name: "dead-letter-given-up", Source: "D25", Expected: 12, Scenario: "message-expires-in-queue",
			About: "the dead letter handler acknowledges first and reclaims at most once: a reclaim that the database refuses is lost",
			Store: func(p Process, c store.Store) store.Store {
				if p.Worker {
					return c
				}
				return &firstReclaimStore{Store: c, p: p, seen: make(map[execution.Key]bool)}
			},
		},
		Mutant{
			Name: "poison-dropped", Source: "D25", Expected: 6, Scenario: "poison-cancels",
			About: "a worker acknowledges a cancellation that it can't read and stores it nowhere",
			Store: func(p Process, c store.Store) store.Store {
				if !p.Worker {
					return c
				}
				return letterDropStore{c, p}
			},
		},
		Mutant{
			Name: "poison-requeued", Source: "D25", Expected: 6, Scenario: "poison-messages",
			About: "an unreadable message is returned to its queue, and comes again at once, a hundred times",
			Broker: func(p Process, b broker.Broker) broker.Broker {
				if p.Worker {
					return b
				}
				return &sessionWrapper{b, func(s broker.Session) broker.Session {
					rounds := make(map[string]int)
					return &deliveryChangeSession{Session: s, settle: func(c broker.Consumer, d broker.Delivery) bool {
						// Without a limit the run would not end.
						if rounds[string(d.Body)]++; d.Malformed == nil || rounds[string(d.Body)] > 100 {
							return false
						}
						p.Acted("gave an unreadable message back")
						c.Reject(d, true)
						return true
					}}
				}}
			},
		},
	)
}

// deliveryChangeSession changes deliveries on their way to the core.
type deliveryChangeSession struct {
	broker.Session
	change func(*broker.Delivery)
	// settle replaces the acknowledgement of a delivery. It returns false to leave it to the broker's own.
	settle func(c broker.Consumer, d broker.Delivery) bool
}

// Consume implements broker.Session.
func (d *deliveryChangeSession) Consume(ctx context.Context, queue string, prefetch int) (broker.Consumer, error) {
	c, err := d.Session.Consume(ctx, queue, prefetch)
	if err != nil {
		return nil, err
	}
	return &deliveryChangeConsumer{c, d}, nil
}

type deliveryChangeConsumer struct {
	broker.Consumer
	s *deliveryChangeSession
}

// Receive implements broker.Consumer.
func (dcc *deliveryChangeConsumer) Receive(ctx context.Context) (broker.Delivery, error) {
	d, err := dcc.Consumer.Receive(ctx)
	if err == nil && dcc.s.change != nil {
		dcc.s.change(&d)
	}
	return d, err
}

// Ack implements broker.Consumer.
func (dcc *deliveryChangeConsumer) Ack(d broker.Delivery) {
	if dcc.s.settle == nil || !dcc.s.settle(dcc.Consumer, d) {
		dcc.Consumer.Ack(d)
	}
}

// firstReclaimStore pretends, the first time, that a reclaim by the dead letter handler was made.
type firstReclaimStore struct {
	store.Store
	p    Process
	mu   sync.Mutex
	seen map[execution.Key]bool
}

// Reclaim implements store.Store.
func (f *firstReclaimStore) Reclaim(ctx context.Context, rs []store.Reclaim) ([]store.Outcome, error) {
	if len(rs) == 1 && rs[0].Cause == store.DeadLettered {
		f.mu.Lock()
		again := f.seen[rs[0].Key]
		f.seen[rs[0].Key] = true
		f.mu.Unlock()
		if !again {
			f.p.Acted("acknowledged a dead letter and took nothing back", rs[0].Key.ID)
			return make([]store.Outcome, 1), nil
		}
	}
	return f.Store.Reclaim(ctx, rs)
}

// letterDropStore pretends that a dead letter was stored.
type letterDropStore struct {
	store.Store
	p Process
}

// StoreDeadLetters implements store.Store.
func (l letterDropStore) StoreDeadLetters(context.Context, ...store.DeadLetter) error {
	l.p.Acted("acknowledged a message that can't be read, and stored it nowhere")
	return nil
}
