package worker

import (
	"sync"
	"time"

	"handoff/core/broker"
)

// message is one message of the worker's queue. It may be a block, which carries many dispatches. The broker
// knows only the message, so it is settled once, when the fate of all its dispatches is known:
//
//   - It is acknowledged when each of its dispatches is claimed, or is futile and does not need the dead
//     letter handler.
//   - It is rejected as soon as one of its dispatches needs the dead letter handler. The handler judges each
//     dispatch and skips those that run. All dispatches of a block have the same timeout and come from one
//     statement, so if one is too late, the waiting ones are too.
type message struct {
	consumer broker.Consumer
	delivery broker.Delivery

	mu sync.Mutex
	// open is the number of parts whose fate is not known yet.
	open    int
	settled bool
}

func newMessage(c broker.Consumer, d broker.Delivery) *message {
	return &message{consumer: c, delivery: d, open: len(d.Envelope.Dispatches) + len(d.Envelope.Unread)}
}

// ack settles one part of the message. After the last part it acknowledges the message.
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

// delivery is one received dispatch.
type delivery struct {
	*broker.Dispatch
	// message is the message that brought the dispatch, nil if the worker found it as a row.
	message *message
	// since is when the dispatch arrived, on the monotonic clock.
	since time.Duration
}

// ack settles the dispatch's part of its message: the dispatch no longer needs it.
func (d delivery) ack() {
	if d.message != nil {
		d.message.ack()
	}
}

// reject sends the dispatch's message to the dead letter handler.
func (d delivery) reject() {
	if d.message != nil {
		d.message.reject()
	}
}
