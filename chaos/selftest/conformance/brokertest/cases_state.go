package brokertest

import (
	"time"

	"handoff/core/broker"
)

// stateCases are about the reported state of a queue, and about queues that delete themselves.
func stateCases() []Case {
	return []Case{
		{Name: "a queue's state counts what waits and who consumes", body: queueStates},
		{Name: "the state of a queue that does not exist is that, and the session stays open", Types: either, body: func(b *fixture) {
			s := b.session()
			b.plain(s)
			b.state(s, "none", broker.QueueState{})
			b.expect("the session is closed", s.Closed(), false)
			b.put(s, 1)
			b.state(s, "q", broker.QueueState{Exists: true, Ready: 1})
		}},
		{Name: "a queue that expires goes when nobody has used it for its time", body: func(b *fixture) {
			s := b.session()
			q := b.queue("q")
			q.Expires = expires
			b.declare(s, broker.Topology{Queues: []broker.Queue{q, b.queue("stays")}})
			b.put(s, 1)
			b.Sleep(expires / 2)
			b.state(s, "q", broker.QueueState{Exists: true, Ready: 1})
			b.Sleep(b.gone())
			b.state(s, "q", broker.QueueState{})
			b.state(s, "stays", broker.QueueState{Exists: true})
		}},
		{Name: "a queue that expires stays as long as it is consumed, and goes after that", body: func(b *fixture) {
			s := b.session()
			q := b.queue("q")
			q.Expires = expires
			b.declare(s, broker.Topology{Queues: []broker.Queue{q}})
			c := b.consume(s, "q", 1)
			b.Sleep(b.gone())
			b.put(s, 1)
			c.Ack(b.receive(c))
			b.cancel(c)
			b.Sleep(b.gone())
			b.state(s, "q", broker.QueueState{})
		}},
	}
}

// expires is a time that is short for a suite and long for a broker.
const expires = time.Second

// gone is the time after which an unused queue that expires is gone. The broker checks its quorum
// queues every 5 seconds.
func (f *fixture) gone() time.Duration {
	if f.queueType == Quorum {
		return expires + 6*time.Second
	}
	return 2*expires + f.Pause
}

func queueStates(b *fixture) {
	s := b.session()
	b.plain(s)
	b.state(s, "q", broker.QueueState{Exists: true})
	b.put(s, 1, 2, 3)
	b.state(s, "q", broker.QueueState{Exists: true, Ready: 3})
	c := b.consume(s, "q", 2)
	held := b.hold(c, 2)
	// Two are held unacknowledged and so not ready. Another session sees the same.
	b.state(b.session(), "q", broker.QueueState{Exists: true, Ready: 1, Consumers: 1})
	c.Ack(held[0])
	c.Reject(held[1], true)
	held = b.hold(c, 2)
	b.settled()
	b.state(s, "q", broker.QueueState{Exists: true, Consumers: 1})
	b.cancel(c)
	// A quorum queue counts a cancelled consumer as long as that holds a delivery.
	left := map[string]int{Quorum: 1}[b.queueType]
	b.state(s, "q", broker.QueueState{Exists: true, Consumers: left})
	for _, d := range held {
		c.Ack(d)
	}
	b.settled()
	b.state(s, "q", broker.QueueState{Exists: true})
}

// state expects a state of a queue.
func (f *fixture) state(s broker.Session, queue string, want broker.QueueState) {
	f.t.Helper()
	got, err := s.QueueState(f.ctx, f.called(queue))
	f.must(err)
	f.expect("the state of "+queue, got, want)
}
