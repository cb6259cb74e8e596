package simbroker

import (
	"time"

	"handoff/chaos/history"
)

// consumerTick is how often a channel of RabbitMQ looks whether its oldest delivery has waited for too long.
const consumerTick = time.Minute

// SetConsumerTimeout changes how long a delivery may stay unacknowledged, in all sessions; 0 means as in the options.
// touch is called whenever a session ends because of it, and may be nil. RabbitMQ reads its setting when a channel is
// opened: who changes it there ends the connections.
func (b *Broker) SetConsumerTimeout(d, tick time.Duration, touch func()) {
	if d == 0 {
		d, tick = b.opts.ConsumerTimeout, consumerTick
	}
	b.consumerTimeout, b.consumerTick, b.timedOut = d, tick, touch
	for _, p := range b.peers {
		p.watching.Stop()
		p.watches = false
		p.watchUnacked()
	}
}

// watchUnacked sees to it that a delivery that stays unacknowledged ends the session: RabbitMQ closes the channel with 406
// at the first of its ticks after the timeout, and the client ends the session with it.
func (p *peer) watchUnacked() {
	if p.watches || len(p.unacked) == 0 {
		return
	}
	p.watches = true
	b := p.b
	p.watching = b.k.After(max(0, p.unacked[0].at+b.consumerTimeout-b.k.Now()), p.overdue)
}

// overdue looks whether the oldest delivery has waited for too long.
func (p *peer) overdue() {
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
			p.endOverdue(u)
		}
	})
}

// endOverdue ends the session over a delivery.
func (p *peer) endOverdue(u unsettled) {
	b := p.b
	if b.timedOut != nil {
		b.timedOut()
	}
	b.tellOf(u.m, history.Event{Kind: history.ConsumerTimedOut, Process: p.process, Queue: u.m.queue.decl.Name, Due: b.k.Now() - u.at})
	p.close()
}
