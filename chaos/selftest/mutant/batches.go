package mutant

import (
	"context"
	"fmt"
	"time"

	"handoff/core/execution"
	"handoff/core/store"
)

// This file plants executors that do not work in bounded batches, or make too few batches.

func init() {
	registerMutants(
		Mutant{
			Name: "one-statement-for-all-children", Source: "D22", Expected: 12, Scenario: "many-children",
			About: "the statement that handles the end of a chain also settles all of its children, and exceeds its timeout if there are many",
			Statements: func(p Process, c Database) store.Store {
				return &handlingStore{Store: c, commit: func(ctx context.Context, os []store.Orchestration) (done []store.Orchestrated, err error) {
					var refused error
					err = c.Step(ctx, func(tx Tx) {
						done = make([]store.Orchestrated, len(os))
						touched := 0
						for _, o := range os {
							if row := tx.Row(o.ID); endsChain(tx, row, o.Retry) {
								touched += tx.Children(o.ID)
							}
						}
						if touched > p.Config.Executor.BatchSize {
							p.Acted("was refused a statement that would settle all children at once")
							refused = errTooLong
							return
						}
						for i, o := range os {
							row := tx.Row(o.ID)
							if !isUnhandled(row) {
								continue
							}
							settles := endsChain(tx, row, o.Retry)
							done[i] = store.Orchestrated{Applied: true, Retry: tx.HandleTerminal(o.ID, allowedRetry(tx, row, o.Retry))}
							if settles {
								if tx.Children(o.ID) > 0 {
									p.Acted("settled all children in the statement that handles the end", o.ID)
								}
								tx.SettleChildren(o.ID)
							}
						}
					})
					if err == nil {
						err = refused
					}
					return done, err
				}}
			},
		},
		Mutant{
			Name: "bad-chain-ends-the-pass", Source: "D22", Expected: 12, Scenario: "workflow-under-lost-messages",
			About: "when handling one end takes too long for a while, the executor concludes that the database is away and handles no other end either",
			Statements: func(p Process, c Database) store.Store {
				return &slowParentStore{handlingStore: handlingStore{Store: c}, c: c, p: p, tried: make(map[execution.ID]time.Duration)}
			},
		},
		Mutant{
			Name: "one-batch-a-pass", Source: "D22", Expected: 12, Scenario: "many-children",
			About: "each pass of a loop handles one batch and leaves the rest to the next pass, so it falls behind if more than a batch becomes due between two passes",
			Store: func(p Process, c store.Store) store.Store {
				full := make(map[store.ReclaimCause]time.Duration)
				return &searchStore{Store: c, find: func(_ context.Context, f store.Finding, found []execution.Execution) []execution.Execution {
					now := p.Host.Monotonic()
					if at, seen := full[f.Cause]; seen && now-at < p.Config.Executor.ReconcileInterval-time.Second {
						if len(found) > 0 {
							p.Acted("left the other rows to its next pass", rowIDs(found)...)
						}
						return nil
					}
					if len(found) == f.Limit {
						full[f.Cause] = now
					}
					return found
				}}
			},
		},
		Mutant{
			Name: "keys-forgotten-too-late", Source: "D9", Expected: 16, Scenario: "keys-used-again",
			About: "an idempotency key can't be used again until a cleanup has forgotten it, and the cleanup is slower than keys expire",
			Statements: func(p Process, c Database) store.Store {
				return &slowForgettingStore{c: c, p: p, requestStore: requestStore{Store: c, create: func(ctx context.Context, item store.NewExecution) (created store.Created, replaced bool, err error) {
					err = c.Step(ctx, func(tx Tx) {
						created.ID = tx.Keyed(item.IdempotencyKey)
						if row := tx.Row(created.ID); row != nil && tx.Now().Sub(row.Created) >= execution.KeyLifetime {
							p.Acted("treated an expired key as used", row.ID)
						}
					})
					created.Existed = created.ID != 0
					return created, created.Existed, err
				}}}
			},
		},
	)
}

// errTooLong is the error of a statement that exceeded the statement timeout.
var errTooLong = fmt.Errorf("%w: canceling statement due to statement timeout (57014)", store.ErrUnavailable)

// isUnhandled reports whether the end of a row must still be handled.
func isUnhandled(row *execution.Execution) bool {
	return row != nil && row.Status.Terminal() && row.OrchestratedAt.IsZero()
}

// endsChain reports whether a row's end is the end of its chain.
func endsChain(tx Tx, row *execution.Execution, retry *store.Retry) bool {
	return isUnhandled(row) && allowedRetry(tx, row, retry) == nil
}

// slowParentStore is a database that handles a chain with children too slowly for a while. After each such
// attempt it does not answer the next call either, so that it seems to be away.
type slowParentStore struct {
	handlingStore
	c     Database
	p     Process
	tried map[execution.ID]time.Duration
	away  bool
}

// slowFor is the time from the first attempt during which handling takes too long. It is less than the bound
// for an unhandled end.
const slowFor = 10 * time.Second

// Orchestrate implements store.Store.
func (s *slowParentStore) Orchestrate(ctx context.Context, os []store.Orchestration) ([]store.Orchestrated, error) {
	slow := false
	now := s.p.Host.Monotonic()
	err := s.c.Step(ctx, func(tx Tx) {
		for _, o := range os {
			if !endsChain(tx, tx.Row(o.ID), o.Retry) || tx.Children(o.ID) == 0 {
				continue
			}
			first, known := s.tried[o.ID]
			if !known {
				first = now
				s.tried[o.ID] = first
			}
			if now-first < slowFor {
				s.p.Acted("took too long to handle an end, and treated the database as away", o.ID)
				slow = true
			}
		}
	})
	if err != nil {
		return nil, err
	}
	if slow {
		s.away = true
		return nil, errTooLong
	}
	return s.handlingStore.Orchestrate(ctx, os)
}

// Clock implements store.Store.
func (s *slowParentStore) Clock(ctx context.Context) (time.Time, error) {
	if s.away {
		s.away = false
		return time.Time{}, errTooLong
	}
	return s.c.Clock(ctx)
}

// slowForgettingStore is a store whose idempotency keys stay in use until they are forgotten, one batch a
// minute.
type slowForgettingStore struct {
	requestStore
	c Database
	p Process
	// forgot is the time of the last batch that was forgotten.
	forgot time.Duration
}

// ForgetKeys implements store.Store.
func (s *slowForgettingStore) ForgetKeys(ctx context.Context, age time.Duration, limit int) (int, error) {
	now := s.p.Host.Monotonic()
	if s.forgot > 0 && now-s.forgot < time.Minute {
		s.p.Acted("forgot no idempotency keys, because it forgot some less than a minute ago")
		return 0, nil
	}
	s.forgot = now
	return s.c.ForgetKeys(ctx, age, limit)
}
