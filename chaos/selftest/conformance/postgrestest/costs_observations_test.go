package postgrestest_test

import (
	"time"

	"handoff/core/config"
	"handoff/core/execution"
	"handoff/core/store"
)

func observationCosts() []costCase {
	return []costCase{
		{"Observations", "the newest", true, func(c *costs, b int) func() error {
			return func() error { return errorOf(c.Observations(c.ctx, store.ObservationQuery{Limit: b})) }
		}},
		{"ObserveReclaims", "", true, func(c *costs, b int) func() error {
			rs := mapIDs(c.fillExecutions(fillOf{status: "scheduled", count: b, ago: time.Hour}), func(id execution.ID, _ int) store.Reclaim {
				return store.Reclaim{
					Key: execution.Key{ID: id, Epoch: 1}, Cause: store.Unclaimed, By: execution.TimeoutMonitor, Reason: execution.DispatchTimeout,
					Policy: config.Reschedule, MaxDispatches: 5, Counts: true,
				}
			})
			return func() error { return errorOf(c.ObserveReclaims(c.ctx, rs)) }
		}},
		{"ObserveWorkers", "not ready", true, func(c *costs, b int) func() error {
			return func() error { return errorOf(c.ObserveWorkers(c.ctx, probedWorkers(b, false))) }
		}},
		{"ObserveWorkers", "ready again", true, func(c *costs, b int) func() error {
			c.must(errorOf(c.ObserveWorkers(c.ctx, probedWorkers(b, false))))
			return func() error { return errorOf(c.ObserveWorkers(c.ctx, probedWorkers(b, true))) }
		}},
		{"PurgeObservations", "", true, func(c *costs, b int) func() error {
			c.execSQL(`insert into observation (part, worker, incarnation, would, reason, at, ended_at)
				select 'health_prober', 1, 1, 'unreachable', 'cost', now() - interval '2 days', now() from generate_series(1, $1::int)`, b)
			return func() error { return errorOf(c.PurgeObservations(c.ctx, 24*time.Hour, b)) }
		}},
	}
}

// probedWorkers are some of the workers of the spread, ready or not.
func probedWorkers(b int, ready bool) []store.ProbedWorker {
	all := make([]store.ProbedWorker, b)
	for n := range all {
		all[n] = store.ProbedWorker{WorkerKey: workerNumber(spread + n%(spreadTo-spread+1)), Ready: ready, Reason: "refused"}
	}
	return all
}
