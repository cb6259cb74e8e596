package brokertest

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"handoff/core/broker"
	"handoff/core/execution"
	"handoff/core/testenv"
)

// patience is how long the suite waits for an event that must come.
var patience = testenv.Patience()

// tester is the part of *testing.T that a case uses.
type tester interface {
	Helper()
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// fixture has the tools of a case.
type fixture struct {
	Subject
	Features
	t         tester
	ctx       context.Context
	queueType string
	prefix    string
	sessions  []broker.Session
	queues    []string
	// soon and ttl are the times to live of the case.
	soon, ttl time.Duration

	// name and later belong to a case that fails only after all cases have been judged.
	name  string
	later *[]string
	// back is when the broker was up again. killed says whether it had been killed.
	back   time.Duration
	killed bool
}

func newFixture(t tester, s *Subject, queueType, prefix string) *fixture {
	return &fixture{
		soon: soon, ttl: ttl,

		Subject: *s, Features: FeaturesOf(queueType, s.Version, false), t: t, ctx: context.Background(),
		queueType: queueType, prefix: s.Prefix + prefix,
	}
}

// clear closes what the case opened and deletes its queues.
func (b *fixture) clear() {
	b.closeSessions()
	if b.DeleteQueue == nil {
		return
	}
	for _, q := range b.queues {
		b.DeleteQueue(q)
	}
}

func (b *fixture) closeSessions() {
	for _, s := range b.sessions {
		s.Close()
	}
}

func (b *fixture) errorf(format string, args ...any) {
	b.t.Helper()
	if b.later != nil {
		*b.later = append(*b.later, fmt.Sprintf(format, args...))
		return
	}
	b.t.Errorf(format, args...)
}

// fatalf ends the case, because nothing sensible can follow.
func (b *fixture) fatalf(format string, args ...any) {
	b.t.Helper()
	if b.name != "" {
		format = b.name + ": " + format
	}
	b.t.Fatalf(format, args...)
}

func (b *fixture) must(err error) {
	b.t.Helper()
	if err != nil {
		b.fatalf("%v", err)
	}
}

// expect fails the case if the observed value differs from the contract's.
func (b *fixture) expect(what string, got, want any) {
	b.t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		b.errorf("%s: %v, the contract says %v", what, got, want)
	}
}

func (b *fixture) refused(what string, err, want error) {
	b.t.Helper()
	if !errors.Is(err, want) {
		b.errorf("%s: %v, the contract says %v", what, err, want)
	}
}

// called is the name of an object of this case.
func (b *fixture) called(name string) string { return b.prefix + name }

// session opens a new session.
func (b *fixture) session() broker.Session {
	b.t.Helper()
	s, err := b.Connect()
	b.must(err)
	b.sessions = append(b.sessions, s)
	return s
}

// queue is a queue of the case's type.
func (b *fixture) queue(name string) broker.Queue {
	return broker.Queue{Name: b.called(name), Type: b.queueType}
}

// keeping is a queue that keeps returned messages.
func (b *fixture) keeping(name string) broker.Queue {
	q := b.queue(name)
	q.KeepsReturned = true
	return q
}

// mortal is a queue with a time to live and a dead letter exchange.
func (b *fixture) mortal(name string, ttl time.Duration, dlx string) broker.Queue {
	q := b.queue(name)
	q.TTL = ttl
	if dlx != "" {
		q.DeadLetterExchange = b.called(dlx)
	}
	return q
}

func (b *fixture) bind(exchange, pattern, queue string) broker.Binding {
	return broker.Binding{Exchange: b.called(exchange), Pattern: pattern, Queue: b.called(queue)}
}

func (b *fixture) exchange(name string, kind broker.ExchangeKind) broker.Exchange {
	return broker.Exchange{Name: b.called(name), Kind: kind}
}

func (b *fixture) declare(s broker.Session, t broker.Topology) {
	b.t.Helper()
	for _, q := range t.Queues {
		b.queues = append(b.queues, q.Name)
	}
	b.must(s.Declare(b.ctx, t))
}

// plain declares the queue q.
func (b *fixture) plain(s broker.Session) {
	b.t.Helper()
	b.declare(s, broker.Topology{Queues: []broker.Queue{b.queue("q")}})
}

// path declares the queue q with a time to live, and behind it the queue dead for dead letters.
func (b *fixture) path(s broker.Session, ttl time.Duration) {
	b.t.Helper()
	b.declare(s, broker.Topology{
		Exchanges: []broker.Exchange{b.exchange("dlx", broker.Topic)},
		Queues:    []broker.Queue{b.mortal("q", ttl, "dlx"), b.queue("dead")},
		Bindings:  []broker.Binding{b.bind("dlx", "#", "dead")},
	})
}

// message is a dispatch that can be recognised by its execution's id.
func message(exchange, key string, id int) broker.Message {
	return broker.Message{Exchange: exchange, RoutingKey: key, Envelope: broker.Envelope{
		MessageID: "m" + strconv.Itoa(id), Type: broker.ExecutionScheduled, CorrelationID: "suite",
		Timestamp: time.Unix(1_700_000_000, 0).UTC(), Version: broker.WireVersion,
		Dispatches: []broker.Dispatch{{
			Key: execution.Key{ID: execution.ID(id), Epoch: 1}, Worker: 1, Incarnation: 1,
			Action: execution.Action{Ref: "shell.echo", Runtime: "shell"},
		}},
	}}
}

// to publishes to an exchange, "" for the default one, and expects the same outcome for all.
func (b *fixture) to(s broker.Session, want broker.Outcome, exchange, key string, ids ...int) {
	b.t.Helper()
	ms := make([]broker.Message, len(ids))
	for i, id := range ids {
		ms[i] = message(exchange, key, id)
	}
	for i, o := range s.Publish(b.ctx, ms) {
		if o != want {
			b.errorf("the outcome of message %d: %v, the contract says %v", ids[i], o, want)
		}
	}
}

// put puts messages into the queue q.
func (b *fixture) put(s broker.Session, ids ...int) {
	b.t.Helper()
	b.to(s, broker.Confirmed, "", b.called("q"), ids...)
}

func (b *fixture) consume(s broker.Session, queue string, prefetch int) broker.Consumer {
	b.t.Helper()
	c, err := s.Consume(b.ctx, b.called(queue), prefetch)
	b.must(err)
	return c
}

// next waits for a delivery, or for the end of deliveries.
func (b *fixture) next(c broker.Consumer, within time.Duration) (d broker.Delivery, err error) {
	b.Within(within, func(ctx context.Context) { d, err = c.Receive(ctx) })
	return d, err
}

// receive waits for a delivery that must come.
func (b *fixture) receive(c broker.Consumer) broker.Delivery {
	b.t.Helper()
	d, err := b.next(c, patience)
	if err != nil {
		b.fatalf("a delivery that has to come: %v", err)
	}
	return d
}

// hold receives several deliveries and settles none.
func (b *fixture) hold(c broker.Consumer, n int) []broker.Delivery {
	b.t.Helper()
	ds := make([]broker.Delivery, n)
	for i := range ds {
		ds[i] = b.receive(c)
	}
	return ds
}

// nothing expects that no delivery comes.
func (b *fixture) nothing(what string, c broker.Consumer) {
	b.t.Helper()
	if d, err := b.next(c, b.Quiet); !errors.Is(err, context.DeadlineExceeded) {
		b.errorf("%s: received %s and %v, the contract says nothing comes", what, show(d), err)
	}
}

// left receives and settles everything that a queue delivers now.
func (b *fixture) left(queue string) []broker.Delivery {
	b.t.Helper()
	s, err := b.Connect()
	b.must(err)
	defer s.Close()
	c := b.consume(s, queue, 0)
	var ds []broker.Delivery
	for {
		d, err := b.next(c, b.Quiet)
		if err != nil {
			return ds
		}
		c.Ack(d)
		ds = append(ds, d)
	}
}

// holds expects exactly these messages in a queue, in this order, and removes them.
func (b *fixture) holds(queue string, want ...int) {
	b.t.Helper()
	b.expect("what is left in "+queue, ids(b.left(queue)), ids2(want))
}

// id is a message's number; a malformed one has none.
func id(d broker.Delivery) int {
	if len(d.Envelope.Dispatches) == 0 {
		return 0
	}
	return int(d.Envelope.Dispatches[0].Key.ID)
}

func ids(ds []broker.Delivery) []int {
	all := make([]int, len(ds))
	for i, d := range ds {
		all[i] = id(d)
	}
	return all
}

// ids2 makes a nil list equal to an empty one.
func ids2(want []int) []int { return append([]int{}, want...) }

// flags are the redelivered flags of deliveries, as letters.
func flags(ds []broker.Delivery) string {
	var all strings.Builder
	for _, d := range ds {
		if d.Redelivered {
			all.WriteString("r")
		} else {
			all.WriteString("-")
		}
	}
	return all.String()
}

// deaths shows x-death without its times: newest first, with queue, reason and count.
func (b *fixture) deaths(d broker.Delivery) string {
	var all []string
	for _, death := range d.Deaths {
		all = append(all, fmt.Sprintf("%s %v %d", strings.TrimPrefix(death.Queue, b.prefix), death.Reason, death.Count))
	}
	return strings.Join(all, ", ")
}

func show(d broker.Delivery) string {
	return fmt.Sprintf("message %d (redelivered %v)", id(d), d.Redelivered)
}

// upTo lists the numbers from one to another.
func upTo(from, to int) []int {
	var all []int
	for i := from; i <= to; i++ {
		all = append(all, i)
	}
	return all
}

// settled waits until the broker has done what it does without an answer.
func (b *fixture) settled() { b.Sleep(b.Pause) }

// cancel cancels a consumer.
func (b *fixture) cancel(c broker.Consumer) {
	b.t.Helper()
	b.must(c.Cancel(b.ctx))
}
