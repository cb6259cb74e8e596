package brokertest

import (
	"context"
	"errors"

	"handoff/core/broker"
)

func prefetchCases() []Case {
	return []Case{
		{Name: "rule 25 prefetch limits the unsettled deliveries, and each settlement allows one more", body: func(b *fixture) {
			s := b.openSession()
			b.declareQueue(s)
			c := b.startConsumer(s, "q", 3)
			b.enqueueMessages(s, upTo(1, 6)...)
			ds := b.holdDeliveries(c, 3)
			b.expect("the first", messageNumbers(ds), upTo(1, 3))
			b.expectNoDelivery("beyond the prefetch", c)
			c.Ack(ds[1])
			b.expect("after an ack", messageNumber(b.receiveDelivery(c)), 4)
			c.Reject(ds[0], false)
			b.expect("after a rejection", messageNumber(b.receiveDelivery(c)), 5)
			b.expectNoDelivery("beyond the prefetch", c)
		}},
		{Name: "rule 25 without a prefetch there is no limit", body: func(b *fixture) {
			s := b.openSession()
			b.declareQueue(s)
			b.enqueueMessages(s, upTo(1, 100)...)
			b.expect("received", messageNumbers(b.holdDeliveries(b.startConsumer(s, "q", 0), 100)), upTo(1, 100))
		}},
		{Name: "rule 25 the limit is each consumer's, also within one session", body: func(b *fixture) {
			s := b.openSession()
			b.declareQueue(s)
			one, two := b.startConsumer(s, "q", 1), b.startConsumer(s, "q", 2)
			b.enqueueMessages(s, upTo(1, 5)...)
			b.holdDeliveries(one, 1)
			b.holdDeliveries(two, 2)
			b.expectNoDelivery("beyond the first's", one)
			b.expectNoDelivery("beyond the second's", two)
		}},
		{Name: "rule 25 consumers take turns", body: func(b *fixture) {
			s, other := b.openSession(), b.openSession()
			b.declareQueue(s)
			one, two := b.startConsumer(s, "q", 0), b.startConsumer(other, "q", 0)
			b.enqueueMessages(s, upTo(1, 10)...)
			b.expect("each receives", len(append(b.holdDeliveries(one, 5), b.holdDeliveries(two, 5)...)), 10)
			b.expectNoDelivery("beyond its turns", one)
			b.expectNoDelivery("beyond its turns", two)
		}},
		{Name: "rule 25 a consumer that is full is passed over", body: func(b *fixture) {
			s := b.openSession()
			b.declareQueue(s)
			full, open := b.startConsumer(s, "q", 1), b.startConsumer(s, "q", 0)
			b.enqueueMessages(s, upTo(1, 10)...)
			b.holdDeliveries(full, 1)
			b.holdDeliveries(open, 9)
		}},
		{Name: "rule 25 waiting messages go to a later consumer", body: func(b *fixture) {
			s := b.openSession()
			b.declareQueue(s)
			full := b.startConsumer(s, "q", 1)
			b.enqueueMessages(s, 1, 2, 3)
			b.holdDeliveries(full, 1)
			b.expect("the later one receives", messageNumbers(b.holdDeliveries(b.startConsumer(b.openSession(), "q", 0), 2)), []int{2, 3})
		}},
		{Name: "Receive ends with its context and loses nothing", body: func(b *fixture) {
			s := b.openSession()
			b.declareQueue(s)
			c := b.startConsumer(s, "q", 1)
			b.expectNoDelivery("of an empty queue", c)
			b.enqueueMessages(s, 1)
			b.expect("afterwards", messageNumber(b.receiveDelivery(c)), 1)
		}},
	}
}

func settleCases() []Case {
	return []Case{
		{Name: "rule 26 settling twice closes the session, and no other", body: func(b *fixture) {
			for _, again := range []func(c broker.Consumer, d broker.Delivery){
				func(c broker.Consumer, d broker.Delivery) { c.Ack(d) },
				func(c broker.Consumer, d broker.Delivery) { c.Reject(d, true) },
				func(c broker.Consumer, d broker.Delivery) { c.Reject(d, false) },
			} {
				s, other := b.openSession(), b.openSession()
				b.declareQueue(s)
				c := b.startConsumer(s, "q", 2)
				b.enqueueMessages(s, 1, 2)
				ds := b.holdDeliveries(c, 2)
				c.Ack(ds[0])
				again(c, ds[0])
				_, err := b.nextDelivery(c, patience)
				b.expectError("receiving afterwards", err, broker.ErrClosed)
				b.expect("the session is closed", s.Closed(), true)
				b.expect("another is closed", other.Closed(), false)
				left := b.drainQueue("q")
				b.expect("what is left", messageNumbers(left), []int{2})
				b.expect("redelivered", redeliveredFlags(left), "r")
			}
		}},
		{Name: "rule 26 a delivery of a lost session can't be settled over the next", body: func(b *fixture) {
			s := b.openSession()
			b.declareQueue(s)
			old := b.startConsumer(s, "q", 1)
			b.enqueueMessages(s, 1, 2)
			d := b.receiveDelivery(old)
			s.Close()
			old.Ack(d) // no session is left to send it
			next := b.openSession()
			c := b.startConsumer(next, "q", 1)
			again := b.receiveDelivery(c)
			c.Ack(d) // this has no effect either: the new session has no such delivery, whatever its number
			b.expectNoDelivery("behind what is not settled", c)
			b.expect("the session is closed", next.Closed(), false)
			b.expect("it came again", messageNumber(again), 1)
			next.Close()
			b.expectMessages("q", 1, 2)
		}},
		{Name: "rule 26 one consumer of a session may settle what another received", body: func(b *fixture) {
			s := b.openSession()
			b.declareQueue(s)
			one, two := b.startConsumer(s, "q", 1), b.startConsumer(s, "q", 1)
			b.enqueueMessages(s, 1, 2, 3)
			d := b.receiveDelivery(one)
			b.receiveDelivery(two)
			two.Ack(d)
			b.expect("the next", messageNumber(b.receiveDelivery(one)), 3)
			b.expect("the session is closed", s.Closed(), false)
		}},
	}
}

func requeueCases() []Case {
	return []Case{
		{Name: "rule 28 a requeued message is redelivered, from its old place in classic and from the end of quorum queues without a limit", body: func(b *fixture) {
			s := b.openSession()
			b.declareQueue(s)
			c := b.startConsumer(s, "q", 2)
			b.enqueueMessages(s, upTo(1, 4)...)
			ds := b.holdDeliveries(c, 2)
			b.cancelConsumer(c)
			c.Reject(ds[0], true)
			c.Ack(ds[1])
			b.letBrokerSettle()
			left := b.drainQueue("q")
			want, redelivered := []int{1, 3, 4}, "r--"
			if b.RequeuesLast {
				want, redelivered = []int{3, 4, 1}, "--r"
			}
			b.expect("what is left", messageNumbers(left), want)
			b.expect("redelivered", redeliveredFlags(left), redelivered)
		}},
		{Name: "rule 28 requeued one by one, classic queues restore the old order and quorum queues take the new one, first if they have a limit", body: func(b *fixture) {
			s := b.openSession()
			b.declareQueue(s)
			c := b.startConsumer(s, "q", 3)
			b.enqueueMessages(s, upTo(1, 5)...)
			ds := b.holdDeliveries(c, 3)
			b.cancelConsumer(c)
			for _, i := range []int{2, 0, 1} {
				c.Reject(ds[i], true)
			}
			b.letBrokerSettle()
			want, redelivered := upTo(1, 5), "rrr--"
			switch {
			case b.RequeuesLast:
				want, redelivered = []int{4, 5, 3, 1, 2}, "--rrr"
			case b.ByDelivery:
				want = []int{3, 1, 2, 4, 5}
			}
			left := b.drainQueue("q")
			b.expect("what is left", messageNumbers(left), want)
			b.expect("redelivered", redeliveredFlags(left), redelivered)
		}},
		{Name: "rule 27 cancelling ends new deliveries, and the session keeps the received ones", body: cancelWithBufferedDeliveries},
		{Name: "rule 27 cancelling twice is harmless, and leaves other consumers alone", body: func(b *fixture) {
			s := b.openSession()
			b.declareQueue(s)
			c, sibling := b.startConsumer(s, "q", 1), b.startConsumer(s, "q", 1)
			b.cancelConsumer(c)
			b.cancelConsumer(c)
			b.enqueueMessages(s, 1)
			b.expect("the sibling receives", messageNumber(b.receiveDelivery(sibling)), 1)
		}},
	}
}

func cancelWithBufferedDeliveries(b *fixture) {
	s := b.openSession()
	b.declareQueue(s)
	c := b.startConsumer(s, "q", 3)
	b.enqueueMessages(s, upTo(1, 3)...)
	d := b.receiveDelivery(c)
	b.Sleep(b.Quiet) // the other two are in the buffer
	b.cancelConsumer(c)
	b.enqueueMessages(s, 4)
	c.Ack(d)
	b.expect("received before and read after", messageNumbers(b.holdDeliveries(c, 2)), []int{2, 3})
	_, err := b.nextDelivery(c, patience)
	b.expectError("then", err, broker.ErrCancelled)
	other := b.startConsumer(b.openSession(), "q", 0)
	b.expect("another receives", messageNumber(b.receiveDelivery(other)), 4)
	b.expectNoDelivery("what the session holds", other)
	s.Close()
	b.expect("after its end", messageNumbers(b.holdDeliveries(other, 2)), []int{2, 3})
}

func endCases() []Case {
	return []Case{
		{Name: "a session that was closed refuses everything", Types: either, body: func(b *fixture) {
			s := b.openSession()
			b.declareQueue(s)
			c := b.startConsumer(s, "q", 1)
			b.expect("before", []bool{s.Closed(), s.Blocked()}, []bool{false, false})
			s.Close()
			s.Close()
			b.expect("closed and blocked", []bool{s.Closed(), s.Blocked()}, []bool{true, false})
			_, err := b.nextDelivery(c, patience)
			b.expectError("Receive", err, broker.ErrClosed)
			_, err = s.Consume(b.ctx, b.objectName("q"), 1)
			b.expectError("Consume", err, broker.ErrClosed)
			b.expectError("Declare", s.Declare(b.ctx, broker.Topology{}), broker.ErrClosed)
			b.expectError("Cancel", c.Cancel(b.ctx), broker.ErrClosed)
			b.publishExpecting(s, broker.NotSent, "", b.objectName("q"), 1)
			c.Ack(broker.Delivery{Tag: 1})
			c.Reject(broker.Delivery{Tag: 1}, true)
		}},
	}
}

func returnCases() []Case {
	return []Case{
		{Name: "rule 28 closing requeues all at the old places, redelivered", body: func(b *fixture) {
			s := b.openSession()
			b.declareQueue(s)
			c := b.startConsumer(s, "q", 4)
			b.enqueueMessages(s, upTo(1, 7)...)
			ds := b.holdDeliveries(c, 4)
			c.Ack(ds[1])
			b.holdDeliveries(c, 1)
			s.Close()
			b.letBrokerSettle()
			left := b.drainQueue("q")
			b.expect("what is left", messageNumbers(left), []int{1, 3, 4, 5, 6, 7})
			b.expect("redelivered", redeliveredFlags(left), "rrrr--")
		}},
		{Name: "rule 29 a message that was delivered and never read is redelivered", body: func(b *fixture) {
			s := b.openSession()
			b.declareQueue(s)
			b.startConsumer(s, "q", 2)
			b.enqueueMessages(s, 1, 2, 3)
			b.Sleep(b.Quiet)
			s.Close()
			b.letBrokerSettle()
			left := b.drainQueue("q")
			b.expect("what is left", messageNumbers(left), upTo(1, 3))
			b.expect("redelivered", redeliveredFlags(left), "rr-")
		}},
	}
}

func orderCases() []Case {
	return []Case{
		{Name: "rule 28 another session that waits gets them in order", body: func(b *fixture) {
			s, other := b.openSession(), b.openSession()
			b.declareQueue(s)
			c := b.startConsumer(s, "q", 3)
			b.enqueueMessages(s, upTo(1, 3)...)
			b.holdDeliveries(c, 3)
			waiting := b.startConsumer(other, "q", 0)
			b.enqueueMessages(s, 4)
			b.expectNoDelivery("what the first still may have", c)
			b.expect("meanwhile", messageNumber(b.receiveDelivery(waiting)), 4)
			s.Close()
			ds := b.holdDeliveries(waiting, 3)
			b.expect("received", messageNumbers(ds), upTo(1, 3))
			b.expect("redelivered", redeliveredFlags(ds), "rrr")
		}},
		{Name: "rule 28 closing after a requeue: classic queues restore the old order, quorum queues that of delivery", body: func(b *fixture) {
			s := b.openSession()
			b.declareQueue(s)
			c := b.startConsumer(s, "q", 3)
			b.enqueueMessages(s, upTo(1, 3)...)
			ds := b.holdDeliveries(c, 3)
			c.Reject(ds[0], true)
			b.expect("it comes again", messageNumber(b.receiveDelivery(c)), 1)
			b.enqueueMessages(s, 4, 5)
			s.Close()
			b.letBrokerSettle()
			if b.ByDelivery {
				b.expectMessages("q", 2, 3, 1, 4, 5)
				return
			}
			b.expectMessages("q", upTo(1, 5)...)
		}},
		{Name: "rule 28 messages of ended sessions come first, in the order of the ends in quorum queues", body: func(b *fixture) {
			first, second := b.openSession(), b.openSession()
			b.declareQueue(first)
			one, two := b.startConsumer(first, "q", 2), b.startConsumer(second, "q", 2)
			b.enqueueMessages(first, upTo(1, 6)...)
			lost := append(messageNumbers(b.holdDeliveries(two, 2)), messageNumbers(b.holdDeliveries(one, 2))...)
			b.cancelConsumer(one)
			second.Close()
			b.letBrokerSettle()
			first.Close()
			b.letBrokerSettle()
			if b.ByDelivery {
				b.expectMessages("q", append(lost, 5, 6)...)
				return
			}
			b.expectMessages("q", upTo(1, 6)...)
		}},
		{Name: "rule 28 an ack before the end of a session counts", body: func(b *fixture) {
			s := b.openSession()
			b.declareQueue(s)
			c := b.startConsumer(s, "q", 0)
			b.enqueueMessages(s, upTo(1, 20)...)
			for _, d := range b.holdDeliveries(c, 20) {
				if messageNumber(d)%2 == 0 {
					c.Ack(d)
				}
			}
			s.Close()
			b.letBrokerSettle()
			b.expectMessages("q", 1, 3, 5, 7, 9, 11, 13, 15, 17, 19)
		}},
	}
}

func deletionCases() []Case {
	return []Case{
		{Name: "rule 32 deleting a queue cancels its consumers and leaves their session open", needs: needsDelete, body: func(b *fixture) {
			s := b.openSession()
			b.declareTopology(s, broker.Topology{Queues: []broker.Queue{b.queueNamed("q"), b.queueNamed("r")}})
			c, sibling := b.startConsumer(s, "q", 1), b.startConsumer(s, "r", 1)
			b.enqueueMessages(s, 1, 2)
			d := b.receiveDelivery(c)
			b.DeleteQueue(b.objectName("q"))
			_, err := b.nextDelivery(c, patience)
			b.expectError("receiving afterwards", err, broker.ErrCancelled)
			c.Ack(d)
			b.letBrokerSettle()
			b.expect("the session is closed", s.Closed(), false)
			b.publishExpecting(s, broker.Confirmed, "", b.objectName("r"), 3)
			b.expect("the sibling receives", messageNumber(b.receiveDelivery(sibling)), 3)
			b.publishExpecting(s, broker.Returned, "", b.objectName("q"), 4)
		}},
		{Name: "rule 32 messages received before the deletion come before the cancellation", needs: needsDelete, body: func(b *fixture) {
			s := b.openSession()
			b.declareQueue(s)
			c := b.startConsumer(s, "q", 2)
			b.enqueueMessages(s, 1, 2, 3)
			b.Sleep(b.Quiet)
			b.DeleteQueue(b.objectName("q"))
			b.Sleep(b.Quiet)
			b.expect("received", messageNumbers(b.holdDeliveries(c, 2)), []int{1, 2})
			_, err := b.nextDelivery(c, patience)
			b.expectError("then", err, broker.ErrCancelled)
		}},
		{Name: "rule 32 a redeclared queue is empty and unbound", needs: needsDelete, body: func(b *fixture) {
			s := b.openSession()
			top := broker.Topology{
				Exchanges: []broker.Exchange{b.newExchange("x", broker.Topic)},
				Queues:    []broker.Queue{b.queueNamed("q")},
				Bindings:  []broker.Binding{b.newBinding("x", "a", "q")},
			}
			b.declareTopology(s, top)
			b.publishExpecting(s, broker.Confirmed, b.objectName("x"), "a", 1)
			b.DeleteQueue(b.objectName("q"))
			b.publishExpecting(s, broker.Returned, b.objectName("x"), "a", 2)
			b.declareQueue(s)
			b.publishExpecting(s, broker.Returned, b.objectName("x"), "a", 3)
			b.declareTopology(s, top)
			b.publishExpecting(s, broker.Confirmed, b.objectName("x"), "a", 4)
			b.expect("received", messageNumber(b.receiveDelivery(b.startConsumer(s, "q", 1))), 4)
		}},
		{Name: "rule 32 a session that consumed a deleted queue requeues nothing into its successor", needs: needsDelete, body: func(b *fixture) {
			s := b.openSession()
			b.declareQueue(s)
			c := b.startConsumer(s, "q", 1)
			b.enqueueMessages(s, 1)
			d := b.receiveDelivery(c)
			b.DeleteQueue(b.objectName("q"))
			b.declareQueue(s)
			c.Reject(d, true)
			b.letBrokerSettle()
			b.enqueueMessages(s, 2)
			s.Close()
			b.expectMessages("q", 2)
		}},
		{Name: "a queue is deleted as idle only without consumers and messages", body: func(b *fixture) {
			s := b.openSession()
			q, absent := b.queueNamed("q"), b.queueNamed("absent")
			remove := func(what string, q broker.Queue, want broker.QueueFate) {
				b.t.Helper()
				fate, err := s.DeleteIdle(b.ctx, q)
				if err != nil {
					b.fatalf("%s: %v", what, err)
				}
				b.expect(what, fate, want)
			}
			remove("a queue that was never declared", absent, broker.QueueAbsent)
			top := broker.Topology{
				Exchanges: []broker.Exchange{b.newExchange("x", broker.Topic)}, Queues: []broker.Queue{q}, Bindings: []broker.Binding{b.newBinding("x", "a", "q")},
			}
			b.declareTopology(s, top)
			c := b.startConsumer(s, "q", 1)
			remove("a queue that is consumed", q, broker.QueueInUse)
			b.publishExpecting(s, broker.Confirmed, b.objectName("x"), "a", 1)
			c.Ack(b.receiveDelivery(c))
			b.must(c.Cancel(b.ctx))
			b.publishExpecting(s, broker.Confirmed, b.objectName("x"), "a", 2)
			b.letBrokerSettle()
			remove("a queue in which something waits", q, broker.QueueInUse)
			b.expectMessages("q", 2)
			b.letBrokerSettle()
			remove("a queue that is empty and unused", q, broker.QueueDeleted)
			remove("a queue that was deleted", q, broker.QueueAbsent)
			b.expect("the session is closed", s.Closed(), false)
			b.publishExpecting(s, broker.Returned, b.objectName("x"), "a", 3)
			b.declareTopology(s, top)
			b.publishExpecting(s, broker.Confirmed, b.objectName("x"), "a", 4)
			b.expect("received after it was declared again", messageNumber(b.receiveDelivery(b.startConsumer(s, "q", 1))), 4)
		}},
		{Name: "Consume ends with its context", Types: either, body: func(b *fixture) {
			s := b.openSession()
			b.declareQueue(s)
			b.Within(0, func(ctx context.Context) {
				b.Sleep(b.Pause)
				if _, err := s.Consume(ctx, b.objectName("q"), 1); !errors.Is(err, context.DeadlineExceeded) {
					b.errorf("consuming under a context that is over: %v", err)
				}
			})
			b.enqueueMessages(s, 1)
			b.expectMessages("q", 1)
		}},
	}
}
