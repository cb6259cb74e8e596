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

// interceptor applies message faults to messages on their way to the broker. It redirects a lost message to a
// queue that keeps nothing, so the message is routed and confirmed, as the publisher expects. It redirects a
// delayed message there too, and the harness publishes it after the delay.
type interceptor struct {
	w *world

	mu     sync.Mutex
	active []*interception
	// overtaken holds the messages that wait until another message with the same key has passed.
	overtaken []*delayedMessage
	// late counts messages that the harness must still publish.
	late int
	conn *amqp.Connection
	ch   *amqp.Channel
}

// interception is an active fault, with the function by which it decides a message's fate.
type interception struct {
	x    *fault.Injection
	fate func(messageType string) fault.Fate
}

// delayedMessage is a message that the harness holds back.
type delayedMessage struct {
	message netproxy.Publish
	release chan struct{}
}

// declareSink declares evidence.SinkQueue, which keeps nothing.
func (in *interceptor) declareSink() error {
	in.mu.Lock()
	defer in.mu.Unlock()
	if err := in.openChannel(); err != nil {
		return err
	}
	_, err := in.ch.QueueDeclare(evidence.SinkQueue, true, false, false, false, amqp.Table{amqp.QueueMessageTTLArg: int64(0)})
	if err != nil {
		return fmt.Errorf("making the queue that keeps nothing: %w", err)
	}
	return nil
}

// openChannel opens the harness's own channel if it is closed. in.mu must be held.
func (in *interceptor) openChannel() (err error) {
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

// withChannel runs do on the harness's channel. It waits while the broker is down and until the firehose is
// read again, because nothing would record an earlier publish.
func (in *interceptor) withChannel(do func(*amqp.Channel) error) error {
	in.w.down.broker.Lock()
	defer in.w.down.broker.Unlock()
	in.mu.Lock()
	defer in.mu.Unlock()
	if err := in.openChannel(); err != nil {
		return err
	}
	return do(in.ch)
}

// hasPending reports whether messages must still be published.
func (in *interceptor) hasPending() bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.late > 0
}

func (in *interceptor) addInterception(x *interception) (end func()) {
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

// watchLink intercepts the messages on every connection of a link.
func (in *interceptor) watchLink(l *netproxy.Link, p *process) {
	l.Rewrite(netproxy.Out, func() netproxy.Rewriter {
		return netproxy.Chain(netproxy.Publishes(in.changeMessage), netproxy.Subscriptions(p.holdsConsumer))
	})
}

// fate holds the effects on one message: for each effect, the name of the fault that causes it, or empty.
type fate struct {
	drop, corrupt, duplicate, delay, reorder string
	by                                       time.Duration
}

// changeMessage applies the active faults to a message on its way to the broker.
func (in *interceptor) changeMessage(m *netproxy.Publish) {
	if m.Exchange != broker.ExchangeExecutions {
		return
	}
	in.mu.Lock()
	active := slices.Clone(in.active)
	in.mu.Unlock()
	var f fate
	for _, x := range active {
		f.addEffect(x, m.Type)
	}
	in.applyFate(&f, m)
	in.releaseOvertaken(m)
}

// addEffect adds one fault's effect on messages of this type.
func (f *fate) addEffect(i *interception, kind string) {
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

func (in *interceptor) applyFate(f *fate, m *netproxy.Publish) {
	original := *m
	original.Body = slices.Clone(m.Body)
	if f.corrupt != "" {
		in.noteInterception(m, evidence.Corrupted, f.corrupt)
		for i := range min(8, len(m.Body)) {
			m.Body[i] ^= 0x55
		}
		original.Body = slices.Clone(m.Body)
	}
	switch {
	case f.drop != "":
		in.noteInterception(&original, evidence.Lost, f.drop)
		m.Exchange, m.Key = "", evidence.SinkQueue
	case f.delay != "" || f.reorder != "":
		in.noteInterception(&original, evidence.Late, f.delay+f.reorder)
		m.Exchange, m.Key = "", evidence.SinkQueue
		in.publishLater(original, f.by, f.delay == "")
	}
	if f.duplicate != "" && f.drop == "" {
		in.w.firehose.Copied(m.ID, original.Body)
		in.publishLater(original, 0, false)
	}
}

// noteInterception notifies the firehose of an effect that it can't see in the message itself.
func (in *interceptor) noteInterception(m *netproxy.Publish, what evidence.Interception, fault string) {
	in.w.firehose.Intercepted(m.ID, m.Body, what, fault)
}

// publishLater makes the harness publish a message after the delay `by`. If overtaken is set, it does so as
// soon as another message with the same key has passed.
func (in *interceptor) publishLater(m netproxy.Publish, by time.Duration, overtaken bool) {
	d := &delayedMessage{m, make(chan struct{})}
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
			time.Sleep(20 * time.Millisecond) // give the broker time to store the other message first
		case <-time.After(by):
		case <-in.w.ctx.Done():
			return
		}
		in.publishCopy(&m)
	})
}

// publishCopy publishes a message, retrying until the broker accepts it.
func (in *interceptor) publishCopy(m *netproxy.Publish) {
	for in.w.ctx.Err() == nil {
		err := in.withChannel(func(ch *amqp.Channel) error {
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

// releaseOvertaken releases the first message that waits for another message with m's key.
func (in *interceptor) releaseOvertaken(m *netproxy.Publish) {
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

// releaseAll releases all messages that wait to be overtaken. in.mu must be held.
func (in *interceptor) releaseAll() {
	for _, d := range in.overtaken {
		close(d.release)
	}
	in.overtaken = nil
}

// Intercept implements fault.Messages.
func (w *world) Intercept(x *fault.Injection, fate func(string) fault.Fate) (func(), error) {
	return w.interceptor.addInterception(&interception{x, fate}), nil
}

// RaiseAlarm implements fault.BrokerAlarm. The broker holds back all messages published meanwhile.
func (w *world) RaiseAlarm(x *fault.Injection) (func(), error) {
	end := w.interceptor.addInterception(&interception{x, func(string) fault.Fate {
		x.Touch(fault.Touched{})
		return fault.Fate{}
	}})
	if err := w.evalErlang("raising the broker's alarm", "rabbit_alarm:set_alarm({{resource_limit, memory, node()}, []})."); err != nil {
		end()
		return nil, err
	}
	return func() {
		x.Fail(w.evalErlang("clearing the broker's alarm", "rabbit_alarm:clear_alarm({resource_limit, memory, node()})."))
		end()
	}, nil
}
