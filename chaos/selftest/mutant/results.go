package mutant

import (
	"context"
	"sync"
	"time"

	"handoff/core/execution"
	"handoff/core/host"
	"handoff/core/store"
)

// This file plants workers that write results together, and thereby lose results.

func init() {
	registerMutants(
		Mutant{
			Name: "result-awaits-company", Source: "D13", Expected: 13, Scenario: "results-together",
			About: "a worker holds a result until another one can be written with it, however long that takes",
			Store: func(p Process, c store.Store) store.Store {
				if !p.Worker {
					return c
				}
				return &pairedResultStore{Store: c, p: p}
			},
		},
		Mutant{
			Name: "result-held-past-the-fence", Source: "D15", Expected: 13, Scenario: "results-together",
			About: "a worker that can't renew its lease holds results until its fence is past, waiting for others",
			Store: func(p Process, c store.Store) store.Store {
				if !p.Worker {
					return c
				}
				return &fencePassingStore{Store: c, p: p}
			},
		},
		Mutant{
			Name: "one-refused-result-refuses-all", Source: "D9", Expected: 15, Scenario: "results-together",
			About: "if one of the results written together is refused, the worker treats all as refused: it sends no hints about the others' ends, and does not count them",
			Store: func(p Process, c store.Store) store.Store {
				if !p.Worker {
					return c
				}
				return resultRefusalStore{c, p}
			},
		},
	)
}

// pairedResultStore is a store of a worker that writes no result alone.
type pairedResultStore struct {
	store.Store
	p Process

	mu      sync.Mutex
	waiting host.Signal
}

// longAlone is the longest wait of a result for another one. It is less than the statement timeout.
const longAlone = time.Second

// Finish implements store.Store.
func (prs *pairedResultStore) Finish(ctx context.Context, w store.WorkerKey, fs []store.Finish) ([]store.Outcome, error) {
	mine := prs.p.Host.NewSignal()
	prs.mu.Lock()
	if prs.waiting == nil {
		prs.waiting = mine
		prs.mu.Unlock()
		if came, err := mine.Wait(ctx, longAlone); err == nil && !came {
			prs.p.Acted("held a result back although no other was to be written", fs[0].Key.ID)
		}
		prs.mu.Lock()
		if prs.waiting == mine {
			prs.waiting = nil
		}
	} else {
		prs.waiting.Set()
		prs.waiting = nil
	}
	prs.mu.Unlock()
	return prs.Store.Finish(ctx, w, fs)
}

// fencePassingStore is a store of a worker whose results wait, whatever the state of the lease.
type fencePassingStore struct {
	store.Store
	p Process

	mu sync.Mutex
	// renewed is the sending time of the latest answered heartbeat or registration.
	renewed time.Duration
}

// Register implements store.Store.
func (f *fencePassingStore) Register(ctx context.Context, g store.Registration) (store.Registered, error) {
	sent := f.p.Host.Monotonic()
	r, err := f.Store.Register(ctx, g)
	f.recordRenewal(sent, err)
	return r, err
}

// Heartbeat implements store.Store.
func (f *fencePassingStore) Heartbeat(ctx context.Context, b store.Beat) (store.BeatReply, error) {
	sent := f.p.Host.Monotonic()
	reply, err := f.Store.Heartbeat(ctx, b)
	f.recordRenewal(sent, err)
	return reply, err
}

func (f *fencePassingStore) recordRenewal(sent time.Duration, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err == nil {
		f.renewed = max(f.renewed, sent)
	}
}

// Finish implements store.Store.
func (f *fencePassingStore) Finish(ctx context.Context, w store.WorkerKey, fs []store.Finish) ([]store.Outcome, error) {
	c := &f.p.Config.Worker
	f.mu.Lock()
	fence := f.renewed + c.Lease() - c.FenceMargin
	f.mu.Unlock()
	if left := fence - f.p.Host.Monotonic(); left > 0 && left < c.StatementTimeout-c.StatementTimeout/10 {
		f.p.Acted("held a result until the fence was past", fs[0].Key.ID)
		_ = f.p.Host.Sleep(ctx, left+time.Millisecond)
	}
	return f.Store.Finish(ctx, w, fs)
}

// resultRefusalStore is a store of a worker that treats one refused result as the refusal of all results of
// the call.
type resultRefusalStore struct {
	store.Store
	p Process
}

// Finish implements store.Store.
func (r resultRefusalStore) Finish(ctx context.Context, w store.WorkerKey, fs []store.Finish) ([]store.Outcome, error) {
	outcomes, err := r.Store.Finish(ctx, w, fs)
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
			r.p.Acted("treated a written result as refused, because another one was", fs[i].Key.ID)
			outcomes[i].Applied, outcomes[i].Row.Status = false, execution.Failed
			outcomes[i].Row.Incarnation = 0
		}
	}
	return outcomes, err
}
