package mutant

import (
	"context"

	"handoff/core/execution"
	"handoff/core/store"
)

// This file plants concurrency limits that are counted without a lock, and ends that are handled only in
// part.

func init() {
	registerMutants(
		Mutant{
			Name: "cancel-misses-retry", Source: "D54", Expected: 8, Scenario: "cancel-of-a-pending-retry",
			About: "a retry joins a chain although its cancellation was requested when the failed row was the last one",
			Statements: commitUnguarded(func(p Process, tx Tx, row *execution.Execution, retry *store.Retry) execution.ID {
				if retry != nil && allowedRetry(tx, row, retry) == nil {
					p.Acted("retried a chain whose cancellation was requested", row.ID)
				}
				return tx.HandleTerminal(row.ID, retry)
			}),
		},
		Mutant{
			Name: "slot-leaked", Source: "D24", Expected: 7, Scenario: "concurrency-under-crashes",
			About: "the concurrency slot of an execution that its worker has lost is not given back when its end is handled",
			Statements: commitUnguarded(func(p Process, tx Tx, row *execution.Execution, retry *store.Retry) execution.ID {
				if row.FailureReason == execution.WorkerLost {
					if row.Action.Concurrency > 0 {
						p.Acted("kept the slot of what has ended", row.ID)
					}
					return tx.HandleKeepingSlot(row.ID, allowedRetry(tx, row, retry))
				}
				return tx.HandleTerminal(row.ID, allowedRetry(tx, row, retry))
			}),
		},
		Mutant{
			Name: "child-starts-early", Source: "D54", Expected: 7, Scenario: "workflow-under-lost-messages",
			About: "the first end of a chain decides about its children, although a retry follows",
			Statements: commitUnguarded(func(p Process, tx Tx, row *execution.Execution, retry *store.Retry) execution.ID {
				if allowedRetry(tx, row, retry) != nil && tx.Children(row.ID) > 0 {
					p.Acted("decided about children of a chain that has not ended", row.ID)
				}
				tx.SettleChildren(row.ID)
				return tx.HandleTerminal(row.ID, allowedRetry(tx, row, retry))
			}),
		},
		Mutant{
			Name: "double-release", Source: "D24", Expected: 11, Scenario: "concurrency-on-a-bad-network",
			About: "every message of completion gives back a slot, so a repeated one gives away another execution's slot",
			Statements: func(p Process, c Database) store.Store {
				return &handlingStore{Store: c, read: func(ctx context.Context, rows []execution.Execution) {
					_ = c.Step(ctx, func(tx Tx) {
						for i := range rows {
							if rows[i].OrchestratedAt.IsZero() {
								continue
							}
							if holder := tx.FreeAnySlot(rows[i].Action.Ref); holder != 0 {
								p.Acted("gave the slot back that this execution holds", holder)
							}
						}
					})
				}}
			},
		},
		Mutant{
			Name: "counted-slots", Source: "D24", Expected: 11, Scenario: "concurrency-on-a-bad-network",
			About:      "an executor counts the held slots and then claims, and another executor does the same at the same moment",
			Statements: func(p Process, c Database) store.Store { return &slotCountStore{Store: c, p: p, client: c} },
		},
		Mutant{
			Name: "grace-begins-anew", Source: "D45", Expected: 5, Scenario: "slots-without-workers",
			About: "an execution that waited for a concurrency slot counts as not looked at: its grace for a worker begins anew each time",
			Store: func(p Process, c store.Store) store.Store { return &seenForgettingStore{c, p} },
		},
	)
}

// commitUnguarded makes a store that commits terminal handling, once, by an unguarded statement instead of
// the guarded one.
func commitUnguarded(commit func(p Process, tx Tx, row *execution.Execution, retry *store.Retry) execution.ID) func(Process, Database) store.Store {
	return func(p Process, c Database) store.Store {
		return &handlingStore{Store: c, commit: func(ctx context.Context, os []store.Orchestration) (done []store.Orchestrated, err error) {
			err = c.Step(ctx, func(tx Tx) {
				for _, o := range os {
					row := tx.Row(o.ID)
					if row == nil || !row.Status.Terminal() || !row.OrchestratedAt.IsZero() {
						done = append(done, store.Orchestrated{})
						continue
					}
					done = append(done, store.Orchestrated{Applied: true, Retry: commit(p, tx, row, o.Retry)})
				}
			})
			return done, err
		}}
	}
}

// allowedRetry returns the retry that may follow, nil if the chain's cancellation was requested.
func allowedRetry(tx Tx, row *execution.Execution, retry *store.Retry) *store.Retry {
	if !tx.Row(row.Chain()).CancelRequestedAt.IsZero() {
		return nil
	}
	return retry
}

// slotCountStore is a store in which slots are counted and not locked.
type slotCountStore struct {
	store.Store
	p      Process
	client Database
}

// ClaimForScheduling implements store.Store.
func (s *slotCountStore) ClaimForScheduling(ctx context.Context, claim store.SchedulingClaim) ([]execution.Execution, error) {
	free := true
	err := s.client.Step(ctx, func(tx Tx) {
		held := 0
		for id := execution.ID(1); int(id) <= tx.Rows(); id++ {
			row := tx.Row(id)
			if row.Action.Concurrency == 0 || row.Status == execution.Requested || row.Status.Terminal() {
				continue
			}
			held++
			free = free && held < row.Action.Concurrency
		}
	})
	if err != nil || !free {
		return nil, err
	}
	rows, err := s.Store.ClaimForScheduling(ctx, claim)
	if err != nil {
		return nil, err
	}
	return rows, s.client.Step(ctx, func(tx Tx) {
		for i := range rows {
			if rows[i].Action.Concurrency > 0 {
				s.p.Acted("claimed an execution without keeping its slot", rows[i].ID)
			}
			tx.FreeSlot(rows[i].ID)
		}
	})
}

// seenForgettingStore forgets how long a scheduler has searched in vain.
type seenForgettingStore struct {
	store.Store
	p Process
}

// Park implements store.Store.
func (s *seenForgettingStore) Park(ctx context.Context, executor string, ps []store.Park) ([]store.Outcome, error) {
	for i := range ps {
		if ps[i].Watched > 0 {
			s.p.Acted("began the grace for a worker anew", ps[i].Key.ID)
		}
		ps[i].Watched = 0
	}
	return s.Store.Park(ctx, executor, ps)
}
