package mutant

import (
	"time"

	"handoff/core/config"
	"handoff/core/execution"
	"handoff/core/store"
)

// This file plants executors whose policies are slightly wrong: they compute a delay or a choice
// differently from the contract.

func init() {
	registerMutants(
		Mutant{
			Name: "backoff-adds", Source: "D52", Expected: 8, Scenario: "backoff-reaches-its-cap",
			About: "from the third retry on the backoff grows by its base and no longer by its multiplier",
			Store: func(p Process, c store.Store) store.Store {
				return &handlingStore{Store: c, change: func(o *store.Orchestration) {
					const doubled = 2
					if o.Retry == nil || o.Retry.Count <= doubled {
						return
					}
					base := time.Duration(p.Config.Retry.BaseBackoffSecs) * time.Second
					if delay := base * time.Duration(1<<(doubled-1)+o.Retry.Count-doubled); delay < o.Retry.Delay {
						p.Acted("let a retry wait for its base more than the one before", o.ID)
						o.Retry.Delay = delay
					}
				}}
			},
		},
		Mutant{
			Name: "backoff-uncapped", Source: "D52", Expected: 8, Scenario: "backoff-reaches-its-cap",
			About:  "the cap of the backoff is forgotten",
			Config: func(c *config.Config) { c.Retry.MaxBackoffSecs *= 1000 },
		},
		Mutant{
			Name: "connection-is-final", Source: "D49", Expected: 7, Scenario: "backoff-reaches-its-cap",
			About: "a refused connection counts as a failure that a retry can't mend",
			Store: func(p Process, c store.Store) store.Store {
				return &handlingStore{Store: c, change: func(o *store.Orchestration) {
					if o.Retry != nil && o.Retry.Reason == execution.Connection {
						p.Acted("did not retry a failure with the reason connection", o.ID)
						o.Retry = nil
					}
				}}
			},
		},
		Mutant{
			Name: "degraded-first", Source: "D42", Expected: 9, Scenario: "one-worker-degraded",
			About: "degraded workers count as healthy and healthy ones as degraded",
			Store: func(p Process, c store.Store) store.Store {
				h := p.Config.Health
				return showFalseWorkers("took a degraded worker for a healthy one, or the other way round", forEachWorker(func(w *store.WorkerRow) {
					switch n := w.Figures.Consecutive; {
					case n >= h.UnhealthyThreshold:
					case n >= h.DegradedThreshold:
						w.Figures, w.Expired = execution.Figures{}, nil
					default:
						w.Figures.Consecutive = h.DegradedThreshold
					}
				}))(p, c)
			},
		},
	)
}
