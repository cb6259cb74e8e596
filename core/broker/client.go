package broker

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"handoff/core/config"
	"handoff/core/host"
)

// Client keeps one session open for a process. Whenever the session ends, it reconnects and redeclares the
// topology, indefinitely, with backoff and jitter (defect D32: a worker whose consumer's connection died
// silently receives nothing but looks healthy). It also watches an idle session. So a process that rarely
// publishes does not detect only at its next message that its session ended long ago.
//
// All calls share the session. Only Run opens sessions: without it, Session waits and Publish sends nothing.
type Client struct {
	host     host.Host
	broker   Broker
	topology Topology
	min, max time.Duration
	log      *slog.Logger

	mu      sync.Mutex
	session Session
	since   time.Duration
	waiting []host.Signal
}

// NewClient returns a client that is not connected yet; Run connects it.
func NewClient(h host.Host, b Broker, t Topology, c config.RabbitMQ, log *slog.Logger) *Client {
	return &Client{host: h, broker: b, topology: t, min: c.ReconnectMin, max: c.ReconnectMax, log: log}
}

// Run keeps the client connected until ctx ends, then closes the session.
func (c *Client) Run(ctx context.Context) {
	backoff := NewBackoff(c.host, c.min, c.max)
	for ctx.Err() == nil {
		s, err := c.connectAndDeclare(ctx)
		if err != nil {
			c.log.LogAttrs(ctx, slog.LevelWarn, "broker connection failed, trying again", slog.Any("error", err))
			if backoff.Wait(ctx) != nil {
				break
			}
			continue
		}
		began := c.host.Monotonic()
		c.publishSession(s)
		err = s.Wait(ctx)
		c.publishSession(nil)
		s.Close()
		if err != nil {
			break
		}
		// After a long session, the client reconnects at once: if the broker is down, that attempt fails.
		// After a short session it waits, so that it does not reconnect in a tight loop to a broker that
		// accepts connections and drops them.
		if c.host.Monotonic()-began > c.max {
			backoff.Reset()
			continue
		}
		if backoff.Wait(ctx) != nil {
			break
		}
	}
}

func (c *Client) connectAndDeclare(ctx context.Context) (Session, error) {
	s, err := c.broker.Connect(ctx)
	if err != nil {
		return nil, err
	}
	if err := s.Declare(ctx, c.topology); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

func (c *Client) publishSession(s Session) {
	now := c.host.Monotonic()
	c.mu.Lock()
	c.session, c.since = s, now
	waiting := c.waiting
	if s != nil {
		c.waiting = nil
	} else {
		waiting = nil
	}
	c.mu.Unlock()
	for _, w := range waiting {
		w.Set()
	}
}

// Session returns the open session. It waits for one, or until ctx ends.
func (c *Client) Session(ctx context.Context) (Session, error) {
	arrived := c.host.NewSignal()
	for {
		c.mu.Lock()
		s := c.session
		open := s != nil && !s.Closed()
		if !open {
			c.waiting = append(c.waiting, arrived)
		}
		c.mu.Unlock()
		if open {
			return s, nil
		}
		if _, err := arrived.Wait(ctx, host.Forever); err != nil {
			c.mu.Lock()
			c.waiting = slices.DeleteFunc(c.waiting, func(s host.Signal) bool { return s == arrived })
			c.mu.Unlock()
			return nil, err
		}
	}
}

// Ready reports whether a publish would be sent: a session is open and the broker does not block publishers.
func (c *Client) Ready() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.session != nil && !c.session.Closed() && !c.session.Blocked()
}

// ConnectedFor returns how long the current session has been open; zero without a session.
func (c *Client) ConnectedFor() time.Duration {
	now := c.host.Monotonic()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.session == nil || c.session.Closed() {
		return 0
	}
	return now - c.since
}

// Limited returns Session.Limited of the open session; nil without a session.
func (c *Client) Limited() []string {
	s := c.currentSession()
	if s == nil {
		return nil
	}
	return s.Limited()
}

// Publish publishes over the open session. Without a session every outcome is NotSent.
func (c *Client) Publish(ctx context.Context, ms []Message) []Outcome {
	s := c.currentSession()
	if s == nil {
		out := make([]Outcome, len(ms))
		for i := range out {
			out[i] = NotSent
		}
		return out
	}
	return s.Publish(ctx, ms)
}

// DeleteIdle deletes an idle queue over the open session. Without a session it returns ErrUnavailable.
func (c *Client) DeleteIdle(ctx context.Context, q Queue) (QueueFate, error) {
	s := c.currentSession()
	if s == nil {
		return QueueInUse, ErrUnavailable
	}
	return s.DeleteIdle(ctx, q)
}

// Blocked reports whether the broker blocks the publishes of the open session. Without a session it returns
// ErrUnavailable.
func (c *Client) Blocked() (bool, error) {
	s := c.currentSession()
	if s == nil {
		return false, ErrUnavailable
	}
	return s.Blocked(), nil
}

// QueueState reads the state of a queue over the open session. Without a session it returns ErrUnavailable.
func (c *Client) QueueState(ctx context.Context, queue string) (QueueState, error) {
	s := c.currentSession()
	if s == nil {
		return QueueState{}, ErrUnavailable
	}
	return s.QueueState(ctx, queue)
}

// currentSession returns the open session, or nil.
func (c *Client) currentSession() Session {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.session == nil || c.session.Closed() {
		return nil
	}
	return c.session
}

// Subscription describes the queue that Consume subscribes to and the handler of its deliveries.
type Subscription struct {
	Queue    string
	Prefetch int
	// Alive is called with each new consumer, and with nil after a consumer has ended. It may be nil.
	Alive func(Consumer)
	// Handle gets every delivery, one after the other, and settles it. If it returns false, the
	// subscription ends.
	Handle func(Consumer, Delivery) bool
	// Cancelled reports whether the process itself has cancelled its consumer (Consumer.Cancel). If so,
	// Consume returns when the deliveries end, and the session stays open for those that are not settled yet.
	// Nil means never.
	Cancelled func() bool
}

// Consume maintains a subscription until ctx ends, Handle returns false or Cancelled returns true. It
// resubscribes over every new session. If the broker refuses the subscription or cancels the consumer, it
// closes the client's session, so that a new one redeclares the queue. Every other user of the session loses
// it, too.
func (c *Client) Consume(ctx context.Context, sub Subscription) {
	backoff := NewBackoff(c.host, c.min, c.max)
	alive := sub.Alive
	if alive == nil {
		alive = func(Consumer) {}
	}
	for ctx.Err() == nil {
		s, err := c.Session(ctx)
		if err != nil {
			return
		}
		consumer, err := s.Consume(ctx, sub.Queue, sub.Prefetch)
		if err != nil {
			if !errors.Is(err, ErrClosed) {
				c.log.LogAttrs(ctx, slog.LevelWarn, "consuming failed, trying again", slog.String("queue", sub.Queue), slog.Any("error", err))
				// The queue may have been deleted: a new session redeclares it.
				s.Close()
			}
			if backoff.Wait(ctx) != nil {
				return
			}
			continue
		}
		backoff.Reset()
		alive(consumer)
		again := c.handleDeliveries(ctx, s, consumer, sub)
		alive(nil)
		if !again {
			return
		}
	}
}

// handleDeliveries passes deliveries to Handle until the consumer ends. It returns false if the subscription
// is to end.
func (c *Client) handleDeliveries(ctx context.Context, s Session, consumer Consumer, sub Subscription) bool {
	for {
		d, err := consumer.Receive(ctx)
		switch {
		case err == nil:
			if !sub.Handle(consumer, d) {
				return false
			}
		case errors.Is(err, ErrCancelled) && sub.Cancelled != nil && sub.Cancelled():
			return false
		case errors.Is(err, ErrCancelled):
			c.log.LogAttrs(ctx, slog.LevelWarn, "consumer cancelled by the broker, subscribing again", slog.String("queue", sub.Queue))
			s.Close()
			return true
		default:
			return ctx.Err() == nil
		}
	}
}
