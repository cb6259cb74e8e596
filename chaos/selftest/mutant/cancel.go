package mutant

import (
	"context"

	"handoff/core/execution"
	"handoff/core/store"
)

func init() {
	registerMutants(
		Mutant{
			Name: "cancel-overwrites", Source: "D6", Expected: 2, Scenario: "cancel-at-every-stage",
			About:      "a cancellation ends an execution at once, even one that a worker has claimed and runs",
			Statements: func(p Process, c Database) store.Store { return &instantCancelStore{Store: c, p: p, client: c} },
		},
	)
}

// instantCancelStore is a store in which a cancellation ends a running execution at once, instead of
// requesting that its worker end it.
type instantCancelStore struct {
	store.Store
	p      Process
	client Database
}

// Cancel implements store.Store.
func (ics *instantCancelStore) Cancel(ctx context.Context, ids []execution.ID, actor string) ([]store.Cancellation, error) {
	done, err := ics.Store.Cancel(ctx, ids, actor)
	if err != nil {
		return done, err
	}
	return done, ics.client.Step(ctx, func(tx Tx) {
		for i := range done {
			row := tx.Row(done[i].Row.ID)
			if row == nil || row.Status != execution.Canceling {
				continue
			}
			ics.p.Acted("ended a running execution instead of asking its worker", row.ID)
			tx.Named(row.Key(), 0)
			tx.Move(row.ID, execution.Cancelled, execution.API, execution.CancelRequested, func(e *execution.Execution) {
				e.FailureReason, e.Result = execution.CancelRequested, store.CancelledResult()
			})
		}
	})
}
