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

// sequenceHeader numbers the publishes of a lane. A return carries the number, and nothing else
// identifies the returned publish: the same message may be on its way twice, since a dispatch is
// published again when its outcome is unknown.
const sequenceHeader = "handoff-publish"

// publisher sends the messages of all Publish calls of a session over one connection, and learns
// their outcomes. Each route has its own lane.
type publisher struct {
	s     *session
	alarm gate
	// answered is when the latest publish with an outcome was written, in nanoseconds since began.
	began    time.Time
	answered atomic.Int64
	probing  atomic.Bool // a probe waits for its outcome

	mu    sync.Mutex
	lanes map[routeName]*lane
}

// routeName is an exchange and a routing key. Mostly it stands for a queue.
type routeName struct{ exchange, key string }

// mostLanes is less than the number of channels that RabbitMQ allows a connection (2047). Further
// routes share a lane.
const mostLanes = 1000

// ProbeKey is a key of the default exchange that leads to no queue. The broker returns and confirms
// a message with this key without asking a queue. That distinguishes a stuck queue from a slow
// broker.
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

// Publish implements broker.Session. A message that can't be encoded is Nacked: nothing was stored,
// and sending it again would not help.
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

// entry is an encoded message.
type entry struct {
	exchange, key string
	publishing    amqp.Publishing
}

// pending means no outcome yet.
const pending broker.Outcome = 0xff

// batch is one call of Publish.
type batch struct {
	entries []entry
	done    chan struct{} // closed when all outcomes are known

	mu       sync.Mutex
	outcomes []broker.Outcome
	taken    []bool // given to the connection
	left     int    // outcomes that are still missing
	over     bool   // the caller has its outcomes: nothing more may be sent
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

// probeBatch is a Publish call that nobody waits for.
func probeBatch() *batch {
	return &batch{
		entries: []entry{{probeRoute.exchange, probeRoute.key, amqp.Publishing{}}}, done: make(chan struct{}),
		outcomes: []broker.Outcome{pending}, taken: make([]bool, 1), left: 1,
	}
}

// maxShort is the longest string that fits an AMQP name. With a longer one the library would stop
// in the middle of a frame and break the connection.
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

// take gives entry i to the writer, unless the entry has its outcome or the caller has returned.
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

// settle notes an outcome; only the first one counts.
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

// finish returns the outcomes so far. Missing ones are Unknown if the message was sent, else
// NotSent.
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

// gate stops the writer while the broker holds publishers back. Messages not yet written can then
// still be reported as not sent, and the socket does not fill up until a write blocks.
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

// wait waits until the gate is open; it returns false if done was closed first.
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
