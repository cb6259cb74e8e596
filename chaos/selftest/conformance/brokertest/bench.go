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

// patience is the longest wait of the suite for an event that must come.
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

	// name and later are set if failures of the case are reported only after all cases have been judged.
	name  string
	later *[]string
	// back is the time at which the broker was up again. killed reports whether it had been killed.
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

// cleanUp closes what the case opened and deletes its queues.
func (f *fixture) cleanUp() {
	f.closeSessions()
	if f.DeleteQueue == nil {
		return
	}
	for _, q := range f.queues {
		f.DeleteQueue(q)
	}
}

func (f *fixture) closeSessions() {
	for _, s := range f.sessions {
		s.Close()
	}
}

func (f *fixture) errorf(format string, args ...any) {
	f.t.Helper()
	if f.later != nil {
		*f.later = append(*f.later, fmt.Sprintf(format, args...))
		return
	}
	f.t.Errorf(format, args...)
}

// fatalf ends the case, because it can't continue.
func (f *fixture) fatalf(format string, args ...any) {
	f.t.Helper()
	if f.name != "" {
		format = f.name + ": " + format
	}
	f.t.Fatalf(format, args...)
}

func (f *fixture) must(err error) {
	f.t.Helper()
	if err != nil {
		f.fatalf("%v", err)
	}
}

// expect fails the case if the observed value differs from the contract's.
func (f *fixture) expect(what string, got, want any) {
	f.t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		f.errorf("%s: %v, the contract says %v", what, got, want)
	}
}

func (f *fixture) expectError(what string, err, want error) {
	f.t.Helper()
	if !errors.Is(err, want) {
		f.errorf("%s: %v, the contract says %v", what, err, want)
	}
}

// objectName returns the name of an object of this case.
func (f *fixture) objectName(name string) string { return f.prefix + name }

// openSession opens a new session.
func (f *fixture) openSession() broker.Session {
	f.t.Helper()
	s, err := f.Connect()
	f.must(err)
	f.sessions = append(f.sessions, s)
	return s
}

// queueNamed returns a queue of the case's type.
func (f *fixture) queueNamed(name string) broker.Queue {
	return broker.Queue{Name: f.objectName(name), Type: f.queueType}
}

// queueKeepingReturned returns a queue that keeps returned messages.
func (f *fixture) queueKeepingReturned(name string) broker.Queue {
	q := f.queueNamed(name)
	q.KeepsReturned = true
	return q
}

// queueWithTTL returns a queue with a time to live and a dead letter exchange.
func (f *fixture) queueWithTTL(name string, ttl time.Duration, dlx string) broker.Queue {
	q := f.queueNamed(name)
	q.TTL = ttl
	if dlx != "" {
		q.DeadLetterExchange = f.objectName(dlx)
	}
	return q
}

func (f *fixture) newBinding(exchange, pattern, queue string) broker.Binding {
	return broker.Binding{Exchange: f.objectName(exchange), Pattern: pattern, Queue: f.objectName(queue)}
}

func (f *fixture) newExchange(name string, kind broker.ExchangeKind) broker.Exchange {
	return broker.Exchange{Name: f.objectName(name), Kind: kind}
}

func (f *fixture) declareTopology(s broker.Session, t broker.Topology) {
	f.t.Helper()
	for _, q := range t.Queues {
		f.queues = append(f.queues, q.Name)
	}
	f.must(s.Declare(f.ctx, t))
}

// declareQueue declares the queue q.
func (f *fixture) declareQueue(s broker.Session) {
	f.t.Helper()
	f.declareTopology(s, broker.Topology{Queues: []broker.Queue{f.queueNamed("q")}})
}

// declareDeadLetterPath declares the queue q with a time to live, and the queue dead for its dead letters.
func (f *fixture) declareDeadLetterPath(s broker.Session, ttl time.Duration) {
	f.t.Helper()
	f.declareTopology(s, broker.Topology{
		Exchanges: []broker.Exchange{f.newExchange("dlx", broker.Topic)},
		Queues:    []broker.Queue{f.queueWithTTL("q", ttl, "dlx"), f.queueNamed("dead")},
		Bindings:  []broker.Binding{f.newBinding("dlx", "#", "dead")},
	})
}

// newMessage returns a dispatch that can be recognised by its execution's id.
func newMessage(exchange, key string, id int) broker.Message {
	return broker.Message{Exchange: exchange, RoutingKey: key, Envelope: broker.Envelope{
		MessageID: "m" + strconv.Itoa(id), Type: broker.ExecutionScheduled, CorrelationID: "suite",
		Timestamp: time.Unix(1_700_000_000, 0).UTC(), Version: broker.WireVersion,
		Dispatches: []broker.Dispatch{{
			Key: execution.Key{ID: execution.ID(id), Epoch: 1}, Worker: 1, Incarnation: 1,
			Action: execution.Action{Ref: "shell.echo", Runtime: "shell"},
		}},
	}}
}

// publishExpecting publishes to an exchange, "" for the default one, and expects the same outcome for all.
func (f *fixture) publishExpecting(s broker.Session, want broker.Outcome, exchange, key string, ids ...int) {
	f.t.Helper()
	ms := make([]broker.Message, len(ids))
	for i, id := range ids {
		ms[i] = newMessage(exchange, key, id)
	}
	for i, o := range s.Publish(f.ctx, ms) {
		if o != want {
			f.errorf("the outcome of message %d: %v, the contract says %v", ids[i], o, want)
		}
	}
}

// enqueueMessages puts messages into the queue q.
func (f *fixture) enqueueMessages(s broker.Session, ids ...int) {
	f.t.Helper()
	f.publishExpecting(s, broker.Confirmed, "", f.objectName("q"), ids...)
}

func (f *fixture) startConsumer(s broker.Session, queue string, prefetch int) broker.Consumer {
	f.t.Helper()
	c, err := s.Consume(f.ctx, f.objectName(queue), prefetch)
	f.must(err)
	return c
}

// nextDelivery waits for a delivery, or for the end of deliveries.
func (f *fixture) nextDelivery(c broker.Consumer, within time.Duration) (d broker.Delivery, err error) {
	f.Within(within, func(ctx context.Context) { d, err = c.Receive(ctx) })
	return d, err
}

// receiveDelivery waits for a delivery that must come.
func (f *fixture) receiveDelivery(c broker.Consumer) broker.Delivery {
	f.t.Helper()
	d, err := f.nextDelivery(c, patience)
	if err != nil {
		f.fatalf("a delivery that has to come: %v", err)
	}
	return d
}

// holdDeliveries receives several deliveries and settles none.
func (f *fixture) holdDeliveries(c broker.Consumer, n int) []broker.Delivery {
	f.t.Helper()
	ds := make([]broker.Delivery, n)
	for i := range ds {
		ds[i] = f.receiveDelivery(c)
	}
	return ds
}

// expectNoDelivery expects that no delivery arrives.
func (f *fixture) expectNoDelivery(what string, c broker.Consumer) {
	f.t.Helper()
	if d, err := f.nextDelivery(c, f.Quiet); !errors.Is(err, context.DeadlineExceeded) {
		f.errorf("%s: received %s and %v, the contract says nothing comes", what, describeDelivery(d), err)
	}
}

// drainQueue receives and acknowledges everything that a queue delivers now.
func (f *fixture) drainQueue(queue string) []broker.Delivery {
	f.t.Helper()
	s, err := f.Connect()
	f.must(err)
	defer s.Close()
	c := f.startConsumer(s, queue, 0)
	var ds []broker.Delivery
	for {
		d, err := f.nextDelivery(c, f.Quiet)
		if err != nil {
			return ds
		}
		c.Ack(d)
		ds = append(ds, d)
	}
}

// expectMessages expects exactly these messages in a queue, in this order, and removes them.
func (f *fixture) expectMessages(queue string, want ...int) {
	f.t.Helper()
	f.expect("what is left in "+queue, messageNumbers(f.drainQueue(queue)), nonNilNumbers(want))
}

// messageNumber returns a message's number, 0 for a malformed one.
func messageNumber(d broker.Delivery) int {
	if len(d.Envelope.Dispatches) == 0 {
		return 0
	}
	return int(d.Envelope.Dispatches[0].Key.ID)
}

func messageNumbers(ds []broker.Delivery) []int {
	all := make([]int, len(ds))
	for i, d := range ds {
		all[i] = messageNumber(d)
	}
	return all
}

// nonNilNumbers makes a nil list equal to an empty one.
func nonNilNumbers(want []int) []int { return append([]int{}, want...) }

// redeliveredFlags returns the redelivered flags of deliveries, as letters.
func redeliveredFlags(ds []broker.Delivery) string {
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

// deathSummary shows x-death without its times: newest first, with queue, reason and count.
func (f *fixture) deathSummary(d broker.Delivery) string {
	var all []string
	for _, death := range d.Deaths {
		all = append(all, fmt.Sprintf("%s %v %d", strings.TrimPrefix(death.Queue, f.prefix), death.Reason, death.Count))
	}
	return strings.Join(all, ", ")
}

func describeDelivery(d broker.Delivery) string {
	return fmt.Sprintf("message %d (redelivered %v)", messageNumber(d), d.Redelivered)
}

// upTo lists the numbers from one to another.
func upTo(from, to int) []int {
	var all []int
	for i := from; i <= to; i++ {
		all = append(all, i)
	}
	return all
}

// letBrokerSettle waits until the broker has finished the work that it does without a reply.
func (f *fixture) letBrokerSettle() { f.Sleep(f.Pause) }

// cancelConsumer cancels a consumer.
func (f *fixture) cancelConsumer(c broker.Consumer) {
	f.t.Helper()
	f.must(c.Cancel(f.ctx))
}
