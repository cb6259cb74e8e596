package brokertest

import (
	"errors"

	"handoff/core/broker"
)

// limitCases are about rule 30: the limit of returns of a message.
func limitCases() []Case {
	return []Case{
		{Name: "rule 30 a message requeued too often is dead-lettered, from 4.0 on in quorum queues; before there is no limit", body: func(b *fixture) {
			s := b.openSession()
			b.declareDeadLetterPath(s, 0)
			c := b.startConsumer(s, "q", 1)
			b.enqueueMessages(s, 1)
			b.returnUntilLimit(c, func(d broker.Delivery) broker.Consumer {
				c.Reject(d, true)
				return c
			})
		}},
		{Name: "rule 30 a message that ended sessions return too often is dead-lettered, from 4.0 on in quorum queues; before there is no limit", body: func(b *fixture) {
			s := b.openSession()
			b.declareDeadLetterPath(s, 0)
			holder := b.openSession()
			b.enqueueMessages(s, 1)
			b.returnUntilLimit(b.startConsumer(holder, "q", 1), func(broker.Delivery) broker.Consumer {
				holder.Close()
				holder = b.openSession()
				return b.startConsumer(holder, "q", 1)
			})
		}},
		{Name: "rule 30 a queue that keeps returned messages has no limit, and needs no dead letter exchange", body: func(b *fixture) {
			s, holder := b.openSession(), b.openSession()
			b.declareTopology(s, broker.Topology{Queues: []broker.Queue{b.queueKeepingReturned("q")}})
			b.expect("queues with a limit", s.Limited(), []string{})
			b.enqueueMessages(s, 1)
			for range limit + 5 {
				b.receiveDelivery(b.startConsumer(holder, "q", 1))
				holder.Close()
				holder = b.openSession()
			}
			c := b.startConsumer(holder, "q", 1)
			for range limit + 5 {
				c.Reject(b.receiveDelivery(c), true)
			}
			holder.Close()
			b.expectMessages("q", 1)
		}},
		{Name: "rule 28 a message requeued in a queue that keeps returned messages comes last in quorum queues, and first from 4.3 on", body: func(b *fixture) {
			s := b.openSession()
			b.declareTopology(s, broker.Topology{Queues: []broker.Queue{b.queueKeepingReturned("q")}})
			c := b.startConsumer(s, "q", 3)
			b.enqueueMessages(s, upTo(1, 5)...)
			ds := b.holdDeliveries(c, 3)
			b.cancelConsumer(c)
			for _, i := range []int{2, 0, 1} {
				c.Reject(ds[i], true)
			}
			b.letBrokerSettle()
			want := upTo(1, 5)
			switch f := FeaturesOf(b.queueType, b.Version, true); {
			case f.RequeuesLast:
				want = []int{4, 5, 3, 1, 2}
			case f.ByDelivery:
				want = []int{3, 1, 2, 4, 5}
			}
			b.expect("what is left", messageNumbers(b.drainQueue("q")), want)
		}},
		{Name: "rule 22 an existing queue with a limit is detected, reported, and left unchanged", body: func(b *fixture) {
			old, s := b.openSession(), b.openSession()
			b.declareTopology(old, broker.Topology{Queues: []broker.Queue{b.queueNamed("q"), b.queueNamed("r")}})
			b.declareTopology(s, broker.Topology{Queues: []broker.Queue{b.queueKeepingReturned("r"), b.queueKeepingReturned("new"), b.queueKeepingReturned("q")}})
			limited := []string{}
			if b.Limit > 0 {
				limited = []string{b.objectName("q"), b.objectName("r")}
			}
			b.expect("queues with a limit", s.Limited(), limited)
			b.expect("queues with a limit, of who asked for nothing", old.Limited(), []string{})
			b.declareTopology(s, broker.Topology{Queues: []broker.Queue{b.queueKeepingReturned("q")}})
			b.expect("queues with a limit, after a second declaration", s.Limited(), limited)
			b.declareTopology(old, broker.Topology{Queues: []broker.Queue{b.queueNamed("q")}})
			other := b.queueKeepingReturned("q")
			other.TTL = b.soon
			b.expectError("another time to live", s.Declare(b.ctx, broker.Topology{Queues: []broker.Queue{other}}), broker.ErrPrecondition)
			b.expect("the session is closed", s.Closed(), false)
			b.enqueueMessages(s, 1)
			b.expect("it comes", messageNumber(b.receiveDelivery(b.startConsumer(s, "q", 1))), 1)
		}},
		{Name: "rule 22 a queue without a limit cannot be redeclared with the default limit", body: func(b *fixture) {
			s := b.openSession()
			b.declareTopology(s, broker.Topology{Queues: []broker.Queue{b.queueKeepingReturned("q")}})
			err := s.Declare(b.ctx, broker.Topology{Queues: []broker.Queue{b.queueNamed("q")}})
			b.expect("it is refused", errors.Is(err, broker.ErrPrecondition), b.Limit > 0)
		}},
	}
}

// returnUntilLimit returns the message of the queue q until it dies of the delivery limit, or more often than
// any limit, and checks the result. giveBack returns the consumer that may receive it next.
func (f *fixture) returnUntilLimit(c broker.Consumer, giveBack func(d broker.Delivery) broker.Consumer) {
	f.t.Helper()
	returns := limit + 10
	if f.Limit > 0 {
		returns = f.Limit + 1
	}
	for round := range returns {
		d := f.receiveDelivery(c)
		if messageNumber(d) != 1 || d.Redelivered != (round > 0) || len(d.Deaths) > 0 {
			f.errorf("round %d: %s, deaths %q, the contract says message 1 again", round, describeDelivery(d), f.deathSummary(d))
		}
		c = giveBack(d)
	}
	if f.Limit == 0 {
		f.expect("it comes again", messageNumber(f.receiveDelivery(c)), 1)
		for _, s := range f.sessions {
			s.Close()
		}
		f.expectMessages("q", 1)
		f.expectMessages("dead")
		return
	}
	f.expectNoDelivery("beyond the limit", c)
	d := f.receiveDelivery(f.startConsumer(f.openSession(), "dead", 1))
	f.expect("the dead letter", messageNumber(d), 1)
	f.expect("its deaths", f.deathSummary(d), "q delivery_limit 1")
}
