package simbroker

import (
	"slices"
	"time"

	"handoff/chaos/history"
	"handoff/sim/simnet"
)

// consumerTick is how often a channel of RabbitMQ checks whether its oldest delivery is overdue.
const consumerTick = time.Minute

// SetConsumerTimeout changes how long a delivery may stay unacknowledged, in all sessions; 0 means as in
// the options. It calls touch, which may be nil, for each overdue delivery. On a real broker a change needs
// new connections, because RabbitMQ reads the setting when a channel is opened, and from 4.3 on when a
// consumer begins. Here it applies at once, and no session ends. Before 4.3 a channel detects an overdue
// delivery up to tick late; from 4.3 on the queue detects it at once.
func (b *Broker) SetConsumerTimeout(d, tick time.Duration, touch func()) {
	if d == 0 {
		d, tick = b.opts.ConsumerTimeout, consumerTick
	}
	b.consumerTimeout, b.consumerTick, b.timedOut = d, tick, touch
	b.watchAll()
}

// watchAll restarts, in all sessions, the timeout of the delivery that is overdue next.
func (b *Broker) watchAll() {
	for _, p := range b.peers {
		p.watching.Stop()
		p.watches = false
		p.watchUnacked()
	}
}

// watchUnacked arms the timeout of a delivery that stays unacknowledged. Before 4.3 RabbitMQ closes the
// channel with 406 at the first of its ticks after the timeout, and the client ends the session. From 4.3
// on a quorum queue requeues the delivery and cancels the consumer (takeBackOverdue), and a classic queue
// waits forever.
func (p *peer) watchUnacked() {
	if p.watches {
		return
	}
	b := p.b
	i := slices.IndexFunc(p.unacked, b.canTimeOut)
	if i < 0 {
		return
	}
	look := p.checkOldestDelivery
	if b.like.queuesTimeOut {
		look = p.takeBackOverdue
	}
	p.watches = true
	p.watching = b.k.After(max(0, p.unacked[i].at+b.consumerTimeout-b.k.Now()), look)
}

// canTimeOut reports whether an unacknowledged delivery can time out. A hanging quorum queue checks this
// when it resumes.
func (b *Broker) canTimeOut(u unsettledDelivery) bool {
	q := u.m.queue
	return !b.like.queuesTimeOut || q.decl.Type == typeQuorum && !q.deleted && q.stall == nil
}

// checkOldestDelivery schedules the end of the session if the oldest delivery is overdue.
func (p *peer) checkOldestDelivery() {
	p.watches = false
	if p.closed || len(p.unacked) == 0 {
		return
	}
	b := p.b
	u := p.unacked[0]
	if b.k.Now()-u.at < b.consumerTimeout {
		p.watchUnacked()
		return
	}
	p.watches = true
	p.watching = b.k.After(b.k.Stream("broker/consumer-tick").Duration(0, b.consumerTick), func() {
		p.watches = false
		switch {
		case p.closed || len(p.unacked) == 0:
		case p.unacked[0].tag != u.tag:
			p.watchUnacked()
		default:
			p.closeForOverdue(u)
		}
	})
}

// closeForOverdue ends the session because of an overdue delivery.
func (p *peer) closeForOverdue(u unsettledDelivery) {
	p.reportOverdue(u, false)
	p.close()
}

// reportOverdue reports an overdue delivery. cancels reports whether the broker cancels its consumer
// instead of ending its session.
func (p *peer) reportOverdue(u unsettledDelivery, cancels bool) {
	b := p.b
	if b.timedOut != nil {
		b.timedOut()
	}
	e := history.Event{Kind: history.ConsumerTimedOut, Process: p.process, Queue: u.m.queue.decl.Name, Due: b.k.Now() - u.at}
	if cancels {
		e.Count = 1
	}
	b.emitDispatchEvents(u.m, &e)
}

// takeBackOverdue models quorum queues from 4.3 on. Each requeues its overdue deliveries and cancels the
// consumers that held them. It delivers nothing more to those consumers until they have settled all overdue
// deliveries. They keep their other deliveries. A consumer that was already cancelled can't be cancelled a
// second time: its channel is closed instead, and the session ends.
func (p *peer) takeBackOverdue() {
	p.watches = false
	if p.closed {
		return
	}
	b := p.b
	var queues []*queue
	var cancelled []*consumer
	for _, u := range slices.Clone(p.unacked) {
		if b.k.Now()-u.at < b.consumerTimeout || !b.canTimeOut(u) {
			continue
		}
		if !slices.Contains(p.consumers, u.c) {
			p.closeForOverdue(u)
			break
		}
		p.reportOverdue(u, true)
		p.unacked = slices.DeleteFunc(p.unacked, func(other unsettledDelivery) bool { return other.tag == u.tag })
		p.takenBack = append(p.takenBack, u)
		u.c.unacked--
		u.c.overdue++
		u.m.queue.requeueMessage(u.m, p.process, byTimeout)
		if !slices.Contains(queues, u.m.queue) {
			queues = append(queues, u.m.queue)
		}
		if !slices.Contains(cancelled, u.c) {
			cancelled = append(cancelled, u.c)
		}
	}
	if !p.closed {
		// The server keeps the consumer until the session ends, although the client forgets it.
		for _, c := range cancelled {
			p.conn.SendToClient(simnet.FrameFunc(c.sub.cancelledByServer))
		}
	}
	for _, q := range queues {
		q.deliverReady()
	}
	p.watchUnacked()
}

// settleTakenBack handles the settlement of an overdue delivery. It changes no message, but a consumer that
// has settled all of them receives messages again. It returns false if the tag belongs to no overdue
// delivery.
func (p *peer) settleTakenBack(tag uint64) bool {
	i := slices.IndexFunc(p.takenBack, func(u unsettledDelivery) bool { return u.tag == tag })
	if i < 0 {
		return false
	}
	c := p.takenBack[i].c
	p.takenBack = slices.Delete(p.takenBack, i, i+1)
	if c.overdue--; c.overdue == 0 {
		c.q.deliverReady()
	}
	return true
}
