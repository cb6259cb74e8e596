package mutant

import (
	"context"

	"handoff/core/execution"
	"handoff/core/store"
)

func init() {
	register(
		Mutant{
			Name: "heartbeat-stops-first", Source: "D38", Expected: 10, Scenario: "worker-stops-gracefully",
			About: "a stopping worker ends its heartbeat before its running executions, which then look dead",
			Store: func(p Process, c store.Store) store.Store {
				if !p.Worker {
					return c
				}
				return &heartless{Store: c, p: p}
			},
		},
		Mutant{
			Name: "heartbeat-gives-up-early", Source: "D47", Expected: 15, Scenario: "slow-road-to-the-database",
			About: "each attempt to renew a lease has the same short time, so a database that is slower costs the whole fleet",
			Store: func(p Process, c store.Store) store.Store {
				if !p.Worker {
					return c
				}
				return &hurried{c, p}
			},
		},
		Mutant{
			Name: "killed-is-completed", Source: "D40", Expected: 13, Scenario: "shutdown-timeout",
			About: "an action that its worker has ended counts as completed, because its process is gone and left no error",
			Store: func(p Process, c store.Store) store.Store {
				return &results{Store: c, change: func(f *store.Finish) {
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
				return &results{Store: c, unheard: func(fs []store.Finish) {
					for i := range fs {
						p.Acted("gave up a result without knowing whether it was stored", fs[i].Key.ID)
					}
				}}
			},
		},
	)
}

// heartless is a store in which no heartbeat arrives once the worker drains.
type heartless struct {
	store.Store
	p        Process
	draining bool
}

// SetLifecycle implements store.Store.
func (h *heartless) SetLifecycle(ctx context.Context, w store.WorkerKey, to execution.Lifecycle) error {
	err := h.Store.SetLifecycle(ctx, w, to)
	h.draining = h.draining || err == nil && to == execution.Draining
	return err
}

// Heartbeat implements store.Store.
func (h *heartless) Heartbeat(ctx context.Context, b store.Beat) (store.BeatReply, error) {
	if h.draining {
		h.p.Acted("sent no heartbeat, because it drains")
		return store.BeatReply{}, store.ErrUnavailable
	}
	return h.Store.Heartbeat(ctx, b)
}

// hurried is a store that gives each heartbeat and each registration the same time.
type hurried struct {
	store.Store
	p Process
}

// Heartbeat implements store.Store.
func (h *hurried) Heartbeat(ctx context.Context, b store.Beat) (store.BeatReply, error) {
	short, cancel := h.p.Host.WithTimeout(ctx, h.p.Config.Worker.StatementTimeout)
	defer cancel()
	reply, err := h.Store.Heartbeat(short, b)
	h.gaveUp(ctx, short, "gave a heartbeat up that still had time")
	return reply, err
}

// gaveUp says that the mutant acted if a statement had too little time.
func (h *hurried) gaveUp(ctx, short context.Context, text string) {
	if short.Err() != nil && ctx.Err() == nil {
		h.p.Acted(text)
	}
}

// Register implements store.Store.
func (h *hurried) Register(ctx context.Context, g store.Registration) (store.Registered, error) {
	short, cancel := h.p.Host.WithTimeout(ctx, h.p.Config.Worker.StatementTimeout)
	defer cancel()
	registered, err := h.Store.Register(short, g)
	h.gaveUp(ctx, short, "gave a registration up that still had time")
	return registered, err
}

// results is a store that gets other results than the worker's.
type results struct {
	store.Store
	change func(*store.Finish)
	// unheard is called with results that get no answer; they count as stored then.
	unheard func(fs []store.Finish)
}

// Finish implements store.Store.
func (r *results) Finish(ctx context.Context, w store.WorkerKey, fs []store.Finish) ([]store.Outcome, error) {
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
