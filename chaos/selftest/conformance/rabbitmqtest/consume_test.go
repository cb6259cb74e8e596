package rabbitmqtest_test

import (
	"context"
	"errors"
	"reflect"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"handoff/chaos/selftest/conformance/brokertest"
	"handoff/core/broker"
	"handoff/core/broker/rabbitmq"
	"handoff/core/testenv"
)

func TestReceiveAndAck(t *testing.T) {
	bothTypes(t, func(t *testing.T, queueType string) {
		w := newWorld(t)
		s := w.openSession(rabbitmq.Options{})
		queue := w.declareQueue(s, broker.Queue{Name: w.objectName("q"), Type: queueType})
		ms := w.newMessages(queue, 3)
		w.publishConfirmed(s, ms...)
		c := w.startConsumer(s, queue, 10)
		for _, m := range ms {
			d := w.receiveDelivery(c)
			if !reflect.DeepEqual(d.Envelope, m.Envelope) || d.RoutingKey != queue || d.Redelivered || d.Malformed != nil || d.Body != nil || d.Deaths != nil {
				t.Errorf("received %+v, want %+v", d, m.Envelope)
			}
			c.Ack(d)
		}
		s.Close()
		if n := w.queueDepth(queue); n != 0 {
			t.Errorf("%d messages are left", n)
		}
	})
}

func TestPrefetch(t *testing.T) {
	w := newWorld(t)
	s := w.openSession(rabbitmq.Options{})
	queue := w.declareQueue(s, broker.Queue{Name: w.objectName("q"), Type: quorum})
	w.publishConfirmed(s, w.newMessages(queue, 5)...)
	c := w.startConsumer(s, queue, 2)
	first := w.receiveDelivery(c)
	w.receiveDelivery(c)
	w.expectSilence(c, 200*time.Millisecond)
	c.Ack(first)
	w.receiveDelivery(c)
	w.expectSilence(c, 100*time.Millisecond)
	if _, err := s.Consume(t.Context(), queue, 70_000); err == nil {
		t.Error("a prefetch of 70000 would be sent as another number")
	}
}

// TestCloseRequeues: messages return to their old place, redelivered, and a late acknowledgement
// settles nothing.
func TestCloseRequeues(t *testing.T) {
	bothTypes(t, func(t *testing.T, queueType string) {
		w := newWorld(t)
		s := w.openSession(rabbitmq.Options{})
		queue := w.declareQueue(s, broker.Queue{Name: w.objectName("q"), Type: queueType})
		ms := w.newMessages(queue, 3)
		w.publishConfirmed(s, ms...)
		c := w.startConsumer(s, queue, 2)
		old := []broker.Delivery{w.receiveDelivery(c), w.receiveDelivery(c)}
		s.Close()
		c.Ack(old[0])
		c.Reject(old[1], false)
		if _, err := c.Receive(t.Context()); !errors.Is(err, broker.ErrClosed) {
			t.Errorf("Receive after the end: %v", err)
		}
		if err := c.Cancel(t.Context()); !errors.Is(err, broker.ErrClosed) {
			t.Errorf("Cancel after the end: %v", err)
		}
		again := w.openSession(rabbitmq.Options{})
		c = w.startConsumer(again, queue, 10)
		for i, m := range ms {
			d := w.receiveDelivery(c)
			if d.Envelope.MessageID != m.Envelope.MessageID || d.Redelivered != (i < 2) {
				t.Errorf("delivery %d is %s, redelivered: %v", i, d.Envelope.MessageID, d.Redelivered)
			}
		}
		// The old deliveries have the tags 1 and 2 on their channel, and so have the new ones on
		// theirs.
		c.Ack(old[0])
		c.Reject(old[1], false)
		if err := c.Cancel(w.contextWithin(patience)); err != nil {
			t.Error(err)
		}
		again.Close()
		w.waitUntil("all three are still there", func() bool { return w.queueDepth(queue) == 3 })
	})
}

// TestConsumersSettleForEachOther: by the contract, tags belong to the session.
func TestConsumersSettleForEachOther(t *testing.T) {
	w := newWorld(t)
	s := w.openSession(rabbitmq.Options{})
	q1, q2 := w.declareQueue(s, broker.Queue{Name: w.objectName("q1"), Type: classic}), w.declareQueue(s, broker.Queue{Name: w.objectName("q2"), Type: classic})
	w.publishConfirmed(s, w.newMessage(q1), w.newMessage(q2))
	c1, c2 := w.startConsumer(s, q1, 1), w.startConsumer(s, q2, 1)
	d1, d2 := w.receiveDelivery(c1), w.receiveDelivery(c2)
	if d1.Tag == d2.Tag {
		t.Errorf("both have the tag %d", d1.Tag)
	}
	c1.Ack(d2)
	c2.Reject(d1, true)
	if d := w.receiveDelivery(c1); !d.Redelivered {
		t.Error("the rejected one is not redelivered")
	}
	s.Close()
	w.waitUntil("one message", func() bool { return w.queueDepth(q1) == 1 && w.queueDepth(q2) == 0 })
}

// TestRejectRequeues: a classic queue returns the message to its old place, a quorum queue without a delivery
// limit to the end. (After the end of a session both return it to its old place, see TestCloseRequeues.)
func TestRejectRequeues(t *testing.T) {
	bothTypes(t, func(t *testing.T, queueType string) {
		w := newWorld(t)
		s := w.openSession(rabbitmq.Options{})
		queue := w.declareQueue(s, broker.Queue{Name: w.objectName("q"), Type: queueType})
		ms := w.newMessages(queue, 5)
		w.publishConfirmed(s, ms...)
		c := w.startConsumer(s, queue, 3)
		held := []broker.Delivery{w.receiveDelivery(c), w.receiveDelivery(c), w.receiveDelivery(c)}
		if err := c.Cancel(w.contextWithin(patience)); err != nil {
			t.Fatal(err)
		}
		for _, i := range []int{2, 0, 1} {
			c.Reject(held[i], true)
		}
		w.waitUntil("all are ready", func() bool { return w.queueDepth(queue) == 5 })
		order := []int{0, 1, 2, 3, 4}
		switch is := brokertest.FeaturesOf(queueType, nodeVersion(t, w.mq.URL), false); {
		case is.RequeuesLast:
			order = []int{3, 4, 2, 0, 1}
		case is.ByDelivery:
			order = []int{2, 0, 1, 3, 4}
		}
		c = w.startConsumer(s, queue, 1)
		for n, i := range order {
			d := w.receiveDelivery(c)
			if d.Envelope.MessageID != ms[i].Envelope.MessageID || d.Redelivered != (i < 3) {
				t.Errorf("delivery %d is %s, want %s; redelivered: %v", n, d.Envelope.MessageID, ms[i].Envelope.MessageID, d.Redelivered)
			}
			c.Ack(d)
		}
	})
}

// TestSettledTwice: the session ends, because the broker closes the channel with all its
// deliveries.
func TestSettledTwice(t *testing.T) {
	w := newWorld(t)
	s := w.openSession(rabbitmq.Options{})
	queue := w.declareQueue(s, broker.Queue{Name: w.objectName("q"), Type: quorum})
	w.publishConfirmed(s, w.newMessages(queue, 2)...)
	c := w.startConsumer(s, queue, 10)
	d := w.receiveDelivery(c)
	w.receiveDelivery(c)
	c.Ack(d)
	c.Ack(d)
	if _, err := c.Receive(w.contextWithin(patience)); !errors.Is(err, broker.ErrClosed) {
		t.Errorf("Receive: %v", err)
	}
	if !s.Closed() {
		t.Error("the session is open")
	}
	w.waitUntil("the other one is back", func() bool { return w.queueDepth(queue) == 1 })
}

// TestOwnCancel: messages that were received before come first and can be settled. The rest stays
// in the queue, and the session stays open.
func TestOwnCancel(t *testing.T) {
	w := newWorld(t)
	s := w.openSession(rabbitmq.Options{})
	queue := w.declareQueue(s, broker.Queue{Name: w.objectName("q"), Type: quorum})
	w.publishConfirmed(s, w.newMessages(queue, 5)...)
	c := w.startConsumer(s, queue, 3)
	first := w.receiveDelivery(c)
	w.waitUntil("3 delivered", func() bool { return w.queueDepth(queue) == 2 })
	time.Sleep(50 * time.Millisecond) // the last one may still be on its way
	for range 2 {
		if err := c.Cancel(w.contextWithin(patience)); err != nil {
			t.Fatal(err)
		}
	}
	c.Ack(first)
	for range 2 {
		c.Ack(w.receiveDelivery(c))
	}
	if d, err := c.Receive(w.contextWithin(patience)); !errors.Is(err, broker.ErrCancelled) {
		t.Errorf("received %+v, %v", d, err)
	}
	if s.Closed() {
		t.Error("the session is closed")
	}
	if n := w.queueDepth(queue); n != 2 {
		t.Errorf("%d messages are left, want 2", n)
	}
	w.publishConfirmed(s, w.newMessage(queue))
}

// TestQueueDeleted: the consumer ends, the session does not.
func TestQueueDeleted(t *testing.T) {
	bothTypes(t, func(t *testing.T, queueType string) {
		w := newWorld(t)
		s := w.openSession(rabbitmq.Options{})
		queue := w.declareQueue(s, broker.Queue{Name: w.objectName("q"), Type: queueType})
		w.publishConfirmed(s, w.newMessage(queue))
		c := w.startConsumer(s, queue, 1)
		d := w.receiveDelivery(c)
		if _, err := w.raw.QueueDelete(queue, false, false, false); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Receive(w.contextWithin(patience)); !errors.Is(err, broker.ErrCancelled) {
			t.Errorf("Receive: %v", err)
		}
		c.Ack(d)
		w.declareQueue(s, broker.Queue{Name: w.objectName("q"), Type: queueType})
		w.publishConfirmed(s, w.newMessage(queue))
		w.receiveDelivery(w.startConsumer(s, queue, 1))
		if s.Closed() {
			t.Error("the session is closed")
		}
	})
}

func TestConsumeMissingQueue(t *testing.T) {
	w := newWorld(t)
	s := w.openSession(rabbitmq.Options{})
	_, err := s.Consume(w.contextWithin(patience), w.objectName("missing"), 1)
	if e, ok := errors.AsType[*amqp.Error](err); !ok || e.Code != amqp.NotFound || errors.Is(err, broker.ErrClosed) {
		t.Errorf("Consume: %v", err)
	}
	if s.Closed() {
		t.Error("the session is closed")
	}
}

func TestReceiveEndsWithContext(t *testing.T) {
	w := newWorld(t)
	s := w.openSession(rabbitmq.Options{})
	c := w.startConsumer(s, w.declareQueue(s, broker.Queue{Name: w.objectName("q"), Type: classic}), 1)
	if _, err := c.Receive(w.contextWithin(20 * time.Millisecond)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Receive: %v", err)
	}
	received := make(chan error)
	go func() {
		_, err := c.Receive(context.Background())
		received <- err
	}()
	s.Close()
	if err := <-received; !errors.Is(err, broker.ErrClosed) {
		t.Errorf("Receive while the session is closed: %v", err)
	}
}

// TestConsumeTimeoutReturnsDeliveries: the broker's answer is late, and its deliveries return to the queue.
func TestConsumeTimeoutReturnsDeliveries(t *testing.T) {
	w := newWorld(t)
	p := w.startProxy()
	s := w.openSession(rabbitmq.Options{URL: p.url})
	queue := w.declareQueue(s, broker.Queue{Name: w.objectName("q"), Type: quorum})
	w.publishConfirmed(s, w.newMessage(queue))
	p.backing.setClosed(true)
	if _, err := s.Consume(w.contextWithin(100*time.Millisecond), queue, 1); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Consume: %v", err)
	}
	p.backing.setClosed(false)
	c := w.startConsumer(s, queue, 1)
	w.receiveDelivery(c)
	if s.Closed() {
		t.Error("the session is closed")
	}
}

func TestMalformedMessageKeepsBody(t *testing.T) {
	w := newWorld(t)
	s := w.openSession(rabbitmq.Options{})
	queue := w.declareQueue(s, broker.Queue{Name: w.objectName("q"), Type: classic})
	body := []byte("{\"message_type\": \xff")
	if err := w.raw.PublishWithContext(t.Context(), "", queue, true, false, amqp.Publishing{Body: body, Headers: amqp.Table{
		"x-death": []any{"no table", amqp.Table{"count": "many", "queue": int64(3), "reason": "boredom"}},
	}}); err != nil {
		t.Fatal(err)
	}
	d := w.receiveDelivery(w.startConsumer(s, queue, 1))
	if d.Malformed == nil || string(d.Body) != string(body) || !reflect.DeepEqual(d.Envelope, broker.Envelope{}) {
		t.Errorf("received %+v", d)
	}
	if d.Deaths != nil {
		t.Errorf("deaths %+v of a header that no broker wrote", d.Deaths)
	}
}

// deadLetters declares a queue like a worker's, and its dead letter path.
func (w *world) deadLetters(s broker.Session, queueType string, ttl time.Duration) (queue, dead string) {
	w.t.Helper()
	queue, dead = w.objectName("worker.1.executions"), w.objectName("dlx.queue")
	if err := s.Declare(w.contextWithin(patience), broker.Topology{
		Exchanges: []broker.Exchange{{Name: w.objectName("dlx"), Kind: broker.Topic}},
		Queues: []broker.Queue{
			{Name: queue, Type: queueType, TTL: ttl, DeadLetterExchange: w.objectName("dlx")},
			{Name: dead, Type: queueType},
		},
		Bindings: []broker.Binding{{Exchange: w.objectName("dlx"), Pattern: "#", Queue: dead}},
	}); err != nil {
		w.t.Fatal(err)
	}
	return queue, dead
}

func TestExpiredAndRejectedMessagesAreDeadLettered(t *testing.T) {
	bothTypes(t, func(t *testing.T, queueType string) {
		w := newWorld(t)
		s := w.openSession(rabbitmq.Options{})
		queue, dead := w.deadLetters(s, queueType, 300*time.Millisecond)
		graves := w.startConsumer(s, dead, 10)
		start := time.Now()
		m := w.newMessage(queue)
		w.publishConfirmed(s, m)
		d := w.receiveDelivery(graves)
		if took := time.Since(start); took < 295*time.Millisecond || testenv.All() && took > 3*time.Second {
			t.Errorf("a TTL of 300 ms took %v", took)
		}
		w.checkDeath(d, m, queue, broker.DeathExpired, 1, start)
		graves.Ack(d)

		c := w.startConsumer(s, queue, 1)
		m = w.newMessage(queue)
		w.publishConfirmed(s, m)
		c.Reject(w.receiveDelivery(c), false)
		d = w.receiveDelivery(graves)
		w.checkDeath(d, m, queue, broker.DeathRejected, 1, start)
		graves.Ack(d)
	})
}

func (w *world) checkDeath(d broker.Delivery, m broker.Message, queue string, reason broker.DeathReason, count int, start time.Time) {
	w.t.Helper()
	// Whether it is redelivered depends on the release of RabbitMQ; the contract's cases check
	// that.
	if !reflect.DeepEqual(d.Envelope, m.Envelope) || d.RoutingKey != queue {
		w.t.Errorf("dead letter %+v of %+v", d, m.Envelope)
	}
	if len(d.Deaths) == 0 || d.Deaths[0].Queue != queue || d.Deaths[0].Reason != reason || d.Deaths[0].Count != count {
		w.t.Fatalf("deaths %+v", d.Deaths)
	}
	// The header counts whole seconds.
	if at := d.Deaths[0].Time; at.Before(start.Add(-2*time.Second)) || at.After(time.Now().Add(time.Second)) {
		w.t.Errorf("died at %v, the test began at %v", at, start)
	}
}

// TestDeathsAreCounted: there is one entry for each queue and reason.
func TestDeathsAreCounted(t *testing.T) {
	w := newWorld(t)
	s := w.openSession(rabbitmq.Options{})
	queue, x := w.objectName("q"), w.objectName("loop")
	if err := s.Declare(w.contextWithin(patience), broker.Topology{
		Exchanges: []broker.Exchange{{Name: x, Kind: broker.Topic}},
		Queues:    []broker.Queue{{Name: queue, Type: classic, DeadLetterExchange: x}},
		Bindings:  []broker.Binding{{Exchange: x, Pattern: "#", Queue: queue}},
	}); err != nil {
		t.Fatal(err)
	}
	c := w.startConsumer(s, queue, 1)
	start, m := time.Now(), w.newMessage(queue)
	w.publishConfirmed(s, m)
	for range 3 {
		c.Reject(w.receiveDelivery(c), false)
	}
	d := w.receiveDelivery(c)
	w.checkDeath(d, m, queue, broker.DeathRejected, 3, start)
	if len(d.Deaths) != 1 {
		t.Errorf("deaths %+v", d.Deaths)
	}
	c.Ack(d)
}

// TestRequeueAfterExpiry: while a consumer holds a message beyond its TTL, it lives. Once requeued it dies
// immediately, even if a consumer waits.
func TestRequeueAfterExpiry(t *testing.T) {
	bothTypes(t, func(t *testing.T, queueType string) {
		w := newWorld(t)
		holder, other := w.openSession(rabbitmq.Options{}), w.openSession(rabbitmq.Options{})
		queue, dead := w.deadLetters(holder, queueType, 200*time.Millisecond)
		c := w.startConsumer(holder, queue, 1)
		m := w.newMessage(queue)
		w.publishConfirmed(other, m)
		w.receiveDelivery(c)
		waiting := w.startConsumer(other, queue, 1)
		graves := w.startConsumer(other, dead, 1)
		w.expectSilence(graves, 400*time.Millisecond)
		holder.Close()
		d := w.receiveDelivery(graves)
		w.checkDeath(d, m, queue, broker.DeathExpired, 1, time.Now())
		w.expectSilence(waiting, 100*time.Millisecond)
	})
}
