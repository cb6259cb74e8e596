package mutant

import (
	"context"
	"slices"
	"sync"

	"handoff/core/config"
	"handoff/core/execution"
	"handoff/core/store"
)

// This file plants reapers that act too soon, all at once, or only once.

func init() {
	registerMutants(
		Mutant{
			Name: "no-brake", Source: "D47", Expected: 2, Scenario: "half-the-workers-die",
			About:  "the reaper marks every worker lost whose lease is over, however many there are",
			Config: func(c *config.Config) { c.Executor.BrakeFraction = 1 },
		},
		Mutant{
			Name: "brake-counts-the-present", Source: "D47", Expected: 2, Scenario: "stop-under-the-brake",
			About: "the reaper's brake counts only the present workers, so that the orderly stop of one releases it",
			Store: func(p Process, c store.Store) store.Store {
				if p.Worker {
					return c
				}
				return presentOnlyStore{c, p}
			},
		},
		Mutant{
			Name: "brake-for-ever", Source: "D47", Expected: 12, Scenario: "half-the-workers-die",
			About: "the reaper's brake holds for as long as the leases of most workers are over, which is for ever if they are dead",
			Store: func(p Process, c store.Store) store.Store { return &stuckBrakeStore{Store: c, p: p} },
		},
		Mutant{
			Name: "reap-at-first-sight", Source: "D47", Expected: 2, Scenario: "mass-expiry",
			About: "the reaper uses the database's clock alone, so its first look after an outage marks every worker lost that has not returned yet",
			Store: func(p Process, c store.Store) store.Store {
				if p.Worker {
					return c
				}
				return &firstLookStore{Store: c, first: func(ctx context.Context, workers []store.WorkerRow) {
					for i := range workers {
						if w := &workers[i]; !w.Lifecycle.Gone() && !w.LeaseValid() {
							p.Acted("marked a worker lost at the first sight of it: " + w.Name)
							_, _ = c.Reap(ctx, []store.Reap{{WorkerKey: w.WorkerKey, Beat: w.Beat}})
						}
					}
				}}
			},
		},
		Mutant{
			Name: "no-warm-up", Source: "D58", Expected: 2, Scenario: "mass-expiry",
			About: "the timeout monitor makes its first pass as soon as the database answers, before the workers could write their results",
			Store: func(p Process, c store.Store) store.Store {
				if p.Worker {
					return c
				}
				return &firstLookStore{Store: c, first: func(ctx context.Context, _ []store.WorkerRow) {
					age := p.Config.Executor.ReapGrace
					rows, err := c.Find(ctx, store.Finding{Cause: store.Overrun, Age: age, Limit: p.Config.Executor.BatchSize})
					if err != nil {
						return
					}
					for i := range rows {
						p.Acted("ended an overrun run before workers could write their results", rows[i].ID)
						_, _ = c.Reclaim(ctx, []store.Reclaim{{
							Key: rows[i].Key(), Cause: store.Overrun, Age: age, By: execution.TimeoutMonitor, Reason: execution.RunTimeout, To: execution.Timeout,
							Result: execution.Result{Error: "Execution timeout: run deadline passed", FailedBy: execution.TimeoutMonitor},
						}})
					}
				}}
			},
		},
	)
}

// presentOnlyStore leaves out workers that have stopped.
type presentOnlyStore struct {
	store.Store
	p Process
}

// Workers implements store.Store.
func (pos presentOnlyStore) Workers(ctx context.Context, into []store.WorkerRow) ([]store.WorkerRow, error) {
	workers, err := pos.Store.Workers(ctx, into)
	present := slices.DeleteFunc(workers, func(w store.WorkerRow) bool { return w.Lifecycle == execution.Stopped })
	if len(present) < len(workers) {
		pos.p.Acted("did not count workers that have stopped")
	}
	return present, err
}

// stuckBrakeStore reaps no worker while the brake's condition holds.
type stuckBrakeStore struct {
	store.Store
	p Process
}

// Reap implements store.Store.
func (s *stuckBrakeStore) Reap(ctx context.Context, rs []store.Reap) ([]bool, error) {
	workers, err := s.Workers(ctx, nil)
	if err != nil {
		return nil, err
	}
	alive, over := 0, 0
	for i := range workers {
		if w := &workers[i]; !w.Lifecycle.Gone() {
			alive++
			if !w.LeaseValid() {
				over++
			}
		}
	}
	if s.p.Config.Executor.Brakes(alive, over) {
		s.p.Acted("kept the brake on and marked nobody lost")
		return make([]bool, len(rs)), nil
	}
	return s.Store.Reap(ctx, rs)
}

// firstLookStore acts on the first reading of the workers after a start, or after a failed reading.
type firstLookStore struct {
	store.Store
	first func(ctx context.Context, workers []store.WorkerRow)

	mu     sync.Mutex
	looked bool
}

// Workers implements store.Store.
func (f *firstLookStore) Workers(ctx context.Context, into []store.WorkerRow) ([]store.WorkerRow, error) {
	workers, err := f.Store.Workers(ctx, into)
	f.mu.Lock()
	first := err == nil && !f.looked
	f.looked = err == nil
	f.mu.Unlock()
	if first {
		f.first(ctx, workers)
	}
	return workers, err
}
