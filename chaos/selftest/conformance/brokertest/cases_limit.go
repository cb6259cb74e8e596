package brokertest

import (
	"errors"

	"handoff/core/broker"
)

// limitCases are about rule 30: how often a message may be returned.
func limitCases() []Case {
	return []Case{
		{Name: "rule 30 what is requeued too often is dead-lettered for that, from 4.0 on in quorum queues; before there is no limit", body: func(b *fixture) {
			s := b.session()
			b.path(s, 0)
			c := b.consume(s, "q", 1)
			b.put(s, 1)
			b.until(c, func(d broker.Delivery) broker.Consumer {
				c.Reject(d, true)
				return c
			})
		}},
		{Name: "rule 30 what ended sessions return too often is dead-lettered for that, from 4.0 on in quorum queues; before there is no limit", body: func(b *fixture) {
			s := b.session()
			b.path(s, 0)
			holder := b.session()
			b.put(s, 1)
			b.until(b.consume(holder, "q", 1), func(broker.Delivery) broker.Consumer {
				holder.Close()
				holder = b.session()
				return b.consume(holder, "q", 1)
			})
		}},
		{Name: "rule 30 a queue that keeps what comes back has no limit, and needs no dead letter exchange", body: func(b *fixture) {
			s, holder := b.session(), b.session()
			b.declare(s, broker.Topology{Queues: []broker.Queue{b.keeping("q")}})
			b.expect("queues with a limit", s.Limited(), []string{})
			b.put(s, 1)
			for range limit + 5 {
				b.receive(b.consume(holder, "q", 1))
				holder.Close()
				holder = b.session()
			}
			c := b.consume(holder, "q", 1)
			for range limit + 5 {
				c.Reject(b.receive(c), true)
			}
			holder.Close()
			b.holds("q", 1)
		}},
		{Name: "rule 28 requeued in a queue that keeps what comes back, it comes last in quorum queues, and first from 4.3 on", body: func(b *fixture) {
			s := b.session()
			b.declare(s, broker.Topology{Queues: []broker.Queue{b.keeping("q")}})
			c := b.consume(s, "q", 3)
			b.put(s, upTo(1, 5)...)
			ds := b.hold(c, 3)
			b.cancel(c)
			for _, i := range []int{2, 0, 1} {
				c.Reject(ds[i], true)
			}
			b.settled()
			want := upTo(1, 5)
			switch f := FeaturesOf(b.queueType, b.Version, true); {
			case f.RequeuesLast:
				want = []int{4, 5, 3, 1, 2}
			case f.ByDelivery:
				want = []int{3, 1, 2, 4, 5}
			}
			b.expect("what is left", ids(b.left("q")), want)
		}},
		{Name: "rule 22 a queue that exists with a limit is found, told, and left as it is", body: func(b *fixture) {
			old, s := b.session(), b.session()
			b.declare(old, broker.Topology{Queues: []broker.Queue{b.queue("q"), b.queue("r")}})
			b.declare(s, broker.Topology{Queues: []broker.Queue{b.keeping("r"), b.keeping("new"), b.keeping("q")}})
			limited := []string{}
			if b.Limit > 0 {
				limited = []string{b.called("q"), b.called("r")}
			}
			b.expect("queues with a limit", s.Limited(), limited)
			b.expect("queues with a limit, of who asked for nothing", old.Limited(), []string{})
			b.declare(s, broker.Topology{Queues: []broker.Queue{b.keeping("q")}})
			b.expect("queues with a limit, after a second declaration", s.Limited(), limited)
			b.declare(old, broker.Topology{Queues: []broker.Queue{b.queue("q")}})
			other := b.keeping("q")
			other.TTL = b.soon
			b.refused("another time to live", s.Declare(b.ctx, broker.Topology{Queues: []broker.Queue{other}}), broker.ErrPrecondition)
			b.expect("the session is closed", s.Closed(), false)
			b.put(s, 1)
			b.expect("it comes", id(b.receive(b.consume(s, "q", 1))), 1)
		}},
		{Name: "rule 22 a queue without a limit is refused to who knows no such thing", body: func(b *fixture) {
			s := b.session()
			b.declare(s, broker.Topology{Queues: []broker.Queue{b.keeping("q")}})
			err := s.Declare(b.ctx, broker.Topology{Queues: []broker.Queue{b.queue("q")}})
			b.expect("it is refused", errors.Is(err, broker.ErrPrecondition), b.Limit > 0)
		}},
	}
}

// until gives the message of the queue q back until it dies of the delivery limit, or more often
// than any limit, and checks the result. giveBack returns the consumer that may receive it next.
func (f *fixture) until(c broker.Consumer, giveBack func(d broker.Delivery) broker.Consumer) {
	f.t.Helper()
	returns := limit + 10
	if f.Limit > 0 {
		returns = f.Limit + 1
	}
	for round := range returns {
		d := f.receive(c)
		if id(d) != 1 || d.Redelivered != (round > 0) || len(d.Deaths) > 0 {
			f.errorf("round %d: %s, deaths %q, the contract says message 1 again", round, show(d), f.deaths(d))
		}
		c = giveBack(d)
	}
	if f.Limit == 0 {
		f.expect("it comes again", id(f.receive(c)), 1)
		for _, s := range f.sessions {
			s.Close()
		}
		f.holds("q", 1)
		f.holds("dead")
		return
	}
	f.nothing("beyond the limit", c)
	d := f.receive(f.consume(f.session(), "dead", 1))
	f.expect("the dead letter", id(d), 1)
	f.expect("its deaths", f.deaths(d), "q delivery_limit 1")
}
