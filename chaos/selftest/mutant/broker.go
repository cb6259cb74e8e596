package mutant

import (
	"context"

	"handoff/core/broker"
	"handoff/core/config"
	"handoff/core/execution"
)

func init() {
	registerMutants(
		Mutant{
			Name: "unknown-is-refused", Source: "D9", Expected: 2, Scenario: "network-partition",
			About: "a publish whose confirm never came counts as refused by the broker",
			Broker: func(p Process, b broker.Broker) broker.Broker {
				if p.Worker {
					return b
				}
				return &sessionWrapper{b, func(s broker.Session) broker.Session { return &optimisticSession{s, p, broker.Nacked} }}
			},
		},
		Mutant{
			Name: "hoarded-dead-letters", Source: "D26", Expected: 14, Scenario: "message-expires-in-queue",
			About: "the dead letter handler keeps its messages for forensics by never acknowledging them",
			Broker: func(p Process, b broker.Broker) broker.Broker {
				queue := broker.DeadLetterQueue(p.Config.MessageQueue.RabbitMQ.DeadLetter.Exchange)
				return &sessionWrapper{b, func(s broker.Session) broker.Session { return &hoardingSession{s, p, queue} }}
			},
		},
	)
	registerMade(directDLX)
}

// sessionWrapper is a broker whose sessions are wrapped.
type sessionWrapper struct {
	broker.Broker
	wrap func(broker.Session) broker.Session
}

// Connect implements broker.Broker.
func (sw *sessionWrapper) Connect(ctx context.Context) (broker.Session, error) {
	s, err := sw.Broker.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return sw.wrap(s), nil
}

// dispatchedIDs are the executions that a message dispatches; none for another message.
func dispatchedIDs(e broker.Envelope) []execution.ID {
	ids := make([]execution.ID, len(e.Dispatches))
	for i := range e.Dispatches {
		ids[i] = e.Dispatches[i].Key.ID
	}
	return ids
}

// optimisticSession reads an unknown outcome as another one.
type optimisticSession struct {
	broker.Session
	p         Process
	unknownIs broker.Outcome
}

// Publish implements broker.Session.
func (o *optimisticSession) Publish(ctx context.Context, ms []broker.Message) []broker.Outcome {
	outcomes := o.Session.Publish(ctx, ms)
	for i := range outcomes {
		if outcomes[i] == broker.Unknown {
			outcomes[i] = o.unknownIs
			o.p.Acted("treated a publish without a confirm as refused", dispatchedIDs(ms[i].Envelope)...)
		}
	}
	return outcomes
}

// hoardingSession never acknowledges messages from one queue.
type hoardingSession struct {
	broker.Session
	p     Process
	queue string
}

// Consume implements broker.Session.
func (h *hoardingSession) Consume(ctx context.Context, queue string, prefetch int) (broker.Consumer, error) {
	c, err := h.Session.Consume(ctx, queue, prefetch)
	if err != nil || queue != h.queue {
		return c, err
	}
	return &silentConsumer{c, h.p}, nil
}

type silentConsumer struct {
	broker.Consumer
	p Process
}

// Ack implements broker.Consumer.
func (s *silentConsumer) Ack(broker.Delivery) {
	s.p.Acted("kept a dead letter instead of acknowledging it")
}

func directDLX() *Mutant {
	direct := func(c config.RabbitMQ, t broker.Topology) broker.Topology {
		for i := range t.Exchanges {
			if t.Exchanges[i].Name == c.DeadLetter.Exchange {
				t.Exchanges[i].Kind = broker.Direct
			}
		}
		return t
	}
	return &Mutant{
		Name: "direct-dlx", Source: "D17", Expected: 6, Scenario: "message-expires-in-queue",
		About:  `the dead letter exchange is direct and its queue is bound with "#", on the source design's classic queues`,
		Config: func(c *config.Config) { c.MessageQueue.RabbitMQ.QueueType = "classic" },
		Executors: func(c config.RabbitMQ) broker.Topology {
			return direct(c, broker.ExecutorTopology(c))
		},
		Workers: func(c config.RabbitMQ, id execution.WorkerID) broker.Topology {
			return direct(c, broker.WorkerTopology(c, id))
		},
	}
}
