package simbroker

import (
	"errors"

	"handoff/chaos/history"
	"handoff/core/broker"
)

// Attacker is the name that the history gives to a publisher outside the system.
const Attacker = "attacker"

// Forged is a message that an attacker publishes.
type Forged struct {
	// Envelope is the content of the message. Garbage makes it unreadable.
	Envelope broker.Envelope
	Garbage  bool
	// Hostile reports whether the message has an x-death header that the broker did not write.
	Hostile bool
	// Size is the length of the body in bytes; 0 for the usual length.
	Size int
	// Fault is the name of the fault that forges the message.
	Fault string
}

// Forge puts a message from outside the system into a queue. It returns false if the broker is down or has
// no such queue. The history does not contain its content, because no execution is involved.
func (b *Broker) Forge(queue string, f Forged) bool {
	q := b.queueNamed(queue)
	if !b.up || q == nil {
		return false
	}
	b.lastMessage++
	m := &message{id: b.lastMessage, envelope: &f.Envelope, key: queue, forged: true, hostile: f.Hostile, size: f.Size, stored: true}
	if f.Garbage || f.Hostile {
		m.corrupt = f.Fault
	}
	b.reportTouch(f.Fault, m, queue)
	b.emitMessageEvent(history.Published, m, "", Attacker, "", 1)
	q.enqueueMessage(m)
	return true
}

// errHostile is the error that a consumer gets for an x-death header that the broker did not write.
var errHostile = errors.New("message header x-death is not one that the broker has written")

// errInternal is RabbitMQ's reply (541) to a declaration while dead lettering has stopped. It closes the
// connection.
var errInternal = errors.New("internal error")

// isPoisoned reports whether a message with a hostile x-death header has died and is still in its queue.
// RabbitMQ 3.10 then stops its dead letter worker, at each attempt. So the whole node dead-letters nothing,
// and no queue can be declared
// (chaos/selftest/conformance/rabbitmqtest.TestHostileHeaderStopsDeadLettering). A restart begins with
// another attempt, so it helps only after the deletion of the queue with the message. From 4.0 on, the
// broker stores the deaths of a message apart from its headers, and replaces a foreign x-death unread.
func (b *Broker) isPoisoned() bool { return b.stuck }

// poisonsBroker reports whether the death of this message stops dead lettering.
func (m *message) poisonsBroker(b *Broker) bool { return m.hostile && b.like.readsDeaths && !b.stuck }

// resetDeadLettering models the effect of a restart on dead lettering. Dead lettering resumes, unless a queue
// still holds a hostile message: the broker retries that first, so dead lettering stops at once.
func (b *Broker) resetDeadLettering() {
	b.stuck = false
	for _, q := range b.queues {
		for _, m := range q.held {
			b.stuck = b.stuck || m.hostile && b.like.readsDeaths
		}
	}
}
