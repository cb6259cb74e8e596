package mutant

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"handoff/core/execution"
	"handoff/core/store"
)

// This file plants a worker that measures the time of a run from its first claim for it.

func init() {
	registerMutants(
		Mutant{
			Name: "time-from-the-first-claim", Source: "D13", Expected: 13, Scenario: "claims-wait-for-the-database", Unread: true,
			About: "a run's time counts from the first attempt to claim it, even if that could not be sent: the time is over before the action begins",
			Store: ofWorker(func(p Process, s store.Store) store.Store {
				return &doubtedClaimStore{Store: s, p: p, doubted: make(map[execution.Key]bool)}
			}),
		},
	)
}

// doubtedClaimStore is a store of a worker that treats each claim which could not be sent as one that may
// have taken effect.
type doubtedClaimStore struct {
	store.Store
	p Process

	mu      sync.Mutex
	doubted map[execution.Key]bool
}

// Claim implements store.Worker.
func (d *doubtedClaimStore) Claim(ctx context.Context, w store.WorkerKey, cs []store.Claim) ([]store.ClaimResult, error) {
	results, err := d.Store.Claim(ctx, w, cs)
	d.mu.Lock()
	defer d.mu.Unlock()
	unsent := errors.Is(err, store.ErrUnavailable)
	for i := range cs {
		key := cs[i].Key
		switch {
		case unsent:
			d.doubted[key] = true
		case err == nil && results[i].Applied && d.doubted[key]:
			d.p.Acted("treated the first of several claims as the one that took effect", key.ID)
			results[i].Applied = false
			delete(d.doubted, key)
		}
	}
	if unsent {
		// %v: the result must wrap only one of the two errors.
		return nil, fmt.Errorf("%w: %v", store.ErrUnknownOutcome, err)
	}
	return results, err
}
