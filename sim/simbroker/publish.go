package simbroker

import (
	"strconv"
	"strings"
	"time"

	"handoff/chaos/history"
	"handoff/core/broker"
	"handoff/core/execution"
	"handoff/sim/kernel"
	"handoff/sim/simnet"
)

// publish is one published message until its confirm.
type publish struct {
	peer  *peer
	batch *batch
	index int32 // in the batch
	// waits is the number of hanging queues that have not stored the message. late reports whether it waits
	// or has waited for one, since the time at.
	waits    int32
	late     bool
	outcome  broker.Outcome
	at       time.Duration
	exchange string
	key      string
	envelope broker.Envelope // shared with the copies, never changed
	body     *body           // likewise; nil if the message crosses as an envelope

	id uint64
	// copies are its copies in queues, until all are stored. Most messages go to one queue, so the first
	// copy and a list for it are part of the struct.
	copies []*message
	list   [1]*message
	first  message
	// silent is the fault that suppresses the confirm, or "".
	silent string
	// strand is the strand of its first arrival, while the alarm holds it back.
	strand kernel.Strand
}

// Arrive handles the arrival of the publish at the broker, or its release after an alarm.
func (p *publish) Arrive() {
	b := p.peer.b
	if p.peer.closed {
		return
	}
	b.k.Meet(p.strand)
	if b.alarm {
		p.strand = b.k.Strand()
		b.net.Touch(simnet.Touched{Fault: FaultAlarm, Process: p.peer.process, Type: uint8(p.envelope.Type)})
		b.stalled = append(b.stalled, p)
		return
	}
	p.peer.received++
	queues, ok := b.routedQueues(p.exchange, p.key)
	if !ok {
		p.peer.close() // 404 closes the channel, confirms and all (rule 5)
		return
	}
	t := b.combinedInterference(p.envelope.Type, p.key)
	if t.nack != "" {
		b.net.Touch(simnet.Touched{Fault: t.nack, Process: p.peer.process, Type: uint8(p.envelope.Type)})
		p.reportHints(refused)
		p.sendConfirm(broker.Nacked)
		return
	}
	p.id, p.silent = b.lastMessage+1, t.silent
	b.lastMessage += uint64(max(1, len(p.envelope.Dispatches)))
	p.decodeBody()
	origin := p.newCopy()
	p.reportHints(len(queues))
	if len(queues) == 0 {
		b.emitMessageEvent(history.PublishReturned, &origin, "", p.peer.process, "", 0)
		p.sendConfirm(broker.Returned)
		return
	}
	b.emitMessageEvent(history.Published, &origin, "", p.peer.process, "", len(queues))
	if p.copies = p.list[:0]; len(queues) > len(p.list) {
		p.copies = make([]*message, 0, len(queues))
	}
	for _, q := range queues {
		if q.stall != nil {
			p.enqueueWhenResumed(q, t)
		} else {
			p.enqueueCopies(q, &t)
		}
	}
	if p.waits == 0 {
		p.storeCopies()
	}
}

// storeCopies schedules Fire for when every queue has stored its copy (rule 6). Consumers may receive the
// message before; only the confirm waits.
func (p *publish) storeCopies() {
	b := p.peer.b
	b.k.AfterEvent(b.disk.Duration(b.opts.DiskLow, b.opts.DiskHigh), p)
}

// refused is the number of queues that events give for a refused message.
const refused = -1

// reportHints writes a Hinted event for each change in the message. A dispatch has none.
func (p *publish) reportHints(queues int) {
	changes := p.envelope.Changes
	if len(changes) == 0 {
		return
	}
	var worker execution.WorkerID
	if p.envelope.Type == broker.ExecutionCancel {
		id, _ := strconv.ParseInt(p.key[strings.LastIndexByte(p.key, '.')+1:], 10, 64)
		worker = execution.WorkerID(id)
	}
	for _, c := range changes {
		p.peer.b.emitEvent(&history.Event{
			Kind: history.Hinted, Process: p.peer.process, Message: p.id, Type: uint8(p.envelope.Type), Execution: c.Key.ID, Epoch: c.Key.Epoch,
			From: c.From, To: c.To, Worker: worker, Key: p.envelope.MessageID, Limit: int64(len(changes)), Count: int64(queues),
		})
	}
}

// handledEnds counts the changes that a hint marks as handled.
func (m *message) handledEnds() (n int) {
	for i := range m.envelope.Changes {
		if m.envelope.Changes[i].Handled {
			n++
		}
	}
	return n
}

// newCopy returns a copy of the published message.
func (p *publish) newCopy() message {
	return message{id: p.id, envelope: &p.envelope, body: p.body, key: p.key}
}

// Fire runs when every copy is stored.
func (p *publish) Fire() {
	for _, m := range p.copies {
		m.stored = true
	}
	p.copies, p.list = nil, [1]*message{}
	if p.silent != "" {
		origin := p.newCopy()
		p.peer.b.reportTouch(p.silent, &origin, "")
		return
	}
	p.sendConfirm(broker.Confirmed)
}

// sendConfirm sends the outcome to the client, unless the session has ended.
func (p *publish) sendConfirm(o broker.Outcome) {
	if p.peer.closed {
		return
	}
	p.outcome = o
	p.peer.conn.SendToClient((*confirm)(p))
}

// confirm is the outcome of a publish in transit to the client.
type confirm publish

// Arrive implements simnet.Frame.
func (c *confirm) Arrive() {
	if c.late {
		c.peer.s.forgetLate((*publish)(c))
	}
	c.batch.recordOutcome(int(c.index), c.outcome)
}

// enqueueCopies puts copies of the message into a queue, unless filters prevent it.
func (p *publish) enqueueCopies(q *queue, t *interference) {
	b, origin := p.peer.b, p.newCopy()
	if t.drop != "" {
		b.reportTouch(t.drop, &origin, q.decl.Name)
		b.emitMessageEvent(history.Enqueued, &origin, q.decl.Name, "", "", 0)
		b.emitMessageEvent(history.Dropped, &origin, q.decl.Name, "", t.drop, 0)
		return
	}
	n := 1
	if t.duplicate != "" {
		b.reportTouch(t.duplicate, &origin, q.decl.Name)
		n = 2
	}
	for range n {
		m := &p.first
		if m.envelope != nil {
			m = new(message) // the first copy is in use
		}
		*m = origin
		if t.corrupt != "" {
			b.reportTouch(t.corrupt, m, q.decl.Name)
			m.corrupt = t.corrupt
		}
		p.copies = append(p.copies, m)
		if t.delay > 0 {
			for _, fault := range t.delays {
				b.reportTouch(fault, m, q.decl.Name)
			}
			b.delayMessage(m, q.decl.Name, t)
			continue
		}
		q.enqueueMessage(m)
		b.releaseOvertaken(q.decl.Name)
	}
}

// reportTouch reports that a fault affected a message.
func (b *Broker) reportTouch(fault string, m *message, queue string) {
	b.net.Touch(simnet.Touched{Fault: fault, Queue: queue, Message: m.id, Type: uint8(m.envelope.Type)})
}
