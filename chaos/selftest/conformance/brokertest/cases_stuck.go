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
		{Name: "requests to a queue that hangs are carried out when it continues", needs: needsSuspend, body: askedOfStuck},
		{Name: "a quorum queue that hangs seems empty, and is not idle", Types: []string{Quorum}, needs: needsSuspend, body: stuckState},
		{Name: "declaring a classic queue that hangs times out, and the session stays usable", Types: []string{Classic}, needs: needsSuspend, body: declareStuck},
		{Name: "one queue of many hangs: publishes to all others are confirmed within a second", needs: needsSuspend, body: oneOfMany},
		{Name: "rule 31 a delivery that stays unacknowledged ends the session; from 4.3 on a quorum queue cancels its consumer, a classic one waits", Alone: true, needs: needsTimeout, body: consumerTimeout},
		{Name: "rule 31 a consumer that its queue has cancelled keeps deliveries that are not overdue, and may settle overdue ones", Alone: true, Types: []string{Quorum}, needs: needsTimeout, body: overdueSettled},
		{Name: "rule 31 from 4.3 on a message may be returned as overdue without limit", Alone: true, Types: []string{Quorum}, needs: needsSlowTimeout, body: overdueAgain},
	}
}

func stuckQueue(b *fixture) {
	s := b.openSession()
	b.declareTopology(s, broker.Topology{Queues: []broker.Queue{b.queueNamed("q"), b.queueNamed("other")}})
	b.enqueueMessages(s, 1)
	c, other := b.startConsumer(s, "q", 1), b.startConsumer(s, "other", 0)
	b.holdDeliveries(c, 1)
	resume := b.Suspend(b.objectName("q"))
	began := b.Now()
	b.Within(patience, func(ctx context.Context) {
		for i, o := range s.Publish(ctx, []broker.Message{newMessage("", b.objectName("other"), 2), newMessage("", b.objectName("q"), 3), newMessage("", b.objectName("other"), 4)}) {
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
		d := b.receiveDelivery(other)
		b.expect("delivered by the other queue", messageNumber(d), want)
		other.Ack(d)
	}
	b.publishExpecting(s, broker.NotSent, "", b.objectName("q"), 5)
	b.expect("the session is closed", s.Closed(), false)
	resume()
	d := b.openSession()
	next := b.startConsumer(d, "q", 0)
	b.expect("delivered when it goes on", messageNumber(b.receiveDelivery(next)), 3)
	b.expectNoDelivery("of what was not sent", next)
	b.enqueueMessages(s, 6)
	b.expect("delivered later", messageNumber(b.receiveDelivery(next)), 6)
}

func askedOfStuck(b *fixture) {
	s := b.openSession()
	b.declareQueue(s)
	b.enqueueMessages(s, 1, 2)
	c := b.startConsumer(s, "q", 1)
	first := b.receiveDelivery(c)
	resume := b.Suspend(b.objectName("q"))
	c.Ack(first)
	b.expectNoDelivery("after an acknowledgement to a queue that hangs", c)
	other := b.openSession()
	b.Within(b.Quiet, func(ctx context.Context) {
		_, err := other.Consume(ctx, b.objectName("q"), 1)
		b.expectError("subscribing to a queue that hangs", err, context.DeadlineExceeded)
	})
	resume()
	second := b.receiveDelivery(c)
	b.expect("delivered when it goes on", describeDelivery(second), "message 2 (redelivered false)")
	c.Ack(second)
	b.letBrokerSettle()
	b.expectMessages("q")
}

func stuckState(b *fixture) {
	s := b.openSession()
	b.declareQueue(s)
	b.enqueueMessages(s, 1, 2)
	resume := b.Suspend(b.objectName("q"))
	state, err := s.QueueState(b.ctx, b.objectName("q"))
	b.must(err)
	b.expect("what the broker says of it", state, broker.QueueState{Exists: true})
	b.declareTopology(s, broker.Topology{Queues: []broker.Queue{b.queueNamed("q")}})
	b.Within(3*time.Second, func(ctx context.Context) {
		_, err := s.DeleteIdle(ctx, b.queueNamed("q"))
		b.expectError("deleting it as idle", err, context.DeadlineExceeded)
	})
	resume()
	b.letBrokerSettle()
	b.expectMessages("q", 1, 2)
}

// declareStuck: without its own deadline, a process would wait for a queue as long as that hangs, without any
// sign of the reason.
func declareStuck(b *fixture) {
	s := b.openSession()
	t := broker.Topology{Queues: []broker.Queue{b.queueNamed("before"), b.queueNamed("q"), b.queueNamed("after")}}
	b.declareTopology(s, t)
	resume := b.Suspend(b.objectName("q"))
	began := b.Now()
	err := s.Declare(b.ctx, t)
	b.expectError("declaring a queue that hangs", err, broker.ErrUnanswered)
	if err != nil && !strings.Contains(err.Error(), "queue "+b.objectName("q")+":") {
		b.errorf("the error does not name the queue: %v", err)
	}
	if took := b.Now() - began; took < broker.DeclareWait || !b.Busy && took > broker.DeclareWait+5*time.Second {
		b.errorf("it was given up after %v, the deadline is %v", took, broker.DeclareWait)
	}
	b.expect("the session is closed", s.Closed(), false)
	b.declareTopology(s, broker.Topology{Queues: []broker.Queue{b.queueNamed("before")}})
	resume()
	b.declareTopology(s, t)
	b.enqueueMessages(s, 1)
	b.letBrokerSettle()
	b.expectMessages("q", 1)
}

// oneOfMany: only messages for the queue that hangs wait. Others do not, not even those of the same call.
func oneOfMany(b *fixture) {
	const queues = 12
	s := b.openSession()
	var t broker.Topology
	var well, stuck []broker.Message
	for i := range queues {
		t.Queues = append(t.Queues, b.queueNamed(fmt.Sprint("q", i)))
	}
	t.Queues = append(t.Queues, b.queueNamed("stuck"))
	b.declareTopology(s, t)
	for n := range 4 {
		for i := range queues {
			well = append(well, newMessage("", b.objectName(fmt.Sprint("q", i)), n*queues+i+1)) // an execution's id is not 0
		}
		stuck = append(stuck, newMessage("", b.objectName("stuck"), 100+n))
	}
	b.Within(patience, func(ctx context.Context) {
		b.expect("the first publish", s.Publish(ctx, well[:1])[0], broker.Confirmed)
	})
	resume := b.Suspend(b.objectName("stuck"))
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
	s, other := b.openSession(), b.openSession()
	b.declareQueue(s)
	b.enqueueMessages(s, 1, 2)
	c := b.startConsumer(s, "q", 1)
	began := b.Now()
	d := b.receiveDelivery(c)
	if b.Overdue == StaysHeld {
		b.Within(2*overdueAfter, func(ctx context.Context) {
			_, err := c.Receive(ctx)
			b.expectError("receiving while a delivery stays unacknowledged", err, context.DeadlineExceeded)
		})
		c.Ack(d)
		b.expect("delivered next", describeDelivery(b.receiveDelivery(c)), "message 2 (redelivered false)")
		return
	}
	want := broker.ErrClosed
	if b.Overdue == CancelsConsumer {
		want = broker.ErrCancelled
	}
	_, err := b.nextDelivery(c, patience)
	b.expectError("receiving while a delivery stays unacknowledged", err, want)
	if took := b.Now() - began; took < overdueAfter-time.Second || !b.Busy && took > overdueAfter+overdueLate {
		b.errorf("the consumer ended after %v, the timeout is %v", took, overdueAfter)
	}
	b.expect("its session is closed", s.Closed(), b.Overdue == EndsSession)
	b.expect("another is closed", other.Closed(), false)
	b.letBrokerSettle()
	left := b.drainQueue("q")
	b.expect("what is left", messageNumbers(left), upTo(1, 2))
	b.expect("redelivered", redeliveredFlags(left), "r-")
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
	s, other := b.openSession(), b.openSession()
	b.declareQueue(s)
	b.enqueueMessages(s, 1, 2)
	c := b.startConsumer(s, "q", 4)
	overdue := b.holdDeliveries(c, 2)
	b.Sleep(2 * overdueAfter)
	b.enqueueMessages(s, 3, 4)
	recent := b.holdDeliveries(c, 2)
	_, err := b.nextDelivery(c, patience)
	b.expectError("receiving while deliveries stay unacknowledged", err, broker.ErrCancelled)
	next := b.startConsumer(other, "q", 0)
	again := b.holdDeliveries(next, 2)
	b.expect("what is overdue comes", messageNumbers(again), upTo(1, 2))
	b.expect("redelivered", redeliveredFlags(again), "rr")
	c.Ack(recent[0])
	c.Ack(overdue[0])
	c.Reject(overdue[1], true)
	b.letBrokerSettle()
	b.expect("the session is closed", s.Closed(), false)
	b.expectNoDelivery("after what was overdue was settled", next)
	s.Close()
	b.expect("what the end of the session returns", describeDelivery(b.receiveDelivery(next)), "message 4 (redelivered true)")
	other.Close()
	b.letBrokerSettle()
	b.expect("what is left", messageNumbers(b.drainQueue("q")), []int{1, 2, 4})
}

// overdueAgain: RabbitMQ counts messages that a consumer returns, not those that a queue reclaims.
func overdueAgain(b *fixture) {
	if b.Overdue != CancelsConsumer {
		return
	}
	b.ConsumerTimeout(200 * time.Millisecond)
	defer b.ConsumerTimeout(0)
	s := b.openSession()
	b.declareDeadLetterPath(s, 0)
	b.enqueueMessages(s, 1)
	for range b.Limit + 2 {
		c := b.startConsumer(s, "q", 1)
		b.expect("delivered", messageNumber(b.receiveDelivery(c)), 1)
		_, err := b.nextDelivery(c, patience)
		b.expectError("receiving while a delivery stays unacknowledged", err, broker.ErrCancelled)
	}
	b.ConsumerTimeout(0)
	b.expectMessages("q", 1)
	b.expectMessages("dead")
}
