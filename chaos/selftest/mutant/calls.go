package mutant

import (
	"context"
	"time"

	"handoff/core/execution"
	"handoff/core/host"
	"handoff/core/store"
)

// This file plants wrong questions and reports of a worker, about its lease, its runs and its stop.
// They seldom have an effect, or another part repairs it.

func init() {
	register(
		Mutant{
			Name: "fences-in-whole-seconds", Source: "D15", Expected: 4, Scenario: "mute-worker", Unread: true,
			About: "a worker knows the end of its lease only to the second",
			Host: func(p Process, h host.Host) host.Host {
				if !p.Worker {
					return h
				}
				return &coarse{h, p}
			},
		},
		Mutant{
			Name: "claims-linger", Source: "D39", Expected: 10, Scenario: "stop-on-a-slow-road", Unread: true,
			About: "a worker that has begun to drain repeats its last claim",
			Store: ofWorker(func(p Process, s store.Store) store.Store { return &lingering{Store: s, p: p} }),
		},
		Mutant{
			Name: "refused-ends-renamed", Source: "D13", Expected: 13, Scenario: "refused-ends-are-refused", Unread: true,
			About: "the results that a lost worker reports do not say that it was lost",
			Store: ofWorker(func(p Process, s store.Store) store.Store { return &renaming{s, p} }),
		},
		Mutant{
			Name: "runs-told-shorter", Source: "D59", Expected: 15, Scenario: "mute-worker", Unread: true,
			About: "a worker reports half of the true duration of its runs",
			Store: ofWorker(func(p Process, s store.Store) store.Store { return &shortening{s, p} }),
		},
		Mutant{
			Name: "looks-behind-seldom", Source: "D25", Expected: 18, Scenario: "garbage-before-work", Unread: true,
			About: "a worker asks half as often as it should for dispatches behind messages without effect",
			Store: ofWorker(func(p Process, s store.Store) store.Store { return &dozing{s, p} }),
		},
		Mutant{
			Name: "looks-behind-narrowly", Source: "S12", Expected: 17, Scenario: "garbage-before-short-runs", Unread: true,
			About: "a worker takes only one of the dispatches that wait behind messages without effect at a time",
			Store: ofWorker(func(p Process, s store.Store) store.Store { return &narrow{s, p} }),
		},
		Mutant{
			Name: "asks-for-nothing", Source: "D60", Expected: 18, Scenario: "cancelled-in-bursts", Unread: true,
			About: "a worker makes a statement with an empty list before each heartbeat",
			Store: ofWorker(func(p Process, s store.Store) store.Store { return &idling{s, p} }),
		},
		Mutant{
			Name: "refused-ends-at-once", Source: "D57", Expected: 23, Scenario: "refused-ends-are-refused", Unread: true,
			About: "if the database refuses to keep a refused result, a worker asks again at once",
			Store: ofWorker(func(p Process, s store.Store) store.Store { return &pressing{s, p} }),
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

// coarse is a machine whose monotonic clock shows whole seconds.
type coarse struct {
	host.Host
	p Process
}

// Monotonic implements host.Host.
func (c *coarse) Monotonic() time.Duration {
	now := c.Host.Monotonic()
	if now%time.Second != 0 {
		c.p.Acted("read its clock in whole seconds")
	}
	return now.Truncate(time.Second)
}

// lingering is a store of a worker that claims once more when it drains.
type lingering struct {
	store.Store
	p    Process
	last []store.Claim
}

// Claim implements store.Worker.
func (l *lingering) Claim(ctx context.Context, w store.WorkerKey, cs []store.Claim) ([]store.ClaimResult, error) {
	l.last = cs
	return l.Store.Claim(ctx, w, cs)
}

// SetLifecycle implements store.Worker.
func (l *lingering) SetLifecycle(ctx context.Context, w store.WorkerKey, to execution.Lifecycle) error {
	err := l.Store.SetLifecycle(ctx, w, to)
	if to == execution.Draining && len(l.last) > 0 {
		l.p.Acted("claimed again after it had begun to drain", l.last[0].Key.ID)
		_, _ = l.Store.Claim(ctx, w, l.last)
	}
	return err
}

// renaming is a store of a worker that keeps refused results under another reason.
type renaming struct {
	store.Store
	p Process
}

// KeepRefusedResult implements store.Worker.
func (r *renaming) KeepRefusedResult(ctx context.Context, w store.WorkerKey, f store.Finish) error {
	if f.Reason == execution.WorkerLost || f.Reason == execution.HeartbeatStale {
		r.p.Acted("kept a refused result under another reason", f.Key.ID)
		f.Reason = execution.Unroutable
	}
	return r.Store.KeepRefusedResult(ctx, w, f)
}

// shortening is a store of a worker that reports its runs as shorter than they were.
type shortening struct {
	store.Store
	p Process
}

// Heartbeat implements store.Worker.
func (s *shortening) Heartbeat(ctx context.Context, b store.Beat) (store.BeatReply, error) {
	if b.Figures.Average > 0 {
		s.p.Acted("reported its runs as half as long as they were")
		b.Figures.Average /= 2
	}
	return s.Store.Heartbeat(ctx, b)
}

// dozing is a store of a worker that is slow to ask for the rows dispatched to it.
type dozing struct {
	store.Store
	p Process
}

// Dispatched implements store.Worker.
func (d *dozing) Dispatched(ctx context.Context, w store.WorkerKey, limit int) ([]execution.Execution, error) {
	d.p.Acted("waited before it asked for the rows dispatched to it")
	if err := d.p.Host.Sleep(ctx, time.Second); err != nil {
		return nil, err
	}
	return d.Store.Dispatched(ctx, w, limit)
}

// narrow is a store of a worker that takes only one of the rows dispatched to it.
type narrow struct {
	store.Store
	p Process
}

// Dispatched implements store.Worker.
func (n *narrow) Dispatched(ctx context.Context, w store.WorkerKey, limit int) ([]execution.Execution, error) {
	if limit > 1 {
		n.p.Acted("asked for only one of its dispatches")
		limit = 1
	}
	return n.Store.Dispatched(ctx, w, limit)
}

// idling is a store of a worker whose heartbeats list no executions.
type idling struct {
	store.Store
	p Process
}

// Heartbeat implements store.Worker.
func (i *idling) Heartbeat(ctx context.Context, b store.Beat) (store.BeatReply, error) {
	i.p.Acted("asked the database for no executions")
	if _, err := i.Executions(ctx, nil); err != nil {
		return store.BeatReply{}, err
	}
	return i.Store.Heartbeat(ctx, b)
}

// pressing is a store of a worker that repeats at once the request to keep a refused result.
type pressing struct {
	store.Store
	p Process
}

// KeepRefusedResult implements store.Worker.
func (pr *pressing) KeepRefusedResult(ctx context.Context, w store.WorkerKey, f store.Finish) error {
	err := pr.Store.KeepRefusedResult(ctx, w, f)
	if err != nil {
		pr.p.Acted("asked again at once to keep a refused result", f.Key.ID)
		err = pr.Store.KeepRefusedResult(ctx, w, f)
	}
	return err
}
