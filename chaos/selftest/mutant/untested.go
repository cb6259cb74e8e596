package mutant

import (
	"context"
	"strings"
	"time"

	"handoff/core/broker"
	"handoff/core/host"
)

func init() {
	registerMutants(
		Mutant{
			Name: "canary-never-again", Source: "D17", Expected: 18, Scenario: "long-runs",
			About: "the dead letter path is tested when an executor starts; later tests send nothing and report success",
			Broker: func(p Process, b broker.Broker) broker.Broker {
				if p.Worker || p.Client {
					return b
				}
				first := time.Duration(host.Forever)
				return &sessionWrapper{b, func(s broker.Session) broker.Session { return &oneTestSession{s, p, &first} }}
			},
		},
	)
}

// oneTestSession is a session over which only the first test of the dead letter path sends its
// messages. Later tests report success and do nothing.
type oneTestSession struct {
	broker.Session
	p Process
	// first is the time at which the first test sent a message.
	first *time.Duration
}

// hasTestedBefore reports whether the process has tested the path before.
func (o *oneTestSession) hasTestedBefore() bool {
	return *o.first != host.Forever && o.p.Host.Monotonic()-*o.first > time.Minute
}

// Publish implements broker.Session.
func (o *oneTestSession) Publish(ctx context.Context, ms []broker.Message) []broker.Outcome {
	if len(ms) == 0 || ms[0].Envelope.Type != broker.DeadLetterCanary {
		return o.Session.Publish(ctx, ms)
	}
	if !o.hasTestedBefore() {
		*o.first = min(*o.first, o.p.Host.Monotonic())
		return o.Session.Publish(ctx, ms)
	}
	o.p.Acted("did not send the message that tests the dead letter path")
	outcomes := make([]broker.Outcome, len(ms))
	for i := range outcomes {
		outcomes[i] = broker.Confirmed
	}
	return outcomes
}

// Consume implements broker.Session.
func (o *oneTestSession) Consume(ctx context.Context, queue string, prefetch int) (broker.Consumer, error) {
	c, err := o.Session.Consume(ctx, queue, prefetch)
	if err != nil || !strings.HasPrefix(queue, canaryQueues) || !o.hasTestedBefore() {
		return c, err
	}
	return &sentCanaryConsumer{c, o.p, strings.TrimSuffix(queue, canaryArrival)}, nil
}
