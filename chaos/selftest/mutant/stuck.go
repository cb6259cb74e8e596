package mutant

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"handoff/core/broker"
	"handoff/core/host"
)

// This file plants mutants of processes whose broker works only in part. One of its queues hangs, it closes a
// consumer's channel, or its dead lettering hangs.

func init() {
	registerMutants(
		Mutant{
			Name: "one-queue-stops-scheduling", Source: "C5", Expected: 26, Scenario: "one-queue-stuck",
			About: "the scheduler waits for the confirms of a batch in their order: one queue that does not confirm keeps all other work waiting",
			Broker: func(p Process, b broker.Broker) broker.Broker {
				return &sessionWrapper{b, func(s broker.Session) broker.Session { return &confirmWaitSession{s, p, false} }}
			},
		},
		Mutant{
			Name: "one-queue-stops-hints", Source: "C5", Expected: 26, Scenario: "one-queue-stuck",
			About: "hints are published without a deadline: one queue that does not confirm keeps all other hints from being sent",
			Broker: func(p Process, b broker.Broker) broker.Broker {
				return &sessionWrapper{b, func(s broker.Session) broker.Session { return &confirmWaitSession{s, p, true} }}
			},
		},
		Mutant{
			Name: "canary-not-awaited", Source: "D17", Expected: 15, Scenario: "dead-lettering-stands-still",
			About: "the test of the dead letter path sends its message, checks the routes, and does not wait until the message arrives",
			Broker: func(p Process, b broker.Broker) broker.Broker {
				return &sessionWrapper{b, func(s broker.Session) broker.Session { return &sentCanarySession{s, p} }}
			},
		},
		Mutant{
			Name: "consumer-end-unseen", Source: "D32", Expected: 17, Scenario: "consumer-timeout",
			About: "if the broker has closed a worker's channel, because the worker held a delivery for long, the worker still waits for deliveries over it and reports its consumer as alive",
			Broker: func(p Process, b broker.Broker) broker.Broker {
				if !p.Worker {
					return b
				}
				return &sessionWrapper{b, func(s broker.Session) broker.Session { return &halfClosedSession{s, p} }}
			},
		},
	)
}

// confirmWaitSession is a session whose publishes wait for every confirm, until the session ends.
type confirmWaitSession struct {
	broker.Session
	p Process
	// hints reports whether the session waits only for hints; otherwise it waits only for dispatches.
	hints bool
}

// Publish implements broker.Session.
func (c *confirmWaitSession) Publish(ctx context.Context, ms []broker.Message) []broker.Outcome {
	outcomes := c.Session.Publish(ctx, ms)
	for i, o := range outcomes {
		if o != broker.Unknown || c.hints != (ms[i].Envelope.Type != broker.ExecutionScheduled) || ms[i].Envelope.Type == broker.DeadLetterCanary {
			continue
		}
		if ctx.Err() == nil && !c.Session.Closed() {
			c.p.Acted("waited for a confirm that does not come, and delayed all others")
			if c.hints {
				_ = c.Session.Wait(context.Background())
			} else {
				_ = c.Session.Wait(ctx)
			}
		}
		break
	}
	return outcomes
}

// sentCanarySession is a session over which a canary counts as arrived once it was sent.
type sentCanarySession struct {
	broker.Session
	p Process
}

// canaryQueues is the prefix of the names of a canary's queues, and canaryArrival the suffix of the
// queue in which it arrives.
const (
	canaryQueues  = "handoff.canary."
	canaryArrival = ".arrival"
)

// Consume implements broker.Session.
func (s *sentCanarySession) Consume(ctx context.Context, queue string, prefetch int) (broker.Consumer, error) {
	c, err := s.Session.Consume(ctx, queue, prefetch)
	if err != nil || !strings.HasPrefix(queue, canaryQueues) {
		return c, err
	}
	return &sentCanaryConsumer{c, s.p, strings.TrimSuffix(queue, canaryArrival)}, nil
}

type sentCanaryConsumer struct {
	broker.Consumer
	p    Process
	name string
}

// Receive implements broker.Consumer.
func (s *sentCanaryConsumer) Receive(ctx context.Context) (broker.Delivery, error) {
	within, cancel := s.p.Host.WithTimeout(ctx, broker.CanaryWait/2)
	defer cancel()
	d, err := s.Consumer.Receive(within)
	if !errors.Is(err, context.DeadlineExceeded) {
		return d, err
	}
	s.p.Acted("treated a canary as arrived that was only sent")
	return broker.Delivery{Deaths: []broker.Death{{Queue: s.name, Reason: broker.DeathExpired, Count: 1}}}, nil
}

// longHeld is the consumer timeout of the scenario. If a channel closes soon after a delivery was held for so
// long, that is the cause.
const (
	longHeld = 15 * time.Second
	soon     = 2 * time.Second
)

// halfClosedSession is a session whose consumers hang when their channel was closed because they held a
// delivery for long.
type halfClosedSession struct {
	broker.Session
	p Process
}

// Consume implements broker.Session.
func (h *halfClosedSession) Consume(ctx context.Context, queue string, prefetch int) (broker.Consumer, error) {
	c, err := h.Session.Consume(ctx, queue, prefetch)
	if err != nil || !broker.IsWorkerQueue(queue) {
		return c, err
	}
	return &halfClosedConsumer{Consumer: c, p: h.p, held: make(map[uint64]time.Duration)}, nil
}

type halfClosedConsumer struct {
	broker.Consumer
	p Process

	mu   sync.Mutex
	held map[uint64]time.Duration
}

// Receive implements broker.Consumer.
func (h *halfClosedConsumer) Receive(ctx context.Context) (broker.Delivery, error) {
	d, err := h.Consumer.Receive(ctx)
	now := h.p.Host.Monotonic()
	h.mu.Lock()
	long := false
	for _, since := range h.held { //detlint:ok asks whether any matches
		long = long || now-since >= longHeld && now-since < longHeld+soon
	}
	if err == nil {
		h.held[d.Tag] = now
	}
	h.mu.Unlock()
	if errors.Is(err, broker.ErrClosed) && long {
		h.p.Acted("did not notice that the broker has closed the channel of its consumer")
		_, err := h.p.Host.NewSignal().Wait(ctx, host.Forever)
		return broker.Delivery{}, err
	}
	return d, err
}

// Ack implements broker.Consumer.
func (h *halfClosedConsumer) Ack(d broker.Delivery) {
	h.forgetDelivery(d)
	h.Consumer.Ack(d)
}

// Reject implements broker.Consumer.
func (h *halfClosedConsumer) Reject(d broker.Delivery, requeue bool) {
	h.forgetDelivery(d)
	h.Consumer.Reject(d, requeue)
}

func (h *halfClosedConsumer) forgetDelivery(d broker.Delivery) {
	h.mu.Lock()
	delete(h.held, d.Tag)
	h.mu.Unlock()
}
