// Package rabbitmq implements broker.Broker over RabbitMQ.
//
// A session has two connections that are opened and closed together: one publishes, the other declares and
// consumes. On a memory or disk alarm RabbitMQ stops reading from a connection that publishes. With a single
// connection, acknowledgements would wait too, and the consumers would get no more deliveries once the
// prefetch is used up. Each published route, each declaration and each consumer has its own channel: RabbitMQ
// answers a refusal by closing the channel, and a stuck queue blocks its whole channel.
//
// The library's own reconnection is switched off. Its delivery tags have no generation, so after a
// reconnection the acknowledgement of an old delivery would settle a new one. Instead, broker.Client replaces
// a session, and a delivery tag contains the number of its consumer.
package rabbitmq

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"handoff/core/broker"
)

// Defaults of Options.
const (
	DefaultHeartbeat     = 5 * time.Second
	DefaultDialTimeout   = 5 * time.Second
	DefaultWindow        = 64
	DefaultOldestConfirm = 30 * time.Second
	// DefaultIdleChannel is long compared with opening a channel, which takes two round trips: that delay is
	// negligible for a worker that gets work less often. A worker that is gone keeps its channel no longer.
	DefaultIdleChannel = time.Minute
)

// Options configure the connection.
type Options struct {
	// URL is amqp:// or amqps://. It contains a password, so no log and no error shows it.
	URL string
	// Heartbeat is the interval of the AMQP heartbeats, at least one second. A silent broker is detected
	// after at most three intervals. This setting overrides a heartbeat in the URL.
	Heartbeat time.Duration
	// Name is the name of the connections in RabbitMQ's own tools.
	Name string
	// DialTimeout bounds the time to open a connection, including its handshakes.
	DialTimeout time.Duration
	// Window bounds the publishes of one route that have no outcome yet.
	Window int
	// OldestConfirm is how long a publish may wait for its confirm, not counting alarms. After that the
	// session ends.
	OldestConfirm time.Duration
	// IdleChannel is how long a route keeps its channel while nothing is published to it.
	IdleChannel time.Duration
	// Log may be nil.
	Log *slog.Logger
}

// Broker opens sessions with one RabbitMQ.
type Broker struct {
	opts Options
	log  *slog.Logger
}

var _ broker.Broker = (*Broker)(nil)

// New returns a broker that has not connected to anything yet.
func New(o Options) *Broker {
	if o.Heartbeat == 0 {
		o.Heartbeat = DefaultHeartbeat
	}
	// RabbitMQ would read less than a second as "the server's choice".
	o.Heartbeat = max(o.Heartbeat, time.Second)
	if o.DialTimeout <= 0 {
		o.DialTimeout = DefaultDialTimeout
	}
	if o.Window <= 0 {
		o.Window = DefaultWindow
	}
	if o.OldestConfirm <= 0 {
		o.OldestConfirm = DefaultOldestConfirm
	}
	if o.IdleChannel <= 0 {
		o.IdleChannel = DefaultIdleChannel
	}
	if o.Name == "" {
		o.Name = "handoff"
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Broker{opts: o, log: o.Log}
}

// Connect implements broker.Broker.
func (b *Broker) Connect(ctx context.Context) (broker.Session, error) {
	publishing, err := b.dialConnection(ctx, "publish")
	if err != nil {
		return nil, err
	}
	consuming, err := b.dialConnection(ctx, "consume")
	if err != nil {
		publishing.hangUp()
		return nil, err
	}
	s, err := openSession(b, publishing, consuming)
	if err != nil {
		publishing.hangUp()
		consuming.hangUp()
		return nil, fmt.Errorf("%w: opening a channel: %w", broker.ErrUnavailable, err)
	}
	return s, nil
}

// connection is one AMQP connection and its socket.
type connection struct {
	amqp *amqp.Connection
	raw  net.Conn
}

// dialConnection opens one connection. Every failure is ErrUnavailable, unless ctx has ended or the URL is
// invalid.
func (b *Broker) dialConnection(ctx context.Context, role string) (*connection, error) {
	address, err := withoutHeartbeat(b.opts.URL)
	if err != nil {
		return nil, err
	}
	within, cancel := context.WithTimeout(ctx, b.opts.DialTimeout)
	defer cancel()
	l := &connection{}
	stop := func() bool { return true }
	properties := amqp.NewConnectionProperties()
	properties.SetClientConnectionName(b.opts.Name + "/" + role)
	l.amqp, err = amqp.DialConfig(address, amqp.Config{
		Heartbeat:  b.opts.Heartbeat,
		Properties: properties,
		Dial: func(network, address string) (net.Conn, error) {
			conn, err := (&net.Dialer{}).DialContext(within, network, address)
			if err != nil {
				return nil, err
			}
			l.raw = &boundedConn{Conn: conn, limit: 3 * b.opts.Heartbeat}
			// The library takes no context: closing the socket ends its handshakes.
			stop = context.AfterFunc(within, func() { _ = conn.Close() })
			return newScreenedConn(l.raw), nil
		},
	})
	inTime := stop()
	if err == nil && inTime {
		return l, nil
	}
	if l.raw != nil {
		_ = l.raw.Close()
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if !inTime {
		err = within.Err()
	}
	return nil, fmt.Errorf("%w: %w", broker.ErrUnavailable, err)
}

// withoutHeartbeat removes the heartbeat from the URL's query, where it would override the
// configured one, and checks the rest. Its errors don't quote the URL.
func withoutHeartbeat(address string) (string, error) {
	u, err := url.Parse(address)
	if err != nil {
		if inner, ok := errors.AsType[*url.Error](err); ok {
			err = inner.Err
		}
		return "", fmt.Errorf("broker URL: %w", err)
	}
	if u.Scheme != "amqp" && u.Scheme != "amqps" {
		return "", fmt.Errorf("broker URL: the scheme is %q, neither amqp nor amqps", u.Scheme)
	}
	query := u.Query()
	if query.Has("heartbeat") {
		query.Del("heartbeat")
		u.RawQuery = query.Encode()
		return u.String(), nil
	}
	return address, nil
}

// hangUpTimeout bounds the orderly close of a connection, which a dead peer does not answer.
const hangUpTimeout = time.Second

// hangUp closes the connection, with a handshake if the broker answers in time, so that the broker first
// reads everything that was written.
func (c *connection) hangUp() {
	// The library's close waits for locks that a pending write holds; closing the socket frees them.
	stop := time.AfterFunc(hangUpTimeout, func() { _ = c.raw.Close() })
	_ = c.amqp.CloseDeadline(time.Now().Add(hangUpTimeout))
	stop.Stop()
	_ = c.raw.Close()
}

// boundedConn aborts a write that the peer does not accept in time. Without it, a publisher stuck in a write
// holds the locks that closing the connection needs, until the kernel ends the connection after many minutes.
type boundedConn struct {
	net.Conn
	limit time.Duration
}

func (b *boundedConn) Write(p []byte) (int, error) {
	if err := b.SetWriteDeadline(time.Now().Add(b.limit)); err != nil {
		return 0, err
	}
	return b.Conn.Write(p)
}
