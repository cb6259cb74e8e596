package rabbitmq

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"

	amqp "github.com/rabbitmq/amqp091-go"

	"handoff/core/broker"
)

// session is a pair of connections, one for publishing and one for consuming. It ends as a whole as soon as
// either connection ends, or any channel that publishes or consumes.
type session struct {
	b                     *Broker
	publishing, consuming *connection
	publisher             *publisher
	blocked               atomic.Bool

	ending sync.Once
	done   chan struct{} // closed when the session has ended
	hungUp chan struct{} // closed when both connections are closed as well

	mu        sync.Mutex
	consumers map[uint64]*consumer
	// limited holds the queues that Limited returns.
	limited []string
}

func openSession(b *Broker, publishing, consuming *connection) (*session, error) {
	s := &session{
		b: b, publishing: publishing, consuming: consuming,
		done: make(chan struct{}), hungUp: make(chan struct{}),
		consumers: make(map[uint64]*consumer),
	}
	s.endWhenClosed("publishing connection", publishing.amqp.NotifyClose(make(chan *amqp.Error, 1)))
	s.endWhenClosed("consuming connection", consuming.amqp.NotifyClose(make(chan *amqp.Error, 1)))
	alarms := publishing.amqp.NotifyBlocked(make(chan amqp.Blocking, 16))
	p, err := openPublisher(s)
	if err != nil {
		return nil, err
	}
	s.publisher = p
	go func() {
		for a := range alarms {
			s.blocked.Store(a.Active)
			p.alarm.setClosed(a.Active)
			b.log.LogAttrs(context.Background(), slog.LevelWarn, "broker alarm", slog.Bool("blocked", a.Active), slog.String("reason", a.Reason))
		}
	}()
	return s, nil
}

// endWhenClosed ends the session when the connection or channel behind closed ends. The library closes the
// Go channel without a value if the process itself closed it.
func (s *session) endWhenClosed(what string, closed chan *amqp.Error) {
	go func() {
		if err, ok := <-closed; ok {
			s.end(fmt.Errorf("%s: %w", what, err))
		}
	}()
}

// end ends the session. The reason is nil if its owner closes it. It does not wait for the connections to
// close.
func (s *session) end(reason error) {
	s.ending.Do(func() {
		close(s.done)
		if reason != nil {
			s.b.log.LogAttrs(context.Background(), slog.LevelWarn, "broker session ended", slog.Any("error", reason))
		}
		go func() {
			var both sync.WaitGroup
			both.Go(s.publishing.hangUp)
			both.Go(s.consuming.hangUp)
			both.Wait()
			close(s.hungUp)
		}()
	})
}

// Close implements broker.Session. It returns when the broker has read everything sent before, or
// after a second.
func (s *session) Close() {
	s.end(nil)
	<-s.hungUp
}

// Closed implements broker.Session. The library learns of the end before its listeners, and a
// caller that got ErrClosed must find the session closed.
func (s *session) Closed() bool {
	select {
	case <-s.done:
		return true
	default:
	}
	switch {
	case s.publishing.amqp.IsClosed():
		s.end(errors.New("publishing connection closed"))
	case s.consuming.amqp.IsClosed():
		s.end(errors.New("consuming connection closed"))
	default:
		return false
	}
	return true
}

func (s *session) Wait(ctx context.Context) error {
	select {
	case <-s.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Blocked implements broker.Session. RabbitMQ reports an alarm to a connection at its first publish
// during the alarm, so an idle session does not know of it.
func (s *session) Blocked() bool { return s.blocked.Load() && !s.Closed() }

// callOrAbandon runs do, which the library does not let anyone interrupt, until it returns or the session or
// ctx ends. If do returns later, undo gets its result.
func callOrAbandon[T any](ctx context.Context, s *session, do func() (T, error), undo func(T)) (T, error) {
	var none T
	if s.Closed() {
		return none, broker.ErrClosed
	}
	if err := ctx.Err(); err != nil {
		return none, err
	}
	type result struct {
		value T
		err   error
	}
	results := make(chan result, 1)
	go func() {
		value, err := do()
		results <- result{value, err}
	}()
	abandon := func() {
		go func() {
			if r := <-results; r.err == nil {
				undo(r.value)
			}
		}()
	}
	select {
	case r := <-results:
		if r.err != nil && s.Closed() {
			return none, broker.ErrClosed
		}
		return r.value, r.err
	case <-ctx.Done():
		abandon()
		return none, ctx.Err()
	case <-s.done:
		abandon()
		return none, broker.ErrClosed
	}
}

// noResult is the result of a call without a result.
type noResult struct{}
