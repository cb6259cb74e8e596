package mutant

import (
	"context"
	"strings"
	"time"

	"handoff/core/config"
	"handoff/core/store"
)

// This file plants parts that should only observe, but act, record nothing, repeat themselves or misjudge.

func init() {
	registerMutants(
		Mutant{
			Name: "observes-and-acts", Source: "D1", Expected: 2, Scenario: "monitor-and-probes-observe",
			About:  "a timeout monitor that is set to observe takes rows back",
			Config: func(c *config.Config) { c.Executor.TimeoutMonitor = config.Act },
		},
		Mutant{
			Name: "observes-in-silence", Source: "D28", Expected: 12, Scenario: "monitor-and-probes-observe",
			About: "a timeout monitor that is set to observe records nothing, so no operator learns what it would do",
			Store: changeObservations(observationStore{silent: true}),
		},
		Mutant{
			Name: "observes-again", Source: "D57", Expected: 2, Scenario: "monitor-and-probes-observe",
			About: "the database does not remember what was recorded, so each pass and each executor records it again",
			Store: changeObservations(observationStore{forgetful: true}),
		},
		Mutant{
			Name: "observes-early", Source: "D21", Expected: 2, Scenario: "monitor-and-probes-observe",
			About:  "a timeout monitor that is set to observe records reclaims that it would not make yet",
			Config: func(c *config.Config) { c.Executor.ScheduledTimeout -= 10 * time.Second },
		},
		Mutant{
			Name: "probes-decide", Source: "D46", Expected: 12, Scenario: "up-but-not-ready",
			About:  "probes that are set to observe make the scheduler avoid workers, and record nothing",
			Config: func(c *config.Config) { c.Executor.HealthProbes = config.Act },
		},
		Mutant{
			Name: "probes-ask-for-life", Source: "D32", Expected: 12, Scenario: "up-but-not-ready",
			About: "executors ask a worker's health endpoint only whether its process is up, which says nothing about its work",
			Store: changeObservations(observationStore{alive: true}),
		},
	)
}

// forEver is more observations than any run makes.
const forEver = 1_000_000

// observationStore is a store that records observations in another way.
type observationStore struct {
	store.Store
	p Process
	// silent drops the monitor's observations. forgetful deletes all observations before it records one.
	silent, forgetful bool
	// alive makes executors check whether the process is up.
	alive bool
}

func changeObservations(s observationStore) func(Process, store.Store) store.Store {
	return func(p Process, c store.Store) store.Store {
		own := s
		own.Store, own.p = c, p
		return &own
	}
}

// ObserveReclaims implements store.Store.
func (o *observationStore) ObserveReclaims(ctx context.Context, rs []store.Reclaim) ([]store.Observed, error) {
	switch {
	case o.silent:
		for i := range rs {
			o.p.Acted("did not record what it would do", rs[i].Key.ID)
		}
		return make([]store.Observed, len(rs)), nil
	case o.forgetful:
		forgotten, err := o.PurgeObservations(ctx, 0, forEver)
		if err != nil {
			return nil, err
		}
		if forgotten > 0 {
			o.p.Acted("forgot what was recorded")
		}
	}
	return o.Store.ObserveReclaims(ctx, rs)
}

// Register implements store.Store.
func (o *observationStore) Register(ctx context.Context, g store.Registration) (store.Registered, error) {
	if o.alive && strings.Contains(g.HealthURL, "/readyz") {
		o.p.Acted("named an endpoint that only says whether its process is up")
		g.HealthURL = strings.Replace(g.HealthURL, "/readyz", "/healthz", 1)
	}
	return o.Store.Register(ctx, g)
}
