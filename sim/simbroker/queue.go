package simbroker

import (
	"cmp"
	"slices"
	"time"

	"handoff/chaos/history"
	"handoff/core/broker"
	"handoff/sim/kernel"
	"handoff/sim/simnet"
)

// The queue types.
const (
	typeQuorum  = "quorum"
	typeClassic = "classic"
)

// message is one copy of a message, in one queue or unsettled at a consumer of it.
type message struct {
	id       uint64
	envelope *broker.Envelope // as it was sent; shared, never changed
	body     *body            // likewise; nil if the message crosses as an envelope
	key      string
	queue    *queue
	// place determines the order of a queue's messages (rule 28).
	place uint64
	// expires is the true time at which the message expires, or never. Neither a requeue nor a restart
	// changes it.
	expires     time.Duration
	redelivered bool
	// marked reports whether its dead letter will count as redelivered in its next queue.
	marked bool
	// deliveries counts how often the message was returned to its queue.
	deliveries int
	deaths     []broker.Death // shared, never changed; newest first
	reason     broker.DeathReason
	// corrupt is the fault that made the body unreadable, or "".
	corrupt string
	stored  bool
	// forged reports whether an attacker published the message, and hostile whether its x-death header breaks
	// dead lettering. size is the length of its body in bytes, 0 for the usual length.
	forged, hostile bool
	size            int
}

const never = time.Duration(1<<63 - 1)

// queue is a durable queue.
type queue struct {
	b    *Broker
	decl broker.Queue

	ready     []*message // by place; entries before head are gone
	head      int
	nextPlace uint64
	nextFront uint64 // the last place used at the front of a quorum queue, for messages of ended sessions
	unacked   int
	held      []*message  // dead letters that must wait, oldest first (rule 41)
	consumers []*consumer // in the order of their turns

	expiry   kernel.Timer
	expiryAt time.Duration // 0 if the timer is not armed
	retry    kernel.Timer
	retrying bool
	deleted  bool
	unused   kernel.Timer // deletes the queue once it has been unused for its expiry
	stall    *stall       // nil unless its process hangs
}

func (q *queue) readyCount() int { return len(q.ready) - q.head }

func (q *queue) frontMessage() *message { return q.ready[q.head] }

func (q *queue) popFront() *message {
	m := q.ready[q.head]
	q.ready[q.head] = nil
	q.head++
	if q.head == len(q.ready) {
		q.ready, q.head = q.ready[:0], 0
	}
	return m
}

// enqueueMessage appends a message, whose time to live starts now, and delivers ready messages.
func (q *queue) enqueueMessage(m *message) {
	m.queue = q
	m.place = q.lastPlace()
	m.expires = never // a message expires by the time to live of its queue (rule 9)
	if q.decl.TTL > 0 {
		m.expires = q.b.k.Now() + q.decl.TTL
	}
	q.ready = append(q.ready, m)
	q.b.emitMessageEvent(history.Enqueued, m, q.decl.Name, "", "", 0)
	q.deliverReady()
}

// lastPlace returns a new place at the end of the queue.
func (q *queue) lastPlace() uint64 {
	q.nextPlace++
	return behindFront + q.nextPlace
}

// Places up to behindFront belong to messages that return to the front of a queue, and places above it to
// messages at the end. No run returns that many messages.
const behindFront = 1 << 48

// requeueMessage returns a message that was requeued, or whose session has ended. In a classic queue it
// goes to its old place. A quorum queue delivers messages of ended sessions before all others, in the order
// of delivery. A requeued message comes last, because it is appended to the queue's log. But a queue with a
// delivery limit, which counts returns, treats it like a message of an ended session. The expiry stays the
// same. The caller calls deliverReady afterwards, so that several messages are back before the first is
// redelivered.
//
// A message that was returned too often dies instead (rule 30).
func (q *queue) requeueMessage(m *message, process string, how returnCause) {
	ended := how != byConsumer
	q.unacked--
	limit := q.deliveryLimit()
	if q.decl.Type == typeQuorum {
		m.marked = m.marked || ended && q.b.like.marksDead || q.b.like.marksRequeued
	} else {
		m.marked = m.marked || q.b.like.marksClassic
	}
	if q.decl.Type == typeQuorum {
		if ended || limit > 0 || q.b.like.ordersReturns {
			q.nextFront++
			m.place = q.nextFront
		} else {
			m.place = q.lastPlace()
		}
	}
	m.redelivered = true
	if how != byTimeout {
		m.deliveries++
	}
	if limit > 0 && m.deliveries > limit {
		q.b.emitMessageEvent(history.Requeued, m, q.decl.Name, process, "", 0)
		q.deadLetterOrDrop(m, broker.DeathDeliveryLimit)
		return
	}
	if q.head > 0 && (q.head == len(q.ready) || m.place < q.ready[q.head].place) {
		q.head--
		q.ready[q.head] = m
	} else {
		i, _ := slices.BinarySearchFunc(q.ready[q.head:], m.place, func(o *message, place uint64) int {
			return cmp.Compare(o.place, place)
		})
		q.ready = slices.Insert(q.ready, q.head+i, m)
	}
	q.b.emitMessageEvent(history.Requeued, m, q.decl.Name, process, "", 0)
}

// returnCause is the reason why a message returns to its queue.
type returnCause uint8

const (
	byConsumer returnCause = iota
	bySessionEnd
	byTimeout
)

// deliveryLimit returns how often a message may return; 0 means no limit. Only quorum queues have one.
func (q *queue) deliveryLimit() int {
	if q.decl.Type != typeQuorum || q.decl.KeepsReturned {
		return 0
	}
	return q.b.like.deliveryLimit
}

// deliverReady delivers as much as possible. An expired message dies only at the front (rule 10).
func (q *queue) deliverReady() {
	if !q.b.up || q.deleted {
		return
	}
	if q.stall != nil {
		if q.readyCount() > 0 {
			q.stall.touch()
		}
		return
	}
	k := q.b.k
	// Each delivery is caused by this call, not by the delivery before it. So each turn begins with the same
	// strand.
	for now := k.Strand(); q.readyCount() > 0; k.SetStrand(now) {
		if q.frontMessage().expires <= k.Now() {
			q.deadLetterOrDrop(q.popFront(), broker.DeathExpired)
			continue
		}
		c := q.nextConsumer()
		if c == nil {
			break
		}
		c.deliverMessage(q.popFront())
	}
	q.watchFront()
}

// nextConsumer returns the first consumer that may receive another message, and moves it to the end (rule
// 25).
func (q *queue) nextConsumer() *consumer {
	for i, c := range q.consumers {
		if c.overdue == 0 && (c.prefetch == 0 || c.unacked < c.prefetch) {
			copy(q.consumers[i:], q.consumers[i+1:])
			q.consumers[len(q.consumers)-1] = c
			return c
		}
	}
	return nil
}

// watchFront arms the expiry of the front message, which is slightly late, as measured (rule 43). A timer
// that is armed for an earlier moment is kept and rechecks when it fires, which is cheaper than moving it
// at every delivery.
func (q *queue) watchFront() {
	if q.readyCount() == 0 || q.frontMessage().expires == never {
		return
	}
	at := q.frontMessage().expires
	if q.expiryAt != 0 {
		if q.expiryAt <= at {
			return
		}
		q.expiry.Stop()
	}
	late := q.b.lateness.Duration(0, q.b.opts.Lateness)
	q.expiryAt = at
	q.expiry = q.b.k.After(at+late-q.b.k.Now(), func() {
		q.expiryAt = 0
		q.deliverReady()
	})
}

// reportedState returns the broker's report of the queue. A quorum queue counts cancelled consumers as long
// as they hold a delivery.
func (q *queue) reportedState() broker.QueueState {
	if q.stall != nil {
		return broker.QueueState{Exists: true}
	}
	s := broker.QueueState{Exists: true, Ready: q.readyCount(), Consumers: len(q.consumers)}
	if q.decl.Type != typeQuorum {
		return s
	}
	var cancelled []*consumer
	for _, p := range q.b.peers {
		for _, u := range p.unacked {
			if u.m.queue == q && !slices.Contains(q.consumers, u.c) && !slices.Contains(cancelled, u.c) {
				cancelled = append(cancelled, u.c)
			}
		}
	}
	s.Consumers += len(cancelled)
	return s
}

// quorumTick is how often the broker checks whether a quorum queue has expired.
const quorumTick = 5 * time.Second

// restartExpiry restarts the timeout after which an unused queue is deleted.
func (q *queue) restartExpiry() {
	if q.decl.Expires == 0 {
		return
	}
	after := q.decl.Expires
	if q.decl.Type == typeQuorum {
		after += quorumTick
	}
	q.unused.Stop()
	q.unused = q.b.k.After(after, func() {
		if q.b.up && !q.deleted && len(q.consumers) == 0 && q.stall == nil {
			q.b.removeQueue(q, "")
		}
	})
}

// goDown handles the end of the broker's process. Both queue types keep their stored messages. A killed
// classic queue marks all recovered messages as redelivered, because it can't tell which were delivered.
func (q *queue) goDown(kill bool) {
	q.loseStalled()
	q.expiry.Stop()
	q.expiryAt = 0
	q.retry.Stop()
	q.retrying = false
	kept := q.ready[:q.head]
	for _, m := range q.ready[q.head:] {
		if kill && !m.stored && q.b.loss.Uint64N(2) == 1 {
			q.b.net.Touch(simnet.Touched{Fault: FaultKill, Queue: q.decl.Name})
			q.b.emitMessageEvent(history.Dropped, m, q.decl.Name, "", FaultKill, 0)
			continue
		}
		m.stored = true
		if kill && q.decl.Type == typeClassic {
			m.redelivered = true
		}
		kept = append(kept, m)
	}
	clear(q.ready[len(kept):])
	q.ready = kept
	if q.head == len(q.ready) {
		q.ready, q.head = q.ready[:0], 0
	}
}

// deleteContents drops all messages and cancels the consumers.
func (q *queue) deleteContents(fault string) {
	q.deleted = true
	q.loseStalled()
	q.unused.Stop()
	q.expiry.Stop()
	q.retry.Stop()
	drop := func(m *message) {
		q.b.emitMessageEvent(history.Dropped, m, q.decl.Name, "", fault, 0)
	}
	for _, m := range q.ready[q.head:] {
		drop(m)
	}
	for _, p := range q.b.peers {
		for _, u := range p.unacked {
			if u.m.queue == q {
				drop(u.m)
			}
		}
	}
	for _, m := range q.held {
		drop(m)
	}
	q.ready, q.head, q.held, q.unacked = nil, 0, nil, 0
	consumers := q.consumers
	q.consumers = nil
	for _, c := range consumers {
		c.cancelledByServer()
	}
}
