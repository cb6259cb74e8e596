package mutant

import (
	"context"
	"log/slog"
	"time"

	"handoff/core/execution"
	"handoff/core/store"
)

func init() {
	registerMutants(
		Mutant{
			Name: "endpoints-untold", Source: "D46", Expected: 29, Scenario: "unreachable-health-endpoint",
			About: "if an executor's probes of a health endpoint begin to fail, or succeed again, it does not log that",
			Log:   func(p Process, h slog.Handler) slog.Handler { return &repeatLogHandler{h, p, 0} },
		},
		Mutant{
			Name: "endpoints-told-twice", Source: "D46", Expected: 29, Scenario: "unreachable-health-endpoint",
			About: "an executor logs a change of a health endpoint more than once",
			Log:   func(p Process, h slog.Handler) slog.Handler { return &repeatLogHandler{h, p, 2} },
		},
		Mutant{
			Name: "told-unasked", Source: "D22", Expected: 29, Scenario: "workers-gone-for-long",
			About: "an executor that has nothing to place warns that it passes over a worker",
			Log:   func(_ Process, h slog.Handler) slog.Handler { return h }, // the store writes the line
			Store: func(p Process, s store.Store) store.Store {
				if p.Log == nil {
					return s
				}
				return &talkativeStore{s, p, make(map[execution.Incarnation]bool)}
			},
		},
	)
}

// endpointLine is the message that an executor logs when its probes detect a change of a worker's health
// endpoint.
const endpointLine = "a worker's health endpoint changed"

// repeatLogHandler writes each line about a health endpoint several times.
type repeatLogHandler struct {
	slog.Handler
	p     Process
	times int
}

// Handle implements slog.Handler.
func (rlh *repeatLogHandler) Handle(ctx context.Context, r slog.Record) error {
	times := 1
	if r.Message == endpointLine {
		if times = rlh.times; times == 0 {
			rlh.p.Acted("did not log a change of a health endpoint")
		} else {
			rlh.p.Acted("logged the same change of a health endpoint twice")
		}
	}
	var err error
	for range times {
		err = rlh.Handler.Handle(ctx, r)
	}
	return err
}

// WithAttrs implements slog.Handler.
func (rlh *repeatLogHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &repeatLogHandler{rlh.Handler.WithAttrs(attrs), rlh.p, rlh.times}
}

// WithGroup implements slog.Handler.
func (rlh *repeatLogHandler) WithGroup(name string) slog.Handler {
	return &repeatLogHandler{rlh.Handler.WithGroup(name), rlh.p, rlh.times}
}

// talkativeStore is the store of an executor that warns of workers with stale heartbeats whenever it reads
// the workers.
type talkativeStore struct {
	store.Store
	p    Process
	told map[execution.Incarnation]bool
}

// DispatchDue implements store.Store.
func (t *talkativeStore) DispatchDue(context.Context, store.DueDispatch) (store.DueDispatched, error) {
	return inTwoSteps()
}

// ClaimForScheduling implements store.Executor.
func (t *talkativeStore) ClaimForScheduling(ctx context.Context, c store.SchedulingClaim) ([]execution.Execution, error) {
	rows, err := t.Store.ClaimForScheduling(ctx, c)
	if err != nil || len(rows) > 0 {
		return rows, err
	}
	workers, err := t.Workers(ctx, nil)
	if err != nil {
		return rows, nil
	}
	for i := range workers {
		w := &workers[i]
		if w.Lifecycle != execution.Active || w.LeaseValid() || t.told[w.Incarnation] {
			continue
		}
		t.told[w.Incarnation] = true
		t.p.Acted("warned of a worker with a stale heartbeat, with nothing to place")
		t.p.Log.LogAttrs(ctx, slog.LevelWarn, "worker with a stale heartbeat is passed over", slog.Int64("worker", int64(w.ID)),
			slog.Duration("since_heartbeat", max(w.SinceBeat, time.Second)))
	}
	return rows, nil
}
