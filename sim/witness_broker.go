package sim

import (
	"context"
	"errors"
	"slices"
	"time"

	"handoff/core/broker"
)

// wrapBroker wraps a process's broker.
func (w *witness) wrapBroker(process string, b broker.Broker) broker.Broker {
	if w == nil {
		return b
	}
	return &seenBroker{Broker: b, w: w, process: process}
}

// seenBroker is a broker that counts its sessions and reports refusals.
type seenBroker struct {
	broker.Broker
	w        *witness
	process  string
	sessions []broker.Session // sessions that may still be open
}

// Connect implements broker.Broker.
func (sb *seenBroker) Connect(ctx context.Context) (broker.Session, error) {
	s, err := sb.Broker.Connect(ctx)
	sb.w.reportCall(ctx, "Connect", err)
	if err != nil {
		return nil, err
	}
	sb.sessions = append(slices.DeleteFunc(sb.sessions, broker.Session.Closed), s)
	sb.w.rules.Sessions(sb.process, len(sb.sessions))
	seen := &seenSession{Session: s, b: sb, consumers: make(map[string]int)}
	if t := sb.w.eventTask(); t != nil {
		seen.opener = t.ID()
	}
	return seen, nil
}

type seenSession struct {
	broker.Session
	b *seenBroker
	// consumers counts, for each queue, the consumers that neither end has cancelled.
	consumers map[string]int
	// opener is the id of the task that opened the session.
	opener uint64
	// declared reports whether the topology was declared and the broker has cancelled no consumer since.
	// taken reports whether it has cancelled one.
	declared, taken bool
	// usable is the time of the first declaration, after which the client publishes over the session.
	usable time.Duration
}

// Usable implements invariant.Open.
func (s *seenSession) Usable() time.Duration { return s.usable }

// Publish implements broker.Session.
func (s *seenSession) Publish(ctx context.Context, ms []broker.Message) []broker.Outcome {
	w := s.b.w
	if len(ms) == 0 {
		w.reportEmptyCall("Publish")
	}
	if w.eventTask() != nil {
		w.reportUseAfterEnd(ctx, "publishes")
		for i := range ms {
			if len(ms[i].Envelope.Changes) > 0 {
				w.rules.Publishing(s.b.process, &ms[i], w.k.Now())
			}
		}
	}
	outcomes := s.Session.Publish(ctx, ms)
	if w.eventTask() != nil {
		for i := range ms {
			if len(ms[i].Envelope.Changes) > 0 {
				w.rules.Published(s.b.process, s, &ms[i], outcomes[i], w.k.Now())
			}
		}
	}
	return outcomes
}

// Wait implements broker.Session.
func (s *seenSession) Wait(ctx context.Context) error {
	s.b.w.reportUseAfterEnd(ctx, "waits for the end of a session")
	err := s.Session.Wait(ctx)
	s.b.w.noteContextEnd(ctx, err)
	return err
}

// Declare implements broker.Session.
func (s *seenSession) Declare(ctx context.Context, t broker.Topology) error {
	err := s.Session.Declare(ctx, t)
	s.b.w.reportCall(ctx, "Declare", err)
	if err == nil {
		s.declared, s.taken = true, false
		if s.usable == 0 {
			s.usable = s.b.w.k.Now()
		}
	}
	return err
}

// DeleteIdle implements broker.Session. For a queue that expires by itself, a failure is not
// reported.
func (s *seenSession) DeleteIdle(ctx context.Context, q broker.Queue) (broker.QueueFate, error) {
	fate, err := s.Session.DeleteIdle(ctx, q)
	if q.Expires == 0 {
		s.b.w.reportCall(ctx, "DeleteIdle", err)
	}
	return fate, err
}

// QueueState implements broker.Session.
func (s *seenSession) QueueState(ctx context.Context, queue string) (broker.QueueState, error) {
	state, err := s.Session.QueueState(ctx, queue)
	s.b.w.reportCall(ctx, "QueueState", err)
	return state, err
}

// Consume implements broker.Session. It does not report the end of the session; the task that opened the
// session does.
func (s *seenSession) Consume(ctx context.Context, queue string, prefetch int) (broker.Consumer, error) {
	if !s.declared && s.b.w.eventTask() != nil {
		s.b.w.rules.Undeclared(s.b.process, queue, s.taken)
	}
	c, err := s.Session.Consume(ctx, queue, prefetch)
	if !errors.Is(err, broker.ErrClosed) {
		s.b.w.reportCall(ctx, "Consume", err)
	}
	if err != nil {
		return nil, err
	}
	s.consumers[queue]++
	s.b.w.rules.Consumers(s.b.process, queue, s.consumers[queue])
	return &seenConsumer{Consumer: c, s: s, queue: queue}, nil
}

type seenConsumer struct {
	broker.Consumer
	s     *seenSession
	queue string
	over  bool
	// asked reports whether the process itself asked for the consumer's cancellation.
	asked bool
}

// markEnded records that the consumer receives no more deliveries.
func (sc *seenConsumer) markEnded() {
	if !sc.over {
		sc.over = true
		sc.s.consumers[sc.queue]--
	}
}

// Receive implements broker.Consumer. The session's opener reports the end of the session.
func (sc *seenConsumer) Receive(ctx context.Context) (broker.Delivery, error) {
	d, err := sc.Consumer.Receive(ctx)
	if err == nil {
		return d, nil
	}
	switch t := sc.s.b.w.eventTask(); {
	case errors.Is(err, broker.ErrCancelled):
		sc.markEnded()
		if !sc.asked {
			sc.s.declared, sc.s.taken = false, true
		}
	case errors.Is(err, broker.ErrClosed) && t != nil && t.ID() == sc.s.opener:
		sc.s.b.w.reportCall(ctx, "Receive", err)
	}
	return d, err
}

// Cancel implements broker.Consumer.
func (sc *seenConsumer) Cancel(ctx context.Context) error {
	sc.asked = true
	err := sc.Consumer.Cancel(ctx)
	if err == nil {
		sc.markEnded()
	}
	return err
}
