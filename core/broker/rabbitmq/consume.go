package rabbitmq

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"sync"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"handoff/core/broker"
)

// consumer is one subscription on its own channel. The library buffers deliveries; prefetch bounds
// the buffer.
type consumer struct {
	s          *session
	number     uint64
	queue      string
	tag        string
	ch         *amqp.Channel
	deliveries <-chan amqp.Delivery

	// cancelling serialises cancellations, because a channel answers one request at a time.
	cancelling sync.Mutex
	cancelled  bool
}

// A delivery's tag combines the consumer's number, in the high bits, with the channel's tag. The broker
// counts tags from 1 in every channel, so the bare tag of an old session would settle another consumer's
// message.
//
// Numbers are unique within the process, across Brokers and sessions.
var lastConsumer atomic.Uint64

const (
	tagBits = 44
	tagMask = 1<<tagBits - 1
)

// Consume implements broker.Session. If ctx ends before the broker has answered, Consume closes the
// channel, and its deliveries return to the queue.
func (s *session) Consume(ctx context.Context, queue string, prefetch int) (broker.Consumer, error) {
	if prefetch < 0 || prefetch > math.MaxUint16 {
		return nil, fmt.Errorf("consume %s: prefetch is %d, not 0 to %d", queue, prefetch, math.MaxUint16)
	}
	c := &consumer{s: s, number: lastConsumer.Add(1), queue: queue}
	c.tag = fmt.Sprintf("%s-%d", s.b.opts.Name, c.number)
	_, err := callOrAbandon(ctx, s, func() (noResult, error) { return noResult{}, c.openSubscription(prefetch) }, func(noResult) { _ = c.ch.Close() })
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	s.consumers[c.number] = c
	s.mu.Unlock()
	return c, nil
}

func (c *consumer) openSubscription(prefetch int) error {
	ch, err := c.s.consuming.amqp.Channel()
	if err != nil {
		return fmt.Errorf("consume %s: %w", c.queue, err)
	}
	closed := ch.NotifyClose(make(chan *amqp.Error, 1))
	if err := ch.Qos(prefetch, 0, false); err != nil {
		return fmt.Errorf("consume %s: prefetch: %w", c.queue, err)
	}
	deliveries, err := ch.Consume(c.queue, c.tag, false, false, false, false, nil)
	if err != nil {
		return fmt.Errorf("consume %s: %w", c.queue, err)
	}
	c.ch, c.deliveries = ch, deliveries
	// From here on the channel has unsettled deliveries, so the session ends if the channel ends.
	c.s.endWhenClosed("consumer of "+c.queue, closed)
	return nil
}

// Receive implements broker.Consumer. It returns all deliveries that have arrived before it returns
// ErrCancelled. After the session's end it returns none.
func (c *consumer) Receive(ctx context.Context) (broker.Delivery, error) {
	if c.s.Closed() {
		return broker.Delivery{}, broker.ErrClosed
	}
	select {
	case d, ok := <-c.deliveries:
		switch {
		case ok:
			return c.translateDelivery(&d), nil
		case c.ch.IsClosed():
			c.s.end(errors.New("consumer of " + c.queue + ": channel closed"))
			return broker.Delivery{}, broker.ErrClosed
		case c.s.Closed():
			return broker.Delivery{}, broker.ErrClosed
		}
		return broker.Delivery{}, broker.ErrCancelled
	case <-c.s.done:
		return broker.Delivery{}, broker.ErrClosed
	case <-ctx.Done():
		return broker.Delivery{}, ctx.Err()
	}
}

func (c *consumer) Ack(d broker.Delivery) {
	c.sendSettlement(d, func(ch *amqp.Channel, tag uint64) error { return ch.Ack(tag, false) })
}

func (c *consumer) Reject(d broker.Delivery, requeue bool) {
	c.sendSettlement(d, func(ch *amqp.Channel, tag uint64) error { return ch.Reject(tag, requeue) })
}

// sendSettlement sends a settlement on the channel of the delivery. It ignores a delivery of another
// session, which has returned to the broker.
func (c *consumer) sendSettlement(d broker.Delivery, send func(ch *amqp.Channel, tag uint64) error) {
	s := c.s
	if s.Closed() {
		return
	}
	from := c
	if number := d.Tag >> tagBits; number != c.number {
		s.mu.Lock()
		from = s.consumers[number]
		s.mu.Unlock()
	}
	if from == nil {
		s.b.log.LogAttrs(context.Background(), slog.LevelWarn, "delivery of another session is not settled", slog.String("queue", c.queue), slog.Uint64("tag", d.Tag))
		return
	}
	if err := send(from.ch, d.Tag&tagMask); err != nil {
		s.end(fmt.Errorf("settle a delivery of %s: %w", from.queue, err))
	}
}

func (c *consumer) Cancel(ctx context.Context) error {
	_, err := callOrAbandon(ctx, c.s, func() (noResult, error) {
		c.cancelling.Lock()
		defer c.cancelling.Unlock()
		if c.cancelled {
			return noResult{}, nil
		}
		if err := c.ch.Cancel(c.tag, false); err != nil {
			return noResult{}, fmt.Errorf("cancel the consumer of %s: %w", c.queue, err)
		}
		c.cancelled = true
		return noResult{}, nil
	}, func(noResult) {})
	return err
}

// translateDelivery translates a message for the core. A body that can't be read is kept as it is. An x-death
// header that the broker did not write also makes a message unreadable. If the message were rejected, the
// header would end dead lettering for the whole node (S5).
func (c *consumer) translateDelivery(d *amqp.Delivery) broker.Delivery {
	out := broker.Delivery{
		Tag: c.number<<tagBits | d.DeliveryTag, RoutingKey: d.RoutingKey, Redelivered: d.Redelivered,
	}
	out.Deaths, out.Malformed = parseDeaths(d.Headers)
	if _, replaced := d.Headers[headerUnreadable]; replaced {
		out.Malformed = errors.New("message headers can't be read: they are nested too deeply, too many, or of an unknown type")
	}
	if out.Malformed == nil {
		out.Envelope, out.Malformed = broker.Decode(d.Body)
	}
	if out.Malformed != nil {
		out.Body = d.Body
	}
	return out
}

// parseDeaths reads x-death, newest first. Any client can publish a message with such a header.
// Dead-lettering the message is safe only if the header's fields have the types that RabbitMQ writes. A
// replay, manually or by a shovel, keeps the header.
func parseDeaths(headers amqp.Table) ([]broker.Death, error) {
	value, present := headers["x-death"]
	if !present {
		return nil, nil
	}
	list, ok := value.([]any)
	if !ok {
		return nil, errors.New("message header x-death is not a list")
	}
	all := make([]broker.Death, len(list))
	for i, item := range list {
		table, ok := item.(amqp.Table)
		if !ok {
			return nil, fmt.Errorf("message header x-death[%d] is not a table", i)
		}
		var err error
		if all[i], err = parseDeath(table); err != nil {
			return nil, fmt.Errorf("message header x-death[%d]: %w", i, err)
		}
	}
	return all, nil
}

func parseDeath(table amqp.Table) (d broker.Death, err error) {
	reason := ""
	var count int64
	for _, field := range []struct {
		name string
		take func(value any) bool
	}{
		{"queue", func(v any) (ok bool) { d.Queue, ok = v.(string); return ok && d.Queue != "" && len(d.Queue) <= 255 }},
		{"reason", func(v any) (ok bool) { reason, ok = v.(string); return ok }},
		{"count", func(v any) (ok bool) { count, ok = v.(int64); return ok && count > 0 }},
		{"time", func(v any) (ok bool) { d.Time, ok = v.(time.Time); return ok }},
		{"exchange", func(v any) (ok bool) { _, ok = v.(string); return ok }},
		{"routing-keys", func(v any) (ok bool) { _, ok = v.([]any); return ok }},
	} {
		if !field.take(table[field.name]) {
			return d, fmt.Errorf("%s is not as RabbitMQ writes it", field.name)
		}
	}
	d.Count, d.Time = int(count), d.Time.UTC()
	for r := broker.DeathExpired; r <= broker.DeathDeliveryLimit; r++ {
		if r.String() == reason {
			d.Reason = r
		}
	}
	if d.Reason == broker.DeathUnknown {
		return d, errors.New("reason is none that RabbitMQ writes")
	}
	return d, nil
}
