package mutant

import (
	"context"
	"sync"

	"handoff/core/broker"
	"handoff/core/execution"
	"handoff/core/store"
)

// This file plants dead letter handlers and consumers that misread messages, lose them, or send
// them round in a circle.

func init() {
	register(
		Mutant{
			Name: "death-reason-ignored", Source: "D19", Expected: 2, Scenario: "ttl-race",
			About: "the dead letter handler treats every death as an expiry, even a rejection by the worker",
			Broker: func(p Process, b broker.Broker) broker.Broker {
				if p.Worker {
					return b
				}
				return &sessions{b, func(s broker.Session) broker.Session {
					return &translator{Session: s, change: func(d *broker.Delivery) {
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
				return &impatient{Store: c, p: p, seen: make(map[execution.Key]bool)}
			},
		},
		Mutant{
			Name: "poison-dropped", Source: "D25", Expected: 6, Scenario: "poison-cancels",
			About: "a worker acknowledges a cancellation that it can't read and stores it nowhere",
			Store: func(p Process, c store.Store) store.Store {
				if !p.Worker {
					return c
				}
				return shredder{c, p}
			},
		},
		Mutant{
			Name: "poison-requeued", Source: "D25", Expected: 6, Scenario: "poison-messages",
			About: "an unreadable message is returned to its queue, and comes again at once, a hundred times",
			Broker: func(p Process, b broker.Broker) broker.Broker {
				if p.Worker {
					return b
				}
				return &sessions{b, func(s broker.Session) broker.Session {
					rounds := make(map[string]int)
					return &translator{Session: s, settle: func(c broker.Consumer, d broker.Delivery) bool {
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

// translator changes deliveries on their way to the core.
type translator struct {
	broker.Session
	change func(*broker.Delivery)
	// settle replaces the acknowledgement of a delivery; false leaves it to the broker's.
	settle func(c broker.Consumer, d broker.Delivery) bool
}

// Consume implements broker.Session.
func (t *translator) Consume(ctx context.Context, queue string, prefetch int) (broker.Consumer, error) {
	c, err := t.Session.Consume(ctx, queue, prefetch)
	if err != nil {
		return nil, err
	}
	return &translated{c, t}, nil
}

type translated struct {
	broker.Consumer
	s *translator
}

// Receive implements broker.Consumer.
func (t *translated) Receive(ctx context.Context) (broker.Delivery, error) {
	d, err := t.Consumer.Receive(ctx)
	if err == nil && t.s.change != nil {
		t.s.change(&d)
	}
	return d, err
}

// Ack implements broker.Consumer.
func (t *translated) Ack(d broker.Delivery) {
	if t.s.settle == nil || !t.s.settle(t.Consumer, d) {
		t.Consumer.Ack(d)
	}
}

// impatient pretends, the first time, that a reclaim by the dead letter handler was made.
type impatient struct {
	store.Store
	p    Process
	mu   sync.Mutex
	seen map[execution.Key]bool
}

// Reclaim implements store.Store.
func (i *impatient) Reclaim(ctx context.Context, rs []store.Reclaim) ([]store.Outcome, error) {
	if len(rs) == 1 && rs[0].Cause == store.DeadLettered {
		i.mu.Lock()
		again := i.seen[rs[0].Key]
		i.seen[rs[0].Key] = true
		i.mu.Unlock()
		if !again {
			i.p.Acted("acknowledged a dead letter and took nothing back", rs[0].Key.ID)
			return make([]store.Outcome, 1), nil
		}
	}
	return i.Store.Reclaim(ctx, rs)
}

// shredder pretends that a dead letter was stored.
type shredder struct {
	store.Store
	p Process
}

// StoreDeadLetters implements store.Store.
func (s shredder) StoreDeadLetters(context.Context, ...store.DeadLetter) error {
	s.p.Acted("acknowledged a message that can't be read, and stored it nowhere")
	return nil
}
