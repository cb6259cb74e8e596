package mutant

import (
	"context"
	"sync"

	"handoff/core/execution"
	"handoff/core/store"
)

func init() { register(firstRefusalStays) }

// opened is a store that is opened once: how its first statement ends decides about all that come.
type opened struct {
	store.Store
	p Process

	mu    sync.Mutex
	asked bool
	// failed is the refusal of the first statement, nil for none.
	failed error
}

// once makes a statement, unless the store could not be opened.
func once[T any](s *opened, ask func() (T, error)) (T, error) {
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
	if first && refused(err) {
		s.mu.Lock()
		s.failed = err
		s.mu.Unlock()
	}
	return answer, err
}

// Register implements store.Store.
func (s *opened) Register(ctx context.Context, r store.Registration) (store.Registered, error) {
	return once(s, func() (store.Registered, error) { return s.Store.Register(ctx, r) })
}

// Workers implements store.Store.
func (s *opened) Workers(ctx context.Context) ([]store.WorkerRow, error) {
	return once(s, func() ([]store.WorkerRow, error) { return s.Store.Workers(ctx) })
}

// ClaimForScheduling implements store.Store.
func (s *opened) ClaimForScheduling(ctx context.Context, c store.SchedulingClaim) ([]execution.Execution, error) {
	return once(s, func() ([]execution.Execution, error) { return s.Store.ClaimForScheduling(ctx, c) })
}

// Find implements store.Store.
func (s *opened) Find(ctx context.Context, f store.Finding) ([]execution.Execution, error) {
	return once(s, func() ([]execution.Execution, error) { return s.Store.Find(ctx, f) })
}

func firstRefusalStays() *Mutant {
	return &Mutant{
		Name: "first-refusal-stays", Source: "D25", Expected: 5, Scenario: "no-database-connections",
		About: "a process opens its pool once and keeps the error: when the first connection is refused, it never makes another one",
		Store: func(p Process, c store.Store) store.Store {
			if p.Client {
				return c
			}
			return &opened{Store: c, p: p}
		},
	}
}
