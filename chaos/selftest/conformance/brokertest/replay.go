package brokertest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"handoff/core/broker"
)

// subscriber is one consumer of a sequence, with its own session.
type subscriber struct {
	queue   string
	session broker.Session
	c       broker.Consumer
	over    bool // nothing comes any more
}

// held is a delivery that the sequence has not settled.
type held struct {
	queue string
	id    int
	d     broker.Delivery
	by    *subscriber
}

// replay is the state of a sequence that runs on a subject.
type replay struct {
	*fixture
	seq   sequence
	pace  time.Duration // how much slower than the subject's own times
	want  []observation // nil on the first subject
	start time.Duration
	late  bool

	publisher broker.Session
	subs      []*subscriber
	held      []held
	last      int // the number of the last message
	now       observation
}

// play runs a sequence. It returns false if the subject could not keep the sequence's time.
func play(t *testing.T, s *Subject, seq sequence, pace int, want []observation) ([]observation, bool) {
	t.Helper()
	b := newFixture(t, s, seq.queueType, fmt.Sprintf("sequence.%d.%d.%d.", seq.seed, len(seq.commands), pace))
	p := &replay{fixture: b, seq: seq, pace: time.Duration(pace), want: want}
	p.publisher = b.session()
	p.declare(p.publisher, p.topology())
	p.start = b.Now()
	var all []observation
	for i, c := range seq.commands {
		p.now = observation{}
		p.wait(i)
		p.do(c)
		p.collect(i)
		all = append(all, p.now)
	}
	p.now = observation{}
	p.wait(len(seq.commands))
	p.end()
	all = append(all, p.now)
	b.clear()
	return all, !p.late
}

func (p *replay) slot() time.Duration { return p.Slot * p.pace }

func (p *replay) topology() broker.Topology {
	first := p.mortal("first", 0, "down")
	if p.seq.mortal {
		first.TTL = lifetime * p.slot() / 2
	}
	second := p.mortal("second", 0, "up")
	first.KeepsReturned, second.KeepsReturned = p.seq.keeps, p.seq.keeps
	return broker.Topology{
		Exchanges: []broker.Exchange{p.exchange("x", broker.Topic), p.exchange("down", broker.Topic), p.exchange("up", broker.Topic)},
		Queues:    []broker.Queue{first, second},
		Bindings: []broker.Binding{
			p.bind("x", "work.*", "first"), p.bind("down", "work.#", "second"), p.bind("up", "#", "first"),
		},
	}
}

// wait waits for the command's slot in a mortal sequence.
func (p *replay) wait(i int) {
	if !p.seq.mortal {
		return
	}
	at := p.start + time.Duration(i+1)*p.slot()
	if early := at - p.Now(); early > 0 {
		p.Sleep(early)
	}
	if p.Now() > at+p.slot()/6 {
		p.late = true
	}
}

func (p *replay) saw(format string, args ...any) {
	p.now.lines = append(p.now.lines, fmt.Sprintf(format, args...))
}

// went records an error of a command that should always succeed. If a busy server closes a session,
// this counts as a difference, too, but it does not repeat when the sequence is run more slowly.
func (p *replay) went(what string, err error) {
	if err != nil {
		p.saw("%s: %v", what, err)
	}
}

// do does one command.
func (p *replay) do(c command) {
	switch c.op {
	case opPublish:
		p.publish("work.a", c.a%4+1)
	case opUnroutable:
		p.publish("work.a", 1)
		p.publish("idle", 1)
		p.publish("work.b", 1)
	case opSubscribe:
		p.subscribe([]string{"first", "first", "second"}[c.a%3], c.b)
	case opAck, opReject, opRequeue, opTwice:
		p.settle(c)
	case opCancel:
		if s := p.pick(c.a, func(s *subscriber) bool { return !s.over }); s != nil {
			p.went("a cancel", s.c.Cancel(p.ctx))
		}
	case opClose:
		if s := p.pick(c.a, func(s *subscriber) bool { return !s.session.Closed() }); s != nil {
			s.session.Close()
			p.lost(s)
			p.Sleep(p.Pause / 4 * p.pace)
		}
	case opOtherTTL:
		q := p.mortal("first", time.Hour, "down")
		q.KeepsReturned = p.seq.keeps
		err := p.publisher.Declare(p.ctx, broker.Topology{Queues: []broker.Queue{q}})
		p.saw("another time to live: precondition %v, closed %v", errors.Is(err, broker.ErrPrecondition), p.publisher.Closed())
	case opDelete:
		p.DeleteQueue(p.called("first"))
		p.Sleep(p.Pause / 4 * p.pace)
		p.went("the queue again", p.publisher.Declare(p.ctx, p.topology()))
	case opMissing:
		_, err := p.publisher.Consume(p.ctx, p.called("none"), 1)
		p.saw("a missing queue: error %v, closed %v", err != nil, p.publisher.Closed())
	}
}

func (p *replay) publish(key string, n int) {
	ms := make([]broker.Message, n)
	for i := range ms {
		p.last++
		ms[i] = message(p.called("x"), key, p.last)
	}
	p.saw("published up to %d: %v", p.last, p.publisher.Publish(p.ctx, ms))
}

// crowdSize is how many consumers a queue of a crowd has at most.
const crowdSize = 3

func (p *replay) subscribe(queue string, prefetch int) {
	most := 1
	if p.seq.crowd {
		most = crowdSize
	}
	for _, s := range p.subs {
		if s.queue == queue && !s.over {
			most--
		}
	}
	if most <= 0 {
		return
	}
	s := &subscriber{queue: queue, session: p.session()}
	s.c = p.consume(s.session, queue, prefetch)
	p.subs = append(p.subs, s)
}

// settle settles the a-th oldest held delivery, by number.
func (p *replay) settle(c command) {
	if len(p.held) == 0 {
		return
	}
	i := c.a % len(p.held)
	h := p.held[i]
	p.held = slices.Delete(p.held, i, i+1)
	p.saw("settles %d of %s", h.id, h.queue)
	switch c.op {
	case opAck:
		h.by.c.Ack(h.d)
	case opReject:
		h.by.c.Reject(h.d, false)
	case opRequeue:
		h.by.c.Reject(h.d, true)
	default:
		h.by.c.Ack(h.d)
		h.by.c.Ack(h.d)
		for deadline := p.Now() + patience; !h.by.session.Closed() && p.Now() < deadline; {
			p.Sleep(p.Pause / 50)
		}
		p.lost(h.by)
		p.saw("its session is closed: %v", h.by.session.Closed())
	}
	p.Sleep(p.Pause / 10 * p.pace)
}

// pick returns the a-th of the subscribers that meant accepts.
func (p *replay) pick(a int, meant func(s *subscriber) bool) *subscriber {
	var some []*subscriber
	for _, s := range p.subs {
		if meant(s) {
			some = append(some, s)
		}
	}
	if len(some) == 0 {
		return nil
	}
	return some[a%len(some)]
}

// lost ends a subscriber's session, with its held deliveries.
func (p *replay) lost(s *subscriber) {
	s.over = true
	p.held = slices.DeleteFunc(p.held, func(h held) bool { return h.by == s })
}

// collect receives the deliveries. On the second subject their number is known, and it waits for
// all of them. On the first it waits until none has come for a full pause. In a mortal sequence
// both wait until the slot is almost over.
func (p *replay) collect(i int) {
	byQueue := map[string][]string{}
	tick, until := p.Pause, p.Now()
	switch {
	case p.seq.mortal:
		tick, until = p.slot()/30, p.start+time.Duration(i+2)*p.slot()-p.slot()/8
	case p.want != nil:
		tick, until = p.Pause/50*p.pace, p.Now()+3*time.Second
	}
	for {
		came := 0
		for _, s := range p.subs {
			came += p.drain(s, tick, byQueue)
		}
		p.now.deliveries += came
		enough := !p.seq.mortal && p.want != nil && p.now.deliveries >= p.want[i].deliveries
		if came == 0 && (enough || p.Now() >= until) {
			break
		}
		if !slices.ContainsFunc(p.subs, func(s *subscriber) bool { return !s.over }) {
			p.Sleep(tick) // nothing else lets time pass
		}
	}
	p.report(byQueue)
	slices.SortStableFunc(p.held, func(x, y held) int {
		if x.id != y.id {
			return x.id - y.id
		}
		return strings.Compare(x.queue, y.queue)
	})
}

// drain takes the deliveries of one subscriber.
func (p *replay) drain(s *subscriber, tick time.Duration, byQueue map[string][]string) int {
	came := 0
	for !s.over {
		d, err := p.next(s.c, tick)
		switch {
		case err == nil:
			came++
			p.held = append(p.held, held{s.queue, id(d), d, s})
			byQueue[s.queue] = append(byQueue[s.queue], p.shown(d))
		case errors.Is(err, broker.ErrCancelled):
			s.over = true
			p.saw("cancelled at %s", s.queue)
		case errors.Is(err, broker.ErrClosed):
			p.saw("closed at %s", s.queue)
			p.lost(s)
		default:
			return came
		}
	}
	return came
}

func (p *replay) shown(d broker.Delivery) string {
	mark := ""
	if d.Redelivered {
		mark = "r"
	}
	if len(d.Deaths) == 0 {
		return fmt.Sprint(id(d), mark)
	}
	return fmt.Sprintf("%d%s(%s)", id(d), mark, p.deaths(d))
}

// report shows the deliveries: in order if the queue has one consumer, otherwise in any order.
func (p *replay) report(byQueue map[string][]string) {
	for _, queue := range []string{"first", "second"} {
		if came := byQueue[queue]; len(came) > 0 {
			if p.seq.crowd {
				slices.Sort(came)
			}
			p.saw("%s delivers %s", queue, strings.Join(came, " "))
		}
	}
}

// end closes everything and checks what is left.
func (p *replay) end() {
	for _, s := range p.subs {
		// Otherwise the remaining consumers of a crowd would receive some of what the first to go
		// returns.
		if p.seq.crowd && !s.over {
			p.went("a cancel", s.c.Cancel(p.ctx))
		}
	}
	for _, s := range p.subs {
		s.session.Close()
		p.Sleep(p.Pause / 4 * p.pace)
	}
	byQueue := map[string][]string{}
	for _, queue := range []string{"first", "second"} {
		for _, d := range p.left(queue) {
			byQueue[queue] = append(byQueue[queue], p.shown(d))
		}
	}
	p.report(byQueue)
}
