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
	over    bool // no more deliveries arrive
}

// heldDelivery is a delivery that the sequence has not settled.
type heldDelivery struct {
	queue string
	id    int
	d     broker.Delivery
	by    *subscriber
}

// replay is the state of a sequence that runs on a subject.
type replay struct {
	*fixture
	seq   sequence
	pace  time.Duration // the factor by which it is slower than the subject's own times
	want  []observation // nil on the first subject
	start time.Duration
	late  bool

	publisher broker.Session
	subs      []*subscriber
	held      []heldDelivery
	last      int // the number of the last message
	now       observation
}

// playSequence runs a sequence. It returns false if the subject could not keep the sequence's time.
func playSequence(t *testing.T, s *Subject, seq sequence, pace int, want []observation) ([]observation, bool) {
	t.Helper()
	b := newFixture(t, s, seq.queueType, fmt.Sprintf("sequence.%d.%d.%d.", seq.seed, len(seq.commands), pace))
	p := &replay{fixture: b, seq: seq, pace: time.Duration(pace), want: want}
	p.publisher = b.openSession()
	p.declareTopology(p.publisher, p.sequenceTopology())
	p.start = b.Now()
	var all []observation
	for i, c := range seq.commands {
		p.now = observation{}
		p.awaitSlot(i)
		p.runCommand(c)
		p.collectDeliveries(i)
		all = append(all, p.now)
	}
	p.now = observation{}
	p.awaitSlot(len(seq.commands))
	p.recordLeftovers()
	all = append(all, p.now)
	b.cleanUp()
	return all, !p.late
}

func (r *replay) slotDuration() time.Duration { return r.Slot * r.pace }

func (r *replay) sequenceTopology() broker.Topology {
	first := r.queueWithTTL("first", 0, "down")
	if r.seq.mortal {
		first.TTL = lifetime * r.slotDuration() / 2
	}
	second := r.queueWithTTL("second", 0, "up")
	first.KeepsReturned, second.KeepsReturned = r.seq.keeps, r.seq.keeps
	return broker.Topology{
		Exchanges: []broker.Exchange{r.newExchange("x", broker.Topic), r.newExchange("down", broker.Topic), r.newExchange("up", broker.Topic)},
		Queues:    []broker.Queue{first, second},
		Bindings: []broker.Binding{
			r.newBinding("x", "work.*", "first"), r.newBinding("down", "work.#", "second"), r.newBinding("up", "#", "first"),
		},
	}
}

// awaitSlot waits for the command's slot in a mortal sequence.
func (r *replay) awaitSlot(i int) {
	if !r.seq.mortal {
		return
	}
	at := r.start + time.Duration(i+1)*r.slotDuration()
	if early := at - r.Now(); early > 0 {
		r.Sleep(early)
	}
	if r.Now() > at+r.slotDuration()/6 {
		r.late = true
	}
}

func (r *replay) recordLine(format string, args ...any) {
	r.now.lines = append(r.now.lines, fmt.Sprintf(format, args...))
}

// recordError records an error of a command that should always succeed. If a busy server closes a session,
// this counts as a difference, too, but it does not recur when the sequence is run more slowly.
func (r *replay) recordError(what string, err error) {
	if err != nil {
		r.recordLine("%s: %v", what, err)
	}
}

// runCommand does one command.
func (r *replay) runCommand(c command) {
	switch c.op {
	case opPublish:
		r.publishMessages("work.a", c.a%4+1)
	case opUnroutable:
		r.publishMessages("work.a", 1)
		r.publishMessages("idle", 1)
		r.publishMessages("work.b", 1)
	case opSubscribe:
		r.addSubscriber([]string{"first", "first", "second"}[c.a%3], c.b)
	case opAck, opReject, opRequeue, opTwice:
		r.settleDelivery(c)
	case opCancel:
		if s := r.pickSubscriber(c.a, func(s *subscriber) bool { return !s.over }); s != nil {
			r.recordError("a cancel", s.c.Cancel(r.ctx))
		}
	case opClose:
		if s := r.pickSubscriber(c.a, func(s *subscriber) bool { return !s.session.Closed() }); s != nil {
			s.session.Close()
			r.endSubscriber(s)
			r.Sleep(r.Pause / 4 * r.pace)
		}
	case opOtherTTL:
		q := r.queueWithTTL("first", time.Hour, "down")
		q.KeepsReturned = r.seq.keeps
		err := r.publisher.Declare(r.ctx, broker.Topology{Queues: []broker.Queue{q}})
		r.recordLine("another time to live: precondition %v, closed %v", errors.Is(err, broker.ErrPrecondition), r.publisher.Closed())
	case opDelete:
		r.DeleteQueue(r.objectName("first"))
		r.Sleep(r.Pause / 4 * r.pace)
		r.recordError("the queue again", r.publisher.Declare(r.ctx, r.sequenceTopology()))
	case opMissing:
		_, err := r.publisher.Consume(r.ctx, r.objectName("none"), 1)
		r.recordLine("a missing queue: error %v, closed %v", err != nil, r.publisher.Closed())
	}
}

func (r *replay) publishMessages(key string, n int) {
	ms := make([]broker.Message, n)
	for i := range ms {
		r.last++
		ms[i] = newMessage(r.objectName("x"), key, r.last)
	}
	r.recordLine("published up to %d: %v", r.last, r.publisher.Publish(r.ctx, ms))
}

// crowdSize is the largest number of consumers of a crowd's queue.
const crowdSize = 3

func (r *replay) addSubscriber(queue string, prefetch int) {
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
	s := &subscriber{queue: queue, session: r.openSession()}
	s.c = r.startConsumer(s.session, queue, prefetch)
	r.subs = append(r.subs, s)
}

// settleDelivery settles the a-th oldest held delivery, by number.
func (r *replay) settleDelivery(c command) {
	if len(r.held) == 0 {
		return
	}
	i := c.a % len(r.held)
	h := r.held[i]
	r.held = slices.Delete(r.held, i, i+1)
	r.recordLine("settles %d of %s", h.id, h.queue)
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
		r.endSubscriber(h.by)
		r.recordLine("its session is closed: %v", h.by.session.Closed())
	}
	r.Sleep(r.Pause / 10 * r.pace)
}

// pickSubscriber returns the a-th of the subscribers that meant accepts.
func (r *replay) pickSubscriber(a int, meant func(s *subscriber) bool) *subscriber {
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

// endSubscriber ends a subscriber's session, with its held deliveries.
func (r *replay) endSubscriber(s *subscriber) {
	s.over = true
	r.held = slices.DeleteFunc(r.held, func(h heldDelivery) bool { return h.by == s })
}

// collectDeliveries receives the deliveries. On the second subject their number is known, and it waits for
// all of them. On the first it waits until none has arrived for a full pause. In a mortal sequence both wait
// until the slot is almost over.
func (r *replay) collectDeliveries(i int) {
	byQueue := map[string][]string{}
	tick, until := r.Pause, r.Now()
	switch {
	case r.seq.mortal:
		tick, until = r.slotDuration()/30, r.start+time.Duration(i+2)*r.slotDuration()-r.slotDuration()/8
	case r.want != nil:
		tick, until = r.Pause/50*r.pace, r.Now()+3*time.Second
	}
	for {
		came := 0
		for _, s := range r.subs {
			came += r.drainSubscriber(s, tick, byQueue)
		}
		r.now.deliveries += came
		enough := !r.seq.mortal && r.want != nil && r.now.deliveries >= r.want[i].deliveries
		if came == 0 && (enough || r.Now() >= until) {
			break
		}
		if !slices.ContainsFunc(r.subs, func(s *subscriber) bool { return !s.over }) {
			r.Sleep(tick) // nothing else advances time
		}
	}
	r.recordDeliveries(byQueue)
	slices.SortStableFunc(r.held, func(x, y heldDelivery) int {
		if x.id != y.id {
			return x.id - y.id
		}
		return strings.Compare(x.queue, y.queue)
	})
}

// drainSubscriber takes the deliveries of one subscriber.
func (r *replay) drainSubscriber(s *subscriber, tick time.Duration, byQueue map[string][]string) int {
	came := 0
	for !s.over {
		d, err := r.nextDelivery(s.c, tick)
		switch {
		case err == nil:
			came++
			r.held = append(r.held, heldDelivery{s.queue, messageNumber(d), d, s})
			byQueue[s.queue] = append(byQueue[s.queue], r.deliveryText(d))
		case errors.Is(err, broker.ErrCancelled):
			s.over = true
			r.recordLine("cancelled at %s", s.queue)
		case errors.Is(err, broker.ErrClosed):
			r.recordLine("closed at %s", s.queue)
			r.endSubscriber(s)
		default:
			return came
		}
	}
	return came
}

func (r *replay) deliveryText(d broker.Delivery) string {
	mark := ""
	if d.Redelivered {
		mark = "r"
	}
	if len(d.Deaths) == 0 {
		return fmt.Sprint(messageNumber(d), mark)
	}
	return fmt.Sprintf("%d%s(%s)", messageNumber(d), mark, r.deathSummary(d))
}

// recordDeliveries records the deliveries: in order if the queue has one consumer, otherwise sorted.
func (r *replay) recordDeliveries(byQueue map[string][]string) {
	for _, queue := range []string{"first", "second"} {
		if came := byQueue[queue]; len(came) > 0 {
			if r.seq.crowd {
				slices.Sort(came)
			}
			r.recordLine("%s delivers %s", queue, strings.Join(came, " "))
		}
	}
}

// recordLeftovers closes everything and records what is left.
func (r *replay) recordLeftovers() {
	for _, s := range r.subs {
		// Otherwise the remaining consumers of a crowd would receive messages that the first closed session
		// returns.
		if r.seq.crowd && !s.over {
			r.recordError("a cancel", s.c.Cancel(r.ctx))
		}
	}
	for _, s := range r.subs {
		s.session.Close()
		r.Sleep(r.Pause / 4 * r.pace)
	}
	byQueue := map[string][]string{}
	for _, queue := range []string{"first", "second"} {
		for _, d := range r.drainQueue(queue) {
			byQueue[queue] = append(byQueue[queue], r.deliveryText(d))
		}
	}
	r.recordDeliveries(byQueue)
}
