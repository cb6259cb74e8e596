package live

import (
	"fmt"
	"slices"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"handoff/chaos/fault"
	"handoff/chaos/live/evidence"
	"handoff/chaos/netproxy"
	"handoff/core/broker"
)

// interceptor applies message faults to messages on their way into the broker. It sends a lost
// message to a queue that keeps nothing, so it is routed and confirmed, as the publisher expects.
// It sends a delayed message there too, and the harness publishes the message when the delay is
// over.
type interceptor struct {
	w *world

	mu     sync.Mutex
	active []*interception
	// overtaken are held back until the next message for the same queue has passed.
	overtaken []*delayed
	// late counts the messages that must still be published.
	late int
	conn *amqp.Connection
	ch   *amqp.Channel
}

// interception is a fault that decides the fate of each message.
type interception struct {
	x    *fault.Injection
	fate func(messageType string) fault.Fate
}

// delayed is a message that the harness holds.
type delayed struct {
	message netproxy.Publish
	release chan struct{}
}

// prepare declares the queue that keeps nothing.
func (in *interceptor) prepare() error {
	in.mu.Lock()
	defer in.mu.Unlock()
	if err := in.connect(); err != nil {
		return err
	}
	_, err := in.ch.QueueDeclare(evidence.SinkQueue, true, false, false, false, amqp.Table{amqp.QueueMessageTTLArg: int64(0)})
	if err != nil {
		return fmt.Errorf("making the queue that keeps nothing: %w", err)
	}
	return nil
}

// connect opens the harness's own channel; t.mu is held.
func (in *interceptor) connect() (err error) {
	if in.ch != nil && !in.ch.IsClosed() {
		return nil
	}
	if in.conn != nil {
		_ = in.conn.Close()
	}
	in.conn, err = amqp.DialConfig(in.w.mq.URL, amqp.Config{Heartbeat: 10 * time.Second, Dial: amqp.DefaultDial(5 * time.Second)})
	if err != nil {
		return fmt.Errorf("connecting to the broker: %w", err)
	}
	in.ch, err = in.conn.Channel()
	return err
}

func (in *interceptor) close() {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.conn != nil {
		_ = in.conn.Close()
	}
}

// with runs do on the harness's channel. If the broker is down, it waits until the harness listens
// to it again, because nothing would record an earlier publish.
func (in *interceptor) with(do func(*amqp.Channel) error) error {
	in.w.down.broker.Lock()
	defer in.w.down.broker.Unlock()
	in.mu.Lock()
	defer in.mu.Unlock()
	if err := in.connect(); err != nil {
		return err
	}
	return do(in.ch)
}

// busy says that messages must still be published.
func (in *interceptor) busy() bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.late > 0
}

func (in *interceptor) begin(x *interception) (end func()) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.active = append(in.active, x)
	return func() {
		in.mu.Lock()
		defer in.mu.Unlock()
		in.active = slices.DeleteFunc(in.active, func(other *interception) bool { return other == x })
		if len(in.active) == 0 {
			in.releaseAll()
		}
	}
}

// watch intercepts the messages on every connection of a link.
func (in *interceptor) watch(l *netproxy.Link, p *process) {
	l.Rewrite(netproxy.Out, func() netproxy.Rewriter {
		return netproxy.Chain(netproxy.Publishes(in.change), netproxy.Subscriptions(p.holdsConsumer))
	})
}

// fate is what happens to one message.
type fate struct {
	drop, corrupt, duplicate, delay, reorder string
	by                                       time.Duration
}

// change gets every message on its way to the broker.
func (in *interceptor) change(m *netproxy.Publish) {
	if m.Exchange != broker.ExchangeExecutions {
		return
	}
	in.mu.Lock()
	active := slices.Clone(in.active)
	in.mu.Unlock()
	var f fate
	for _, x := range active {
		f.decide(x, m.Type)
	}
	in.apply(&f, m)
	in.pass(m)
}

// decide adds the effect of one fault on messages of this type to a message's fate.
func (f *fate) decide(i *interception, kind string) {
	its := i.fate(kind)
	if !its.Touches() {
		return
	}
	i.x.Touch(fault.Touched{})
	switch {
	case its.Drop:
		f.drop = i.x.Name
	case its.Corrupt:
		f.corrupt = i.x.Name
	case its.Duplicate:
		f.duplicate = i.x.Name
	case its.Behind:
		f.reorder = i.x.Name
		f.by = max(f.by, its.Delay)
	default:
		f.delay = i.x.Name
		f.by += its.Delay
	}
}

func (in *interceptor) apply(f *fate, m *netproxy.Publish) {
	original := *m
	original.Body = slices.Clone(m.Body)
	if f.corrupt != "" {
		in.note(m, evidence.Corrupted, f.corrupt)
		for i := range min(8, len(m.Body)) {
			m.Body[i] ^= 0x55
		}
		original.Body = slices.Clone(m.Body)
	}
	switch {
	case f.drop != "":
		in.note(&original, evidence.Lost, f.drop)
		m.Exchange, m.Key = "", evidence.SinkQueue
	case f.delay != "" || f.reorder != "":
		in.note(&original, evidence.Late, f.delay+f.reorder)
		m.Exchange, m.Key = "", evidence.SinkQueue
		in.postpone(original, f.by, f.delay == "")
	}
	if f.duplicate != "" && f.drop == "" {
		in.w.firehose.Copied(m.ID, original.Body)
		in.postpone(original, 0, false)
	}
}

// note tells the firehose what it can no longer see in a message.
func (in *interceptor) note(m *netproxy.Publish, what evidence.Interception, fault string) {
	in.w.firehose.Intercepted(m.ID, m.Body, what, fault)
}

// postpone makes the harness publish a message later: after a time or, if it is to be overtaken,
// when the next message for the same queue has passed.
func (in *interceptor) postpone(m netproxy.Publish, by time.Duration, overtaken bool) {
	d := &delayed{m, make(chan struct{})}
	in.mu.Lock()
	in.late++
	if overtaken {
		in.overtaken = append(in.overtaken, d)
	}
	in.mu.Unlock()
	in.w.clients.Go(func() {
		defer func() {
			in.mu.Lock()
			in.late--
			in.mu.Unlock()
		}()
		select {
		case <-d.release:
			time.Sleep(20 * time.Millisecond) // let the overtaking message be stored first
		case <-time.After(by):
		case <-in.w.ctx.Done():
			return
		}
		in.publish(&m)
	})
}

// publish publishes a copy, as soon as the broker accepts it.
func (in *interceptor) publish(m *netproxy.Publish) {
	for in.w.ctx.Err() == nil {
		err := in.with(func(ch *amqp.Channel) error {
			return ch.PublishWithContext(in.w.ctx, m.Exchange, m.Key, false, false, amqp.Publishing{
				ContentType: broker.ContentType, DeliveryMode: amqp.Persistent,
				MessageId: m.ID, Type: m.Type, CorrelationId: m.CorrelationID, Body: m.Body,
			})
		})
		if err == nil {
			return
		}
		select {
		case <-in.w.ctx.Done():
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// pass releases messages that wait to be overtaken by a message like m.
func (in *interceptor) pass(m *netproxy.Publish) {
	if m.Exchange == "" {
		return
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	for i, d := range in.overtaken {
		if d.message.Key == m.Key && d.message.ID != m.ID {
			close(d.release)
			in.overtaken = slices.Delete(in.overtaken, i, i+1)
			return
		}
	}
}

// releaseAll releases all messages; t.mu is held.
func (in *interceptor) releaseAll() {
	for _, d := range in.overtaken {
		close(d.release)
	}
	in.overtaken = nil
}

// Intercept implements fault.Messages.
func (w *world) Intercept(x *fault.Injection, fate func(string) fault.Fate) (func(), error) {
	return w.interceptor.begin(&interception{x, fate}), nil
}

// RaiseAlarm implements fault.BrokerAlarm. The broker holds back all messages published meanwhile.
func (w *world) RaiseAlarm(x *fault.Injection) (func(), error) {
	end := w.interceptor.begin(&interception{x, func(string) fault.Fate {
		x.Touch(fault.Touched{})
		return fault.Fate{}
	}})
	if err := w.evaluate("raising the broker's alarm", "rabbit_alarm:set_alarm({{resource_limit, memory, node()}, []})."); err != nil {
		end()
		return nil, err
	}
	return func() {
		x.Fail(w.evaluate("clearing the broker's alarm", "rabbit_alarm:clear_alarm({resource_limit, memory, node()})."))
		end()
	}, nil
}
