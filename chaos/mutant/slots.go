package mutant

import (
	"context"

	"handoff/core/execution"
	"handoff/core/store"
	"handoff/sim/simstore"
)

// This file plants concurrency limits that are counted, and ends of which a part is not handled.

// committing is a store whose terminal handling is committed, once, by a step of the mutant's own.
func committing(commit func(tx *simstore.Tx, row *execution.Execution, retry *store.Retry) execution.ID) func(Process, Database) store.Store {
	return func(_ Process, c Database) store.Store {
		return &handler{Store: c, commit: func(ctx context.Context, os []store.Orchestration) (done []store.Orchestrated, err error) {
			err = c.Step(ctx, func(tx *simstore.Tx) {
				for _, o := range os {
					row := tx.Row(o.ID)
					if row == nil || !row.Status.Terminal() || !row.OrchestratedAt.IsZero() {
						done = append(done, store.Orchestrated{})
						continue
					}
					done = append(done, store.Orchestrated{Applied: true, Retry: commit(tx, row, o.Retry)})
				}
			})
			return done, err
		}}
	}
}

// allowed is the retry that may follow: none when the chain's cancellation was requested.
func allowed(tx *simstore.Tx, row *execution.Execution, retry *store.Retry) *store.Retry {
	if !tx.Row(row.Chain()).CancelRequestedAt.IsZero() {
		return nil
	}
	return retry
}

func cancelMissesRetry() *Mutant {
	return &Mutant{
		Name: "cancel-misses-retry", Source: "D54", Expected: 8, Scenario: "cancel-of-a-pending-retry", Raw: true,
		About: "a retry joins a chain although its cancellation was requested when the failed row was the last one",
		Store: committing(func(tx *simstore.Tx, row *execution.Execution, retry *store.Retry) execution.ID {
			return tx.HandleTerminal(row.ID, retry)
		}),
	}
}

func slotLeaked() *Mutant {
	return &Mutant{
		Name: "slot-leaked", Source: "D24", Expected: 7, Scenario: "concurrency-under-crashes", Raw: true,
		About: "the slot of what its worker has lost is not given back when its end is handled",
		Store: committing(func(tx *simstore.Tx, row *execution.Execution, retry *store.Retry) execution.ID {
			if row.FailureReason == execution.WorkerLost {
				return tx.HandleKeepingSlot(row.ID, allowed(tx, row, retry))
			}
			return tx.HandleTerminal(row.ID, allowed(tx, row, retry))
		}),
	}
}

func childStartsEarly() *Mutant {
	return &Mutant{
		Name: "child-starts-early", Source: "D54", Expected: 7, Scenario: "workflow-under-lost-messages", Raw: true,
		About: "the first end of a chain decides about its children, although a retry follows",
		Store: committing(func(tx *simstore.Tx, row *execution.Execution, retry *store.Retry) execution.ID {
			tx.SettleChildren(row.ID)
			return tx.HandleTerminal(row.ID, allowed(tx, row, retry))
		}),
	}
}

func doubleRelease() *Mutant {
	return &Mutant{
		Name: "double-release", Source: "D24", Expected: 11, Scenario: "concurrency-on-a-bad-network", Raw: true,
		About: "slots are counted down with every message of completion, so a second one gives away somebody else's",
		Store: func(_ Process, c Database) store.Store {
			return &handler{Store: c, read: func(ctx context.Context, rows []execution.Execution) {
				_ = c.Step(ctx, func(tx *simstore.Tx) {
					for i := range rows {
						if !rows[i].OrchestratedAt.IsZero() {
							tx.FreeAnySlot(rows[i].Action.Ref)
						}
					}
				})
			}}
		},
	}
}

// counting is a store in which slots are counted and not locked.
type counting struct {
	store.Store
	client Database
}

// ClaimForScheduling implements store.Store.
func (s *counting) ClaimForScheduling(ctx context.Context, claim store.SchedulingClaim) ([]execution.Execution, error) {
	free := true
	err := s.client.Step(ctx, func(tx *simstore.Tx) {
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
	return rows, s.client.Step(ctx, func(tx *simstore.Tx) {
		for i := range rows {
			tx.FreeSlot(rows[i].ID)
		}
	})
}

func countedSlots() *Mutant {
	return &Mutant{
		Name: "counted-slots", Source: "D24", Expected: 11, Scenario: "concurrency-on-a-bad-network", Raw: true,
		About: "an executor counts what holds a slot and then claims, and so does the other one at the same moment",
		Store: func(_ Process, c Database) store.Store { return &counting{Store: c, client: c} },
	}
}

func graceBeginsAnew() *Mutant {
	return &Mutant{
		Name: "grace-begins-anew", Source: "D45", Expected: 5, Scenario: "slots-without-workers",
		About: "what waited for a concurrency slot counts as something that nobody has looked at: its grace for a worker to come begins anew each time",
		Store: func(_ Process, c Database) store.Store { return &forgetful{c} },
	}
}

// forgetful knows nothing of how long a scheduler has looked in vain.
type forgetful struct{ store.Store }

// Park implements store.Store.
func (s *forgetful) Park(ctx context.Context, executor string, ps []store.Park) ([]store.Outcome, error) {
	for i := range ps {
		ps[i].Watched = 0
	}
	return s.Store.Park(ctx, executor, ps)
}
