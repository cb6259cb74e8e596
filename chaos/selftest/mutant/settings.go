package mutant

import (
	"context"

	"handoff/core/broker"
	"handoff/core/config"
	"handoff/core/execution"
	"handoff/core/store"
)

// This file plants mistakes that show only under settings which no scenario has, but varied runs have.

func init() {
	registerMutants(
		Mutant{
			Name: "one-is-no-batch", Source: "D22", Expected: 12, Scenario: "worker-stops-mid-execution", Varied: true,
			About: "if a batch holds one row, a loop mistakes the first row that it finds for the beginning of the next batch, and handles nothing",
			Store: func(p Process, c store.Store) store.Store {
				return &searchStore{Store: c, find: func(_ context.Context, f store.Finding, found []execution.Execution) []execution.Execution {
					if f.Limit > 1 {
						return found
					}
					if len(found) > 0 {
						p.Acted("handled none of the rows found", rowIDs(found)...)
					}
					return nil
				}}
			},
		},
		Mutant{
			Name: "backoff-by-habit", Source: "D51", Expected: 8, Scenario: "retries-exhausted", Varied: true,
			About:  "retries use the backoff of the defaults, whatever is configured",
			Config: func(c *config.Config) { c.Retry = config.Default(c.Profile).Retry },
		},
		Mutant{
			Name: "exchange-by-habit", Source: "D28", Expected: 12, Scenario: "ttl-race", Varied: true,
			About: "the queues of workers name the dead letter exchange of the defaults, whichever is configured",
			Workers: func(c config.RabbitMQ, id execution.WorkerID) broker.Topology {
				c.DeadLetter.Exchange = config.Default(config.Hardened).MessageQueue.RabbitMQ.DeadLetter.Exchange
				return broker.WorkerTopology(c, id)
			},
		},
	)
}
