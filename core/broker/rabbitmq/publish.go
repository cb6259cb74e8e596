package rabbitmq

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"handoff/core/broker"
)

// sequenceHeader numbers the publishes of a lane. A return brings it back, and it alone says
// which publish was returned: the same message may be on its way twice, since a dispatch is
// published again when its outcome was unknown.
const sequenceHeader = "handoff-publish"

// publisher sends the messages of all Publish calls of a session over one connection, and learns
// their outcomes. Each route has a lane of its own.
type publisher struct {
	s     *session
	alarm gate
	// answered is when the latest publish was written that has its outcome, in nanoseconds since began.
	began    time.Time
	answered atomic.Int64
	probing  atomic.Bool // a probe has no outcome

	mu    sync.Mutex
	lanes map[routeName]*lane
}

// routeName is an exchange and a routing key. It is a queue, mostly.
type routeName struct{ exchange, key string }

// mostLanes is less than the channels that RabbitMQ allows a connection (2047). Routes beyond it share a lane.
const mostLanes = 1000

// ProbeKey is a key of the default exchange that leads to no queue. The broker returns a message to it, and confirms it,
// without asking a queue: that tells a queue that is stuck from a broker that is slow.
const ProbeKey = "handoff.probe"

var probeRoute = routeName{"", ProbeKey} //detlint:ok a constant, never written

func openPublisher(s *session) (*publisher, error) {
	p := &publisher{s: s, began: time.Now(), lanes: make(map[routeName]*lane)}
	l := p.newLane(probeRoute)
	if err := l.open(); err != nil {
		return nil, err
	}
	p.lanes[probeRoute] = l
	go l.write()
	go l.settle()
	return p, nil
}

// lane returns the lane of a route.
func (p *publisher) lane(name routeName) *lane {
	p.mu.Lock()
	defer p.mu.Unlock()
	l := p.lanes[name]
	if l == nil && len(p.lanes) >= mostLanes {
		name = routeName{}
		l = p.lanes[name]
	}
	if l == nil {
		l = p.newLane(name)
		p.lanes[name] = l
		go l.run()
	}
	return l
}

// Publish implements broker.Session. A message that can't be written to the wire is Nacked: nothing
// was stored, and sending it again would not help.
func (s *session) Publish(ctx context.Context, ms []broker.Message) []broker.Outcome {
	b := newBatch(s.b.log, ms)
	if s.Closed() || ctx.Err() != nil {
		return b.finish()
	}
	for i := range b.entries {
		if b.settled(i) {
			continue
		}
		e := &b.entries[i]
		s.publisher.lane(routeName{e.exchange, e.key}).add(item{b, i})
	}
	select {
	case <-b.done:
	case <-ctx.Done():
	case <-s.done:
	}
	return b.finish()
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
	taken    []bool // handed to the connection
	left     int    // outcomes that are not known
	over     bool   // the caller has its outcomes: nothing may be sent any more
}

func newBatch(log *slog.Logger, ms []broker.Message) *batch {
	b := &batch{
		entries: make([]entry, len(ms)), done: make(chan struct{}),
		outcomes: make([]broker.Outcome, len(ms)), taken: make([]bool, len(ms)), left: len(ms),
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

// probeBatch is a call of Publish that nobody waits for.
func probeBatch() *batch {
	return &batch{
		entries: []entry{{probeRoute.exchange, probeRoute.key, amqp.Publishing{}}}, done: make(chan struct{}),
		outcomes: []broker.Outcome{pending}, taken: make([]bool, 1), left: 1,
	}
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
	b.taken[i] = true
	return &b.entries[i], true
}

// settled says that an entry has its outcome.
func (b *batch) settled(i int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.outcomes[i] != pending
}

// settle notes an outcome; the first one counts.
func (b *batch) settle(i int, o broker.Outcome) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.over || b.outcomes[i] != pending {
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
		case b.taken[i]:
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
