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

func (r *replay) slot() time.Duration { return r.Slot * r.pace }

func (r *replay) topology() broker.Topology {
	first := r.mortal("first", 0, "down")
	if r.seq.mortal {
		first.TTL = lifetime * r.slot() / 2
	}
	second := r.mortal("second", 0, "up")
	first.KeepsReturned, second.KeepsReturned = r.seq.keeps, r.seq.keeps
	return broker.Topology{
		Exchanges: []broker.Exchange{r.exchange("x", broker.Topic), r.exchange("down", broker.Topic), r.exchange("up", broker.Topic)},
		Queues:    []broker.Queue{first, second},
		Bindings: []broker.Binding{
			r.bind("x", "work.*", "first"), r.bind("down", "work.#", "second"), r.bind("up", "#", "first"),
		},
	}
}

// wait waits for the command's slot in a mortal sequence.
func (r *replay) wait(i int) {
	if !r.seq.mortal {
		return
	}
	at := r.start + time.Duration(i+1)*r.slot()
	if early := at - r.Now(); early > 0 {
		r.Sleep(early)
	}
	if r.Now() > at+r.slot()/6 {
		r.late = true
	}
}

func (r *replay) saw(format string, args ...any) {
	r.now.lines = append(r.now.lines, fmt.Sprintf(format, args...))
}

// went records an error of a command that should always succeed. If a busy server closes a session,
// this counts as a difference, too, but it does not repeat when the sequence is run more slowly.
func (r *replay) went(what string, err error) {
	if err != nil {
		r.saw("%s: %v", what, err)
	}
}

// do does one command.
func (r *replay) do(c command) {
	switch c.op {
	case opPublish:
		r.publish("work.a", c.a%4+1)
	case opUnroutable:
		r.publish("work.a", 1)
		r.publish("idle", 1)
		r.publish("work.b", 1)
	case opSubscribe:
		r.subscribe([]string{"first", "first", "second"}[c.a%3], c.b)
	case opAck, opReject, opRequeue, opTwice:
		r.settle(c)
	case opCancel:
		if s := r.pick(c.a, func(s *subscriber) bool { return !s.over }); s != nil {
			r.went("a cancel", s.c.Cancel(r.ctx))
		}
	case opClose:
		if s := r.pick(c.a, func(s *subscriber) bool { return !s.session.Closed() }); s != nil {
			s.session.Close()
			r.lost(s)
			r.Sleep(r.Pause / 4 * r.pace)
		}
	case opOtherTTL:
		q := r.mortal("first", time.Hour, "down")
		q.KeepsReturned = r.seq.keeps
		err := r.publisher.Declare(r.ctx, broker.Topology{Queues: []broker.Queue{q}})
		r.saw("another time to live: precondition %v, closed %v", errors.Is(err, broker.ErrPrecondition), r.publisher.Closed())
	case opDelete:
		r.DeleteQueue(r.called("first"))
		r.Sleep(r.Pause / 4 * r.pace)
		r.went("the queue again", r.publisher.Declare(r.ctx, r.topology()))
	case opMissing:
		_, err := r.publisher.Consume(r.ctx, r.called("none"), 1)
		r.saw("a missing queue: error %v, closed %v", err != nil, r.publisher.Closed())
	}
}

func (r *replay) publish(key string, n int) {
	ms := make([]broker.Message, n)
	for i := range ms {
		r.last++
		ms[i] = message(r.called("x"), key, r.last)
	}
	r.saw("published up to %d: %v", r.last, r.publisher.Publish(r.ctx, ms))
}

// crowdSize is how many consumers a queue of a crowd has at most.
const crowdSize = 3

func (r *replay) subscribe(queue string, prefetch int) {
	most := 1
	if r.seq.crowd {
		most = crowdSize
	}
	for _, s := range r.subs {
		if s.queue == queue && !s.over {
			most--
		}
	}
	if most <= 0 {
		return
	}
	s := &subscriber{queue: queue, session: r.session()}
	s.c = r.consume(s.session, queue, prefetch)
	r.subs = append(r.subs, s)
}

// settle settles the a-th oldest held delivery, by number.
func (r *replay) settle(c command) {
	if len(r.held) == 0 {
		return
	}
	i := c.a % len(r.held)
	h := r.held[i]
	r.held = slices.Delete(r.held, i, i+1)
	r.saw("settles %d of %s", h.id, h.queue)
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
		for deadline := r.Now() + patience; !h.by.session.Closed() && r.Now() < deadline; {
			r.Sleep(r.Pause / 50)
		}
		r.lost(h.by)
		r.saw("its session is closed: %v", h.by.session.Closed())
	}
	r.Sleep(r.Pause / 10 * r.pace)
}

// pick returns the a-th of the subscribers that meant accepts.
func (r *replay) pick(a int, meant func(s *subscriber) bool) *subscriber {
	var some []*subscriber
	for _, s := range r.subs {
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
func (r *replay) lost(s *subscriber) {
	s.over = true
	r.held = slices.DeleteFunc(r.held, func(h held) bool { return h.by == s })
}

// collect receives the deliveries. On the second subject their number is known, and it waits for
// all of them. On the first it waits until none has come for a full pause. In a mortal sequence
// both wait until the slot is almost over.
func (r *replay) collect(i int) {
	byQueue := map[string][]string{}
	tick, until := r.Pause, r.Now()
	switch {
	case r.seq.mortal:
		tick, until = r.slot()/30, r.start+time.Duration(i+2)*r.slot()-r.slot()/8
	case r.want != nil:
		tick, until = r.Pause/50*r.pace, r.Now()+3*time.Second
	}
	for {
		came := 0
		for _, s := range r.subs {
			came += r.drain(s, tick, byQueue)
		}
		r.now.deliveries += came
		enough := !r.seq.mortal && r.want != nil && r.now.deliveries >= r.want[i].deliveries
		if came == 0 && (enough || r.Now() >= until) {
			break
		}
		if !slices.ContainsFunc(r.subs, func(s *subscriber) bool { return !s.over }) {
			r.Sleep(tick) // nothing else lets time pass
		}
	}
	r.report(byQueue)
	slices.SortStableFunc(r.held, func(x, y held) int {
		if x.id != y.id {
			return x.id - y.id
		}
		return strings.Compare(x.queue, y.queue)
	})
}

// drain takes the deliveries of one subscriber.
func (r *replay) drain(s *subscriber, tick time.Duration, byQueue map[string][]string) int {
	came := 0
	for !s.over {
		d, err := r.next(s.c, tick)
		switch {
		case err == nil:
			came++
			r.held = append(r.held, held{s.queue, id(d), d, s})
			byQueue[s.queue] = append(byQueue[s.queue], r.shown(d))
		case errors.Is(err, broker.ErrCancelled):
			s.over = true
			r.saw("cancelled at %s", s.queue)
		case errors.Is(err, broker.ErrClosed):
			r.saw("closed at %s", s.queue)
			r.lost(s)
		default:
			return came
		}
	}
	return came
}

func (r *replay) shown(d broker.Delivery) string {
	mark := ""
	if d.Redelivered {
		mark = "r"
	}
	if len(d.Deaths) == 0 {
		return fmt.Sprint(id(d), mark)
	}
	return fmt.Sprintf("%d%s(%s)", id(d), mark, r.deaths(d))
}

// report shows the deliveries: in order if the queue has one consumer, otherwise in any order.
func (r *replay) report(byQueue map[string][]string) {
	for _, queue := range []string{"first", "second"} {
		if came := byQueue[queue]; len(came) > 0 {
			if r.seq.crowd {
				slices.Sort(came)
			}
			r.saw("%s delivers %s", queue, strings.Join(came, " "))
		}
	}
}

// end closes everything and checks what is left.
func (r *replay) end() {
	for _, s := range r.subs {
		// Otherwise the remaining consumers of a crowd would receive some of what the first to go
		// returns.
		if r.seq.crowd && !s.over {
			r.went("a cancel", s.c.Cancel(r.ctx))
		}
	}
	for _, s := range r.subs {
		s.session.Close()
		r.Sleep(r.Pause / 4 * r.pace)
	}
	byQueue := map[string][]string{}
	for _, queue := range []string{"first", "second"} {
		for _, d := range r.left(queue) {
			byQueue[queue] = append(byQueue[queue], r.shown(d))
		}
	}
	r.report(byQueue)
}
