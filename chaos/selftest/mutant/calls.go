package mutant

import (
	"context"
	"time"

	"handoff/core/execution"
	"handoff/core/host"
	"handoff/core/store"
)

// This file plants wrong requests and reports of a worker, about its lease, its runs and its stop. They
// seldom have an effect, or another part repairs it.

func init() {
	registerMutants(
		Mutant{
			Name: "fences-in-whole-seconds", Source: "D15", Expected: 4, Scenario: "mute-worker", Unread: true,
			About: "a worker knows the end of its lease only to the second",
			Host: func(p Process, h host.Host) host.Host {
				if !p.Worker {
					return h
				}
				return &coarseClock{h, p}
			},
		},
		Mutant{
			Name: "claims-linger", Source: "D39", Expected: 10, Scenario: "stop-on-a-slow-road", Unread: true,
			About: "a worker that has begun to drain repeats its last claim",
			Store: ofWorker(func(p Process, s store.Store) store.Store { return &lateClaimStore{Store: s, p: p} }),
		},
		Mutant{
			Name: "refused-ends-renamed", Source: "D13", Expected: 13, Scenario: "refused-ends-are-refused", Unread: true,
			About: "the results that a lost worker reports do not say that it was lost",
			Store: ofWorker(func(p Process, s store.Store) store.Store { return &reasonChangeStore{s, p} }),
		},
		Mutant{
			Name: "runs-told-shorter", Source: "D59", Expected: 15, Scenario: "mute-worker", Unread: true,
			About: "a worker reports half of the true duration of its runs",
			Store: ofWorker(func(p Process, s store.Store) store.Store { return &shortRunStore{s, p} }),
		},
		Mutant{
			Name: "looks-behind-seldom", Source: "D25", Expected: 18, Scenario: "garbage-before-work", Unread: true,
			About: "a worker asks half as often as it should for dispatches behind messages without effect",
			Store: ofWorker(func(p Process, s store.Store) store.Store { return &slowFetchStore{s, p} }),
		},
		Mutant{
			Name: "looks-behind-narrowly", Source: "S12", Expected: 17, Scenario: "garbage-before-short-runs", Unread: true,
			About: "a worker takes only one of the dispatches that wait behind messages without effect at a time",
			Store: ofWorker(func(p Process, s store.Store) store.Store { return &oneRowStore{s, p} }),
		},
		Mutant{
			Name: "asks-for-nothing", Source: "D60", Expected: 18, Scenario: "cancelled-in-bursts", Unread: true,
			About: "a worker makes a statement with an empty list before each heartbeat",
			Store: ofWorker(func(p Process, s store.Store) store.Store { return &emptyBeatStore{s, p} }),
		},
		Mutant{
			Name: "refused-ends-at-once", Source: "D57", Expected: 23, Scenario: "refused-ends-are-refused", Unread: true,
			About: "if the database refuses to keep a refused result, a worker asks again at once",
			Store: ofWorker(func(p Process, s store.Store) store.Store { return &instantRetryStore{s, p} }),
		},
	)
}

// ofWorker wraps the database of workers only.
func ofWorker(wrap func(p Process, s store.Store) store.Store) func(Process, store.Store) store.Store {
	return func(p Process, s store.Store) store.Store {
		if !p.Worker {
			return s
		}
		return wrap(p, s)
	}
}

// coarseClock is a machine whose monotonic clock shows whole seconds.
type coarseClock struct {
	host.Host
	p Process
}

// Monotonic implements host.Host.
func (c *coarseClock) Monotonic() time.Duration {
	now := c.Host.Monotonic()
	if now%time.Second != 0 {
		c.p.Acted("read its clock in whole seconds")
	}
	return now.Truncate(time.Second)
}

// lateClaimStore is a store of a worker that claims once more when it drains.
type lateClaimStore struct {
	store.Store
	p    Process
	last []store.Claim
}

// Claim implements store.Worker.
func (l *lateClaimStore) Claim(ctx context.Context, w store.WorkerKey, cs []store.Claim) ([]store.ClaimResult, error) {
	l.last = cs
	return l.Store.Claim(ctx, w, cs)
}

// SetLifecycle implements store.Worker.
func (l *lateClaimStore) SetLifecycle(ctx context.Context, w store.WorkerKey, to execution.Lifecycle) error {
	err := l.Store.SetLifecycle(ctx, w, to)
	if to == execution.Draining && len(l.last) > 0 {
		l.p.Acted("claimed again after it had begun to drain", l.last[0].Key.ID)
		_, _ = l.Store.Claim(ctx, w, l.last)
	}
	return err
}

// reasonChangeStore is a store of a worker that keeps refused results under another reason.
type reasonChangeStore struct {
	store.Store
	p Process
}

// KeepRefusedResult implements store.Worker.
func (r *reasonChangeStore) KeepRefusedResult(ctx context.Context, w store.WorkerKey, f store.Finish) error {
	if f.Reason == execution.WorkerLost || f.Reason == execution.HeartbeatStale {
		r.p.Acted("kept a refused result under another reason", f.Key.ID)
		f.Reason = execution.Unroutable
	}
	return r.Store.KeepRefusedResult(ctx, w, f)
}

// shortRunStore wraps a worker's store and halves the average run time that it reports.
type shortRunStore struct {
	store.Store
	p Process
}

// Heartbeat implements store.Worker.
func (s *shortRunStore) Heartbeat(ctx context.Context, b store.Beat) (store.BeatReply, error) {
	if b.Figures.Average > 0 {
		s.p.Acted("reported its runs as half as long as they were")
		b.Figures.Average /= 2
	}
	return s.Store.Heartbeat(ctx, b)
}

// slowFetchStore is a store of a worker that fetches the rows dispatched to it slowly.
type slowFetchStore struct {
	store.Store
	p Process
}

// Dispatched implements store.Worker.
func (s *slowFetchStore) Dispatched(ctx context.Context, w store.WorkerKey, limit int) ([]execution.Execution, error) {
	s.p.Acted("waited before it asked for the rows dispatched to it")
	if err := s.p.Host.Sleep(ctx, time.Second); err != nil {
		return nil, err
	}
	return s.Store.Dispatched(ctx, w, limit)
}

// oneRowStore is a store of a worker that fetches only one of the rows dispatched to it.
type oneRowStore struct {
	store.Store
	p Process
}

// Dispatched implements store.Worker.
func (o *oneRowStore) Dispatched(ctx context.Context, w store.WorkerKey, limit int) ([]execution.Execution, error) {
	if limit > 1 {
		o.p.Acted("asked for only one of its dispatches")
		limit = 1
	}
	return o.Store.Dispatched(ctx, w, limit)
}

// emptyBeatStore is a store of a worker whose heartbeats list no executions.
type emptyBeatStore struct {
	store.Store
	p Process
}

// Heartbeat implements store.Worker.
func (e *emptyBeatStore) Heartbeat(ctx context.Context, b store.Beat) (store.BeatReply, error) {
	e.p.Acted("asked the database for no executions")
	if _, err := e.Executions(ctx, nil); err != nil {
		return store.BeatReply{}, err
	}
	return e.Store.Heartbeat(ctx, b)
}

// instantRetryStore is a store of a worker that repeats at once the request to keep a refused result.
type instantRetryStore struct {
	store.Store
	p Process
}

// KeepRefusedResult implements store.Worker.
func (i *instantRetryStore) KeepRefusedResult(ctx context.Context, w store.WorkerKey, f store.Finish) error {
	err := i.Store.KeepRefusedResult(ctx, w, f)
	if err != nil {
		i.p.Acted("asked again at once to keep a refused result", f.Key.ID)
		err = i.Store.KeepRefusedResult(ctx, w, f)
	}
	return err
}
