package brokertest

import (
	"time"

	"handoff/core/broker"
)

// Times to live of the cases: long enough for the earlier steps, short enough to wait for. A busy machine
// makes them longer.
const (
	soon = 250 * time.Millisecond
	ttl  = 600 * time.Millisecond
)

// expectDeadLetter receives a dead letter and expects that it died no earlier than ttl after begin, and not
// much later than ttl after end.
func (f *fixture) expectDeadLetter(c broker.Consumer, message int, after, begin, end time.Duration) broker.Delivery {
	f.t.Helper()
	d := f.receiveDelivery(c)
	now := f.Now()
	f.expect("the dead letter", messageNumber(d), message)
	if now-begin < after {
		f.errorf("message %d died after %v at most, the contract says never before %v", message, now-begin, after)
	}
	if !f.Busy && now-end > after+f.Late {
		f.errorf("message %d died after %v at least, the contract says after %v and at most %v late", message, now-end, after, f.Late)
	}
	return d
}

func expiryCases() []Case {
	return []Case{
		{Name: "rule 43 expiry is never early and hardly late", body: func(b *fixture) {
			s := b.openSession()
			b.declareDeadLetterPath(s, b.soon)
			dead := b.startConsumer(s, "dead", 0)
			begin := b.Now()
			b.enqueueMessages(s, 1, 2, 3)
			end := b.Now()
			for i := range 3 {
				b.expectDeadLetter(dead, i+1, b.soon, begin, end)
			}
		}},
		{Name: "rule 10 an expired message is never delivered", body: func(b *fixture) {
			s := b.openSession()
			b.declareDeadLetterPath(s, b.soon)
			b.enqueueMessages(s, 1, 2)
			b.Sleep(b.soon + b.Late)
			b.expectNoDelivery("after the expiry", b.startConsumer(s, "q", 1))
			b.expectMessages("dead", 1, 2)
		}},
		{Name: "rule 9 without a dead letter exchange an expired message is lost", body: func(b *fixture) {
			s := b.openSession()
			b.declareTopology(s, broker.Topology{Queues: []broker.Queue{b.queueWithTTL("q", b.soon, "")}})
			b.enqueueMessages(s, 1)
			b.Sleep(b.soon + b.Late)
			b.enqueueMessages(s, 2)
			b.expectMessages("q", 2)
		}},
		{Name: "rule 9 a queue without a time to live keeps everything", body: func(b *fixture) {
			s := b.openSession()
			b.declareDeadLetterPath(s, 0)
			b.enqueueMessages(s, 1)
			b.Sleep(b.soon + b.Late)
			b.expectMessages("q", 1)
			b.expectMessages("dead")
		}},
		{Name: "rule 9 every message has its own time", body: func(b *fixture) {
			s := b.openSession()
			b.declareDeadLetterPath(s, b.ttl)
			dead := b.startConsumer(s, "dead", 0)
			first := b.Now()
			b.enqueueMessages(s, 1)
			firstEnd := b.Now()
			b.Sleep(b.ttl / 2)
			second := b.Now()
			b.enqueueMessages(s, 2)
			secondEnd := b.Now()
			b.expectDeadLetter(dead, 1, b.ttl, first, firstEnd)
			b.expectDeadLetter(dead, 2, b.ttl, second, secondEnd)
		}},
	}
}

func heldExpiryCases() []Case {
	return []Case{
		{Name: "rule 11 a prefetched message does not expire, and can be settled late", body: func(b *fixture) {
			s := b.openSession()
			b.declareDeadLetterPath(s, b.soon)
			c := b.startConsumer(s, "q", 1)
			b.enqueueMessages(s, 1)
			d := b.receiveDelivery(c)
			b.Sleep(b.soon + b.Late)
			c.Ack(d)
			b.letBrokerSettle()
			s.Close()
			b.expectMessages("q")
			b.expectMessages("dead")
		}},
		{Name: "rule 11 ready messages behind a prefetched one die in time", body: func(b *fixture) {
			s := b.openSession()
			b.declareDeadLetterPath(s, b.soon)
			c, dead := b.startConsumer(s, "q", 1), b.startConsumer(s, "dead", 0)
			begin := b.Now()
			b.enqueueMessages(s, 1, 2)
			end := b.Now()
			b.receiveDelivery(c)
			b.expectDeadLetter(dead, 2, b.soon, begin, end)
			b.expectNoDelivery("the one that is held", dead)
			s.Close()
			b.letBrokerSettle()
			b.expectMessages("dead", 2, 1)
		}},
		{Name: "rule 11 messages in a client's buffer do not expire either", body: func(b *fixture) {
			s := b.openSession()
			b.declareDeadLetterPath(s, b.soon)
			c := b.startConsumer(s, "q", 2)
			b.enqueueMessages(s, 1, 2, 3)
			b.Sleep(b.soon + b.Late)
			b.expect("received late", messageNumbers(b.holdDeliveries(c, 2)), []int{1, 2})
			b.expectMessages("dead", 3)
		}},
		{Name: "rule 9 a dead letter's own queue counts from its arrival there", body: func(b *fixture) {
			s := b.openSession()
			b.declareTopology(s, broker.Topology{
				Exchanges: []broker.Exchange{b.newExchange("dlx", broker.Topic), b.newExchange("end", broker.Topic)},
				Queues:    []broker.Queue{b.queueWithTTL("q", b.soon, "dlx"), b.queueWithTTL("mid", b.soon, "end"), b.queueNamed("dead")},
				Bindings:  []broker.Binding{b.newBinding("dlx", "#", "mid"), b.newBinding("end", "#", "dead")},
			})
			dead := b.startConsumer(s, "dead", 0)
			begin := b.Now()
			b.enqueueMessages(s, 1)
			d := b.expectDeadLetter(dead, 1, 2*b.soon, begin, b.Now())
			b.expect("its deaths", b.deathSummary(d), "mid expired 1, q expired 1")
		}},
	}
}

func requeueExpiryCases() []Case {
	return []Case{
		{Name: "rule 12 requeueing keeps the expiry", body: func(b *fixture) {
			s := b.openSession()
			b.declareDeadLetterPath(s, b.ttl)
			c, dead := b.startConsumer(s, "q", 1), b.startConsumer(s, "dead", 0)
			begin := b.Now()
			b.enqueueMessages(s, 1)
			end := b.Now()
			d := b.receiveDelivery(c)
			b.cancelConsumer(c)
			b.Sleep(b.ttl / 2)
			c.Reject(d, true)
			b.expectDeadLetter(dead, 1, b.ttl, begin, end)
		}},
		{Name: "rule 12 a message requeued after its expiry dies at once, even if a second consumer waits", body: func(b *fixture) {
			pastExpiry(b, b.MarksRequeued, func(_ broker.Session, c broker.Consumer, d broker.Delivery) { c.Reject(d, true) })
		}},
		{Name: "rule 12 a message that a closed session returns after its expiry dies at once, even if a second consumer waits", body: func(b *fixture) {
			pastExpiry(b, b.MarksDead, func(s broker.Session, _ broker.Consumer, _ broker.Delivery) { s.Close() })
		}},
		{Name: "rule 12 a message that a lost session returns after its expiry dies at once, even if a second consumer waits", needs: needsCut, body: func(b *fixture) {
			pastExpiry(b, b.MarksDead, func(s broker.Session, _ broker.Consumer, _ broker.Delivery) { b.Cut(s, 0) })
		}},
		{Name: "rule 12 a message rejected after its expiry was rejected, not expired", body: func(b *fixture) {
			s := b.openSession()
			b.declareDeadLetterPath(s, b.soon)
			c := b.startConsumer(s, "q", 1)
			b.enqueueMessages(s, 1)
			d := b.receiveDelivery(c)
			b.Sleep(b.soon + b.Late)
			c.Reject(d, false)
			b.expect("its deaths", b.deathSummary(b.receiveDelivery(b.startConsumer(s, "dead", 1))), "q rejected 1")
		}},
		{Name: "rule 12 a message requeued in time can be redelivered until it expires", body: func(b *fixture) {
			s := b.openSession()
			b.declareDeadLetterPath(s, b.ttl)
			c, dead := b.startConsumer(s, "q", 1), b.startConsumer(s, "dead", 0)
			begin := b.Now()
			b.enqueueMessages(s, 1)
			end := b.Now()
			c.Reject(b.receiveDelivery(c), true)
			d := b.receiveDelivery(c)
			b.expect("it is redelivered", d.Redelivered, true)
			b.cancelConsumer(c)
			c.Reject(d, true)
			died := b.expectDeadLetter(dead, 1, b.ttl, begin, end)
			b.expect("its deaths", b.deathSummary(died), "q expired 1")
		}},
		{Name: "rule 10 a requeued message dies when it reaches the head", body: requeuedHead},
	}
}

// pastExpiry requeues a message after its expiry while a second consumer waits for one. marked reports
// whether the dead letter is marked redelivered.
func pastExpiry(b *fixture, marked bool, giveBack func(s broker.Session, c broker.Consumer, d broker.Delivery)) {
	owner, second := b.openSession(), b.openSession()
	b.declareDeadLetterPath(owner, b.soon)
	c := b.startConsumer(owner, "q", 1)
	b.enqueueMessages(owner, 1)
	d := b.receiveDelivery(c)
	waiting, dead := b.startConsumer(second, "q", 5), b.startConsumer(second, "dead", 0)
	b.Sleep(b.soon + b.Late)
	b.expectNoDelivery("while it is held", dead)
	giveBack(owner, c, d)
	died := b.receiveDelivery(dead)
	b.expect("its deaths", b.deathSummary(died), "q expired 1")
	b.expect("it is redelivered", died.Redelivered, marked)
	b.expectNoDelivery("the consumer that waited", waiting)
}

// requeuedHead requeues the older of two messages. If the queue puts it at the end, the younger one
// is then at the head, and the older one can't die before it reaches the head.
func requeuedHead(b *fixture) {
	s := b.openSession()
	b.declareDeadLetterPath(s, b.ttl)
	c, dead := b.startConsumer(s, "q", 1), b.startConsumer(s, "dead", 0)
	older := b.Now()
	b.enqueueMessages(s, 1)
	olderEnd := b.Now()
	b.Sleep(b.ttl / 2)
	younger := b.Now()
	b.enqueueMessages(s, 2)
	youngerEnd := b.Now()
	d := b.receiveDelivery(c)
	b.cancelConsumer(c)
	c.Reject(d, true)
	if b.RequeuesLast {
		b.expectDeadLetter(dead, 2, b.ttl, younger, youngerEnd)
		b.expectDeadLetter(dead, 1, b.ttl, older, youngerEnd)
		return
	}
	b.expectDeadLetter(dead, 1, b.ttl, older, olderEnd)
	b.expectDeadLetter(dead, 2, b.ttl, younger, youngerEnd)
}
