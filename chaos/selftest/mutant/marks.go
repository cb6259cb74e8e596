package mutant

import (
	"context"

	"handoff/core/execution"
	"handoff/core/store"
)

// This file plants executors and workers that mark published dispatches wrongly, or not at all.

func init() {
	registerMutants(
		Mutant{
			Name: "marks-forgotten", Source: "D7", Expected: 25, Scenario: "alerts-fire-and-resolve",
			About: "an executor remembers only one confirmed dispatch until it marks, and forgets others that were confirmed meanwhile",
			Store: func(p Process, s store.Store) store.Store {
				if !p.Executor() {
					return s
				}
				return &markChangeStore{s, func(ctx context.Context, keys []execution.Key) ([]execution.Key, error) {
					if len(keys) > 1 {
						p.Acted("forgot confirmed dispatches for which it had no room", keysOf(keys[1:])...)
					}
					return s.MarkPublished(ctx, keys[:1])
				}}
			},
		},
		Mutant{
			Name: "marks-any-epoch", Source: "D3", Expected: 25, Scenario: "rolling-restart",
			About: "a confirmed dispatch is marked by its id alone, whatever its epoch: the next dispatch counts as sent before it is",
			Statements: func(p Process, c Database) store.Store {
				if !p.Executor() {
					return c
				}
				return &markChangeStore{c, func(ctx context.Context, keys []execution.Key) ([]execution.Key, error) {
					return nil, c.Step(ctx, func(tx Tx) {
						for _, key := range keys {
							row := tx.Row(key.ID)
							if row == nil || row.Status.Terminal() || !row.PublishedAt.IsZero() {
								continue
							}
							if row.Status != execution.Scheduled || row.Epoch != key.Epoch {
								p.Acted("marked, by the confirm of an earlier dispatch, an execution that is "+row.Status.String(), row.ID)
							}
							tx.MarkPublished(key.ID)
						}
					})
				}}
			},
		},
		Mutant{
			Name: "claim-unmarked", Source: "D7", Expected: 25, Scenario: "two-executors",
			About: "a claim does not note that the dispatch was received",
			Statements: replaceStatements(statementStore{claim: func(p Process, tx Tx, w store.WorkerKey, c store.Claim) (store.ClaimResult, bool) {
				row := tx.Row(c.Key.ID)
				if row == nil || row.Status != execution.Scheduled || row.Epoch != c.Key.Epoch || row.Incarnation != w.Incarnation ||
					!row.PublishedAt.IsZero() || !tx.Now().Before(row.DispatchDeadline) {
					return store.ClaimResult{}, false
				}
				p.Acted("claimed an execution and did not mark it as published", row.ID)
				return claimPlainly(tx, w, c), true
			}}),
		},
	)
}

// markChangeStore is a store whose marks of confirmed dispatches are changed.
type markChangeStore struct {
	store.Store
	mark func(ctx context.Context, keys []execution.Key) ([]execution.Key, error)
}

// MarkPublished implements store.Executor.
func (m *markChangeStore) MarkPublished(ctx context.Context, keys []execution.Key) ([]execution.Key, error) {
	return m.mark(ctx, keys)
}
