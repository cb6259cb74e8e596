package rabbitmqtest_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"handoff/core/broker"
	"handoff/core/broker/rabbitmq"
	"handoff/core/testenv"
)

// bothTypes runs a test for classic and quorum queues.
func bothTypes(t *testing.T, test func(t *testing.T, queueType string)) {
	for _, queueType := range []string{classic, quorum} {
		t.Run(queueType, func(t *testing.T) { test(t, queueType) })
	}
}

func TestPublishConfirmed(t *testing.T) {
	bothTypes(t, func(t *testing.T, queueType string) {
		w := newWorld(t)
		s := w.openSession(rabbitmq.Options{})
		queue := w.declareQueue(s, broker.Queue{Name: w.objectName("q"), Type: queueType})
		m := w.newMessage(queue)
		w.publishConfirmed(s, m)
		var d amqp.Delivery
		w.waitUntil("message readable", func() (ok bool) {
			d, ok, _ = w.raw.Get(queue, true)
			return ok
		})
		if d.ContentType != "application/json" || d.MessageId != m.Envelope.MessageID || d.Type != "execution.completed" ||
			d.DeliveryMode != amqp.Persistent || d.CorrelationId != "c" || d.Timestamp.Unix() != m.Envelope.Timestamp.Unix() {
			t.Errorf("properties: %+v", d)
		}
		if want, _ := broker.Encode(&m.Envelope); !bytes.Equal(d.Body, want) {
			t.Errorf("body %s, want %s", d.Body, want)
		}
	})
}

// TestReturnsMatchTheirMessages: a mandatory message without a route, among others, is
// returned and then confirmed.
func TestReturnsMatchTheirMessages(t *testing.T) {
	w := newWorld(t)
	s := w.openSession(rabbitmq.Options{Window: 8})
	queue := w.declareQueue(s, broker.Queue{Name: w.objectName("q"), Type: quorum})
	var ms []broker.Message
	var want []broker.Outcome
	for i := range 100 {
		if i%3 == 1 {
			ms, want = append(ms, w.newMessage(w.objectName("nowhere"))), append(want, broker.Returned)
		} else {
			ms, want = append(ms, w.newMessage(queue)), append(want, broker.Confirmed)
		}
	}
	if got := s.Publish(w.contextWithin(patience), ms); !slices.Equal(got, want) {
		t.Errorf("outcomes %v\nwant     %v", got, want)
	}
	w.waitUntil("67 messages in the queue", func() bool { return w.queueDepth(queue) == 67 })
}

// TestReturnWithDuplicateID: a dispatch is published again at the same epoch, and its queue may have been
// created or deleted in between.
func TestReturnWithDuplicateID(t *testing.T) {
	w := newWorld(t)
	s := w.openSession(rabbitmq.Options{})
	queue := w.declareQueue(s, broker.Queue{Name: w.objectName("q"), Type: quorum})
	there, gone := w.newMessage(queue), w.newMessage(w.objectName("nowhere"))
	gone.Envelope.MessageID = there.Envelope.MessageID
	got := s.Publish(w.contextWithin(patience), []broker.Message{there, gone, there, gone})
	if want := []broker.Outcome{broker.Confirmed, broker.Returned, broker.Confirmed, broker.Returned}; !slices.Equal(got, want) {
		t.Errorf("outcomes %v, want %v", got, want)
	}
}

// TestManyReturns: if no goroutine receives returns, the library holds up the connection for five seconds and
// then drops them.
func TestManyReturns(t *testing.T) {
	w := newWorld(t)
	s := w.openSession(rabbitmq.Options{Window: 16})
	start := time.Now()
	for i, o := range s.Publish(w.contextWithin(patience), w.newMessages(w.objectName("nowhere"), 2000)) {
		if o != broker.Returned {
			t.Fatalf("message %d is %v", i, o)
		}
	}
	if took := time.Since(start); testenv.All() && took > 4*time.Second {
		t.Errorf("2000 returns took %v", took)
	}
}

func TestNacked(t *testing.T) {
	w := newWorld(t)
	s := w.openSession(rabbitmq.Options{})
	queue := w.objectName("full")
	if _, err := w.raw.QueueDeclare(queue, true, false, false, false, amqp.Table{"x-max-length": int64(1), "x-overflow": "reject-publish"}); err != nil {
		t.Fatal(err)
	}
	got := s.Publish(w.contextWithin(patience), w.newMessages(queue, 3))
	if want := []broker.Outcome{broker.Confirmed, broker.Nacked, broker.Nacked}; !slices.Equal(got, want) {
		t.Errorf("outcomes %v, want %v", got, want)
	}
	if s.Closed() {
		t.Error("a nack closed the session")
	}
}

// TestUnsendableMessagesAreRefusedAlone: they must not end the connection.
func TestUnsendableMessagesAreRefusedAlone(t *testing.T) {
	w := newWorld(t)
	s := w.openSession(rabbitmq.Options{})
	queue := w.declareQueue(s, broker.Queue{Name: w.objectName("q"), Type: classic})
	ms := w.newMessages(queue, 5)
	ms[0].Envelope.Version = 9
	ms[1].RoutingKey = strings.Repeat("k", 256)
	ms[3].Exchange = strings.Repeat("x", 256)
	ms[4].Envelope.MessageID = strings.Repeat("i", 256)
	got := s.Publish(w.contextWithin(patience), ms)
	if want := []broker.Outcome{broker.Nacked, broker.Nacked, broker.Confirmed, broker.Nacked, broker.Nacked}; !slices.Equal(got, want) {
		t.Errorf("outcomes %v, want %v", got, want)
	}
	if got := s.Publish(w.contextWithin(patience), ms[:1]); got[0] != broker.Nacked || s.Closed() {
		t.Errorf("alone it is %v, session closed: %v", got[0], s.Closed())
	}
	if got := s.Publish(w.contextWithin(patience), nil); len(got) != 0 {
		t.Errorf("nothing has outcomes %v", got)
	}
}

// TestConnectionLostBeforeConfirm: the broker has stored every message, but the client can't
// know that.
func TestConnectionLostBeforeConfirm(t *testing.T) {
	w := newWorld(t)
	p := w.startProxy()
	s := w.openSession(rabbitmq.Options{URL: p.url})
	queue := w.declareQueue(s, broker.Queue{Name: w.objectName("q"), Type: quorum})
	// The first publish of a route opens its channel, which needs an answer.
	if got := s.Publish(w.contextWithin(patience), w.newMessages(queue, 1)); got[0] != broker.Confirmed {
		t.Fatalf("the first message is %v", got[0])
	}
	p.backing.setClosed(true)
	go func() {
		w.waitUntil("messages stored", func() bool { return w.queueDepth(queue) == 11 })
		p.cutConnections()
	}()
	for i, o := range s.Publish(w.contextWithin(patience), w.newMessages(queue, 10)) {
		if o != broker.Unknown {
			t.Errorf("message %d is %v", i, o)
		}
	}
	if !s.Closed() {
		t.Error("the session is open")
	}
	for i, o := range s.Publish(w.contextWithin(patience), w.newMessages(queue, 2)) {
		if o != broker.NotSent {
			t.Errorf("message %d after the end is %v", i, o)
		}
	}
	if n := w.queueDepth(queue); n != 11 {
		t.Errorf("%d messages are stored", n)
	}
}

// TestContextEndsBeforeConfirm: the session continues, and late confirms do no harm.
func TestContextEndsBeforeConfirm(t *testing.T) {
	w := newWorld(t)
	p := w.startProxy()
	s := w.openSession(rabbitmq.Options{URL: p.url, Window: 4})
	queue := w.declareQueue(s, broker.Queue{Name: w.objectName("q"), Type: quorum})
	w.publishConfirmed(s, w.newMessage(queue)) // opens the channel
	p.backing.setClosed(true)
	stored, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		defer cancel()
		w.waitUntil("the messages of the window are stored", func() bool { return w.queueDepth(queue) == 1+4 })
	}()
	got := s.Publish(stored, w.newMessages(queue, 10))
	// The messages of the window were written, the others were not.
	sent := 0
	for ; sent < len(got) && got[sent] == broker.Unknown; sent++ {
	}
	if sent != 4 || slices.ContainsFunc(got[sent:], func(o broker.Outcome) bool { return o != broker.NotSent }) {
		t.Errorf("outcomes %v", got)
	}
	p.backing.setClosed(false)
	w.publishConfirmed(s, w.newMessage(queue))
	if n := w.queueDepth(queue); n != sent+2 {
		t.Errorf("%d messages are stored, want %d", n, sent+2)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if got := s.Publish(ctx, w.newMessages(queue, 1)); got[0] != broker.NotSent {
		t.Errorf("with a context that is over: %v", got)
	}
}

// TestPublishToMissingExchange: the broker closes the channel, and no confirm of it arrives.
func TestPublishToMissingExchange(t *testing.T) {
	w := newWorld(t)
	s := w.openSession(rabbitmq.Options{})
	m := w.newMessage("k")
	m.Exchange = w.objectName("missing")
	if got := s.Publish(w.contextWithin(patience), []broker.Message{m}); got[0] != broker.Unknown {
		t.Errorf("outcome %v", got)
	}
	if !s.Closed() {
		t.Error("the session is open")
	}
}

// TestConcurrentPublishers: every call gets the outcomes of its own messages, in order, and its
// messages keep their order in the queue.
func TestConcurrentPublishers(t *testing.T) {
	w := newWorld(t)
	s := w.openSession(rabbitmq.Options{Window: 32})
	queue := w.declareQueue(s, broker.Queue{Name: w.objectName("q"), Type: quorum})
	const publishers, calls, batch = 8, 10, 20
	var wg sync.WaitGroup
	for p := range publishers {
		wg.Go(func() {
			n := 0
			for range calls {
				ms := w.newMessages(queue, batch)
				for i := range ms {
					ms[i].Envelope.MessageID = fmt.Sprintf("%d/%d", p, n)
					n++
					if i%7 == 3 {
						ms[i].RoutingKey = w.objectName("nowhere")
					}
				}
				for i, o := range s.Publish(w.contextWithin(patience), ms) {
					if want := map[bool]broker.Outcome{true: broker.Returned, false: broker.Confirmed}[i%7 == 3]; o != want {
						t.Errorf("publisher %d, message %d: %v, want %v", p, i, o, want)
					}
				}
			}
		})
	}
	wg.Wait()
	c := w.startConsumer(s, queue, 0)
	last := make([]int, publishers)
	routed := 0
	for i := range batch {
		if i%7 != 3 {
			routed++
		}
	}
	for range publishers * calls * routed {
		d := w.receiveDelivery(c)
		var p, n int
		if _, err := fmt.Sscanf(d.Envelope.MessageID, "%d/%d", &p, &n); err != nil {
			t.Fatal(err)
		}
		if n < last[p] {
			t.Errorf("publisher %d: %d after %d", p, n, last[p])
		}
		last[p] = n
		c.Ack(d)
	}
	w.expectSilence(c, 50*time.Millisecond)
}

// TestAlarm: publishers wait without an error, consumers continue, and nothing is lost.
func TestAlarm(t *testing.T) {
	w := newWorld(t)
	if !w.mq.Server.Private() {
		t.Skip("raises an alarm for the whole node")
	}
	s, consuming := w.openSession(rabbitmq.Options{}), w.openSession(rabbitmq.Options{})
	queue := w.declareQueue(s, broker.Queue{Name: w.objectName("q"), Type: quorum})
	w.publishConfirmed(s, w.newMessages(queue, 20)...)
	ctl := func(args ...string) {
		t.Helper()
		if out, err := w.mq.Server.Ctl(w.contextWithin(patience), args...); err != nil {
			t.Fatalf("%v: %v %s", args, err, out)
		}
	}
	ctl("set_vm_memory_high_watermark", "0.0000001")
	defer ctl("set_vm_memory_high_watermark", "0.4")
	time.Sleep(200 * time.Millisecond) // the node does not report to idle clients that its alarm has reached them
	t.Logf("an idle session during the alarm is blocked: %v", s.Blocked())
	blocked, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		defer cancel()
		w.waitUntil("the publisher is blocked", s.Blocked)
	}()
	got := s.Publish(blocked, w.newMessages(queue, 1))
	if got[0] != broker.Unknown {
		t.Errorf("the first publish during the alarm is %v", got[0])
	}
	if !s.Blocked() || s.Closed() {
		t.Errorf("blocked: %v, closed: %v", s.Blocked(), s.Closed())
	}
	if got := s.Publish(w.contextWithin(100*time.Millisecond), w.newMessages(queue, 1)); got[0] != broker.NotSent {
		t.Errorf("a publish while the broker is known to block is %v", got[0])
	}
	fresh := w.openSession(rabbitmq.Options{})
	t.Logf("a fresh session during the alarm is blocked: %v", fresh.Blocked())
	// A session whose publishes wait still consumes and acknowledges.
	for _, who := range []broker.Session{s, consuming} {
		c := w.startConsumer(who, queue, 1)
		for range 10 {
			c.Ack(w.receiveDelivery(c))
		}
		if err := c.Cancel(w.contextWithin(patience)); err != nil {
			t.Error(err)
		}
		// The broker may have delivered another message between the last acknowledgement and the cancel.
		d, err := c.Receive(w.contextWithin(patience))
		for ; err == nil; d, err = c.Receive(w.contextWithin(patience)) {
			c.Reject(d, true)
		}
		if !errors.Is(err, broker.ErrCancelled) {
			t.Errorf("after the cancel: %v", err)
		}
	}
	done := make(chan []broker.Outcome)
	go func() { done <- s.Publish(w.contextWithin(patience), w.newMessages(queue, 3)) }()
	time.Sleep(50 * time.Millisecond) // the publish must wait for a while
	ctl("set_vm_memory_high_watermark", "0.4")
	if got := <-done; slices.ContainsFunc(got, func(o broker.Outcome) bool { return o != broker.Confirmed }) {
		t.Errorf("after the alarm: %v", got)
	}
	w.waitUntil("not blocked any more", func() bool { return !s.Blocked() })
	// The publish of unknown outcome waited and was not lost.
	w.waitUntil("4 messages", func() bool { return w.queueDepth(queue) == 4 })
}
