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
		s := w.connect(rabbitmq.Options{})
		queue := w.queue(s, broker.Queue{Name: w.name("q"), Type: queueType})
		ms := w.messages(queue, 3)
		w.publish(s, ms...)
		c := w.consume(s, queue, 10)
		for _, m := range ms {
			d := w.receive(c)
			if !reflect.DeepEqual(d.Envelope, m.Envelope) || d.RoutingKey != queue || d.Redelivered || d.Malformed != nil || d.Body != nil || d.Deaths != nil {
				t.Errorf("received %+v, want %+v", d, m.Envelope)
			}
			c.Ack(d)
		}
		s.Close()
		if n := w.depth(queue); n != 0 {
			t.Errorf("%d messages are left", n)
		}
	})
}

func TestPrefetch(t *testing.T) {
	w := newWorld(t)
	s := w.connect(rabbitmq.Options{})
	queue := w.queue(s, broker.Queue{Name: w.name("q"), Type: quorum})
	w.publish(s, w.messages(queue, 5)...)
	c := w.consume(s, queue, 2)
	first := w.receive(c)
	w.receive(c)
	w.silent(c, 200*time.Millisecond)
	c.Ack(first)
	w.receive(c)
	w.silent(c, 100*time.Millisecond)
	if _, err := s.Consume(t.Context(), queue, 70_000); err == nil {
		t.Error("a prefetch of 70000 would be sent as another number")
	}
}

// TestCloseRequeues: messages return to their old place, redelivered, and a late acknowledgement
// settles nothing.
func TestCloseRequeues(t *testing.T) {
	bothTypes(t, func(t *testing.T, queueType string) {
		w := newWorld(t)
		s := w.connect(rabbitmq.Options{})
		queue := w.queue(s, broker.Queue{Name: w.name("q"), Type: queueType})
		ms := w.messages(queue, 3)
		w.publish(s, ms...)
		c := w.consume(s, queue, 2)
		old := []broker.Delivery{w.receive(c), w.receive(c)}
		s.Close()
		c.Ack(old[0])
		c.Reject(old[1], false)
		if _, err := c.Receive(t.Context()); !errors.Is(err, broker.ErrClosed) {
			t.Errorf("Receive after the end: %v", err)
		}
		if err := c.Cancel(t.Context()); !errors.Is(err, broker.ErrClosed) {
			t.Errorf("Cancel after the end: %v", err)
		}
		again := w.connect(rabbitmq.Options{})
		c = w.consume(again, queue, 10)
		for i, m := range ms {
			d := w.receive(c)
			if d.Envelope.MessageID != m.Envelope.MessageID || d.Redelivered != (i < 2) {
				t.Errorf("delivery %d is %s, redelivered: %v", i, d.Envelope.MessageID, d.Redelivered)
			}
		}
		// The old deliveries have the tags 1 and 2 on their channel, and so have the new ones on
		// theirs.
		c.Ack(old[0])
		c.Reject(old[1], false)
		if err := c.Cancel(w.within(patience)); err != nil {
			t.Error(err)
		}
		again.Close()
		w.eventually("all three are still there", func() bool { return w.depth(queue) == 3 })
	})
}

// TestConsumersSettleForEachOther: by the contract, tags belong to the session.
func TestConsumersSettleForEachOther(t *testing.T) {
	w := newWorld(t)
	s := w.connect(rabbitmq.Options{})
	q1, q2 := w.queue(s, broker.Queue{Name: w.name("q1"), Type: classic}), w.queue(s, broker.Queue{Name: w.name("q2"), Type: classic})
	w.publish(s, w.message(q1), w.message(q2))
	c1, c2 := w.consume(s, q1, 1), w.consume(s, q2, 1)
	d1, d2 := w.receive(c1), w.receive(c2)
	if d1.Tag == d2.Tag {
		t.Errorf("both have the tag %d", d1.Tag)
	}
	c1.Ack(d2)
	c2.Reject(d1, true)
	if d := w.receive(c1); !d.Redelivered {
		t.Error("the rejected one is not redelivered")
	}
	s.Close()
	w.eventually("one message", func() bool { return w.depth(q1) == 1 && w.depth(q2) == 0 })
}

// TestRejectRequeues: a classic queue returns the message to its old place, a quorum queue without a delivery
// limit to the end. (After the end of a session both return it to its old place, see TestCloseRequeues.)
func TestRejectRequeues(t *testing.T) {
	bothTypes(t, func(t *testing.T, queueType string) {
		w := newWorld(t)
		s := w.connect(rabbitmq.Options{})
		queue := w.queue(s, broker.Queue{Name: w.name("q"), Type: queueType})
		ms := w.messages(queue, 5)
		w.publish(s, ms...)
		c := w.consume(s, queue, 3)
		held := []broker.Delivery{w.receive(c), w.receive(c), w.receive(c)}
		if err := c.Cancel(w.within(patience)); err != nil {
			t.Fatal(err)
		}
		for _, i := range []int{2, 0, 1} {
			c.Reject(held[i], true)
		}
		w.eventually("all are ready", func() bool { return w.depth(queue) == 5 })
		order := []int{0, 1, 2, 3, 4}
		switch is := brokertest.FeaturesOf(queueType, version(t, w.mq.URL), false); {
		case is.RequeuesLast:
			order = []int{3, 4, 2, 0, 1}
		case is.ByDelivery:
			order = []int{2, 0, 1, 3, 4}
		}
		c = w.consume(s, queue, 1)
		for n, i := range order {
			d := w.receive(c)
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
	s := w.connect(rabbitmq.Options{})
	queue := w.queue(s, broker.Queue{Name: w.name("q"), Type: quorum})
	w.publish(s, w.messages(queue, 2)...)
	c := w.consume(s, queue, 10)
	d := w.receive(c)
	w.receive(c)
	c.Ack(d)
	c.Ack(d)
	if _, err := c.Receive(w.within(patience)); !errors.Is(err, broker.ErrClosed) {
		t.Errorf("Receive: %v", err)
	}
	if !s.Closed() {
		t.Error("the session is open")
	}
	w.eventually("the other one is back", func() bool { return w.depth(queue) == 1 })
}

// TestOwnCancel: messages that were received before come first and can be settled. The rest stays
// in the queue, and the session stays open.
func TestOwnCancel(t *testing.T) {
	w := newWorld(t)
	s := w.connect(rabbitmq.Options{})
	queue := w.queue(s, broker.Queue{Name: w.name("q"), Type: quorum})
	w.publish(s, w.messages(queue, 5)...)
	c := w.consume(s, queue, 3)
	first := w.receive(c)
	w.eventually("3 delivered", func() bool { return w.depth(queue) == 2 })
	time.Sleep(50 * time.Millisecond) // the last one may still be on its way
	for range 2 {
		if err := c.Cancel(w.within(patience)); err != nil {
			t.Fatal(err)
		}
	}
	c.Ack(first)
	for range 2 {
		c.Ack(w.receive(c))
	}
	if d, err := c.Receive(w.within(patience)); !errors.Is(err, broker.ErrCancelled) {
		t.Errorf("received %+v, %v", d, err)
	}
	if s.Closed() {
		t.Error("the session is closed")
	}
	if n := w.depth(queue); n != 2 {
		t.Errorf("%d messages are left, want 2", n)
	}
	w.publish(s, w.message(queue))
}

// TestQueueDeleted: the consumer ends, the session does not.
func TestQueueDeleted(t *testing.T) {
	bothTypes(t, func(t *testing.T, queueType string) {
		w := newWorld(t)
		s := w.connect(rabbitmq.Options{})
		queue := w.queue(s, broker.Queue{Name: w.name("q"), Type: queueType})
		w.publish(s, w.message(queue))
		c := w.consume(s, queue, 1)
		d := w.receive(c)
		if _, err := w.raw.QueueDelete(queue, false, false, false); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Receive(w.within(patience)); !errors.Is(err, broker.ErrCancelled) {
			t.Errorf("Receive: %v", err)
		}
		c.Ack(d)
		w.queue(s, broker.Queue{Name: w.name("q"), Type: queueType})
		w.publish(s, w.message(queue))
		w.receive(w.consume(s, queue, 1))
		if s.Closed() {
			t.Error("the session is closed")
		}
	})
}

func TestConsumeMissingQueue(t *testing.T) {
	w := newWorld(t)
	s := w.connect(rabbitmq.Options{})
	_, err := s.Consume(w.within(patience), w.name("missing"), 1)
	if e, ok := errors.AsType[*amqp.Error](err); !ok || e.Code != amqp.NotFound || errors.Is(err, broker.ErrClosed) {
		t.Errorf("Consume: %v", err)
	}
	if s.Closed() {
		t.Error("the session is closed")
	}
}

func TestReceiveEndsWithContext(t *testing.T) {
	w := newWorld(t)
	s := w.connect(rabbitmq.Options{})
	c := w.consume(s, w.queue(s, broker.Queue{Name: w.name("q"), Type: classic}), 1)
	if _, err := c.Receive(w.within(20 * time.Millisecond)); !errors.Is(err, context.DeadlineExceeded) {
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
	p := w.proxy()
	s := w.connect(rabbitmq.Options{URL: p.url})
	queue := w.queue(s, broker.Queue{Name: w.name("q"), Type: quorum})
	w.publish(s, w.message(queue))
	p.backing.set(true)
	if _, err := s.Consume(w.within(100*time.Millisecond), queue, 1); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Consume: %v", err)
	}
	p.backing.set(false)
	c := w.consume(s, queue, 1)
	w.receive(c)
	if s.Closed() {
		t.Error("the session is closed")
	}
}

func TestMalformedMessageKeepsBody(t *testing.T) {
	w := newWorld(t)
	s := w.connect(rabbitmq.Options{})
	queue := w.queue(s, broker.Queue{Name: w.name("q"), Type: classic})
	body := []byte("{\"message_type\": \xff")
	if err := w.raw.PublishWithContext(t.Context(), "", queue, true, false, amqp.Publishing{Body: body, Headers: amqp.Table{
		"x-death": []any{"no table", amqp.Table{"count": "many", "queue": int64(3), "reason": "boredom"}},
	}}); err != nil {
		t.Fatal(err)
	}
	d := w.receive(w.consume(s, queue, 1))
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
	queue, dead = w.name("worker.1.executions"), w.name("dlx.queue")
	if err := s.Declare(w.within(patience), broker.Topology{
		Exchanges: []broker.Exchange{{Name: w.name("dlx"), Kind: broker.Topic}},
		Queues: []broker.Queue{
			{Name: queue, Type: queueType, TTL: ttl, DeadLetterExchange: w.name("dlx")},
			{Name: dead, Type: queueType},
		},
		Bindings: []broker.Binding{{Exchange: w.name("dlx"), Pattern: "#", Queue: dead}},
	}); err != nil {
		w.t.Fatal(err)
	}
	return queue, dead
}

func TestExpiredAndRejectedMessagesAreDeadLettered(t *testing.T) {
	bothTypes(t, func(t *testing.T, queueType string) {
		w := newWorld(t)
		s := w.connect(rabbitmq.Options{})
		queue, dead := w.deadLetters(s, queueType, 300*time.Millisecond)
		graves := w.consume(s, dead, 10)
		start := time.Now()
		m := w.message(queue)
		w.publish(s, m)
		d := w.receive(graves)
		if took := time.Since(start); took < 295*time.Millisecond || testenv.All() && took > 3*time.Second {
			t.Errorf("a TTL of 300 ms took %v", took)
		}
		w.checkDeath(d, m, queue, broker.DeathExpired, 1, start)
		graves.Ack(d)

		c := w.consume(s, queue, 1)
		m = w.message(queue)
		w.publish(s, m)
		c.Reject(w.receive(c), false)
		d = w.receive(graves)
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
	s := w.connect(rabbitmq.Options{})
	queue, x := w.name("q"), w.name("loop")
	if err := s.Declare(w.within(patience), broker.Topology{
		Exchanges: []broker.Exchange{{Name: x, Kind: broker.Topic}},
		Queues:    []broker.Queue{{Name: queue, Type: classic, DeadLetterExchange: x}},
		Bindings:  []broker.Binding{{Exchange: x, Pattern: "#", Queue: queue}},
	}); err != nil {
		t.Fatal(err)
	}
	c := w.consume(s, queue, 1)
	start, m := time.Now(), w.message(queue)
	w.publish(s, m)
	for range 3 {
		c.Reject(w.receive(c), false)
	}
	d := w.receive(c)
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
		holder, other := w.connect(rabbitmq.Options{}), w.connect(rabbitmq.Options{})
		queue, dead := w.deadLetters(holder, queueType, 200*time.Millisecond)
		c := w.consume(holder, queue, 1)
		m := w.message(queue)
		w.publish(other, m)
		w.receive(c)
		waiting := w.consume(other, queue, 1)
		graves := w.consume(other, dead, 1)
		w.silent(graves, 400*time.Millisecond)
		holder.Close()
		d := w.receive(graves)
		w.checkDeath(d, m, queue, broker.DeathExpired, 1, time.Now())
		w.silent(waiting, 100*time.Millisecond)
	})
}
