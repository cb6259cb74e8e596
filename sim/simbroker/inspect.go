package simbroker

import (
	"time"

	"handoff/core/broker"
)

// Depth is the number of messages in one queue.
type Depth struct {
	Queue string
	// Ready is the number of messages that can be delivered. Unacked were delivered and are not settled. Held
	// are dead letters that wait for a route (rule 41).
	Ready, Unacked, Held int
}

// Total returns the number of all messages of the queue.
func (d Depth) Total() int { return d.Ready + d.Unacked + d.Held }

// Depths returns all queues, sorted by name.
func (b *Broker) Depths() []Depth {
	all := make([]Depth, 0, len(b.queues))
	for _, q := range b.queues {
		all = append(all, q.currentDepth())
	}
	return all
}

// Depth returns the depth of one queue, and false if no queue has that name.
func (b *Broker) Depth(queue string) (Depth, bool) {
	q := b.queueNamed(queue)
	if q == nil {
		return Depth{Queue: queue}, false
	}
	return q.currentDepth(), true
}

func (q *queue) currentDepth() Depth {
	return Depth{Queue: q.decl.Name, Ready: q.readyCount(), Unacked: q.unacked, Held: len(q.held)}
}

// Idle reports whether nothing is left to do: every queue is empty, no publish is in progress or held back,
// and no filter delays a message. A session whose end the broker has not detected may still count as a
// publish in progress.
func (b *Broker) Idle() bool {
	for _, q := range b.queues {
		if q.currentDepth().Total() > 0 {
			return false
		}
	}
	for _, p := range b.peers {
		if p.s.sent != p.received {
			return false
		}
	}
	return len(b.delayed) == 0
}

// Sessions returns the number of sessions that the broker considers open.
func (b *Broker) Sessions() int { return len(b.peers) }

// Stored is one message that is ready in a queue.
type Stored struct {
	Message     uint64
	RoutingKey  string
	Envelope    *broker.Envelope // must not be changed
	Redelivered bool
	Deliveries  int
	Deaths      []broker.Death // must not be changed
	// Expires is the true time at which the message expires, or 0 if it does not.
	Expires time.Duration
}

// Ready returns the ready messages of a queue, in order, or none if there is no such queue.
func (b *Broker) Ready(queue string) []Stored {
	q := b.queueNamed(queue)
	if q == nil {
		return nil
	}
	all := make([]Stored, 0, q.readyCount())
	for _, m := range q.ready[q.head:] {
		expires := m.expires
		if expires == never {
			expires = 0
		}
		all = append(all, Stored{
			Message: m.id, RoutingKey: m.key, Envelope: m.envelope, Redelivered: m.redelivered,
			Deliveries: m.deliveries, Deaths: m.deaths, Expires: expires,
		})
	}
	return all
}
