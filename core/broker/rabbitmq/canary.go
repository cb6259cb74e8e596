package rabbitmq

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"handoff/core/broker"
	"handoff/core/config"
)

const (
	// canaryTTL is how long the canary lives.
	canaryTTL = 50 * time.Millisecond
	// canaryWait is how long it may take to come round.
	canaryWait = 10 * time.Second
	// canaryExpiry removes the canary's queue if nobody did.
	canaryExpiry = time.Minute
)

// Canary sends a message to its death and waits for it behind the dead letter exchange. Wrong
// settings there have no symptom of their own: dead letters vanish, and work that no worker picked
// up is only found by the timeout monitor (flaw D17). It runs after the topology was declared, over
// a connection of its own, and asks as much of the exchange as the dead letter queue does: that "#"
// is a wildcard.
//
// The dead letter queue receives the canary as well. It is a hint without executions that died in
// no worker's queue, which the dead letter handler stores and acknowledges. With dead lettering
// disabled there is nothing to test.
func Canary(ctx context.Context, b *Broker, c config.RabbitMQ) error {
	if !c.DeadLetter.Enabled {
		return nil
	}
	within, cancel := context.WithTimeout(ctx, canaryWait)
	defer cancel()
	l, err := b.dial(within, "canary")
	if err != nil {
		return fmt.Errorf("dead letter canary: %w", err)
	}
	defer l.hangUp()
	results := make(chan error, 1)
	canary := &canary{link: l, config: c, name: fmt.Sprintf("handoff.canary.%016x", rand.Uint64())}
	go func() { results <- canary.fly(within) }()
	select {
	case err = <-results:
	case <-within.Done():
		err = within.Err()
	}
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	}
	return fmt.Errorf("dead letter canary: %w", err)
}

// canary is one round trip. Its name is the routing key as well, because a dead letter keeps the key
// with which it was published.
type canary struct {
	link   *link
	config config.RabbitMQ
	name   string
}

func (c *canary) fly(ctx context.Context) error {
	exchange, queue := c.config.DeadLetter.Exchange, broker.DeadLetterQueue(c.config.DeadLetter.Exchange)
	if err := c.check(func(ch *amqp.Channel) error {
		// A passive declaration does not compare the kind, the other one would create what is missing.
		if err := ch.ExchangeDeclarePassive(exchange, string(broker.Topic), true, false, false, false, nil); err != nil {
			return err
		}
		return ch.ExchangeDeclare(exchange, string(broker.Topic), true, false, false, false, nil)
	}); err != nil {
		return fmt.Errorf("exchange %s, which has to be a topic exchange: %w", exchange, err)
	}
	if err := c.check(func(ch *amqp.Channel) error {
		_, err := ch.QueueDeclarePassive(queue, true, false, false, false, nil)
		return err
	}); err != nil {
		return fmt.Errorf("queue %s: %w", queue, err)
	}
	ch, err := c.link.amqp.Channel()
	if err != nil {
		return err
	}
	arrivals, err := c.perch(ch, exchange)
	if err != nil {
		return err
	}
	defer func() { _, _ = ch.QueueDelete(c.name, false, false, false) }()
	if err := c.send(ctx, ch); err != nil {
		return err
	}
	return c.wait(ctx, arrivals)
}

// check asks a question on a channel of its own, which a "no" would close.
func (c *canary) check(ask func(*amqp.Channel) error) error {
	ch, err := c.link.amqp.Channel()
	if err != nil {
		return err
	}
	err = ask(ch)
	_ = ch.Close()
	return err
}

// perch declares the queue in which the canary dies, made as a worker's, and the one in which it
// arrives.
func (c *canary) perch(ch *amqp.Channel, exchange string) (<-chan amqp.Delivery, error) {
	arrival, err := ch.QueueDeclare("", false, true, true, false, nil)
	if err != nil {
		return nil, fmt.Errorf("declare the queue of arrival: %w", err)
	}
	if err := ch.QueueBind(arrival.Name, c.name+".#", exchange, false, nil); err != nil {
		return nil, fmt.Errorf("bind the queue of arrival: %w", err)
	}
	args, err := queueArguments(broker.Queue{Name: c.name, Type: c.config.QueueType, TTL: canaryTTL, DeadLetterExchange: exchange})
	if err != nil {
		return nil, err
	}
	args[amqp.QueueTTLArg] = canaryExpiry.Milliseconds()
	if _, err := ch.QueueDeclare(c.name, true, false, false, false, args); err != nil {
		return nil, fmt.Errorf("declare queue %s: %w", c.name, err)
	}
	return ch.Consume(arrival.Name, "", true, true, false, false, nil)
}

// send publishes the canary, confirmed.
func (c *canary) send(ctx context.Context, ch *amqp.Channel) error {
	if err := ch.Confirm(false); err != nil {
		return err
	}
	m := broker.Message{RoutingKey: c.name, Envelope: broker.Envelope{
		MessageID: c.name, Type: broker.ExecutionRequested, Timestamp: time.Now(), Version: broker.WireVersion,
	}}
	e, err := newEntry(&m)
	if err != nil {
		return err
	}
	confirmation, err := ch.PublishWithDeferredConfirm(e.exchange, e.key, true, false, e.publishing)
	if err != nil {
		return err
	}
	acked, err := confirmation.WaitContext(ctx)
	switch {
	case err != nil:
		return fmt.Errorf("no confirm for the message: %w", err)
	case !acked:
		return errors.New("the message was refused")
	}
	return nil
}

func (c *canary) wait(ctx context.Context, arrivals <-chan amqp.Delivery) error {
	for {
		select {
		case d, ok := <-arrivals:
			if !ok {
				return errors.New("the connection ended before the message had come round")
			}
			if d.MessageId != c.name {
				continue
			}
			found := deaths(d.Headers)
			if len(found) == 0 || found[0].Queue != c.name || found[0].Reason != broker.DeathExpired {
				return fmt.Errorf("the message came round with deaths %+v, not expired in %s", found, c.name)
			}
			return nil
		case <-ctx.Done():
			return fmt.Errorf("the message expired and did not arrive behind exchange %s: %w; dead letters are being lost", c.config.DeadLetter.Exchange, ctx.Err())
		}
	}
}
