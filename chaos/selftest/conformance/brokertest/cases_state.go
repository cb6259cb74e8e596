package brokertest

import (
	"time"

	"handoff/core/broker"
)

// stateCases are about the reported state of a queue, and about queues that delete themselves.
func stateCases() []Case {
	return []Case{
		{Name: "a queue's state counts waiting messages and consumers", body: queueStates},
		{Name: "the state of a queue that does not exist is that, and the session stays open", Types: either, body: func(b *fixture) {
			s := b.openSession()
			b.declareQueue(s)
			b.expectQueueState(s, "none", broker.QueueState{})
			b.expect("the session is closed", s.Closed(), false)
			b.enqueueMessages(s, 1)
			b.expectQueueState(s, "q", broker.QueueState{Exists: true, Ready: 1})
		}},
		{Name: "a queue that expires is deleted when it has not been used for its time", body: func(b *fixture) {
			s := b.openSession()
			q := b.queueNamed("q")
			q.Expires = expires
			b.declareTopology(s, broker.Topology{Queues: []broker.Queue{q, b.queueNamed("stays")}})
			b.enqueueMessages(s, 1)
			b.Sleep(expires / 2)
			b.expectQueueState(s, "q", broker.QueueState{Exists: true, Ready: 1})
			b.Sleep(b.expiryDelay())
			b.expectQueueState(s, "q", broker.QueueState{})
			b.expectQueueState(s, "stays", broker.QueueState{Exists: true})
		}},
		{Name: "a queue that expires stays as long as it is consumed, and is deleted after that", body: func(b *fixture) {
			s := b.openSession()
			q := b.queueNamed("q")
			q.Expires = expires
			b.declareTopology(s, broker.Topology{Queues: []broker.Queue{q}})
			c := b.startConsumer(s, "q", 1)
			b.Sleep(b.expiryDelay())
			b.enqueueMessages(s, 1)
			c.Ack(b.receiveDelivery(c))
			b.cancelConsumer(c)
			b.Sleep(b.expiryDelay())
			b.expectQueueState(s, "q", broker.QueueState{})
		}},
	}
}

// expires is a time that is short for a suite and long for a broker.
const expires = time.Second

// expiryDelay is the time after which an unused queue that expires is gone. The broker checks its quorum
// queues every 5 seconds.
func (f *fixture) expiryDelay() time.Duration {
	if f.queueType == Quorum {
		return expires + 6*time.Second
	}
	return 2*expires + f.Pause
}

func queueStates(b *fixture) {
	s := b.openSession()
	b.declareQueue(s)
	b.expectQueueState(s, "q", broker.QueueState{Exists: true})
	b.enqueueMessages(s, 1, 2, 3)
	b.expectQueueState(s, "q", broker.QueueState{Exists: true, Ready: 3})
	c := b.startConsumer(s, "q", 2)
	held := b.holdDeliveries(c, 2)
	// Two are held unacknowledged and so not ready. Another session sees the same.
	b.expectQueueState(b.openSession(), "q", broker.QueueState{Exists: true, Ready: 1, Consumers: 1})
	c.Ack(held[0])
	c.Reject(held[1], true)
	held = b.holdDeliveries(c, 2)
	b.letBrokerSettle()
	b.expectQueueState(s, "q", broker.QueueState{Exists: true, Consumers: 1})
	b.cancelConsumer(c)
	// A quorum queue counts a cancelled consumer as long as that consumer holds a delivery.
	left := map[string]int{Quorum: 1}[b.queueType]
	b.expectQueueState(s, "q", broker.QueueState{Exists: true, Consumers: left})
	for _, d := range held {
		c.Ack(d)
	}
	b.letBrokerSettle()
	b.expectQueueState(s, "q", broker.QueueState{Exists: true})
}

// expectQueueState expects a state of a queue.
func (f *fixture) expectQueueState(s broker.Session, queue string, want broker.QueueState) {
	f.t.Helper()
	got, err := s.QueueState(f.ctx, f.objectName(queue))
	f.must(err)
	f.expect("the state of "+queue, got, want)
}
