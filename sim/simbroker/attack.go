package simbroker

import (
	"errors"

	"handoff/chaos/history"
	"handoff/core/broker"
)

// Attacker is the name, in the history, of a publisher that is not part of the system.
const Attacker = "attacker"

// Forged is a message that an attacker publishes.
type Forged struct {
	// Envelope is the message's content. With Garbage set, nobody can read it.
	Envelope broker.Envelope
	Garbage  bool
	// Hostile says that it has an x-death header that the broker did not write.
	Hostile bool
	// Size is the length of the body in bytes; 0 for the usual length.
	Size int
	// Fault names the fault behind it.
	Fault string
}

// Forge puts a message from outside the system into a queue. It returns false if the broker is down
// or has no such queue. The history does not contain the content, because it is not about an
// execution.
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

// errHostile is the error that a consumer gets for an x-death header that the broker did not write.
var errHostile = errors.New("message header x-death is not one that the broker has written")

// errInternal is RabbitMQ's answer to a declaration while its dead lettering stands still (541). It
// closes the connection.
var errInternal = errors.New("internal error")

// poisoned says that a message with a hostile x-death header has died and is still in its queue.
// RabbitMQ 3.10 then ends its dead letter worker, again at each attempt. So nothing of the whole
// node is dead-lettered any more, and no queue can be declared
// (chaos/selftest/conformance/rabbitmqtest.TestHostileHeaderStopsDeadLettering). A restart begins with
// another attempt, so it helps only after the queue with the message was deleted. From 4.0 on, the
// broker keeps the deaths of a message beside its headers, and replaces a foreign x-death without
// reading it.
func (b *Broker) poisoned() bool { return b.stuck }

// poisons says that the death of this message ends dead lettering.
func (m *message) poisons(b *Broker) bool { return m.hostile && b.like.readsDeaths && !b.stuck }

// heal is the effect of a restart. Dead lettering works again, unless a queue still holds a hostile
// message: the broker tries it first, so dead lettering stops again at once.
func (b *Broker) heal() {
	b.stuck = false
	for _, q := range b.queues {
		for _, m := range q.held {
			b.stuck = b.stuck || m.hostile && b.like.readsDeaths
		}
	}
}
