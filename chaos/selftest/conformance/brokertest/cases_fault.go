package brokertest

import (
	"context"
	"time"

	"handoff/core/broker"
)

func faultCases() []Case {
	return []Case{
		{Name: "rule 8 a session that breaks leaves outcomes unknown, and confirmed messages are stored once", needs: needsCut, body: unknownOutcomes},
		{Name: "rule 28 the messages of a broken session are requeued in order, redelivered", needs: needsCut, body: func(b *fixture) {
			s, other := b.openSession(), b.openSession()
			b.declareQueue(s)
			c := b.startConsumer(s, "q", 3)
			b.enqueueMessages(s, upTo(1, 5)...)
			b.holdDeliveries(c, 3)
			b.Cut(s, 0)
			_, err := b.nextDelivery(c, patience)
			b.expectError("receiving afterwards", err, broker.ErrClosed)
			b.expect("the session is closed", s.Closed(), true)
			b.expect("another is closed", other.Closed(), false)
			b.publishExpecting(s, broker.NotSent, "", b.objectName("q"), 6)
			b.letBrokerSettle()
			left := b.drainQueue("q")
			b.expect("what is left", messageNumbers(left), upTo(1, 5))
			b.expect("redelivered", redeliveredFlags(left), "rrr--")
		}},
		{Name: "a session reports its end, even if it is not in use", needs: needsCut, body: func(b *fixture) {
			s, other := b.openSession(), b.openSession()
			waits := func(s broker.Session, within time.Duration) (err error) {
				b.Within(within, func(ctx context.Context) { err = s.Wait(ctx) })
				return err
			}
			b.expectError("waiting for the end of a session that is open", waits(s, b.Quiet), context.DeadlineExceeded)
			b.Cut(s, 0)
			b.must(waits(s, patience))
			b.expect("the session is closed", s.Closed(), true)
			b.must(waits(s, patience))
			b.expectError("waiting for the end of another", waits(other, b.Quiet), context.DeadlineExceeded)
			other.Close()
			b.must(waits(other, patience))
		}},
		{Name: "rule 34 a silent session is given up by both ends, and not before three heartbeats are over", needs: needsSilence, body: silenceSession},
		{Name: "rule 35 an alarm holds publishers and not consumers", Alone: true, needs: needsAlarm, body: raiseAlarm},
	}
}

func unknownOutcomes(b *fixture) {
	s := b.openSession()
	b.declareQueue(s)
	next := 1
	outcomes := map[int]broker.Outcome{}
	for _, after := range []time.Duration{0, time.Millisecond, 3 * time.Millisecond, 10 * time.Millisecond} {
		victim := b.openSession()
		b.Cut(victim, after)
		for range 50 {
			var ms []broker.Message
			for range 20 {
				ms = append(ms, newMessage("", b.objectName("q"), next+len(ms)))
			}
			for i, o := range victim.Publish(b.ctx, ms) {
				outcomes[next+i] = o
			}
			next += len(ms)
			if victim.Closed() {
				break
			}
		}
		if _, err := victim.Consume(b.ctx, b.objectName("q"), 1); err == nil {
			b.errorf("the session outlived its connection")
		}
	}
	b.letBrokerSettle()
	stored := map[int]int{}
	for _, d := range b.drainQueue("q") {
		stored[messageNumber(d)]++
	}
	for id, o := range outcomes {
		switch n := stored[id]; {
		case n > 1:
			b.errorf("message %d is there %d times", id, n)
		case o == broker.Confirmed && n != 1:
			b.errorf("message %d was confirmed and is not there", id)
		case o == broker.NotSent && n != 0:
			b.errorf("message %d was not sent and is there", id)
		case o == broker.Returned || o == broker.Nacked:
			b.errorf("message %d: %v", id, o)
		}
	}
}

func silenceSession(b *fixture) {
	s, other := b.openSession(), b.openSession()
	b.declareQueue(s)
	c := b.startConsumer(s, "q", 1)
	b.enqueueMessages(s, 1)
	b.holdDeliveries(c, 1)
	waiting := b.startConsumer(other, "q", 1)
	begin := b.Now()
	b.Silence(s)
	_, err := b.nextDelivery(c, patience)
	b.expectError("the silent session", err, broker.ErrClosed)
	if noticed := b.Now() - begin; noticed < b.Heartbeat/2 || !b.Busy && noticed > 4*b.Heartbeat {
		b.errorf("the client noticed after %v of silence, with a heartbeat of %v", noticed, b.Heartbeat)
	}
	d, err := b.nextDelivery(waiting, patience)
	b.must(err)
	b.expect("it came back", describeDelivery(d), "message 1 (redelivered true)")
	if waited := b.Now() - begin; waited < b.Heartbeat || !b.Busy && waited > 5*b.Heartbeat {
		b.errorf("the broker gave the message back after %v of silence, with a heartbeat of %v", waited, b.Heartbeat)
	}
}

func raiseAlarm(b *fixture) {
	publisher, consumer := b.openSession(), b.openSession()
	b.declareQueue(publisher)
	b.enqueueMessages(publisher, 1, 2)
	b.Alarm(true)
	raised := true
	defer func() {
		if raised {
			b.Alarm(false)
		}
	}()
	b.Within(2*time.Second, func(ctx context.Context) {
		for i, o := range publisher.Publish(ctx, []broker.Message{newMessage("", b.objectName("q"), 3), newMessage("", b.objectName("q"), 4)}) {
			if o != broker.Unknown && o != broker.NotSent {
				b.errorf("the outcome of message %d during the alarm: %v", i+3, o)
			}
		}
	})
	b.expect("the publisher is blocked and closed", []bool{publisher.Blocked(), publisher.Closed()}, []bool{true, false})
	c := b.startConsumer(consumer, "q", 1)
	for i := range 2 {
		d := b.receiveDelivery(c)
		b.expect("received during the alarm", messageNumber(d), i+1)
		c.Ack(d)
	}
	b.expectNoDelivery("of what was published during the alarm", c)
	b.expect("received over a session of the alarm's time", len(b.drainQueue("q")), 0)
	raised = false
	b.Alarm(false)
	b.Sleep(b.Quiet)
	b.expect("the publisher is blocked", publisher.Blocked(), false)
	b.enqueueMessages(publisher, 5)
	seen := map[int]int{}
	for id := 0; id != 5; {
		d := b.receiveDelivery(c)
		c.Ack(d)
		id = int(d.Envelope.Dispatches[0].Key.ID)
		seen[id]++
	}
	if seen[3] > 1 || seen[4] > 1 || len(seen)-seen[3]-seen[4] != 1 {
		b.errorf("received after the alarm, by message: %v", seen)
	}
}
