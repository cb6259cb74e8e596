package mutant

import (
	"context"

	"handoff/core/execution"
	"handoff/core/store"
)

func init() {
	registerMutants(
		Mutant{
			Name: "read-renews-the-lease", Source: "D15", Expected: 4, Scenario: "full-database",
			About: "if the database refuses to write a heartbeat, the worker treats an answer to a read as a renewed lease, and runs on when the lease is over",
			Store: func(p Process, c store.Store) store.Store {
				if !p.Worker {
					return c
				}
				return &anyAnswerStore{c, p}
			},
		},
	)
}

// anyAnswerStore is a store of a worker that treats any answer of the database as one to its heartbeat.
type anyAnswerStore struct {
	store.Store
	p Process
}

// Heartbeat implements store.Store.
func (a *anyAnswerStore) Heartbeat(ctx context.Context, b store.Beat) (store.BeatReply, error) {
	reply, err := a.Store.Heartbeat(ctx, b)
	if !isRefused(err) {
		return reply, err
	}
	if _, readErr := a.Executions(ctx, []execution.ID{1}); readErr != nil {
		return reply, err
	}
	a.p.Acted("treated its lease as renewed because the database could be read")
	return store.BeatReply{}, nil
}
