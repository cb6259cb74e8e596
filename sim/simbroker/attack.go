package simbroker

import (
	"errors"

	"handoff/chaos/history"
	"handoff/core/broker"
)

// Attacker is who publishes what no part of the system has sent, in the history.
const Attacker = "attacker"

// Forged is a message that an attacker publishes.
type Forged struct {
	// Envelope is what it says. Nobody can read it where Garbage is set.
	Envelope broker.Envelope
	Garbage  bool
	// Hostile says that it carries an x-death header that the broker did not write.
	Hostile bool
	// Size is the length of the body in bytes; 0 for one of the usual length.
	Size int
	// Fault names whoever does it.
	Fault string
}

// Forge puts a message into a queue that somebody else than the system has published. It returns false if the broker is
// down or has no such queue. The history tells nothing of what the message says: it is about no execution.
func (b *Broker) Forge(queue string, f Forged) bool {
	q := b.queue(queue)
	if !b.up || q == nil {
		return false
	}
	b.lastMessage++
	m := &message{id: b.lastMessage, envelope: &f.Envelope, key: queue, forged: true, hostile: f.Hostile, size: f.Size, stored: true}
	if f.Garbage || f.Hostile {
		m.corrupt = f.Fault
	}
	b.touched(f.Fault, m, queue)
	b.tell(history.Published, m, "", Attacker, "", 1)
	q.push(m)
	return true
}

// errHostile is what a consumer is told of an x-death header that the broker did not write.
var errHostile = errors.New("message header x-death is not one that the broker has written")

// errInternal is RabbitMQ's answer to a declaration while its dead lettering stands still (541). It closes the connection.
var errInternal = errors.New("internal error")

// poisoned says that a message with a hostile x-death header has died, and is still where it did. RabbitMQ 3.10 then ends
// its worker for dead letters, again at each attempt, so that nothing of the whole node is dead-lettered any more and no
// queue can be made (chaos/conformance/rabbitmqtest.TestAHostileHeaderEndsDeadLettering). A restart begins with another
// attempt: it helps only after the queue with the message was deleted. From 4.0 on the broker keeps the deaths of a message
// beside its headers, and replaces an x-death that somebody else has written without reading it.
func (b *Broker) poisoned() bool { return b.stuck }

// poisons says that the death of a message is the one that ends dead lettering.
func (m *message) poisons(b *Broker) bool { return m.hostile && b.like.readsDeaths && !b.stuck }

// heal is what a restart does: dead lettering works until a queue tries the message again.
func (b *Broker) heal() {
	b.stuck = false
	for _, q := range b.queues {
		for _, m := range q.held {
			b.stuck = b.stuck || m.hostile && b.like.readsDeaths
		}
	}
}
