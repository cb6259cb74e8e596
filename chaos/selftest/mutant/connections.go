package mutant

import (
	"context"
	"sync"
	"time"

	"handoff/core/broker"
	"handoff/core/execution"
	"handoff/core/store"
)

func init() {
	registerMutants(
		Mutant{
			Name: "first-refusal-stays", Source: "D25", Expected: 5, Scenario: "no-database-connections",
			About: "a process opens its pool once and keeps the error: if the first connection is refused, it never makes another one",
			Store: func(p Process, c store.Store) store.Store {
				if p.Client {
					return c
				}
				return &openOnceStore{Store: c, p: p}
			},
		},
		Mutant{
			Name: "session-unwatched", Source: "D32", Expected: 26, Scenario: "quiet-then-busy",
			About: "a process that only publishes notices the end of its connection when it wants to publish, and connects again after its pause: its hints of that time are lost",
			Broker: func(p Process, b broker.Broker) broker.Broker {
				return &sessionWrapper{b, func(s broker.Session) broker.Session { return &unwatchedSession{Session: s, p: p} }}
			},
		},
	)
}

// openOnceStore is a store that is opened once: the result of its first statement is that of all later
// ones.
type openOnceStore struct {
	store.Store
	p Process

	mu    sync.Mutex
	asked bool
	// failed is the refusal of the first statement, nil for none.
	failed error
}

// askOnce makes a statement, unless the store could not be opened.
func askOnce[T any](s *openOnceStore, ask func() (T, error)) (T, error) {
	s.mu.Lock()
	first, failed := !s.asked, s.failed
	s.asked = true
	s.mu.Unlock()
	if failed != nil {
		s.p.Acted("failed a statement because its first one was refused")
		var none T
		return none, failed
	}
	answer, err := ask()
	if first && isRefused(err) {
		s.mu.Lock()
		s.failed = err
		s.mu.Unlock()
	}
	return answer, err
}

// Register implements store.Store.
func (o *openOnceStore) Register(ctx context.Context, r store.Registration) (store.Registered, error) {
	return askOnce(o, func() (store.Registered, error) { return o.Store.Register(ctx, r) })
}

// Workers implements store.Store.
func (o *openOnceStore) Workers(ctx context.Context, into []store.WorkerRow) ([]store.WorkerRow, error) {
	return askOnce(o, func() ([]store.WorkerRow, error) { return o.Store.Workers(ctx, into) })
}

// DispatchDue implements store.Store.
func (o *openOnceStore) DispatchDue(ctx context.Context, d store.DueDispatch) (store.DueDispatched, error) {
	return askOnce(o, func() (store.DueDispatched, error) { return o.Store.DispatchDue(ctx, d) })
}

// ClaimForScheduling implements store.Store.
func (o *openOnceStore) ClaimForScheduling(ctx context.Context, c store.SchedulingClaim) ([]execution.Execution, error) {
	return askOnce(o, func() ([]execution.Execution, error) { return o.Store.ClaimForScheduling(ctx, c) })
}

// Find implements store.Store.
func (o *openOnceStore) Find(ctx context.Context, f store.Finding) ([]execution.Execution, error) {
	return askOnce(o, func() ([]execution.Execution, error) { return o.Store.Find(ctx, f) })
}

// unwatchedSession is a session that detects its end only by a publish, or by receiving over it. The next
// session comes after a pause.
type unwatchedSession struct {
	broker.Session
	p Process

	mu     sync.Mutex
	wanted bool
}

// Publish implements broker.Session.
func (u *unwatchedSession) Publish(ctx context.Context, ms []broker.Message) []broker.Outcome {
	if u.Session.Closed() {
		u.markWanted()
	}
	return u.Session.Publish(ctx, ms)
}

// Consume implements broker.Session.
func (u *unwatchedSession) Consume(ctx context.Context, queue string, prefetch int) (broker.Consumer, error) {
	u.markWanted()
	return u.Session.Consume(ctx, queue, prefetch)
}

func (u *unwatchedSession) markWanted() {
	u.mu.Lock()
	u.wanted = true
	u.mu.Unlock()
}

// Closed implements broker.Session. A caller that finds the session closed needs a new one.
func (u *unwatchedSession) Closed() bool {
	closed := u.Session.Closed()
	if closed {
		u.markWanted()
	}
	return closed
}

// Wait implements broker.Session.
func (u *unwatchedSession) Wait(ctx context.Context) error {
	for err := u.Session.Wait(ctx); ; err = u.p.Host.Sleep(ctx, 10*time.Millisecond) {
		u.mu.Lock()
		wanted := u.wanted
		u.mu.Unlock()
		if err != nil {
			return err
		}
		if wanted {
			return u.p.Host.Sleep(ctx, u.p.Config.MessageQueue.RabbitMQ.ReconnectMin/2)
		}
		u.p.Acted("did not notice that its connection to the broker had ended")
	}
}
