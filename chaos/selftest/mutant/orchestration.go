package mutant

import (
	"context"
	"time"

	"handoff/core/execution"
	"handoff/core/store"
)

func init() {
	registerMutants(
		Mutant{
			Name: "handled-twice", Source: "D24", Expected: 7, Scenario: "dropped-status-messages",
			About: "every message of completion handles the end of the execution anew",
			Statements: func(p Process, c Database) store.Store {
				return &handlingStore{
					Store: c,
					rows: func(rows []execution.Execution) {
						for i := range rows {
							rows[i].OrchestratedAt = time.Time{}
						}
					},
					commit: func(ctx context.Context, os []store.Orchestration) (done []store.Orchestrated, err error) {
						err = c.Step(ctx, func(tx Tx) {
							for _, o := range os {
								if row := tx.Row(o.ID); row != nil && !row.OrchestratedAt.IsZero() {
									p.Acted("handled an end again", o.ID)
								}
								done = append(done, store.Orchestrated{Applied: true, Retry: tx.HandleTerminal(o.ID, o.Retry)})
							}
						})
						return done, err
					},
				}
			},
		},
		Mutant{
			Name: "retry-at-once", Source: "D51", Expected: 8, Scenario: "dropped-status-messages",
			About: "a retry is created with the present moment for its retry_at",
			Store: func(p Process, c store.Store) store.Store {
				return &handlingStore{Store: c, change: func(o *store.Orchestration) {
					if o.Retry != nil && o.Retry.Delay > 0 {
						p.Acted("made the retry due at once", o.ID)
						o.Retry.Delay = 0
					}
				}}
			},
		},
		Mutant{
			Name: "retry-unbounded", Source: "D53", Expected: 8, Scenario: "worker-stops-mid-execution",
			About: "every failure with a retriable reason is retried, whether or not its action allows it",
			Store: func(p Process, c store.Store) store.Store {
				return &handlingStore{Store: c, rows: func(rows []execution.Execution) {
					for i := range rows {
						allowed := rows[i].Retriable()
						rows[i].Action.MaxRetries = rows[i].RetryCount + 1
						if !allowed && rows[i].Retriable() && rows[i].OrchestratedAt.IsZero() {
							p.Acted("retried an execution that has no retries left", rows[i].ID)
						}
					}
				}}
			},
		},
		Mutant{
			Name: "deploys-cost-retries", Source: "D63", Expected: 19, Scenario: "deploys-under-long-runs",
			About: "a retry that follows the stop of a worker counts like one that follows a failure, so some deployments use up the retries of a long action",
			Store: func(p Process, c store.Store) store.Store {
				return &handlingStore{Store: c, change: func(o *store.Orchestration) {
					if o.Retry != nil && o.Retry.Free > 0 {
						p.Acted("counted a retry that follows the stop of a worker", o.ID)
						o.Retry.Free = 0
					}
				}}
			},
		},
		Mutant{
			Name: "stops-are-free-for-ever", Source: "D63", Expected: 19, Scenario: "deploys-under-long-runs",
			About: "no number of stops ends a chain of retries: an action that is longer than the time between two deployments runs for ever",
			Store: func(p Process, c store.Store) store.Store {
				return &handlingStore{Store: c, change: func(o *store.Orchestration) {
					if o.Retry != nil && o.Retry.Free > 0 {
						p.Acted("made a retry free that may follow the stop of a worker", o.ID)
						o.Retry.Free = 1000
					}
				}}
			},
		},
	)
}

// handlingStore is a store whose terminal handling is replaced; nil functions replace nothing.
type handlingStore struct {
	store.Store
	// change alters the core's decision. read acts on the rows that the core has read.
	change func(*store.Orchestration)
	rows   func([]execution.Execution)
	read   func(ctx context.Context, rows []execution.Execution)
	// commit replaces the guarded step.
	commit func(ctx context.Context, os []store.Orchestration) ([]store.Orchestrated, error)
}

// Executions implements store.Store.
func (h *handlingStore) Executions(ctx context.Context, ids []execution.ID) ([]execution.Execution, error) {
	rows, err := h.Store.Executions(ctx, ids)
	if err == nil && h.rows != nil {
		h.rows(rows)
	}
	if err == nil && h.read != nil {
		h.read(ctx, rows)
	}
	return rows, err
}

// Find implements store.Store.
func (h *handlingStore) Find(ctx context.Context, f store.Finding) ([]execution.Execution, error) {
	rows, err := h.Store.Find(ctx, f)
	if err == nil && h.rows != nil {
		h.rows(rows)
	}
	return rows, err
}

// Orchestrate implements store.Store.
func (h *handlingStore) Orchestrate(ctx context.Context, os []store.Orchestration) ([]store.Orchestrated, error) {
	if h.change != nil {
		for i := range os {
			h.change(&os[i])
		}
	}
	if h.commit != nil {
		return h.commit(ctx, os)
	}
	return h.Store.Orchestrate(ctx, os)
}
