package simbroker

import (
	"handoff/chaos/history"
	"handoff/core/broker"
)

// publish is one message on its way from a client to its confirm.
type publish struct {
	peer     *peer
	batch    *batch
	index    int // in the batch
	exchange string
	key      string
	envelope *broker.Envelope
}

// arrive is the publish's arrival at the broker, or its turn after an alarm.
func (p *publish) arrive() {
	b := p.peer.b
	if p.peer.closed {
		return
	}
	if b.alarm {
		b.net.Touch(FaultAlarm)
		b.stalled = append(b.stalled, p)
		return
	}
	p.peer.received++
	queues, ok := b.route(p.exchange, p.key)
	if !ok {
		p.peer.close() // 404 closes the channel, confirms and all (rule 5)
		return
	}
	t := b.tampering(p.envelope.Type, p.key)
	if t.nack != "" {
		b.net.Touch(t.nack)
		p.confirm(broker.Nacked)
		return
	}
	b.lastMessage++
	origin := message{id: b.lastMessage, envelope: p.envelope, key: p.key}
	if len(queues) == 0 {
		b.tell(history.PublishReturned, &origin, "", p.peer.process, "", 0)
		p.confirm(broker.Returned)
		return
	}
	b.tell(history.Published, &origin, "", p.peer.process, "", len(queues))
	copies := make([]*message, 0, len(queues))
	for _, q := range queues {
		copies = b.admit(&origin, q, &t, copies)
	}
	// Stored means in every queue (rule 6). Consumers may see it before: only the confirm waits.
	b.k.After(b.disk.Duration(b.opts.DiskLow, b.opts.DiskHigh), func() {
		for _, m := range copies {
			m.stored = true
		}
		if t.silent != "" {
			b.net.Touch(t.silent)
			return
		}
		p.confirm(broker.Confirmed)
	})
}

// confirm tells the client the outcome, if the session still lives.
func (p *publish) confirm(o broker.Outcome) {
	if p.peer.closed {
		return
	}
	p.peer.conn.SendToClient(func() { p.batch.settle(p.index, o) })
}

// admit puts copies of a message into a queue, as far as the filters let it.
func (b *Broker) admit(origin *message, q *queue, t *tampering, copies []*message) []*message {
	if t.drop != "" {
		b.net.Touch(t.drop)
		b.tell(history.Enqueued, origin, q.decl.Name, "", "", 0)
		b.tell(history.Dropped, origin, q.decl.Name, "", t.drop, 0)
		return copies
	}
	n := 1
	if t.duplicate != "" {
		b.net.Touch(t.duplicate)
		n = 2
	}
	for range n {
		m := &message{id: origin.id, envelope: origin.envelope, key: origin.key}
		if t.corrupt != "" {
			b.net.Touch(t.corrupt)
			m.corrupt = t.corrupt
		}
		copies = append(copies, m)
		if t.delay > 0 {
			for _, fault := range t.delays {
				b.net.Touch(fault)
			}
			b.delay(m, q.decl.Name, t.delay)
			continue
		}
		q.push(m)
	}
	return copies
}
