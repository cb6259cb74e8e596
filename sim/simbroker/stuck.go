package simbroker

import (
	"slices"
	"time"

	"handoff/chaos/history"
	"handoff/core/broker"
)

// A client waits at most stuckAfter for a publish to a hanging queue, and sends nothing more to that queue
// until the publish is answered. It ends a session in which a publish waits for oldestConfirm
// (core/broker/rabbitmq/publish.go).
const (
	stuckAfter    = time.Second
	oldestConfirm = 30 * time.Second
)

// stall is the state of a queue whose process hangs: the queue neither stores nor delivers messages, and
// requests to it wait, in order. RabbitMQ was measured with sys:suspend. It does not confirm publishes;
// acknowledgements, subscriptions and cancellations wait. It answers the declaration of a quorum queue after
// 250 ms, as if the queue were empty and had no consumers. The declaration of a classic queue waits.
type stall struct {
	touch   func()
	waiting []waiter
}

// waiter is a request that waits for a queue: run is called when the queue resumes, or lost if the broker
// goes down or the queue is deleted before that.
type waiter struct{ run, lost func() }

// SuspendQueue makes a queue hang until the returned function is called, or until the broker goes
// down. It calls touch whenever the hang holds back a message, a request or a dead letter. It
// returns nil if there is no such queue, or if the queue already hangs.
func (b *Broker) SuspendQueue(name string, touch func()) (resume func()) {
	q := b.queueNamed(name)
	if q == nil || q.stall != nil {
		return nil
	}
	x := &stall{touch: touch}
	q.stall = x
	b.stalls++
	if q.readyCount() > 0 && len(q.consumers) > 0 {
		touch()
	}
	return func() {
		if q.stall != x {
			return
		}
		q.endStall(func(w waiter) { w.run() })
		if b.up {
			b.retryAllHeld()
		}
	}
}

// endStall ends the hang and calls do for each waiting request.
func (q *queue) endStall(do func(w waiter)) {
	if q.stall == nil {
		return
	}
	waiting := q.stall.waiting
	q.stall = nil
	q.b.stalls--
	for _, w := range waiting {
		do(w)
	}
	q.deliverReady()
	if q.b.like.queuesTimeOut {
		q.b.watchAll()
	}
}

// runWhenResumed runs a request to a queue, now or when the queue resumes. lost may be nil.
func (q *queue) runWhenResumed(run, lost func()) {
	if q == nil || q.stall == nil {
		run()
		return
	}
	q.stall.touch()
	q.stall.waiting = append(q.stall.waiting, waiter{run, lost})
}

// loseStalled drops the waiting requests when the broker's process or the queue ends.
func (q *queue) loseStalled() {
	q.endStall(func(w waiter) {
		if w.lost != nil {
			w.lost()
		}
	})
}

// enqueueWhenResumed publishes a message to a hanging queue: it is stored and confirmed when the queue
// resumes. If the queue is deleted or the broker goes down first, it is lost.
func (p *publish) enqueueWhenResumed(q *queue, t interference) {
	b := p.peer.b
	p.waits++
	if !p.late {
		p.late, p.at = true, b.k.Now()
		p.peer.s.late = append(p.peer.s.late, p)
		b.k.After(stuckAfter, func() {
			if s := p.peer.s; !s.closed && slices.Contains(s.late, p) {
				p.batch.recordOutcome(int(p.index), broker.Unknown)
			}
		})
	}
	q.runWhenResumed(func() {
		p.enqueueCopies(q, &t)
		if p.waits--; p.waits == 0 {
			p.storeCopies()
		}
	}, func() {
		origin := p.newCopy()
		b.emitMessageEvent(history.Enqueued, &origin, q.decl.Name, "", "", 0)
		b.emitMessageEvent(history.Dropped, &origin, q.decl.Name, "", FaultKill, 0)
	})
}

// forgetLate removes a late publish that has its outcome now.
func (s *session) forgetLate(p *publish) {
	s.late = slices.DeleteFunc(s.late, func(other *publish) bool { return other == p })
}

// isRouteShut reports whether a publish to this route has waited so long that the client sends nothing more
// over the route.
func (s *session) isRouteShut(exchange, key string) bool {
	now := s.b.k.Now()
	return slices.ContainsFunc(s.late, func(p *publish) bool {
		return p.exchange == exchange && p.key == key && now-p.at >= stuckAfter
	})
}

// endIfLate ends the session if its oldest publish has waited longer than oldestConfirm.
func (s *session) endIfLate() {
	if len(s.late) > 0 && s.b.k.Now()-s.late[0].at > oldestConfirm {
		s.closeAndWake()
		if s.b.givenUp != nil {
			s.b.givenUp(s.p.Name())
		}
	}
}

// OnGivenUp sets a function that is called when a process ends its session because a publish has waited
// longer than oldestConfirm.
func (b *Broker) OnGivenUp(f func(process string)) { b.givenUp = f }

// stalledClassic returns a hanging classic queue among names, which delays the reply; nil if there is none.
func (b *Broker) stalledClassic(names func(yield func(string) bool)) *queue {
	if b.stalls == 0 {
		return nil
	}
	for name := range names {
		if q := b.queueNamed(name); q != nil && q.stall != nil && q.decl.Type == typeClassic {
			return q
		}
	}
	return nil
}

// retryAllHeld retries all held dead letters, whether they wait for a queue or for dead lettering itself.
func (b *Broker) retryAllHeld() {
	for _, q := range slices.Clone(b.queues) {
		if len(q.held) > 0 {
			q.retryHeld()
		}
	}
}

// StopDeadLettering stops the processes that move the dead letters of quorum queues, until the returned
// function is called: dead messages stay in their queues. Classic queues have no such process. It calls
// touch whenever a dead letter must stay in its quorum queue; with several stops at the same time, it calls
// only the first touch.
func (b *Broker) StopDeadLettering(touch func()) (resume func()) {
	x := new(func())
	*x = touch
	b.idleLetters = append(b.idleLetters, x)
	return func() {
		b.idleLetters = slices.DeleteFunc(b.idleLetters, func(other *func()) bool { return other == x })
		if b.up {
			b.retryAllHeld()
		}
	}
}

// movesDeadLetters reports whether the dead letters of a queue are moved.
func (q *queue) movesDeadLetters() bool {
	if q.decl.Type != typeQuorum || len(q.b.idleLetters) == 0 {
		return true
	}
	(*q.b.idleLetters[0])()
	return false
}
