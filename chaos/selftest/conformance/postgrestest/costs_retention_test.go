package postgrestest_test

import (
	"time"

	"handoff/core/store"
)

func retentionCosts() []costCase {
	purge := func(c *costs, what store.Kept, b int) func() error {
		return func() error { return errorOf(c.Purge(c.ctx, store.Purge{What: what, Age: 24 * time.Hour, Limit: b})) }
	}
	return []costCase{
		{"Purge", "executions", true, func(c *costs, b int) func() error {
			ids := c.fillExecutions(fillOf{status: "completed", handled: true, count: b, ago: 48 * time.Hour})
			return func() error {
				return errorOf(c.Purge(c.ctx, store.Purge{What: store.KeptExecutions, Age: 24 * time.Hour, After: int64(ids[0]) - 1, Limit: b}))
			}
		}},
		{"Purge", "executions that stay", true, func(c *costs, b int) func() error { return purge(c, store.KeptExecutions, b) }},
		{"Purge", "transitions", true, func(c *costs, b int) func() error {
			c.execSQL(`insert into transition_group (transaction, base, "to", epoch, old_epoch, named_epoch, writer, at)
				select '3', n, 'requested', 0, 0, 0, 'api', now() - interval '2 days' from generate_series(1, $1::int) n`, b)
			return purge(c, store.KeptTransitions, b)
		}},
		{"Purge", "transitions that stay", true, func(c *costs, b int) func() error { return purge(c, store.KeptTransitions, b) }},
		{"Purge", "refused results", true, func(c *costs, b int) func() error {
			c.execSQL(`insert into refused_result (execution, epoch, worker, incarnation, status, received_at)
				select 1, 1, 1, 1, 'completed', now() - interval '2 days' from generate_series(1, $1::int)`, b)
			return purge(c, store.KeptRefusedResults, b)
		}},
		{"Purge", "incarnations that stay", true, func(c *costs, b int) func() error { return purge(c, store.KeptIncarnations, b) }},
		{"Purge", "workers that stay", true, func(c *costs, b int) func() error { return purge(c, store.KeptWorkers, b) }},
	}
}
