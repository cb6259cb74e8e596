package brokertest

import (
	"errors"
	"time"

	"handoff/core/broker"
)

func declareCases() []Case {
	return []Case{
		{Name: "rule 22 repeating a declaration is harmless", body: func(b *fixture) {
			s := b.session()
			b.path(s, time.Minute)
			b.put(s, 1)
			b.path(s, time.Minute)
			b.path(b.session(), time.Minute)
			b.holds("q", 1)
		}},
		{Name: "rule 22 a queue with other settings is refused, and siblings live on", body: otherSettings},
		{Name: "rule 22 an exchange of another kind is refused", Types: either, body: func(b *fixture) {
			s := b.session()
			b.declare(s, broker.Topology{Exchanges: []broker.Exchange{b.exchange("x", broker.Topic)}})
			err := s.Declare(b.ctx, broker.Topology{Exchanges: []broker.Exchange{b.exchange("x", broker.Direct)}})
			b.refused("another kind", err, broker.ErrPrecondition)
			b.expect("the session is closed", s.Closed(), false)
		}},
		{Name: "what came before a refusal stays declared, and what follows is not", body: func(b *fixture) {
			s := b.session()
			b.plain(s)
			err := s.Declare(b.ctx, broker.Topology{Queues: []broker.Queue{b.queue("first"), b.mortal("q", time.Minute, ""), b.queue("last")}})
			b.refused("another time to live", err, broker.ErrPrecondition)
			b.queues = append(b.queues, b.called("first"))
			b.to(s, broker.Confirmed, "", b.called("first"), 1)
			b.to(s, broker.Returned, "", b.called("last"), 2)
		}},
		{Name: "a binding of what does not exist is an error, and the session stays open", Types: either, body: func(b *fixture) {
			s := b.session()
			b.declare(s, broker.Topology{Exchanges: []broker.Exchange{b.exchange("x", broker.Topic)}, Queues: []broker.Queue{b.queue("q")}})
			for _, binding := range []broker.Binding{b.bind("x", "a", "none"), b.bind("none", "a", "q")} {
				err := s.Declare(b.ctx, broker.Topology{Bindings: []broker.Binding{binding}})
				if err == nil || errors.Is(err, broker.ErrPrecondition) || errors.Is(err, broker.ErrClosed) {
					b.errorf("the binding %+v: %v, the contract says an error of its own", binding, err)
				}
			}
			b.expect("the session is closed", s.Closed(), false)
			b.put(s, 1)
			b.holds("q", 1)
		}},
	}
}

func missingCases() []Case {
	return []Case{
		{Name: "consuming from a missing queue is an error, and the session stays open", Types: either, body: func(b *fixture) {
			s := b.session()
			b.plain(s)
			c := b.consume(s, "q", 1)
			if _, err := s.Consume(b.ctx, b.called("none"), 1); err == nil || errors.Is(err, broker.ErrClosed) {
				b.errorf("consuming from nothing: %v, the contract says an error of its own", err)
			}
			b.put(s, 1)
			b.expect("the sibling receives", id(b.receive(c)), 1)
		}},
		{Name: "an unknown type or kind is an error, and the session stays open", Types: either, body: func(b *fixture) {
			s := b.session()
			b.plain(s)
			for _, t := range []broker.Topology{
				{Queues: []broker.Queue{{Name: b.called("z"), Type: "other"}}},
				{Exchanges: []broker.Exchange{{Name: b.called("z"), Kind: "other"}}},
			} {
				if err := s.Declare(b.ctx, t); err == nil || errors.Is(err, broker.ErrClosed) {
					b.errorf("%+v: %v, the contract says an error of its own", t, err)
				}
			}
			b.put(s, 1)
			b.holds("q", 1)
		}},
		{Name: "rule 17 a dead letter exchange need not exist when its queue is declared", body: func(b *fixture) {
			s := b.session()
			b.declare(s, broker.Topology{Queues: []broker.Queue{b.mortal("q", 0, "dlx")}})
			b.path(s, 0)
			b.put(s, 1)
			c := b.consume(s, "q", 1)
			c.Reject(b.receive(c), false)
			b.expect("the dead letter", id(b.receive(b.consume(s, "dead", 1))), 1)
		}},
		{Name: "a topology that one session declared serves the others", body: func(b *fixture) {
			s := b.session()
			b.declare(s, broker.Topology{
				Exchanges: []broker.Exchange{b.exchange("x", broker.Topic)},
				Queues:    []broker.Queue{b.queue("q")},
				Bindings:  []broker.Binding{b.bind("x", "a", "q")},
			})
			s.Close()
			b.to(b.session(), broker.Confirmed, b.called("x"), "a", 1)
			b.holds("q", 1)
		}},
	}
}

func otherSettings(b *fixture) {
	s := b.session()
	b.path(s, time.Minute)
	c := b.consume(s, "q", 1)
	b.put(s, 1, 2)
	held := b.receive(c)
	other := Quorum
	if b.queueType == Quorum {
		other = Classic
	}
	same := b.mortal("q", time.Minute, "dlx")
	for what, change := range map[string]func(q *broker.Queue){
		"another time to live":         func(q *broker.Queue) { q.TTL = time.Hour },
		"no time to live":              func(q *broker.Queue) { q.TTL = 0 },
		"another dead letter exchange": func(q *broker.Queue) { q.DeadLetterExchange = b.called("x") },
		"no dead letter exchange":      func(q *broker.Queue) { q.DeadLetterExchange = "" },
		"another type":                 func(q *broker.Queue) { q.Type = other },
	} {
		q := same
		change(&q)
		b.refused(what, s.Declare(b.ctx, broker.Topology{Queues: []broker.Queue{q}}), broker.ErrPrecondition)
	}
	b.expect("the session is closed", s.Closed(), false)
	c.Ack(held)
	b.expect("the consumer receives", id(b.receive(c)), 2)
	b.put(s, 3)
}
