package rabbitmq

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"handoff/core/broker"
)

// sequenceHeader numbers the publishes of a lane. A return carries the number, and nothing else identifies
// the returned publish. The same message may be in transit twice, since a dispatch is republished when its
// outcome is unknown.
const sequenceHeader = "handoff-publish"

// publisher sends the messages of all Publish calls of a session over one connection, and collects their
// outcomes. Each route has its own lane.
type publisher struct {
	s     *session
	alarm gate
	// answered is the time at which the latest publish with an outcome was written, in nanoseconds since
	// began.
	began    time.Time
	answered atomic.Int64
	probing  atomic.Bool // whether a probe is still unanswered
	prober   *lane       // publishes the probes

	mu    sync.Mutex
	lanes map[routeName]*lane
	// shared publishes for routes that found all other lanes busy; nil until it is needed.
	shared *lane
	// open counts the channels of lanes, except of prober and shared, until they are closed. It
	// stays within most.
	open, most int
}

// routeName is an exchange and a routing key. It usually leads to one queue.
type routeName struct{ exchange, key string }

// mostLanes bounds the channels of a session, which cost the broker memory. It is less than the
// number that RabbitMQ allows a connection by default (2047).
const mostLanes = 1000

// ProbeKey is a key of the default exchange that leads to no queue. The broker returns and confirms a message
// with this key without asking a queue. That distinguishes a stuck queue from a slow broker.
const ProbeKey = "handoff.probe"

func openPublisher(s *session) (*publisher, error) {
	const others = 2 // prober and shared
	p := &publisher{
		s: s, began: time.Now(), lanes: make(map[routeName]*lane),
		most: min(mostLanes, int(s.publishing.amqp.Config.ChannelMax)-others),
	}
	p.prober = p.newLane()
	if err := p.prober.openChannel(); err != nil {
		return nil, err
	}
	go p.prober.writeItems()
	go p.prober.settleInFlight()
	return p, nil
}

// claimLane returns the lane of a route and counts one more message as pending there. Until a message
// has its outcome, all later messages of its route get the same lane, so they keep their order.
func (p *publisher) claimLane(name routeName) *lane {
	p.mu.Lock()
	defer p.mu.Unlock()
	l := p.lanes[name]
	if l == nil || l == p.shared && l.pending.Load() == 0 {
		l = p.assignLane()
		p.lanes[name] = l
	}
	l.pending.Add(1)
	return l
}

// assignLane returns a lane for a route that has none: a new one or, at the bound, any lane without pending
// messages, since the next message of that lane's route can use another lane. Routes share one only while all
// are busy.
func (p *publisher) assignLane() *lane {
	if p.open < p.most {
		p.open++
		l := p.newLane()
		go l.publishUntilRetired()
		return l
	}
	for name, l := range p.lanes {
		if l != p.shared && l.pending.Load() == 0 {
			delete(p.lanes, name)
			return l
		}
	}
	if p.shared == nil {
		p.shared = p.newLane()
		go p.shared.publishUntilRetired()
	}
	return p.shared
}

// retireLane removes an idle lane from its routes. It returns whether the lane's channel can be closed, which
// is not the case if new messages are pending. The channels of prober and shared stay open.
func (p *publisher) retireLane(l *lane) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if l == p.prober || l.pending.Load() > 0 {
		return false
	}
	maps.DeleteFunc(p.lanes, func(_ routeName, of *lane) bool { return of == l })
	if l == p.shared {
		return false
	}
	close(l.retired)
	return true
}

// noteChannelClosed records that a lane's channel is closed.
func (p *publisher) noteChannelClosed() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.open--
}

// Publish implements broker.Session. A message that can't be encoded is Nacked: nothing was stored,
// and a retry would not help.
func (s *session) Publish(ctx context.Context, ms []broker.Message) []broker.Outcome {
	b := newBatch(s.b.log, ms)
	if s.Closed() || ctx.Err() != nil {
		return b.finalOutcomes()
	}
	for i := range b.entries {
		if b.hasOutcome(i) {
			continue
		}
		e := &b.entries[i]
		s.publisher.claimLane(routeName{e.exchange, e.key}).addItem(batchItem{b, i})
	}
	select {
	case <-b.done:
	case <-ctx.Done():
	case <-s.done:
	}
	return b.finalOutcomes()
}

// entry is an encoded message.
type entry struct {
	exchange, key string
	publishing    amqp.Publishing
}

// noOutcome means no outcome yet.
const noOutcome broker.Outcome = 0xff

// batch is the state of one Publish call.
type batch struct {
	entries []entry
	done    chan struct{} // closed when all outcomes are known

	mu       sync.Mutex
	outcomes []broker.Outcome
	taken    []bool // which entries were passed to the connection
	left     int    // outcomes that are still missing
	over     bool   // the caller has its outcomes: nothing more may be sent
}

func newBatch(log *slog.Logger, ms []broker.Message) *batch {
	b := &batch{
		entries: make([]entry, len(ms)), done: make(chan struct{}),
		outcomes: make([]broker.Outcome, len(ms)), taken: make([]bool, len(ms)), left: len(ms),
	}
	for i := range ms {
		b.outcomes[i] = noOutcome
	}
	for i := range ms {
		var err error
		if b.entries[i], err = newEntry(&ms[i]); err != nil {
			log.LogAttrs(context.Background(), slog.LevelError, "message refused before it was sent",
				slog.String("message", ms[i].Envelope.MessageID), slog.String("key", ms[i].RoutingKey), slog.Any("error", err))
			b.setOutcome(i, broker.Nacked)
		}
	}
	if len(ms) == 0 {
		close(b.done)
	}
	return b
}

// probeBatch returns a batch that no caller waits for.
func probeBatch() *batch {
	return &batch{
		entries: []entry{{key: ProbeKey}}, done: make(chan struct{}),
		outcomes: []broker.Outcome{noOutcome}, taken: make([]bool, 1), left: 1,
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

// takeEntry passes entry i to the writer, unless the entry already has an outcome or the caller has returned.
func (b *batch) takeEntry(i int) (*entry, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.over || b.outcomes[i] != noOutcome {
		return nil, false
	}
	b.taken[i] = true
	return &b.entries[i], true
}

// hasOutcome reports whether an entry has its outcome.
func (b *batch) hasOutcome(i int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.outcomes[i] != noOutcome
}

// setOutcome records an entry's outcome; only the first one counts.
func (b *batch) setOutcome(i int, o broker.Outcome) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.over || b.outcomes[i] != noOutcome {
		return
	}
	b.outcomes[i] = o
	b.left--
	if b.left == 0 {
		close(b.done)
	}
}

// finalOutcomes returns the outcomes so far. Missing ones are Unknown if the message was sent, else NotSent.
func (b *batch) finalOutcomes() []broker.Outcome {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.over = true
	for i, o := range b.outcomes {
		switch {
		case o != noOutcome:
		case b.taken[i]:
			b.outcomes[i] = broker.Unknown
		default:
			b.outcomes[i] = broker.NotSent
		}
	}
	return b.outcomes
}

// gate stops the writer while the broker blocks publishers. Messages not yet written can then still be
// reported as not sent, and the socket does not fill up until a write blocks.
type gate struct {
	mu   sync.Mutex
	open chan struct{} // nil while the gate is open; closed when it opens
}

func (g *gate) setClosed(closed bool) {
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

// awaitOpen waits until the gate is open; it returns false if done was closed first.
func (g *gate) awaitOpen(done <-chan struct{}) bool {
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
