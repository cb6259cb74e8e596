package simbroker

import (
	"context"
	"slices"

	"handoff/core/broker"
	"handoff/sim/kernel"
)

// subscription is the client's end of a consumer.
type subscription struct {
	s        *session
	queue    string
	consumer *consumer // at the broker; nil until it has accepted

	buffer    []*broker.Delivery // received from the network, not yet by the program; oldest first
	waiters   []kernel.Wait
	cancelled bool
	abandoned bool // nobody will ever read it
}

// receive is a delivery's arrival at the client.
func (sub *subscription) receive(d *broker.Delivery) {
	if sub.abandoned {
		sub.giveBack(d)
		return
	}
	sub.buffer = append(sub.buffer, d)
	sub.wake()
}

// wake lets all that wait look again; who finds nothing goes on waiting.
func (sub *subscription) wake() {
	for _, w := range sub.waiters {
		w.Done()
	}
	sub.waiters = sub.waiters[:0]
}

// cancelledByServer is basic.cancel's arrival at the client.
func (sub *subscription) cancelledByServer() {
	sub.cancelled = true
	sub.wake()
}

// Receive implements broker.Consumer. What is in the buffer comes before ErrCancelled, and, by a draw
// for each session that was lost, before ErrClosed.
func (sub *subscription) Receive(ctx context.Context) (broker.Delivery, error) {
	k := sub.s.b.k
	k.CheckAlive()
	k.Point()
	for {
		switch {
		case len(sub.buffer) > 0:
			d := sub.buffer[0]
			sub.buffer = slices.Delete(sub.buffer, 0, 1)
			return *d, nil
		case sub.s.closed:
			return broker.Delivery{}, broker.ErrClosed
		case sub.cancelled:
			return broker.Delivery{}, broker.ErrCancelled
		}
		w := k.NewWait()
		sub.waiters = append(sub.waiters, w)
		if err := w.Await(ctx); err != nil {
			sub.waiters = slices.DeleteFunc(sub.waiters, func(other kernel.Wait) bool { return other == w })
			return broker.Delivery{}, err
		}
	}
}

// owns says whether a delivery can be settled: its session is this one and open. Another's belongs to
// the broker again.
func (s *session) owns(d broker.Delivery) bool {
	return !s.closed && d.Tag>>tagBits == s.peer.number
}

// Ack implements broker.Consumer. A delivery of a session that has ended is left alone.
func (sub *subscription) Ack(d broker.Delivery) {
	s := sub.s
	s.b.k.CheckAlive()
	if s.owns(d) {
		tag := d.Tag
		s.conn.SendToServer(func() { s.peer.ack(tag) })
	}
}

// Reject implements broker.Consumer. A delivery of a session that has ended is left alone.
func (sub *subscription) Reject(d broker.Delivery, requeue bool) {
	s := sub.s
	s.b.k.CheckAlive()
	if s.owns(d) {
		tag := d.Tag
		s.conn.SendToServer(func() { s.peer.reject(tag, requeue) })
	}
}

// giveBack requeues what nobody will read.
func (sub *subscription) giveBack(d *broker.Delivery) {
	s := sub.s
	s.conn.SendToServer(func() { s.peer.reject(d.Tag, true) })
}

// Cancel implements broker.Consumer. Afterwards Receive empties the buffer and then returns
// ErrCancelled.
func (sub *subscription) Cancel(ctx context.Context) error {
	return sub.s.ask(ctx, func() error {
		sub.s.peer.cancel(sub.consumer)
		sub.s.conn.SendToClient(sub.cancelledByServer)
		return nil
	}, nil)
}
