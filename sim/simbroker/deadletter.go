package simbroker

import (
	"slices"
	"time"

	"handoff/chaos/history"
	"handoff/core/broker"
)

// deadLetterOrDrop sends a message that has left the queue to the dead letter exchange, or drops it.
func (q *queue) deadLetterOrDrop(m *message, reason broker.DeathReason) {
	b := q.b
	m.reason = reason
	kind := history.Expired
	switch reason {
	case broker.DeathRejected:
		kind = history.Rejected
		m.marked = m.marked || q.marksRejected()
	case broker.DeathDeliveryLimit:
		kind = history.ReturnedTooOften
	default:
	}
	if q.decl.DeadLetterExchange == "" {
		b.emitMessageEvent(kind, m, q.decl.Name, "", m.corrupt, 0)
		b.emitMessageEvent(history.Dropped, m, q.decl.Name, "", "", 0)
		return
	}
	poisons := 0
	if m.poisonsBroker(b) {
		b.stuck, poisons = true, 1
	}
	b.emitMessageEvent(kind, m, q.decl.Name, "", m.corrupt, poisons)
	m.deaths = b.recordDeath(m.deaths, q.decl.Name, reason)
	if q.deadLetter(m) {
		return
	}
	q.held = append(q.held, m)
	q.watchHeld()
}

// deadLetter routes a dead message. It returns false if the message must stay. A quorum queue dead-letters
// at least once, so it keeps the message if every route is missing or a cycle (rule 41). A classic queue
// drops it silently (rules 17 and 19).
func (q *queue) deadLetter(m *message) bool {
	b := q.b
	if b.isPoisoned() || !q.movesDeadLetters() {
		return false
	}
	targets, _ := b.routedQueues(q.decl.DeadLetterExchange, m.key)
	targets = slices.DeleteFunc(slices.Clone(targets), func(t *queue) bool {
		return isCycle(m.deaths, t.decl.Name)
	})
	if len(targets) == 0 {
		if q.decl.Type == typeQuorum {
			return false
		}
		fault := ""
		if e := b.exchangeNamed(q.decl.DeadLetterExchange); e != nil && e.hasLostBinding(m.key) {
			fault = FaultUnbound
		}
		b.emitMessageEvent(history.Dropped, m, q.decl.Name, "", fault, 0)
		return true
	}
	for _, t := range targets {
		if t.stall != nil {
			// The message stays until its target resumes. A real classic queue would send it at once. While
			// the broker stays up, this makes no difference, because the target receives it in the end.
			t.stall.touch()
			return false
		}
	}
	b.emitMessageEvent(history.DeadLettered, m, q.decl.Name, "", "", len(targets))
	for _, t := range targets {
		letter := &message{
			id: m.id, envelope: m.envelope, body: m.body, key: m.key,
			deaths: m.deaths, corrupt: m.corrupt, stored: true, marked: m.marked, redelivered: m.marked && t.decl.Type == typeQuorum,
		}
		t.enqueueMessage(letter)
		// If the target delivers the dead letter immediately, only a quorum queue marks it as redelivered. A
		// letter that stays in the target is marked later, in both types of queue.
		letter.redelivered = m.marked
	}
	return true
}

// marksRejected reports whether a message rejected from this queue counts as redelivered in its next queue.
func (q *queue) marksRejected() bool {
	if q.decl.Type == typeQuorum {
		return q.b.like.marksDead
	}
	return q.b.like.marksClassic
}

// watchHeld arms the next attempt for dead letters without a route.
func (q *queue) watchHeld() {
	if q.retrying || len(q.held) == 0 {
		return
	}
	q.retrying = true
	q.retry = q.b.k.After(q.b.opts.DeadLetterRetry, func() {
		q.retrying = false
		q.retryHeld()
	})
}

// retryHeld retries the dead letters without a route, oldest first.
func (q *queue) retryHeld() {
	held := q.held
	q.held = nil
	for _, m := range held {
		if !q.deadLetter(m) {
			q.held = append(q.held, m)
		}
	}
	q.watchHeld()
}

// recordDeath returns the x-death header with one more death. It has one entry for each queue and reason,
// newest first, with the time of the first death there, in whole seconds (rule 18). Before 4.0, each death
// reverses the older entries, because the broker rebuilds the list from its front.
func (b *Broker) recordDeath(deaths []broker.Death, queue string, reason broker.DeathReason) []broker.Death {
	newest := broker.Death{Queue: queue, Reason: reason, Time: b.clock.Wall().Truncate(time.Second)}
	all := make([]broker.Death, 1, len(deaths)+1)
	older := slices.Backward(deaths)
	if b.like.newestFirst {
		older = slices.All(deaths)
	}
	for _, d := range older {
		if d.Queue == queue && d.Reason == reason {
			newest = d
			continue
		}
		all = append(all, d)
	}
	newest.Count++
	all[0] = newest
	return all
}

// isCycle reports whether the message has died in the target before and was not rejected since (rule 19).
func isCycle(deaths []broker.Death, target string) bool {
	for _, d := range deaths {
		if d.Reason == broker.DeathRejected {
			return false
		}
		if d.Queue == target {
			return true
		}
	}
	return false
}
