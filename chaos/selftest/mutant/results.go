package mutant

import (
	"context"
	"sync"
	"time"

	"handoff/core/execution"
	"handoff/core/host"
	"handoff/core/store"
)

// This file plants workers that write results together, and lose results by that.

func init() {
	register(
		Mutant{
			Name: "result-awaits-company", Source: "D13", Expected: 13, Scenario: "results-together",
			About: "a worker holds a result until another one can be written with it, however long that takes",
			Store: func(p Process, c store.Store) store.Store {
				if !p.Worker {
					return c
				}
				return &sociable{Store: c, p: p}
			},
		},
		Mutant{
			Name: "result-held-past-the-fence", Source: "D15", Expected: 13, Scenario: "results-together",
			About: "a worker that can't renew its lease holds results until its fence is past, waiting for others",
			Store: func(p Process, c store.Store) store.Store {
				if !p.Worker {
					return c
				}
				return &leisurely{Store: c, p: p}
			},
		},
		Mutant{
			Name: "one-refused-result-refuses-all", Source: "D9", Expected: 15, Scenario: "results-together",
			About: "if one of the results written together is refused, the worker treats all as refused: it sends no hints about the others' ends, and does not count them",
			Store: func(p Process, c store.Store) store.Store {
				if !p.Worker {
					return c
				}
				return concerted{c, p}
			},
		},
	)
}

// sociable is a store of a worker that writes no result alone.
type sociable struct {
	store.Store
	p Process

	mu      sync.Mutex
	waiting host.Signal
}

// longAlone is how long a result waits for another; it is less than a statement may take.
const longAlone = time.Second

// Finish implements store.Store.
func (s *sociable) Finish(ctx context.Context, w store.WorkerKey, fs []store.Finish) ([]store.Outcome, error) {
	mine := s.p.Host.NewSignal()
	s.mu.Lock()
	if s.waiting == nil {
		s.waiting = mine
		s.mu.Unlock()
		if came, err := mine.Wait(ctx, longAlone); err == nil && !came {
			s.p.Acted("held a result back although no other was to be written", fs[0].Key.ID)
		}
		s.mu.Lock()
		if s.waiting == mine {
			s.waiting = nil
		}
	} else {
		s.waiting.Set()
		s.waiting = nil
	}
	s.mu.Unlock()
	return s.Store.Finish(ctx, w, fs)
}

// leisurely is a store of a worker whose results wait, whatever the state of the lease.
type leisurely struct {
	store.Store
	p Process

	mu sync.Mutex
	// renewed is when the latest heartbeat or registration that was answered was sent.
	renewed time.Duration
}

// Register implements store.Store.
func (l *leisurely) Register(ctx context.Context, g store.Registration) (store.Registered, error) {
	sent := l.p.Host.Monotonic()
	r, err := l.Store.Register(ctx, g)
	l.renew(sent, err)
	return r, err
}

// Heartbeat implements store.Store.
func (l *leisurely) Heartbeat(ctx context.Context, b store.Beat) (store.BeatReply, error) {
	sent := l.p.Host.Monotonic()
	reply, err := l.Store.Heartbeat(ctx, b)
	l.renew(sent, err)
	return reply, err
}

func (l *leisurely) renew(sent time.Duration, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil {
		l.renewed = max(l.renewed, sent)
	}
}

// Finish implements store.Store.
func (l *leisurely) Finish(ctx context.Context, w store.WorkerKey, fs []store.Finish) ([]store.Outcome, error) {
	c := &l.p.Config.Worker
	l.mu.Lock()
	fence := l.renewed + c.Lease() - c.FenceMargin
	l.mu.Unlock()
	if left := fence - l.p.Host.Monotonic(); left > 0 && left < c.StatementTimeout-c.StatementTimeout/10 {
		l.p.Acted("held a result until the fence was past", fs[0].Key.ID)
		_ = l.p.Host.Sleep(ctx, left+time.Millisecond)
	}
	return l.Store.Finish(ctx, w, fs)
}

// concerted is a store of a worker that treats one refused result as the refusal of all results of
// the call.
type concerted struct {
	store.Store
	p Process
}

// Finish implements store.Store.
func (c concerted) Finish(ctx context.Context, w store.WorkerKey, fs []store.Finish) ([]store.Outcome, error) {
	outcomes, err := c.Store.Finish(ctx, w, fs)
	applied := 0
	for i := range outcomes {
		if outcomes[i].Applied {
			applied++
		}
	}
	if applied == 0 || applied == len(fs) {
		return outcomes, err
	}
	for i := range outcomes {
		if outcomes[i].Applied {
			c.p.Acted("treated a written result as refused, because another one was", fs[i].Key.ID)
			outcomes[i].Applied, outcomes[i].Row.Status = false, execution.Failed
			outcomes[i].Row.Incarnation = 0
		}
	}
	return outcomes, err
}
