package brokertest

import (
	"context"
	"fmt"
	"strings"
	"time"

	"handoff/core/broker"
)

// This file has the cases of a broker that works only in part.

func needsSuspend(s *Subject) bool { return s.Suspend != nil }
func needsTimeout(s *Subject) bool { return s.ConsumerTimeout != nil }

func needsSlowTimeout(s *Subject) bool { return needsTimeout(s) && s.Slow }

func stuckCases() []Case {
	return []Case{
		{Name: "a queue that hangs neither confirms nor delivers, and holds up no other", needs: needsSuspend, body: stuckQueue},
		{Name: "what is asked of a queue that hangs is done when it goes on", needs: needsSuspend, body: askedOfStuck},
		{Name: "a quorum queue that hangs seems empty, and is not idle", Types: []string{Quorum}, needs: needsSuspend, body: stuckState},
		{Name: "declaring a classic queue that hangs is given up in time, and the session goes on", Types: []string{Classic}, needs: needsSuspend, body: declareStuck},
		{Name: "one queue of many hangs: publishes to all others are confirmed within a second", needs: needsSuspend, body: oneOfMany},
		{Name: "rule 31 a delivery that stays unacknowledged ends the session; from 4.3 on a quorum queue cancels its consumer, a classic one waits", Alone: true, needs: needsTimeout, body: consumerTimeout},
		{Name: "rule 31 a consumer that its queue has cancelled keeps what is not overdue, and may settle what is", Alone: true, Types: []string{Quorum}, needs: needsTimeout, body: overdueSettled},
		{Name: "rule 31 what came back because it was overdue may do so for ever from 4.3 on", Alone: true, Types: []string{Quorum}, needs: needsSlowTimeout, body: overdueAgain},
	}
}

func stuckQueue(b *fixture) {
	s := b.session()
	b.declare(s, broker.Topology{Queues: []broker.Queue{b.queue("q"), b.queue("other")}})
	b.put(s, 1)
	c, other := b.consume(s, "q", 1), b.consume(s, "other", 0)
	b.hold(c, 1)
	resume := b.Suspend(b.called("q"))
	began := b.Now()
	b.Within(patience, func(ctx context.Context) {
		for i, o := range s.Publish(ctx, []broker.Message{message("", b.called("other"), 2), message("", b.called("q"), 3), message("", b.called("other"), 4)}) {
			want := broker.Confirmed
			if i == 1 {
				want = broker.Unknown
			}
			b.expect("the outcome of a publish beside a queue that hangs", o, want)
		}
	})
	if took := b.Now() - began; !b.Busy && took > 5*time.Second {
		b.errorf("the publishes took %v", took)
	}
	for _, want := range []int{2, 4} {
		d := b.receive(other)
		b.expect("delivered by the other queue", id(d), want)
		other.Ack(d)
	}
	b.to(s, broker.NotSent, "", b.called("q"), 5)
	b.expect("the session is closed", s.Closed(), false)
	resume()
	d := b.session()
	next := b.consume(d, "q", 0)
	b.expect("delivered when it goes on", id(b.receive(next)), 3)
	b.nothing("of what was not sent", next)
	b.put(s, 6)
	b.expect("delivered later", id(b.receive(next)), 6)
}

func askedOfStuck(b *fixture) {
	s := b.session()
	b.plain(s)
	b.put(s, 1, 2)
	c := b.consume(s, "q", 1)
	first := b.receive(c)
	resume := b.Suspend(b.called("q"))
	c.Ack(first)
	b.nothing("after an acknowledgement to a queue that hangs", c)
	other := b.session()
	b.Within(b.Quiet, func(ctx context.Context) {
		_, err := other.Consume(ctx, b.called("q"), 1)
		b.refused("subscribing to a queue that hangs", err, context.DeadlineExceeded)
	})
	resume()
	second := b.receive(c)
	b.expect("delivered when it goes on", show(second), "message 2 (redelivered false)")
	c.Ack(second)
	b.settled()
	b.holds("q")
}

func stuckState(b *fixture) {
	s := b.session()
	b.plain(s)
	b.put(s, 1, 2)
	resume := b.Suspend(b.called("q"))
	state, err := s.QueueState(b.ctx, b.called("q"))
	b.must(err)
	b.expect("what the broker says of it", state, broker.QueueState{Exists: true})
	b.declare(s, broker.Topology{Queues: []broker.Queue{b.queue("q")}})
	b.Within(3*time.Second, func(ctx context.Context) {
		_, err := s.DeleteIdle(ctx, b.queue("q"))
		b.refused("deleting it as idle", err, context.DeadlineExceeded)
	})
	resume()
	b.settled()
	b.holds("q", 1, 2)
}

// declareStuck: without its own deadline a process would wait for a queue for as long as that
// hangs, and nobody could tell why.
func declareStuck(b *fixture) {
	s := b.session()
	t := broker.Topology{Queues: []broker.Queue{b.queue("before"), b.queue("q"), b.queue("after")}}
	b.declare(s, t)
	resume := b.Suspend(b.called("q"))
	began := b.Now()
	err := s.Declare(b.ctx, t)
	b.refused("declaring a queue that hangs", err, broker.ErrUnanswered)
	if err != nil && !strings.Contains(err.Error(), "queue "+b.called("q")+":") {
		b.errorf("the error does not name the queue: %v", err)
	}
	if took := b.Now() - began; took < broker.DeclareWait || !b.Busy && took > broker.DeclareWait+5*time.Second {
		b.errorf("it was given up after %v, the deadline is %v", took, broker.DeclareWait)
	}
	b.expect("the session is closed", s.Closed(), false)
	b.declare(s, broker.Topology{Queues: []broker.Queue{b.queue("before")}})
	resume()
	b.declare(s, t)
	b.put(s, 1)
	b.settled()
	b.holds("q", 1)
}

// oneOfMany: messages for the queue that hangs wait, and no others do, not even those of the same
// call.
func oneOfMany(b *fixture) {
	const queues = 12
	s := b.session()
	var t broker.Topology
	var well, stuck []broker.Message
	for i := range queues {
		t.Queues = append(t.Queues, b.queue(fmt.Sprint("q", i)))
	}
	t.Queues = append(t.Queues, b.queue("stuck"))
	b.declare(s, t)
	for n := range 4 {
		for i := range queues {
			well = append(well, message("", b.called(fmt.Sprint("q", i)), n*queues+i+1)) // an execution's id is not 0
		}
		stuck = append(stuck, message("", b.called("stuck"), 100+n))
	}
	b.Within(patience, func(ctx context.Context) {
		b.expect("the first publish", s.Publish(ctx, well[:1])[0], broker.Confirmed)
	})
	resume := b.Suspend(b.called("stuck"))
	defer resume()
	b.Within(patience, func(ctx context.Context) {
		began := b.Now()
		for i, o := range s.Publish(ctx, append(stuck, well...)) {
			if want := broker.Confirmed; i >= len(stuck) && o != want {
				b.errorf("publish %d to a queue that does not hang is %v", i-len(stuck), o)
			}
		}
		if took := b.Now() - began; !b.Busy && took > 3*time.Second {
			b.errorf("a call with publishes to the queue that hangs took %v", took)
		}
		for range 5 {
			began = b.Now()
			for i, o := range s.Publish(ctx, well) {
				b.expect(fmt.Sprint("the outcome of publish ", i), o, broker.Confirmed)
			}
			if took := b.Now() - began; !b.Busy && took > time.Second {
				b.errorf("publishes to the queues that do not hang took %v", took)
			}
		}
	})
}

// overdueAfter is a consumer timeout. overdueLate is how much later its effect may be visible on a
// busy machine.
const (
	overdueAfter = 3 * time.Second
	overdueLate  = 10 * time.Second
)

func consumerTimeout(b *fixture) {
	b.ConsumerTimeout(overdueAfter)
	defer b.ConsumerTimeout(0)
	s, other := b.session(), b.session()
	b.plain(s)
	b.put(s, 1, 2)
	c := b.consume(s, "q", 1)
	began := b.Now()
	d := b.receive(c)
	if b.Overdue == StaysHeld {
		b.Within(2*overdueAfter, func(ctx context.Context) {
			_, err := c.Receive(ctx)
			b.refused("receiving while a delivery stays unacknowledged", err, context.DeadlineExceeded)
		})
		c.Ack(d)
		b.expect("delivered next", show(b.receive(c)), "message 2 (redelivered false)")
		return
	}
	want := broker.ErrClosed
	if b.Overdue == CancelsConsumer {
		want = broker.ErrCancelled
	}
	_, err := b.next(c, patience)
	b.refused("receiving while a delivery stays unacknowledged", err, want)
	if took := b.Now() - began; took < overdueAfter-time.Second || !b.Busy && took > overdueAfter+overdueLate {
		b.errorf("the consumer ended after %v, the timeout is %v", took, overdueAfter)
	}
	b.expect("its session is closed", s.Closed(), b.Overdue == EndsSession)
	b.expect("another is closed", other.Closed(), false)
	b.settled()
	left := b.left("q")
	b.expect("what is left", ids(left), upTo(1, 2))
	b.expect("redelivered", flags(left), "r-")
}

// overdueSettled: a worker learns of the cancellation of its consumer when it settles a delivery,
// or later. A late settlement does not end its session, nor settle a delivery that another consumer
// has by then.
func overdueSettled(b *fixture) {
	if b.Overdue != CancelsConsumer {
		return
	}
	// The time between the two deliveries allows for a slow machine.
	b.ConsumerTimeout(3 * overdueAfter)
	defer b.ConsumerTimeout(0)
	s, other := b.session(), b.session()
	b.plain(s)
	b.put(s, 1, 2)
	c := b.consume(s, "q", 4)
	overdue := b.hold(c, 2)
	b.Sleep(2 * overdueAfter)
	b.put(s, 3, 4)
	recent := b.hold(c, 2)
	_, err := b.next(c, patience)
	b.refused("receiving while deliveries stay unacknowledged", err, broker.ErrCancelled)
	next := b.consume(other, "q", 0)
	again := b.hold(next, 2)
	b.expect("what is overdue comes", ids(again), upTo(1, 2))
	b.expect("redelivered", flags(again), "rr")
	c.Ack(recent[0])
	c.Ack(overdue[0])
	c.Reject(overdue[1], true)
	b.settled()
	b.expect("the session is closed", s.Closed(), false)
	b.nothing("after what was overdue was settled", next)
	s.Close()
	b.expect("what the end of the session returns", show(b.receive(next)), "message 4 (redelivered true)")
	other.Close()
	b.settled()
	b.expect("what is left", ids(b.left("q")), []int{1, 2, 4})
}

// overdueAgain: RabbitMQ counts messages that a consumer gives back, not those that a queue takes
// back.
func overdueAgain(b *fixture) {
	if b.Overdue != CancelsConsumer {
		return
	}
	b.ConsumerTimeout(200 * time.Millisecond)
	defer b.ConsumerTimeout(0)
	s := b.session()
	b.path(s, 0)
	b.put(s, 1)
	for range b.Limit + 2 {
		c := b.consume(s, "q", 1)
		b.expect("delivered", id(b.receive(c)), 1)
		_, err := b.next(c, patience)
		b.refused("receiving while a delivery stays unacknowledged", err, broker.ErrCancelled)
	}
	b.ConsumerTimeout(0)
	b.holds("q", 1)
	b.holds("dead")
}
