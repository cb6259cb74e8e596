package broker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"handoff/core/config"
	"handoff/core/host"
)

const (
	// canaryTTL is the time to live of a canary.
	canaryTTL = 50 * time.Millisecond
	// CanaryWait bounds the duration of one call of Canary.
	CanaryWait = 10 * time.Second
	// canaryExpiry removes a canary's queues if nothing else did.
	canaryExpiry = time.Minute
	// canaryPrefix begins the names of a canary's queues, and its message id.
	canaryPrefix = "handoff.canary."
	// canaryRoute is a routing key that only the binding of the dead letter queue matches.
	canaryRoute = "handoff.route"
)

// Canary tests the dead letter path: it lets a message die and waits for it behind the dead letter exchange.
// A misconfigured path has no other symptom: dead letters vanish, and only the timeout monitor finds work
// that no worker picked up (defect D17). The caller opens a separate session for the canary and closes it
// afterwards, so that a failure does not affect other work.
//
// The canary dies in a queue made like a worker's and arrives in a queue bound like the dead letter
// queue, with a wildcard. A dead message keeps its routing key, so the key identifies the canary.
//
// A second message goes to the exchange itself, with a key that only the dead letter queue's binding matches.
// The broker returns it if that binding is missing.
//
// The dead letter queue receives both. The dead letter handler recognises them by their type, acknowledges
// them and stores nothing.
//
// Canary returns nil if the path works, or if dead lettering is disabled. Otherwise it returns ctx's error if
// ctx ended, or an error that wraps its cause. The cause is ErrPrecondition if the exchange is of another
// kind, ErrClosed if the session ended, another error of the session, or a description of the fault in the
// path.
func Canary(ctx context.Context, h host.Host, s Session, c config.RabbitMQ) error {
	if !c.DeadLetter.Enabled {
		return nil
	}
	within, cancel := h.WithTimeout(ctx, CanaryWait)
	defer cancel()
	flight := &canary{session: s, config: c, name: fmt.Sprintf("%s%012x", canaryPrefix, h.Uint64N(1<<48)), at: h.Now()}
	err := flight.checkDeadLetterPath(within)
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	}
	return fmt.Errorf("dead letter canary: %w", err)
}

// canary is one round trip. Its name is also its queue, its routing key and its message id.
type canary struct {
	session Session
	config  config.RabbitMQ
	name    string
	at      time.Time
}

func (c *canary) checkDeadLetterPath(ctx context.Context) error {
	exchange := c.config.DeadLetter.Exchange
	queue := DeadLetterQueue(exchange)
	state, err := c.session.QueueState(ctx, queue)
	switch {
	case err != nil:
		return err
	case !state.Exists:
		return fmt.Errorf("the dead letter queue %s does not exist; restart an executor, which declares it", queue)
	}
	died := Queue{Name: c.name, Type: c.config.QueueType, TTL: canaryTTL, DeadLetterExchange: exchange, Expires: canaryExpiry}
	arrived := Queue{Name: c.name + ".arrival", Type: c.config.QueueType, Expires: canaryExpiry}
	// The binding comes first and fails if the exchange is missing. A declaration would instead
	// create the exchange, without the binding of the dead letter queue. The declaration comes
	// second and fails if the exchange is of another kind.
	for _, t := range []Topology{
		{Queues: []Queue{died, arrived}, Bindings: []Binding{{exchange, c.name + ".#", arrived.Name}}},
		{Exchanges: []Exchange{{exchange, Topic}}},
	} {
		if err := c.session.Declare(ctx, t); err != nil {
			return err
		}
	}
	arrivals, err := c.session.Consume(ctx, arrived.Name, 1)
	if err != nil {
		return err
	}
	err = c.roundTrip(ctx, arrivals)
	_ = arrivals.Cancel(ctx)
	for _, q := range []Queue{died, arrived} {
		// Errors are ignored: a queue that can't be deleted here expires by itself.
		_, _ = c.session.DeleteIdle(ctx, q)
	}
	return err
}

func (c *canary) roundTrip(ctx context.Context, arrivals Consumer) error {
	exchange := c.config.DeadLetter.Exchange
	test := Envelope{MessageID: c.name, Type: DeadLetterCanary, Timestamp: c.at, Version: WireVersion}
	outcomes := c.session.Publish(ctx, []Message{
		{RoutingKey: c.name, Envelope: test},
		{Exchange: exchange, RoutingKey: canaryRoute, Envelope: test},
	})
	switch {
	case outcomes[1] == Returned:
		return fmt.Errorf("exchange %s has no route to a queue: bind %s to it with the pattern #, or restart an executor, which does; dead letters are being lost",
			exchange, DeadLetterQueue(exchange))
	case c.session.Closed():
		return ErrClosed
	case outcomes[0] != Confirmed:
		return fmt.Errorf("the publish to queue %s was %v, not confirmed", c.name, outcomes[0])
	}
	d, err := arrivals.Receive(ctx)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("the message expired and did not arrive behind exchange %s within %v; dead letters are being lost", exchange, CanaryWait)
	case err != nil:
		return err
	}
	arrivals.Ack(d)
	if len(d.Deaths) == 0 || d.Deaths[0].Queue != c.name || d.Deaths[0].Reason != DeathExpired {
		return fmt.Errorf("the message arrived, but its x-death records are %+v; expected an expiry in queue %s", d.Deaths, c.name)
	}
	return nil
}
