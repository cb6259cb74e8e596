package mutant

import (
	"context"

	"handoff/core/execution"
	"handoff/core/store"
)

// This file plants defects in the handling of users' requests: executions, children, cancellations.

func init() {
	registerMutants(
		Mutant{
			Name: "lost-cancel", Source: "D60", Expected: 12, Scenario: "lost-cancel-messages",
			About: "a worker learns of a cancellation only from a message",
			Store: func(p Process, c store.Store) store.Store {
				return &requestStore{Store: c, beat: func(r *store.BeatReply) {
					for _, key := range r.Cancel {
						p.Acted("ignored the cancellations in the answer to a heartbeat", key.ID)
					}
					r.Cancel = nil
				}}
			},
		},
		Mutant{
			Name: "activation-lost-in-failover", Source: "D15", Expected: 21, Scenario: "failover-at-the-start",
			About: "a worker that has said that it is active does not hear that the database has forgotten it",
			Store: func(p Process, c store.Store) store.Store {
				said := false
				return &requestStore{
					Store:     c,
					lifecycle: func(to execution.Lifecycle) { said = to == execution.Active },
					beat: func(r *store.BeatReply) {
						if said && r.Starting {
							p.Acted("ignored that the database has forgotten its activation", 0)
							r.Starting = false
						}
					},
				}
			},
		},
		Mutant{
			Name: "cancel-over-completed", Source: "D60", Expected: 1, Scenario: "cancelled-after-the-handoff",
			About: "a cancellation reads the execution, and writes its decision by the id alone",
			Statements: func(p Process, c Database) store.Store {
				return &requestStore{Store: c, cancel: func(ctx context.Context, id execution.ID) (answer store.Cancellation, err error) {
					rows, err := c.Executions(ctx, []execution.ID{id})
					if err != nil {
						return answer, err
					}
					if len(rows) == 0 || rows[0].Status != execution.Running {
						answers, err := c.Cancel(ctx, []execution.ID{id}, "")
						if err != nil {
							return answer, err
						}
						return answers[0], nil
					}
					err = c.Step(ctx, func(tx Tx) {
						row := tx.Row(id)
						answer.From = row.Status
						if row.Status != execution.Running {
							p.Acted("wrote its cancellation over an execution that is "+row.Status.String(), id)
						}
						tx.Named(row.Key(), 0)
						tx.RequestCancel(id)
						tx.Move(id, execution.Canceling, execution.API, execution.CancelRequested, func(e *execution.Execution) { e.CancelingAt = tx.Now() })
						answer.Applied, answer.Row = true, *tx.Row(id)
					})
					return answer, err
				}}
			},
		},
		Mutant{
			Name: "child-lost", Source: "D22", Expected: 5, Scenario: "workflow-under-lost-messages",
			About: "a child waits for the end of its parent's chain without checking whether that has already ended",
			Statements: func(p Process, c Database) store.Store {
				return &requestStore{Store: c, create: func(ctx context.Context, item store.NewExecution) (created store.Created, replaced bool, err error) {
					if item.Parent == 0 {
						return created, false, nil
					}
					err = c.Step(ctx, func(tx Tx) {
						if created.ID = tx.Keyed(item.IdempotencyKey); created.ID != 0 {
							created.Existed = true
							return
						}
						parent := tx.Row(item.Parent)
						if created = tx.Create(item); parent != nil && parent.Status.Terminal() {
							p.Acted("let a child wait for an end that has already happened", created.ID)
						}
					})
					return created, true, err
				}}
			},
		},
		Mutant{
			Name: "key-looked-up", Source: "D9", Expected: 16, Scenario: "duplicate-submissions",
			About: "the API first checks whether an idempotency key is known and then creates, and so does another request with that key at the same moment",
			Statements: func(p Process, c Database) store.Store {
				return &requestStore{Store: c, create: func(ctx context.Context, item store.NewExecution) (created store.Created, replaced bool, err error) {
					err = c.Step(ctx, func(tx Tx) { created.ID = tx.Keyed(item.IdempotencyKey) })
					if err != nil || created.ID != 0 {
						created.Existed = true
						return created, true, err
					}
					err = c.Step(ctx, func(tx Tx) {
						taken := tx.Keyed(item.IdempotencyKey)
						if created = tx.Create(item); taken != 0 {
							p.Acted("created a second execution under one idempotency key", created.ID)
						}
					})
					return created, true, err
				}}
			},
		},
	)
}

// requestStore is a store whose answers to users' requests are replaced.
type requestStore struct {
	store.Store

	cancel func(ctx context.Context, id execution.ID) (store.Cancellation, error)
	beat   func(*store.BeatReply)
	// lifecycle is called with each lifecycle that the worker has written for itself.
	lifecycle func(execution.Lifecycle)
	// create replaces the creation of items. replaced reports whether it did.
	create func(ctx context.Context, item store.NewExecution) (created store.Created, replaced bool, err error)
}

// Cancel implements store.Store.
func (r *requestStore) Cancel(ctx context.Context, ids []execution.ID, actor string) ([]store.Cancellation, error) {
	if r.cancel == nil {
		return r.Store.Cancel(ctx, ids, actor)
	}
	answers := make([]store.Cancellation, len(ids))
	for i, id := range ids {
		answer, err := r.cancel(ctx, id)
		if err != nil {
			return nil, err
		}
		answers[i] = answer
	}
	return answers, nil
}

// Heartbeat implements store.Store.
func (r *requestStore) Heartbeat(ctx context.Context, b store.Beat) (store.BeatReply, error) {
	reply, err := r.Store.Heartbeat(ctx, b)
	if r.beat != nil {
		r.beat(&reply)
	}
	return reply, err
}

// SetLifecycle implements store.Store.
func (r *requestStore) SetLifecycle(ctx context.Context, w store.WorkerKey, to execution.Lifecycle) error {
	err := r.Store.SetLifecycle(ctx, w, to)
	if err == nil && r.lifecycle != nil {
		r.lifecycle(to)
	}
	return err
}

// Create implements store.Store.
func (r *requestStore) Create(ctx context.Context, items []store.NewExecution) ([]store.Created, error) {
	if r.create == nil {
		return r.Store.Create(ctx, items)
	}
	created := make([]store.Created, len(items))
	for i, item := range items {
		one, replaced, err := r.create(ctx, item)
		if err != nil {
			return nil, err
		}
		if !replaced {
			guarded, err := r.Store.Create(ctx, items[i:i+1])
			if err != nil {
				return nil, err
			}
			one = guarded[0]
		}
		created[i] = one
	}
	return created, nil
}
