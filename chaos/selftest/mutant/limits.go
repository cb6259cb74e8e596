package mutant

import (
	"context"

	"handoff/core/execution"
	"handoff/core/store"
)

// This file plants executors and workers that ignore the limits which a request sets for its own execution.

func init() {
	registerMutants(
		Mutant{
			Name: "limits-dropped", Source: "D29", Expected: 19, Scenario: "per-execution-limits",
			About: "the statement that creates an execution takes every limit from the action and drops those of the request",
			Statements: func(p Process, c Database) store.Store {
				return &requestStore{Store: c, create: func(ctx context.Context, item store.NewExecution) (created store.Created, replaced bool, err error) {
					err = c.Step(ctx, func(tx Tx) {
						if created.ID = tx.Keyed(item.IdempotencyKey); created.ID != 0 {
							created.Existed = true
							return
						}
						limited := item.Limits != execution.Limits{}
						item.Limits = execution.Limits{}
						if created = tx.Create(item); limited {
							p.Acted("dropped the limits of the request", created.ID)
						}
					})
					return created, true, err
				}}
			},
		},
		Mutant{
			Name: "retry-forgets-limits", Source: "D29", Expected: 19, Scenario: "per-execution-limits",
			About: "a retry is created from the action as it is, without the limits that the request of its chain had set",
			Statements: func(p Process, c Database) store.Store {
				return &handlingStore{Store: c, commit: func(ctx context.Context, os []store.Orchestration) ([]store.Orchestrated, error) {
					actions, err := c.Actions(ctx, store.ActionQuery{Limit: 100})
					if err != nil {
						return nil, err
					}
					err = c.Step(ctx, func(tx Tx) {
						for _, o := range os {
							row := tx.Row(o.ID)
							for i := range actions {
								if row != nil && row.Status.Terminal() && actions[i].Ref == row.Action.Ref {
									if (row.Limits != execution.Limits{}) && o.Retry != nil {
										p.Acted("gave a retry none of the limits of its chain", row.ID)
									}
									row.Action, row.Limits = actions[i], execution.Limits{}
								}
							}
						}
					})
					if err != nil {
						return nil, err
					}
					return c.Orchestrate(ctx, os)
				}}
			},
		},
		Mutant{
			Name: "runs-by-its-action", Source: "D29", Expected: 17, Scenario: "per-execution-limits",
			About: "a worker looks the action up by its name and ends the run at the action's timeout, although the execution has a longer one of its own",
			Store: func(p Process, c store.Store) store.Store {
				if !p.Worker {
					return c
				}
				return &ownLimitsStore{c, p}
			},
		},
	)
}

// ownLimitsStore is a store that gives workers the action as it is defined, without the request's limits.
type ownLimitsStore struct {
	store.Store
	p Process
}

// Claim implements store.Store.
func (o *ownLimitsStore) Claim(ctx context.Context, w store.WorkerKey, cs []store.Claim) ([]store.ClaimResult, error) {
	results, err := o.Store.Claim(ctx, w, cs)
	for i := range results {
		row := &results[i].Row
		if found, failed := o.Actions(ctx, store.ActionQuery{Ref: row.Action.Ref, Limit: 1}); failed == nil && len(found) == 1 {
			if found[0].RunTimeout() != row.Action.RunTimeout() {
				o.p.Acted("ran it with the timeout of the action instead of its own", row.ID)
			}
			row.Action = found[0]
		}
	}
	return results, err
}
