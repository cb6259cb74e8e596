package simbroker

import (
	"context"
	"slices"

	"handoff/core/broker"
	"handoff/sim/kernel"
	"handoff/sim/simnet"
)

// subscription is the client's end of a consumer.
type subscription struct {
	s        *session
	queue    string
	consumer *consumer // at the broker; nil until it has accepted

	buffer    []*arrival // received from the network but not by the program, oldest first
	waiters   []kernel.Wait
	cancelled bool
	abandoned bool // the program will never read from it
}

// arrival is a delivery in transit to the client or in its buffer.
type arrival struct {
	broker.Delivery
	sub    *subscription
	strand kernel.Strand // of its arrival
}

// Arrive implements simnet.Frame. The client has forgotten a cancelled consumer: it drops deliveries that
// still arrive for it, so they stay unsettled.
func (a *arrival) Arrive() {
	sub := a.sub
	switch {
	case sub.abandoned:
		sub.requeueDelivery(a)
		return
	case sub.cancelled:
		return
	}
	a.strand = sub.s.b.k.Strand()
	sub.buffer = append(sub.buffer, a)
	sub.wakeWaiters()
}

// wakeWaiters wakes all waiting tasks; a task that finds no delivery waits again.
func (su *subscription) wakeWaiters() {
	for _, w := range su.waiters {
		w.Done()
	}
	su.waiters = su.waiters[:0]
}

// cancelledByServer handles the arrival of basic.cancel at the client.
func (su *subscription) cancelledByServer() {
	su.cancelled = true
	su.wakeWaiters()
}

// Receive implements broker.Consumer. Deliveries in the buffer come before ErrCancelled, and,
// depending on a draw for each lost session, before ErrClosed.
func (su *subscription) Receive(ctx context.Context) (broker.Delivery, error) {
	k := su.s.b.k
	k.CheckAlive()
	k.Point()
	for {
		switch {
		case len(su.buffer) > 0:
			d := su.buffer[0]
			su.buffer = slices.Delete(su.buffer, 0, 1)
			k.Meet(d.strand)
			got := d.Delivery
			su.s.b.spareArrivals.putSpare(d)
			return got, nil
		case su.s.closed:
			return broker.Delivery{}, broker.ErrClosed
		case su.cancelled:
			return broker.Delivery{}, broker.ErrCancelled
		}
		w := k.NewWait()
		su.waiters = append(su.waiters, w)
		if err := w.Await(ctx); err != nil {
			su.waiters = slices.DeleteFunc(su.waiters, func(other kernel.Wait) bool { return other == w })
			return broker.Delivery{}, err
		}
	}
}

// ownsDelivery reports whether a delivery can be settled: the session is open, and the delivery belongs to
// it. A delivery of another session has been requeued.
func (s *session) ownsDelivery(d broker.Delivery) bool {
	return !s.closed && d.Tag>>tagBits == s.peer.number
}

// settlement is an acknowledgement or a rejection in transit to the broker.
type settlement struct {
	peer *peer
	tag  uint64
	how  settlementKind
}

// Arrive implements simnet.Frame.
func (s *settlement) Arrive() {
	of := *s
	of.peer.b.spareSettlements.putSpare(s)
	of.peer.handleSettlement(of.tag, of.how)
}

// sendSettlement sends a settlement to the broker.
func (s *session) sendSettlement(tag uint64, how settlementKind) {
	one := s.b.spareSettlements.takeSpare()
	one.peer, one.tag, one.how = s.peer, tag, how
	s.conn.SendToServer(one)
}

// Ack implements broker.Consumer. It ignores a delivery of a session that has ended.
func (su *subscription) Ack(d broker.Delivery) {
	s := su.s
	s.b.k.CheckAlive()
	if s.ownsDelivery(d) {
		s.sendSettlement(d.Tag, byAck)
	}
}

// Reject implements broker.Consumer. It ignores a delivery of a session that has ended.
func (su *subscription) Reject(d broker.Delivery, requeue bool) {
	s := su.s
	s.b.k.CheckAlive()
	if s.ownsDelivery(d) {
		how := byReject
		if requeue {
			how = byRequeue
		}
		s.sendSettlement(d.Tag, how)
	}
}

// requeueDelivery requeues a delivery that the program will never read.
func (su *subscription) requeueDelivery(d *arrival) {
	su.s.sendSettlement(d.Tag, byRequeue)
}

// Cancel implements broker.Consumer. Afterwards Receive empties the buffer and then returns
// ErrCancelled.
func (su *subscription) Cancel(ctx context.Context) error {
	return su.s.sendDeferredRequest(ctx, func(answer func()) { su.s.b.queueNamed(su.queue).runWhenResumed(answer, nil) }, func() error {
		su.s.peer.removeConsumer(su.consumer)
		su.s.conn.SendToClient(simnet.FrameFunc(su.cancelledByServer))
		return nil
	}, nil)
}
