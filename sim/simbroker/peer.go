package simbroker

import (
	"fmt"
	"slices"
	"time"

	"handoff/chaos/history"
	"handoff/core/broker"
	"handoff/sim/kernel"
	"handoff/sim/simnet"
)

// peer is the broker's end of a session.
type peer struct {
	b       *Broker
	conn    *simnet.Conn
	s       *session
	process string

	consumers []*consumer
	unacked   []unsettledDelivery // by tag
	takenBack []unsettledDelivery // overdue deliveries that are not settled yet, oldest first
	number    uint64              // unique among sessions
	lastTag   uint64
	received  uint64 // publishes
	lastHeard time.Duration
	closed    bool

	watching kernel.Timer // for deliveries that stay unacknowledged
	watches  bool
}

// unsettledDelivery is a delivery that the client has not acknowledged.
type unsettledDelivery struct {
	tag uint64
	m   *message
	c   *consumer
	at  time.Duration
}

// A delivery's tag combines the session's number, in the high bits, with its number in the session, as the
// real client makes it. AMQP counts from 1 in every session, so the bare number of an old session would
// settle another session's message.
const tagBits = 44

// consumer is the broker's end of a subscription.
type consumer struct {
	p        *peer
	q        *queue
	sub      *subscription
	prefetch int
	unacked  int
	overdue  int // number of its entries in the peer's takenBack; the queue delivers nothing to it while there are any
}

// acceptSession opens the broker's end of a session.
func (b *Broker) acceptSession(s *session) {
	s.conn = b.net.Stream(s.p, b.opts.Name)
	b.lastPeer++
	p := &peer{b: b, conn: s.conn, s: s, process: s.p.Name(), number: b.lastPeer, lastHeard: b.k.Now()}
	s.peer = p
	s.conn.OnServerClosed(p.close)
	s.conn.OnClientClosed(s.endRemotely)
	b.peers = append(b.peers, p)
	if b.alarm {
		p.notifyBlocked(true)
	}
	s.startHeartbeat()
}

func (p *peer) notifyBlocked(on bool) {
	p.conn.SendToClient(simnet.FrameFunc(func() { p.s.blocked = on }))
}

// close ends the session at the broker. All unsettled messages are requeued first; only then may they be
// delivered to others or die (rules 12 and 28).
func (p *peer) close() {
	if p.closed {
		return
	}
	p.closed = true
	p.watching.Stop()
	p.conn.CloseServer()
	b := p.b
	b.peers = slices.DeleteFunc(b.peers, func(other *peer) bool { return other == p })
	b.stalled = slices.DeleteFunc(b.stalled, func(s *publish) bool { return s.peer == p })
	for _, c := range p.consumers {
		c.q.dropConsumer(c)
	}
	p.consumers = nil
	var queues []*queue
	for _, u := range p.unacked {
		q := u.m.queue
		if q.deleted {
			continue
		}
		if q.stall != nil {
			back := func() { q.requeueMessage(u.m, p.process, bySessionEnd) }
			q.runWhenResumed(back, back)
			continue
		}
		q.requeueMessage(u.m, p.process, bySessionEnd)
		if !slices.Contains(queues, q) {
			queues = append(queues, q)
		}
	}
	p.unacked, p.takenBack = nil, nil
	for _, q := range queues {
		q.deliverReady()
	}
}

// addConsumer adds a consumer; the caller calls deliverReady once the client was notified.
func (p *peer) addConsumer(sub *subscription, prefetch int) (*consumer, error) {
	q := p.b.queueNamed(sub.queue)
	if q == nil {
		return nil, fmt.Errorf("consume: queue %s %w", sub.queue, errNotFound)
	}
	c := &consumer{p: p, q: q, sub: sub, prefetch: prefetch}
	p.consumers = append(p.consumers, c)
	q.consumers = append(q.consumers, c)
	return c, nil
}

// removeConsumer stops new deliveries; unsettled ones stay with the session (rule 27).
func (p *peer) removeConsumer(c *consumer) {
	p.consumers = slices.DeleteFunc(p.consumers, func(other *consumer) bool { return other == c })
	c.q.dropConsumer(c)
}

func (q *queue) dropConsumer(c *consumer) {
	q.consumers = slices.DeleteFunc(q.consumers, func(other *consumer) bool { return other == c })
	q.restartExpiry()
}

// cancelledByServer sends basic.cancel to the client; the session stays open (rule 32).
func (c *consumer) cancelledByServer() {
	c.p.consumers = slices.DeleteFunc(c.p.consumers, func(other *consumer) bool { return other == c })
	c.p.conn.SendToClient(simnet.FrameFunc(c.sub.cancelledByServer))
}

// deliverMessage sends a message to the consumer. From here on it can't expire (rule 11).
func (c *consumer) deliverMessage(m *message) {
	p := c.p
	p.lastTag++
	tag := p.number<<tagBits | p.lastTag
	p.unacked = append(p.unacked, unsettledDelivery{tag: tag, m: m, c: c, at: p.b.k.Now()})
	p.watchUnacked()
	c.unacked++
	c.q.unacked++
	p.b.emitMessageEvent(history.Delivered, m, c.q.decl.Name, p.process, "", m.handledEnds())
	d := p.b.spareArrivals.takeSpare()
	d.sub, d.Tag, d.RoutingKey, d.Redelivered, d.Deaths = c.sub, tag, m.key, m.redelivered, m.deaths
	m.fillDelivery(&d.Delivery)
	p.conn.SendToClient(d)
}

// handleSettlement handles the arrival of an acknowledgement or a rejection. A tag that is not open closes
// the session: settling twice, or settling a delivery of another session, is a violation (rule 26).
func (p *peer) handleSettlement(tag uint64, how settlementKind) {
	i, ok := slices.BinarySearchFunc(p.unacked, tag, func(u unsettledDelivery, tag uint64) int {
		switch {
		case u.tag < tag:
			return -1
		case u.tag > tag:
			return 1
		}
		return 0
	})
	if !ok {
		if !p.settleTakenBack(tag) {
			p.close()
		}
		return
	}
	u := p.unacked[i]
	p.unacked = slices.Delete(p.unacked, i, i+1)
	u.c.unacked--
	if u.m.queue.deleted {
		return
	}
	if u.m.queue.stall == nil {
		p.applySettlement(u.m, how)
		return
	}
	u.m.queue.runWhenResumed(func() { p.applySettlement(u.m, how) }, func() { u.m.queue.requeueMessage(u.m, p.process, bySessionEnd) })
}

// settlementKind is the way in which a consumer settles a delivery.
type settlementKind uint8

const (
	byAck settlementKind = iota
	byReject
	byRequeue
)

// applySettlement applies a settlement to the queue of the message.
func (p *peer) applySettlement(m *message, how settlementKind) {
	q := m.queue
	switch how {
	case byAck:
		q.unacked--
		p.b.emitMessageEvent(history.Acked, m, q.decl.Name, p.process, m.corrupt, 0)
	case byReject:
		q.unacked--
		q.deadLetterOrDrop(m, broker.DeathRejected)
	case byRequeue:
		q.requeueMessage(m, p.process, byConsumer)
	}
	q.deliverReady()
}
