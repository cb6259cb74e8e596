package mutant

import (
	"context"

	"handoff/core/execution"
	"handoff/core/store"
)

func init() {
	registerMutants(
		Mutant{
			Name: "heartbeat-stops-first", Source: "D38", Expected: 10, Scenario: "worker-stops-gracefully",
			About: "a stopping worker ends its heartbeat before its running executions, which then look dead",
			Store: func(p Process, c store.Store) store.Store {
				if !p.Worker {
					return c
				}
				return &noDrainBeatStore{Store: c, p: p}
			},
		},
		Mutant{
			Name: "heartbeat-gives-up-early", Source: "D47", Expected: 15, Scenario: "slow-road-to-the-database",
			About: "each attempt to renew a lease has the same short time, so a database that is slower costs the whole fleet",
			Store: func(p Process, c store.Store) store.Store {
				if !p.Worker {
					return c
				}
				return &constantLeaseStore{c, p}
			},
		},
		Mutant{
			Name: "killed-is-completed", Source: "D40", Expected: 13, Scenario: "shutdown-timeout",
			About: "an action that its worker has ended counts as completed, because its process is gone and left no error",
			Store: func(p Process, c store.Store) store.Store {
				return &resultChangeStore{Store: c, change: func(f *store.Finish) {
					if f.Reason == execution.WorkerShutdown || f.Reason == execution.HeartbeatStale {
						p.Acted("reported an action that it has ended as completed", f.Key.ID)
						f.To, f.Reason, f.Result = execution.Completed, execution.NoReason, execution.Result{}
					}
				}}
			},
		},
		Mutant{
			Name: "result-given-up", Source: "D23", Expected: 13, Scenario: "database-outage",
			About: "a worker that does not learn whether its result was stored treats it as stored, and its next heartbeat reports the execution as lost",
			Store: func(p Process, c store.Store) store.Store {
				return &resultChangeStore{Store: c, unheard: func(fs []store.Finish) {
					for i := range fs {
						p.Acted("gave up a result without knowing whether it was stored", fs[i].Key.ID)
					}
				}}
			},
		},
	)
}

// noDrainBeatStore is a store in which no heartbeat arrives once the worker drains.
type noDrainBeatStore struct {
	store.Store
	p        Process
	draining bool
}

// SetLifecycle implements store.Store.
func (n *noDrainBeatStore) SetLifecycle(ctx context.Context, w store.WorkerKey, to execution.Lifecycle) error {
	err := n.Store.SetLifecycle(ctx, w, to)
	n.draining = n.draining || err == nil && to == execution.Draining
	return err
}

// Heartbeat implements store.Store.
func (n *noDrainBeatStore) Heartbeat(ctx context.Context, b store.Beat) (store.BeatReply, error) {
	if n.draining {
		n.p.Acted("sent no heartbeat, because it drains")
		return store.BeatReply{}, store.ErrUnavailable
	}
	return n.Store.Heartbeat(ctx, b)
}

// constantLeaseStore is a store that gives each heartbeat and each registration the same time.
type constantLeaseStore struct {
	store.Store
	p Process
}

// Heartbeat implements store.Store.
func (c *constantLeaseStore) Heartbeat(ctx context.Context, b store.Beat) (store.BeatReply, error) {
	short, cancel := c.p.Host.WithTimeout(ctx, c.p.Config.Worker.StatementTimeout)
	defer cancel()
	reply, err := c.Store.Heartbeat(short, b)
	c.gaveUp(ctx, short, "gave a heartbeat up that still had time")
	return reply, err
}

// gaveUp reports that the mutant acted if a statement had too little time.
func (c *constantLeaseStore) gaveUp(ctx, short context.Context, text string) {
	if short.Err() != nil && ctx.Err() == nil {
		c.p.Acted(text)
	}
}

// Register implements store.Store.
func (c *constantLeaseStore) Register(ctx context.Context, g store.Registration) (store.Registered, error) {
	short, cancel := c.p.Host.WithTimeout(ctx, c.p.Config.Worker.StatementTimeout)
	defer cancel()
	registered, err := c.Store.Register(short, g)
	c.gaveUp(ctx, short, "gave a registration up that still had time")
	return registered, err
}

// resultChangeStore is a store that gets other results than the worker's.
type resultChangeStore struct {
	store.Store
	change func(*store.Finish)
	// unheard is called with results whose answer is lost; they count as stored then.
	unheard func(fs []store.Finish)
}

// Finish implements store.Store.
func (r *resultChangeStore) Finish(ctx context.Context, w store.WorkerKey, fs []store.Finish) ([]store.Outcome, error) {
	if r.change != nil {
		for i := range fs {
			r.change(&fs[i])
		}
	}
	outcomes, err := r.Store.Finish(ctx, w, fs)
	if err != nil && r.unheard != nil {
		r.unheard(fs)
		outcomes, err = make([]store.Outcome, len(fs)), nil
		for i := range outcomes {
			outcomes[i].Applied = true
		}
	}
	return outcomes, err
}
