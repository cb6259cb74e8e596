package brokertest

import (
	"errors"
	"time"

	"handoff/core/broker"
)

func declareCases() []Case {
	return []Case{
		{Name: "rule 22 repeating a declaration is harmless", body: func(b *fixture) {
			s := b.openSession()
			b.declareDeadLetterPath(s, time.Minute)
			b.enqueueMessages(s, 1)
			b.declareDeadLetterPath(s, time.Minute)
			b.declareDeadLetterPath(b.openSession(), time.Minute)
			b.expectMessages("q", 1)
		}},
		{Name: "rule 22 a queue with other settings is refused, and siblings live on", body: otherSettings},
		{Name: "rule 22 an exchange of another kind is refused", Types: either, body: func(b *fixture) {
			s := b.openSession()
			b.declareTopology(s, broker.Topology{Exchanges: []broker.Exchange{b.newExchange("x", broker.Topic)}})
			err := s.Declare(b.ctx, broker.Topology{Exchanges: []broker.Exchange{b.newExchange("x", broker.Direct)}})
			b.expectError("another kind", err, broker.ErrPrecondition)
			b.expect("the session is closed", s.Closed(), false)
		}},
		{Name: "declarations before a refusal stay, and later ones are not made", body: func(b *fixture) {
			s := b.openSession()
			b.declareQueue(s)
			err := s.Declare(b.ctx, broker.Topology{Queues: []broker.Queue{b.queueNamed("first"), b.queueWithTTL("q", time.Minute, ""), b.queueNamed("last")}})
			b.expectError("another time to live", err, broker.ErrPrecondition)
			b.queues = append(b.queues, b.objectName("first"))
			b.publishExpecting(s, broker.Confirmed, "", b.objectName("first"), 1)
			b.publishExpecting(s, broker.Returned, "", b.objectName("last"), 2)
		}},
		{Name: "a binding of a missing exchange or queue is an error, and the session stays open", Types: either, body: func(b *fixture) {
			s := b.openSession()
			b.declareTopology(s, broker.Topology{Exchanges: []broker.Exchange{b.newExchange("x", broker.Topic)}, Queues: []broker.Queue{b.queueNamed("q")}})
			for _, binding := range []broker.Binding{b.newBinding("x", "a", "none"), b.newBinding("none", "a", "q")} {
				err := s.Declare(b.ctx, broker.Topology{Bindings: []broker.Binding{binding}})
				if err == nil || errors.Is(err, broker.ErrPrecondition) || errors.Is(err, broker.ErrClosed) {
					b.errorf("the binding %+v: %v, the contract says an error of its own", binding, err)
				}
			}
			b.expect("the session is closed", s.Closed(), false)
			b.enqueueMessages(s, 1)
			b.expectMessages("q", 1)
		}},
	}
}

func missingCases() []Case {
	return []Case{
		{Name: "consuming from a missing queue is an error, and the session stays open", Types: either, body: func(b *fixture) {
			s := b.openSession()
			b.declareQueue(s)
			c := b.startConsumer(s, "q", 1)
			if _, err := s.Consume(b.ctx, b.objectName("none"), 1); err == nil || errors.Is(err, broker.ErrClosed) {
				b.errorf("consuming from nothing: %v, the contract says an error of its own", err)
			}
			b.enqueueMessages(s, 1)
			b.expect("the sibling receives", messageNumber(b.receiveDelivery(c)), 1)
		}},
		{Name: "an unknown type or kind is an error, and the session stays open", Types: either, body: func(b *fixture) {
			s := b.openSession()
			b.declareQueue(s)
			for _, t := range []broker.Topology{
				{Queues: []broker.Queue{{Name: b.objectName("z"), Type: "other"}}},
				{Exchanges: []broker.Exchange{{Name: b.objectName("z"), Kind: "other"}}},
			} {
				if err := s.Declare(b.ctx, t); err == nil || errors.Is(err, broker.ErrClosed) {
					b.errorf("%+v: %v, the contract says an error of its own", t, err)
				}
			}
			b.enqueueMessages(s, 1)
			b.expectMessages("q", 1)
		}},
		{Name: "rule 17 a dead letter exchange need not exist when its queue is declared", body: func(b *fixture) {
			s := b.openSession()
			b.declareTopology(s, broker.Topology{Queues: []broker.Queue{b.queueWithTTL("q", 0, "dlx")}})
			b.declareDeadLetterPath(s, 0)
			b.enqueueMessages(s, 1)
			c := b.startConsumer(s, "q", 1)
			c.Reject(b.receiveDelivery(c), false)
			b.expect("the dead letter", messageNumber(b.receiveDelivery(b.startConsumer(s, "dead", 1))), 1)
		}},
		{Name: "a topology that one session declared serves the others", body: func(b *fixture) {
			s := b.openSession()
			b.declareTopology(s, broker.Topology{
				Exchanges: []broker.Exchange{b.newExchange("x", broker.Topic)},
				Queues:    []broker.Queue{b.queueNamed("q")},
				Bindings:  []broker.Binding{b.newBinding("x", "a", "q")},
			})
			s.Close()
			b.publishExpecting(b.openSession(), broker.Confirmed, b.objectName("x"), "a", 1)
			b.expectMessages("q", 1)
		}},
	}
}

func otherSettings(b *fixture) {
	s := b.openSession()
	b.declareDeadLetterPath(s, time.Minute)
	c := b.startConsumer(s, "q", 1)
	b.enqueueMessages(s, 1, 2)
	held := b.receiveDelivery(c)
	other := Quorum
	if b.queueType == Quorum {
		other = Classic
	}
	same := b.queueWithTTL("q", time.Minute, "dlx")
	for what, change := range map[string]func(q *broker.Queue){
		"another time to live":         func(q *broker.Queue) { q.TTL = time.Hour },
		"no time to live":              func(q *broker.Queue) { q.TTL = 0 },
		"another dead letter exchange": func(q *broker.Queue) { q.DeadLetterExchange = b.objectName("x") },
		"no dead letter exchange":      func(q *broker.Queue) { q.DeadLetterExchange = "" },
		"another type":                 func(q *broker.Queue) { q.Type = other },
	} {
		q := same
		change(&q)
		b.expectError(what, s.Declare(b.ctx, broker.Topology{Queues: []broker.Queue{q}}), broker.ErrPrecondition)
	}
	b.expect("the session is closed", s.Closed(), false)
	c.Ack(held)
	b.expect("the consumer receives", messageNumber(b.receiveDelivery(c)), 2)
	b.enqueueMessages(s, 3)
}
