package brokertest

import (
	"context"
	"errors"

	"handoff/core/broker"
)

func prefetchCases() []Case {
	return []Case{
		{Name: "rule 25 prefetch limits what is unsettled, and each settlement lets one more come", body: func(b *fixture) {
			s := b.session()
			b.plain(s)
			c := b.consume(s, "q", 3)
			b.put(s, upTo(1, 6)...)
			ds := b.hold(c, 3)
			b.expect("the first", ids(ds), upTo(1, 3))
			b.nothing("beyond the prefetch", c)
			c.Ack(ds[1])
			b.expect("after an ack", id(b.receive(c)), 4)
			c.Reject(ds[0], false)
			b.expect("after a rejection", id(b.receive(c)), 5)
			b.nothing("beyond the prefetch", c)
		}},
		{Name: "rule 25 without a prefetch there is no limit", body: func(b *fixture) {
			s := b.session()
			b.plain(s)
			b.put(s, upTo(1, 100)...)
			b.expect("received", ids(b.hold(b.consume(s, "q", 0), 100)), upTo(1, 100))
		}},
		{Name: "rule 25 the limit is each consumer's, also within one session", body: func(b *fixture) {
			s := b.session()
			b.plain(s)
			one, two := b.consume(s, "q", 1), b.consume(s, "q", 2)
			b.put(s, upTo(1, 5)...)
			b.hold(one, 1)
			b.hold(two, 2)
			b.nothing("beyond the first's", one)
			b.nothing("beyond the second's", two)
		}},
		{Name: "rule 25 consumers take turns", body: func(b *fixture) {
			s, other := b.session(), b.session()
			b.plain(s)
			one, two := b.consume(s, "q", 0), b.consume(other, "q", 0)
			b.put(s, upTo(1, 10)...)
			b.expect("each receives", len(append(b.hold(one, 5), b.hold(two, 5)...)), 10)
			b.nothing("beyond its turns", one)
			b.nothing("beyond its turns", two)
		}},
		{Name: "rule 25 a consumer that is full is passed over", body: func(b *fixture) {
			s := b.session()
			b.plain(s)
			full, open := b.consume(s, "q", 1), b.consume(s, "q", 0)
			b.put(s, upTo(1, 10)...)
			b.hold(full, 1)
			b.hold(open, 9)
		}},
		{Name: "rule 25 what waits goes to a consumer that comes later", body: func(b *fixture) {
			s := b.session()
			b.plain(s)
			full := b.consume(s, "q", 1)
			b.put(s, 1, 2, 3)
			b.hold(full, 1)
			b.expect("the later one receives", ids(b.hold(b.consume(b.session(), "q", 0), 2)), []int{2, 3})
		}},
		{Name: "Receive ends with its context and loses nothing", body: func(b *fixture) {
			s := b.session()
			b.plain(s)
			c := b.consume(s, "q", 1)
			b.nothing("of an empty queue", c)
			b.put(s, 1)
			b.expect("afterwards", id(b.receive(c)), 1)
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
				s, other := b.session(), b.session()
				b.plain(s)
				c := b.consume(s, "q", 2)
				b.put(s, 1, 2)
				ds := b.hold(c, 2)
				c.Ack(ds[0])
				again(c, ds[0])
				_, err := b.next(c, patience)
				b.refused("receiving afterwards", err, broker.ErrClosed)
				b.expect("the session is closed", s.Closed(), true)
				b.expect("another is closed", other.Closed(), false)
				left := b.left("q")
				b.expect("what is left", ids(left), []int{2})
				b.expect("redelivered", flags(left), "r")
			}
		}},
		{Name: "rule 26 a delivery of a lost session can't be settled over the next", body: func(b *fixture) {
			s := b.session()
			b.plain(s)
			old := b.consume(s, "q", 1)
			b.put(s, 1, 2)
			d := b.receive(old)
			s.Close()
			old.Ack(d) // no session is left to send it
			next := b.session()
			c := b.consume(next, "q", 1)
			again := b.receive(c)
			c.Ack(d) // nor has this an effect: the new session has no such delivery, whatever its number
			b.nothing("behind what is not settled", c)
			b.expect("the session is closed", next.Closed(), false)
			b.expect("it came again", id(again), 1)
			next.Close()
			b.holds("q", 1, 2)
		}},
		{Name: "rule 26 one consumer of a session may settle what another received", body: func(b *fixture) {
			s := b.session()
			b.plain(s)
			one, two := b.consume(s, "q", 1), b.consume(s, "q", 1)
			b.put(s, 1, 2, 3)
			d := b.receive(one)
			b.receive(two)
			two.Ack(d)
			b.expect("the next", id(b.receive(one)), 3)
			b.expect("the session is closed", s.Closed(), false)
		}},
	}
}

func requeueCases() []Case {
	return []Case{
		{Name: "rule 28 what is requeued is redelivered, from its old place in classic and from the end of quorum queues without a limit", body: func(b *fixture) {
			s := b.session()
			b.plain(s)
			c := b.consume(s, "q", 2)
			b.put(s, upTo(1, 4)...)
			ds := b.hold(c, 2)
			b.cancel(c)
			c.Reject(ds[0], true)
			c.Ack(ds[1])
			b.settled()
			left := b.left("q")
			want, redelivered := []int{1, 3, 4}, "r--"
			if b.RequeuesLast {
				want, redelivered = []int{3, 4, 1}, "--r"
			}
			b.expect("what is left", ids(left), want)
			b.expect("redelivered", flags(left), redelivered)
		}},
		{Name: "rule 28 requeued one by one, classic queues restore the old order and quorum queues take the new one, first if they have a limit", body: func(b *fixture) {
			s := b.session()
			b.plain(s)
			c := b.consume(s, "q", 3)
			b.put(s, upTo(1, 5)...)
			ds := b.hold(c, 3)
			b.cancel(c)
			for _, i := range []int{2, 0, 1} {
				c.Reject(ds[i], true)
			}
			b.settled()
			want, redelivered := upTo(1, 5), "rrr--"
			switch {
			case b.RequeuesLast:
				want, redelivered = []int{4, 5, 3, 1, 2}, "--rrr"
			case b.ByDelivery:
				want = []int{3, 1, 2, 4, 5}
			}
			left := b.left("q")
			b.expect("what is left", ids(left), want)
			b.expect("redelivered", flags(left), redelivered)
		}},
		{Name: "rule 27 cancelling ends new deliveries and leaves what was received with the session", body: cancelled},
		{Name: "rule 27 cancelling twice is harmless, and leaves other consumers alone", body: func(b *fixture) {
			s := b.session()
			b.plain(s)
			c, sibling := b.consume(s, "q", 1), b.consume(s, "q", 1)
			b.cancel(c)
			b.cancel(c)
			b.put(s, 1)
			b.expect("the sibling receives", id(b.receive(sibling)), 1)
		}},
	}
}

func cancelled(b *fixture) {
	s := b.session()
	b.plain(s)
	c := b.consume(s, "q", 3)
	b.put(s, upTo(1, 3)...)
	d := b.receive(c)
	b.Sleep(b.Quiet) // the other two are in the buffer
	b.cancel(c)
	b.put(s, 4)
	c.Ack(d)
	b.expect("received before and read after", ids(b.hold(c, 2)), []int{2, 3})
	_, err := b.next(c, patience)
	b.refused("then", err, broker.ErrCancelled)
	other := b.consume(b.session(), "q", 0)
	b.expect("another receives", id(b.receive(other)), 4)
	b.nothing("what the session holds", other)
	s.Close()
	b.expect("after its end", ids(b.hold(other, 2)), []int{2, 3})
}

func endCases() []Case {
	return []Case{
		{Name: "a session that was closed refuses everything", Types: either, body: func(b *fixture) {
			s := b.session()
			b.plain(s)
			c := b.consume(s, "q", 1)
			b.expect("before", []bool{s.Closed(), s.Blocked()}, []bool{false, false})
			s.Close()
			s.Close()
			b.expect("closed and blocked", []bool{s.Closed(), s.Blocked()}, []bool{true, false})
			_, err := b.next(c, patience)
			b.refused("Receive", err, broker.ErrClosed)
			_, err = s.Consume(b.ctx, b.called("q"), 1)
			b.refused("Consume", err, broker.ErrClosed)
			b.refused("Declare", s.Declare(b.ctx, broker.Topology{}), broker.ErrClosed)
			b.refused("Cancel", c.Cancel(b.ctx), broker.ErrClosed)
			b.to(s, broker.NotSent, "", b.called("q"), 1)
			c.Ack(broker.Delivery{Tag: 1})
			c.Reject(broker.Delivery{Tag: 1}, true)
		}},
	}
}

func returnCases() []Case {
	return []Case{
		{Name: "rule 28 closing requeues all at the old places, redelivered", body: func(b *fixture) {
			s := b.session()
			b.plain(s)
			c := b.consume(s, "q", 4)
			b.put(s, upTo(1, 7)...)
			ds := b.hold(c, 4)
			c.Ack(ds[1])
			b.hold(c, 1)
			s.Close()
			b.settled()
			left := b.left("q")
			b.expect("what is left", ids(left), []int{1, 3, 4, 5, 6, 7})
			b.expect("redelivered", flags(left), "rrrr--")
		}},
		{Name: "rule 29 what was delivered and never read is redelivered", body: func(b *fixture) {
			s := b.session()
			b.plain(s)
			b.consume(s, "q", 2)
			b.put(s, 1, 2, 3)
			b.Sleep(b.Quiet)
			s.Close()
			b.settled()
			left := b.left("q")
			b.expect("what is left", ids(left), upTo(1, 3))
			b.expect("redelivered", flags(left), "rr-")
		}},
	}
}

func orderCases() []Case {
	return []Case{
		{Name: "rule 28 another session that waits gets them in order", body: func(b *fixture) {
			s, other := b.session(), b.session()
			b.plain(s)
			c := b.consume(s, "q", 3)
			b.put(s, upTo(1, 3)...)
			b.hold(c, 3)
			waiting := b.consume(other, "q", 0)
			b.put(s, 4)
			b.nothing("what the first still may have", c)
			b.expect("meanwhile", id(b.receive(waiting)), 4)
			s.Close()
			ds := b.hold(waiting, 3)
			b.expect("received", ids(ds), upTo(1, 3))
			b.expect("redelivered", flags(ds), "rrr")
		}},
		{Name: "rule 28 closing after a requeue: classic queues restore the old order, quorum queues that of delivery", body: func(b *fixture) {
			s := b.session()
			b.plain(s)
			c := b.consume(s, "q", 3)
			b.put(s, upTo(1, 3)...)
			ds := b.hold(c, 3)
			c.Reject(ds[0], true)
			b.expect("it comes again", id(b.receive(c)), 1)
			b.put(s, 4, 5)
			s.Close()
			b.settled()
			if b.ByDelivery {
				b.holds("q", 2, 3, 1, 4, 5)
				return
			}
			b.holds("q", upTo(1, 5)...)
		}},
		{Name: "rule 28 what ended sessions return comes first, in the order of their ends in quorum queues", body: func(b *fixture) {
			first, second := b.session(), b.session()
			b.plain(first)
			one, two := b.consume(first, "q", 2), b.consume(second, "q", 2)
			b.put(first, upTo(1, 6)...)
			lost := append(ids(b.hold(two, 2)), ids(b.hold(one, 2))...)
			b.cancel(one)
			second.Close()
			b.settled()
			first.Close()
			b.settled()
			if b.ByDelivery {
				b.holds("q", append(lost, 5, 6)...)
				return
			}
			b.holds("q", upTo(1, 6)...)
		}},
		{Name: "rule 28 an ack before the end of a session counts", body: func(b *fixture) {
			s := b.session()
			b.plain(s)
			c := b.consume(s, "q", 0)
			b.put(s, upTo(1, 20)...)
			for _, d := range b.hold(c, 20) {
				if id(d)%2 == 0 {
					c.Ack(d)
				}
			}
			s.Close()
			b.settled()
			b.holds("q", 1, 3, 5, 7, 9, 11, 13, 15, 17, 19)
		}},
	}
}

func deletionCases() []Case {
	return []Case{
		{Name: "rule 32 deleting a queue cancels its consumers and leaves their session open", needs: needsDelete, body: func(b *fixture) {
			s := b.session()
			b.declare(s, broker.Topology{Queues: []broker.Queue{b.queue("q"), b.queue("r")}})
			c, sibling := b.consume(s, "q", 1), b.consume(s, "r", 1)
			b.put(s, 1, 2)
			d := b.receive(c)
			b.DeleteQueue(b.called("q"))
			_, err := b.next(c, patience)
			b.refused("receiving afterwards", err, broker.ErrCancelled)
			c.Ack(d)
			b.settled()
			b.expect("the session is closed", s.Closed(), false)
			b.to(s, broker.Confirmed, "", b.called("r"), 3)
			b.expect("the sibling receives", id(b.receive(sibling)), 3)
			b.to(s, broker.Returned, "", b.called("q"), 4)
		}},
		{Name: "rule 32 what was received before the deletion comes before the cancellation", needs: needsDelete, body: func(b *fixture) {
			s := b.session()
			b.plain(s)
			c := b.consume(s, "q", 2)
			b.put(s, 1, 2, 3)
			b.Sleep(b.Quiet)
			b.DeleteQueue(b.called("q"))
			b.Sleep(b.Quiet)
			b.expect("received", ids(b.hold(c, 2)), []int{1, 2})
			_, err := b.next(c, patience)
			b.refused("then", err, broker.ErrCancelled)
		}},
		{Name: "rule 32 a queue that is declared again is empty and unbound", needs: needsDelete, body: func(b *fixture) {
			s := b.session()
			top := broker.Topology{
				Exchanges: []broker.Exchange{b.exchange("x", broker.Topic)},
				Queues:    []broker.Queue{b.queue("q")},
				Bindings:  []broker.Binding{b.bind("x", "a", "q")},
			}
			b.declare(s, top)
			b.to(s, broker.Confirmed, b.called("x"), "a", 1)
			b.DeleteQueue(b.called("q"))
			b.to(s, broker.Returned, b.called("x"), "a", 2)
			b.plain(s)
			b.to(s, broker.Returned, b.called("x"), "a", 3)
			b.declare(s, top)
			b.to(s, broker.Confirmed, b.called("x"), "a", 4)
			b.expect("received", id(b.receive(b.consume(s, "q", 1))), 4)
		}},
		{Name: "rule 32 a session that consumed a deleted queue requeues nothing into its successor", needs: needsDelete, body: func(b *fixture) {
			s := b.session()
			b.plain(s)
			c := b.consume(s, "q", 1)
			b.put(s, 1)
			d := b.receive(c)
			b.DeleteQueue(b.called("q"))
			b.plain(s)
			c.Reject(d, true)
			b.settled()
			b.put(s, 2)
			s.Close()
			b.holds("q", 2)
		}},
		{Name: "a queue is deleted as idle only while nobody consumes it and nothing waits in it", body: func(b *fixture) {
			s := b.session()
			q, absent := b.queue("q"), b.queue("absent")
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
				Exchanges: []broker.Exchange{b.exchange("x", broker.Topic)}, Queues: []broker.Queue{q}, Bindings: []broker.Binding{b.bind("x", "a", "q")},
			}
			b.declare(s, top)
			c := b.consume(s, "q", 1)
			remove("a queue that is consumed", q, broker.QueueInUse)
			b.to(s, broker.Confirmed, b.called("x"), "a", 1)
			c.Ack(b.receive(c))
			b.must(c.Cancel(b.ctx))
			b.to(s, broker.Confirmed, b.called("x"), "a", 2)
			b.settled()
			remove("a queue in which something waits", q, broker.QueueInUse)
			b.holds("q", 2)
			b.settled()
			remove("a queue that is empty and unused", q, broker.QueueDeleted)
			remove("a queue that was deleted", q, broker.QueueAbsent)
			b.expect("the session is closed", s.Closed(), false)
			b.to(s, broker.Returned, b.called("x"), "a", 3)
			b.declare(s, top)
			b.to(s, broker.Confirmed, b.called("x"), "a", 4)
			b.expect("received after it was declared again", id(b.receive(b.consume(s, "q", 1))), 4)
		}},
		{Name: "Consume ends with its context", Types: either, body: func(b *fixture) {
			s := b.session()
			b.plain(s)
			b.Within(0, func(ctx context.Context) {
				b.Sleep(b.Pause)
				if _, err := s.Consume(ctx, b.called("q"), 1); !errors.Is(err, context.DeadlineExceeded) {
					b.errorf("consuming under a context that is over: %v", err)
				}
			})
			b.put(s, 1)
			b.holds("q", 1)
		}},
	}
}
