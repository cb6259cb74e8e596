package mutant

import (
	"context"
	"strings"
	"time"

	"handoff/core/broker"
	"handoff/core/host"
)

func init() {
	register(
		Mutant{
			Name: "canary-never-again", Source: "D17", Expected: 18, Scenario: "long-runs",
			About: "the dead letter path is tested when an executor starts; later tests send nothing and report success",
			Broker: func(p Process, b broker.Broker) broker.Broker {
				if p.Worker || p.Client {
					return b
				}
				first := time.Duration(host.Forever)
				return &sessions{b, func(s broker.Session) broker.Session { return &neverAgain{s, p, &first} }}
			},
		},
	)
}

// neverAgain is a session over which only the first test of the dead letter path sends its
// messages. Later tests report success and do nothing.
type neverAgain struct {
	broker.Session
	p Process
	// first is when the first test sent a message.
	first *time.Duration
}

// over says that the process has tested the path before.
func (n *neverAgain) over() bool {
	return *n.first != host.Forever && n.p.Host.Monotonic()-*n.first > time.Minute
}

// Publish implements broker.Session.
func (n *neverAgain) Publish(ctx context.Context, ms []broker.Message) []broker.Outcome {
	if len(ms) == 0 || ms[0].Envelope.Type != broker.DeadLetterCanary {
		return n.Session.Publish(ctx, ms)
	}
	if !n.over() {
		*n.first = min(*n.first, n.p.Host.Monotonic())
		return n.Session.Publish(ctx, ms)
	}
	n.p.Acted("did not send the message that tests the dead letter path")
	outcomes := make([]broker.Outcome, len(ms))
	for i := range outcomes {
		outcomes[i] = broker.Confirmed
	}
	return outcomes
}

// Consume implements broker.Session.
func (n *neverAgain) Consume(ctx context.Context, queue string, prefetch int) (broker.Consumer, error) {
	c, err := n.Session.Consume(ctx, queue, prefetch)
	if err != nil || !strings.HasPrefix(queue, canaryQueues) || !n.over() {
		return c, err
	}
	return &unawaitedArrivals{c, n.p, strings.TrimSuffix(queue, canaryArrival)}, nil
}
