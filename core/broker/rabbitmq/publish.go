package rabbitmq

import (
	"context"
	"fmt"
	"log/slog"
	"sync"

	amqp "github.com/rabbitmq/amqp091-go"

	"handoff/core/broker"
)

// sequenceHeader numbers the publishes of a session. A return brings it back, and it alone says
// which publish was returned: the same message may be on its way twice, since a dispatch is
// published again when its outcome was unknown.
const sequenceHeader = "handoff-publish"

// publisher sends the messages of all Publish calls of a session over one channel, in the order of
// the calls, and learns their outcomes. One task writes and another one waits for confirms, so that
// neither a slow confirm stops the writing nor a write that the broker does not take holds up
// callers whose context has ended.
type publisher struct {
	s      *session
	ch     *amqp.Channel
	outbox chan *batch
	// inFlight is what was written and has no outcome yet, oldest first. Its capacity is the window.
	inFlight chan inFlight
	// returns holds more than can be in flight: the library drops a return that nobody takes.
	returns chan amqp.Return
	alarm   gate
}

// inFlight is one publish without an outcome.
type inFlight struct {
	sequence     int64
	confirmation *amqp.DeferredConfirmation
	batch        *batch
	index        int
}

// outbox bounds the batches that wait for the writer; more wait in their own calls.
const outboxSize = 16

func openPublisher(s *session) (*publisher, error) {
	ch, err := s.publishing.amqp.Channel()
	if err != nil {
		return nil, err
	}
	s.watch("publishing channel", ch.NotifyClose(make(chan *amqp.Error, 1)))
	window := s.b.opts.Window
	p := &publisher{
		s: s, ch: ch,
		outbox:   make(chan *batch, outboxSize),
		inFlight: make(chan inFlight, window),
		returns:  ch.NotifyReturn(make(chan amqp.Return, window+2)),
	}
	if err := ch.Confirm(false); err != nil {
		return nil, err
	}
	go p.write()
	go p.settle()
	return p, nil
}

// Publish implements broker.Session. A message that can't be written to the wire is Nacked: nothing
// was stored, and sending it again would not help.
func (s *session) Publish(ctx context.Context, ms []broker.Message) []broker.Outcome {
	b := newBatch(s.b.log, ms)
	if s.Closed() || ctx.Err() != nil {
		return b.finish()
	}
	select {
	case <-b.done: // nothing to send
		return b.finish()
	default:
	}
	select {
	case s.publisher.outbox <- b:
	case <-ctx.Done():
		return b.finish()
	case <-s.done:
		return b.finish()
	}
	select {
	case <-b.done:
	case <-ctx.Done():
	case <-s.done:
	}
	return b.finish()
}

// write writes batches until the session ends.
func (p *publisher) write() {
	var sequence int64
	for {
		var b *batch
		select {
		case b = <-p.outbox:
		case <-p.s.done:
			return
		}
		for i := range b.entries {
			if !p.alarm.wait(p.s.done) || p.s.Closed() {
				return
			}
			e, wanted := b.take(i)
			if !wanted {
				continue
			}
			sequence++
			e.publishing.Headers = amqp.Table{sequenceHeader: sequence}
			confirmation, err := p.ch.PublishWithDeferredConfirm(e.exchange, e.key, true, false, e.publishing)
			if err != nil {
				// Some of it may have been written.
				p.s.end(fmt.Errorf("publish: %w", err))
				return
			}
			select {
			case p.inFlight <- inFlight{sequence, confirmation, b, i}:
			case <-p.s.done:
				return
			}
		}
	}
}

// settle finds the outcomes, in the order of the publishes, until the session ends.
func (p *publisher) settle() {
	returned := make(map[int64]struct{})
	for {
		var f inFlight
		select {
		case f = <-p.inFlight:
		case <-p.s.done:
			return
		}
		select {
		case <-f.confirmation.Done():
		case <-p.s.done:
			return
		}
		p.collect(returned)
		_, wasReturned := returned[f.sequence]
		switch {
		case wasReturned:
			delete(returned, f.sequence)
			f.batch.settle(f.index, broker.Returned)
		case f.confirmation.Acked():
			f.batch.settle(f.index, broker.Confirmed)
		case p.ch.IsClosed() || p.s.Closed():
			// The library resolves what is open as not acknowledged when the channel closes. That is
			// no nack: the broker may have stored it.
			p.s.end(fmt.Errorf("publish: channel closed before the confirm"))
			return
		default:
			f.batch.settle(f.index, broker.Nacked)
		}
	}
}

// collect takes all returns that have arrived. A message is returned before it is confirmed, so once
// a confirm was read, its return is here.
func (p *publisher) collect(returned map[int64]struct{}) {
	for {
		select {
		case r, ok := <-p.returns:
			if !ok {
				return
			}
			if sequence, ok := r.Headers[sequenceHeader].(int64); ok {
				returned[sequence] = struct{}{}
			}
		default:
			return
		}
	}
}

// entry is a message as it is written.
type entry struct {
	exchange, key string
	publishing    amqp.Publishing
}

// pending is no outcome yet.
const pending broker.Outcome = 0xff

// batch is one call of Publish.
type batch struct {
	entries []entry
	done    chan struct{} // closed when all outcomes are known

	mu       sync.Mutex
	outcomes []broker.Outcome
	left     int  // outcomes that are not known
	taken    int  // entries before this one were handed to the connection
	over     bool // the caller has its outcomes: nothing may be sent any more
}

func newBatch(log *slog.Logger, ms []broker.Message) *batch {
	b := &batch{
		entries: make([]entry, len(ms)), done: make(chan struct{}),
		outcomes: make([]broker.Outcome, len(ms)), left: len(ms),
	}
	for i := range ms {
		b.outcomes[i] = pending
	}
	for i := range ms {
		var err error
		if b.entries[i], err = newEntry(&ms[i]); err != nil {
			log.LogAttrs(context.Background(), slog.LevelError, "message refused before it was sent",
				slog.String("message", ms[i].Envelope.MessageID), slog.String("key", ms[i].RoutingKey), slog.Any("error", err))
			b.settle(i, broker.Nacked)
		}
	}
	if len(ms) == 0 {
		close(b.done)
	}
	return b
}

// maxShort is the longest string that fits an AMQP name. The library would break off in the middle
// of a frame over a longer one, and with it the connection.
const maxShort = 255

func newEntry(m *broker.Message) (entry, error) {
	if len(m.Exchange) > maxShort || len(m.RoutingKey) > maxShort {
		return entry{}, fmt.Errorf("exchange or routing key is longer than %d bytes", maxShort)
	}
	body, err := broker.Encode(&m.Envelope)
	if err != nil {
		return entry{}, err
	}
	return entry{m.Exchange, m.RoutingKey, amqp.Publishing{
		ContentType: broker.ContentType, DeliveryMode: amqp.Persistent,
		MessageId: m.Envelope.MessageID, Type: m.Envelope.Type.String(), CorrelationId: m.Envelope.CorrelationID,
		Timestamp: m.Envelope.Timestamp, Body: body,
	}}, nil
}

// take hands entry i to the writer, unless it has its outcome or nobody wants it sent any more.
func (b *batch) take(i int) (*entry, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.over || b.outcomes[i] != pending {
		return nil, false
	}
	b.taken = i + 1
	return &b.entries[i], true
}

// settle notes an outcome.
func (b *batch) settle(i int, o broker.Outcome) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.over {
		return
	}
	b.outcomes[i] = o
	b.left--
	if b.left == 0 {
		close(b.done)
	}
}

// finish returns the outcomes as they are now: unknown where something was sent, not sent elsewhere.
func (b *batch) finish() []broker.Outcome {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.over = true
	for i, o := range b.outcomes {
		switch {
		case o != pending:
		case i < b.taken:
			b.outcomes[i] = broker.Unknown
		default:
			b.outcomes[i] = broker.NotSent
		}
	}
	return b.outcomes
}

// gate stops the writer while the broker holds publishers back. What is not written then can still
// be reported as not sent, and the socket is not filled until writing to it blocks.
type gate struct {
	mu   sync.Mutex
	open chan struct{} // nil while the gate is open; closed when it opens
}

func (g *gate) set(closed bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case closed && g.open == nil:
		g.open = make(chan struct{})
	case !closed && g.open != nil:
		close(g.open)
		g.open = nil
	}
}

// wait waits until the gate is open; it returns false when done was closed first.
func (g *gate) wait(done <-chan struct{}) bool {
	for {
		g.mu.Lock()
		open := g.open
		g.mu.Unlock()
		if open == nil {
			return true
		}
		select {
		case <-open:
		case <-done:
			return false
		}
	}
}
