package simbroker

import (
	"handoff/chaos/history"
	"handoff/core/broker"
	"handoff/sim/simnet"
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
		b.net.Touch(simnet.Touched{Fault: FaultAlarm, Process: p.peer.process, Type: uint8(p.envelope.Type)})
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
		b.net.Touch(simnet.Touched{Fault: t.nack, Process: p.peer.process, Type: uint8(p.envelope.Type)})
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
			b.touched(t.silent, &origin, "")
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
		b.touched(t.drop, origin, q.decl.Name)
		b.tell(history.Enqueued, origin, q.decl.Name, "", "", 0)
		b.tell(history.Dropped, origin, q.decl.Name, "", t.drop, 0)
		return copies
	}
	n := 1
	if t.duplicate != "" {
		b.touched(t.duplicate, origin, q.decl.Name)
		n = 2
	}
	for range n {
		m := &message{id: origin.id, envelope: origin.envelope, key: origin.key}
		if t.corrupt != "" {
			b.touched(t.corrupt, origin, q.decl.Name)
			m.corrupt = t.corrupt
		}
		copies = append(copies, m)
		if t.delay > 0 {
			for _, fault := range t.delays {
				b.touched(fault, origin, q.decl.Name)
			}
			b.delay(m, q.decl.Name, t)
			continue
		}
		q.push(m)
		b.overtaken(q.decl.Name)
	}
	return copies
}

// touched reports that a fault made a difference to a message.
func (b *Broker) touched(fault string, m *message, queue string) {
	b.net.Touch(simnet.Touched{Fault: fault, Queue: queue, Message: m.id, Type: uint8(m.envelope.Type)})
}
