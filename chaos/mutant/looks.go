package mutant

import (
	"context"
	"time"

	"handoff/core/execution"
	"handoff/core/store"
)

// This file plants executors that look for work too often, too seldom, or again at what they have seen.

func init() {
	register(
		looksAgainForNothing, observationsNeverPurged, foundAgainAndAgain, firstBatchOnly, outageToldTwice, moreThanABatch,
	)
}

// looker is a store of an executor that looks for work in another way.
type looker struct {
	store.Store
	p Process
	// again makes a second claim after each that gave something.
	again bool
	// unbounded claims twice a batch of each pool.
	unbounded bool
	// unpurged never purges observations.
	unpurged bool
	// forgetful looks again at what a pass has left.
	forgetful bool
	// repeating tells of each worker at each round.
	repeating bool
}

func looking(l looker) func(Process, store.Store) store.Store {
	return func(p Process, c store.Store) store.Store {
		if p.Worker || p.Client {
			return c
		}
		own := l
		own.Store, own.p = c, p
		return &own
	}
}

// ClaimForScheduling implements store.Store.
func (s *looker) ClaimForScheduling(ctx context.Context, c store.SchedulingClaim) ([]execution.Execution, error) {
	if s.unbounded {
		for i := range c.Pools {
			if c.Pools[i] == s.p.Config.Executor.BatchSize {
				s.p.Acted("asked for two batches at once")
				c.Pools[i] *= 2
			}
		}
	}
	rows, err := s.Store.ClaimForScheduling(ctx, c)
	if err == nil && s.again && len(rows) > 0 && len(rows) < s.p.Config.Executor.BatchSize {
		more, err := s.Store.ClaimForScheduling(ctx, store.SchedulingClaim{Executor: c.Executor, Expiry: c.Expiry})
		if err == nil {
			s.p.Acted("looked again for what is due")
			rows = append(rows, more...)
		}
	}
	return rows, err
}

// Find implements store.Store.
func (s *looker) Find(ctx context.Context, f store.Finding) ([]execution.Execution, error) {
	if s.forgetful && len(f.Skip) > 0 {
		s.p.Acted("looked again at what it had left", f.Skip...)
		f.Skip = nil
	}
	return s.Store.Find(ctx, f)
}

// PurgeObservations implements store.Store.
func (s *looker) PurgeObservations(ctx context.Context, age time.Duration, limit int) (int, error) {
	if s.unpurged {
		s.p.Acted("did not purge observations")
		return 0, nil
	}
	return s.Store.PurgeObservations(ctx, age, limit)
}

// ObserveWorkers implements store.Store.
func (s *looker) ObserveWorkers(ctx context.Context, ws []store.ProbedWorker) ([]bool, error) {
	changed, err := s.Store.ObserveWorkers(ctx, ws)
	if s.repeating && err == nil {
		s.p.Acted("told the database again what it knows")
		_, err = s.Store.ObserveWorkers(ctx, ws)
	}
	return changed, err
}

func looksAgainForNothing() *Mutant {
	return &Mutant{
		Name: "looks-again-for-nothing", Source: "D22", Expected: 18, Scenario: "backlog-beyond-a-batch",
		About: "a scheduler claims once more after each claim that gave less than it asked for",
		Store: looking(looker{again: true}),
	}
}

func observationsNeverPurged() *Mutant {
	return &Mutant{
		Name: "observations-never-purged", Source: "D28", Expected: 18, Scenario: "observed-beyond-a-batch",
		About: "nobody deletes observations that are older than they are kept",
		Store: looking(looker{unpurged: true}),
	}
}

func foundAgainAndAgain() *Mutant {
	return &Mutant{
		Name: "found-again-and-again", Source: "D22", Expected: 18, Scenario: "observed-beyond-a-batch",
		About: "a pass that has left a batch of rows finds them again and again, and none of those behind them",
		Store: looking(looker{forgetful: true}),
	}
}

func outageToldTwice() *Mutant {
	return &Mutant{
		Name: "outage-told-twice", Source: "D28", Expected: 18, Scenario: "observed-beyond-a-batch",
		About: "a prober that only observes tells the database again what it has told it",
		Store: looking(looker{repeating: true}),
	}
}

func moreThanABatch() *Mutant {
	return &Mutant{
		Name: "more-than-a-batch", Source: "D22", Expected: 18, Scenario: "backlog-beyond-a-batch",
		About: "a scheduler claims more than a batch in one statement",
		Store: looking(looker{unbounded: true}),
	}
}

// firstBatch is a store whose scheduler hands on one batch of those that nobody can take, and leaves the others.
type firstBatch struct {
	store.Store
	p Process
	// until is when it looks again.
	until time.Duration
}

// ClaimForScheduling implements store.Store.
func (s *firstBatch) ClaimForScheduling(ctx context.Context, c store.SchedulingClaim) ([]execution.Execution, error) {
	if now := s.p.Host.Monotonic(); now < s.until {
		s.p.Acted("left what nobody can take to a later poll")
		return nil, nil
	}
	rows, err := s.Store.ClaimForScheduling(ctx, c)
	if err == nil && len(rows) >= c.Others {
		s.until = s.p.Host.Monotonic() + s.p.Config.Executor.ReconcileInterval
	}
	return rows, err
}

func firstBatchOnly() *Mutant {
	return &Mutant{
		Name: "first-batch-only", Source: "D22", Expected: 18, Scenario: "backlog-beyond-a-batch",
		About: "a scheduler that has claimed a whole batch leaves the next one to its next poll",
		Store: func(p Process, c store.Store) store.Store {
			if p.Worker || p.Client {
				return c
			}
			return &firstBatch{Store: c, p: p}
		},
	}
}
