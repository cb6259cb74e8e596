package mutant

import (
	"context"
	"slices"

	"handoff/core/execution"
	"handoff/core/store"
)

// This file plants a worker that misinterprets a start which its fence prevented: it reports that the machine
// can't start processes.

func init() {
	registerMutants(
		Mutant{
			Name: "late-start-blames-the-machine", Source: "D44", Expected: 13, Scenario: "worker-paused-beyond-lease",
			About: "a run that could not begin before the worker's fence ends as if the machine could not start processes",
			Store: func(p Process, c store.Store) store.Store {
				if !p.Worker {
					return c
				}
				return &lateStartStore{Store: c, p: p}
			},
		},
	)
}

// lateStartStore is a worker's store that records another reason for runs that have not begun.
type lateStartStore struct {
	store.Store
	p Process
}

// Finish implements store.Worker.
func (l *lateStartStore) Finish(ctx context.Context, w store.WorkerKey, fs []store.Finish) ([]store.Outcome, error) {
	fs = slices.Clone(fs)
	for i := range fs {
		if f := &fs[i]; f.Reason == execution.HeartbeatStale && f.Result.Error != "Action was ended at the worker's fence" {
			f.Reason, f.Result.Error = execution.WorkerUnavailable, "Action could not be started"
			l.p.Acted("blamed the machine for a start that its fence prevented", f.Key.ID)
		}
	}
	return l.Store.Finish(ctx, w, fs)
}
