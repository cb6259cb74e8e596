package mutant

import (
	"context"

	"handoff/core/config"
	"handoff/core/execution"
	"handoff/core/store"
)

// This file plants defects that make executions fail without a cause in the run.

func init() {
	registerMutants(
		Mutant{
			Name: "fences-between-beats", Source: "D15", Expected: 17, Scenario: "worker-stops-gracefully",
			About: "a worker fences itself so long before its lease ends that the next heartbeat comes too late, and ends all its runs although nothing is wrong",
			Config: func(c *config.Config) {
				c.Worker.FenceMargin = c.Worker.Lease() - c.Worker.HeartbeatInterval/2
			},
		},
		Mutant{
			Name: "ends-runs-early", Source: "D29", Expected: 17, Scenario: "run-timeouts",
			About: "a worker ends actions as timed out at half of their timeout",
			Store: func(p Process, c store.Store) store.Store { return &halfTimeoutStore{c, p} },
		},
		Mutant{
			Name: "full-is-no-worker", Source: "D45", Expected: 18, Scenario: "overload",
			About: "a full worker counts as absent, so executions that only have to wait for a slot fail for lack of a worker",
			Store: func(p Process, c store.Store) store.Store {
				if p.Worker {
					return c
				}
				return &searchStore{Store: c, see: reportFalseStates(p, "took a full worker for an absent one", forEachWorker(func(w *store.WorkerRow) {
					w.Cordoned = w.Cordoned || w.Load >= w.Capacity
				}))}
			},
		},
		Mutant{
			Name: "action-failure-is-a-loss", Source: "D48", Expected: 17, Scenario: "all-executors-down",
			About: "when an action fails because it lost a connection of its own, the worker reports that the worker was lost",
			Store: func(p Process, c store.Store) store.Store {
				return &resultChangeStore{Store: c, change: func(f *store.Finish) {
					if f.To == execution.Failed && f.Reason == execution.Connection {
						p.Acted("reported the lost connection of an action as a lost worker", f.Key.ID)
						f.Reason = execution.WorkerLost
					}
				}}
			},
		},
	)
}

// halfTimeoutStore is a store that gives workers half of the run timeout.
type halfTimeoutStore struct {
	store.Store
	p Process
}

// Claim implements store.Store.
func (h *halfTimeoutStore) Claim(ctx context.Context, w store.WorkerKey, cs []store.Claim) ([]store.ClaimResult, error) {
	results, err := h.Store.Claim(ctx, w, cs)
	for i := range results {
		action := &results[i].Row.Action
		action.Timeout = action.RunTimeout() / 2
		if results[i].Applied {
			h.p.Acted("gave a run only half of its timeout", results[i].Row.ID)
		}
	}
	return results, err
}
