package worker

import (
	"sync"

	"handoff/core/broker"
)

// message is one message of the worker's queue. It may be a block, which carries many dispatches. The broker knows only the
// message, so it is settled once, when it is known what becomes of all that it carries:
//
//   - It is acknowledged after each of its dispatches is claimed, or has come to nothing in a way that needs nobody.
//   - It is rejected as soon as one of its dispatches needs the dead letter handler, which judges each dispatch of it and
//     passes over those that run. All of a block have the same dispatch timeout and were dispatched by one statement, so
//     where one comes too late, those that wait beside it do too.
type message struct {
	consumer broker.Consumer
	delivery broker.Delivery

	mu sync.Mutex
	// open counts what it carries that nobody has answered for yet.
	open    int
	settled bool
}

func newMessage(c broker.Consumer, d broker.Delivery) *message {
	return &message{consumer: c, delivery: d, open: len(d.Envelope.Dispatches) + len(d.Envelope.Unread)}
}

// ack answers for one of the things that the message carries, and acknowledges the message with the last of them.
func (m *message) ack() {
	m.mu.Lock()
	m.open--
	last := m.open == 0 && !m.settled
	m.settled = m.settled || last
	m.mu.Unlock()
	if last {
		m.consumer.Ack(m.delivery)
	}
}

// reject sends the message to the dead letter handler, once.
func (m *message) reject() {
	m.mu.Lock()
	first := !m.settled
	m.settled = true
	m.mu.Unlock()
	if first {
		m.consumer.Reject(m.delivery, false)
	}
}

// delivery is one dispatch, and the message that brought it: nil for one that came without, of which a row has told.
type delivery struct {
	*broker.Dispatch
	message *message
}

// ack says that the dispatch needs its message no longer.
func (d delivery) ack() {
	if d.message != nil {
		d.message.ack()
	}
}

// reject says that the dispatch needs the dead letter handler.
func (d delivery) reject() {
	if d.message != nil {
		d.message.reject()
	}
}
