package mutant

import (
	"context"
	"log/slog"
	"time"

	"handoff/core/execution"
	"handoff/core/store"
)

func init() {
	register(
		Mutant{
			Name: "endpoints-untold", Source: "D46", Expected: 29, Scenario: "unreachable-health-endpoint",
			About: "if an executor's probes of a health endpoint begin to fail, or succeed again, it does not log that",
			Log:   func(p Process, h slog.Handler) slog.Handler { return &repeating{h, p, 0} },
		},
		Mutant{
			Name: "endpoints-told-twice", Source: "D46", Expected: 29, Scenario: "unreachable-health-endpoint",
			About: "an executor logs a change of a health endpoint more than once",
			Log:   func(p Process, h slog.Handler) slog.Handler { return &repeating{h, p, 2} },
		},
		Mutant{
			Name: "told-unasked", Source: "D22", Expected: 29, Scenario: "workers-gone-for-long",
			About: "an executor that has nothing to place warns that it passes over a worker",
			Log:   func(_ Process, h slog.Handler) slog.Handler { return h }, // the store writes the line
			Store: func(p Process, s store.Store) store.Store {
				if p.Log == nil {
					return s
				}
				return &talkative{s, p, make(map[execution.Incarnation]bool)}
			},
		},
	)
}

// endpointLine is what an executor logs when its probes find that a worker's health endpoint has
// changed.
const endpointLine = "a worker's health endpoint changed"

// repeating writes each line about a health endpoint several times.
type repeating struct {
	slog.Handler
	p     Process
	times int
}

// Handle implements slog.Handler.
func (re *repeating) Handle(ctx context.Context, r slog.Record) error {
	times := 1
	if r.Message == endpointLine {
		if times = re.times; times == 0 {
			re.p.Acted("did not log a change of a health endpoint")
		} else {
			re.p.Acted("logged the same change of a health endpoint twice")
		}
	}
	var err error
	for range times {
		err = re.Handler.Handle(ctx, r)
	}
	return err
}

// WithAttrs implements slog.Handler.
func (re *repeating) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &repeating{re.Handler.WithAttrs(attrs), re.p, re.times}
}

// WithGroup implements slog.Handler.
func (re *repeating) WithGroup(name string) slog.Handler {
	return &repeating{re.Handler.WithGroup(name), re.p, re.times}
}

// talkative is the store of an executor that warns of workers with stale heartbeats whenever it
// looks at them.
type talkative struct {
	store.Store
	p    Process
	told map[execution.Incarnation]bool
}

// DispatchDue implements store.Store.
func (t *talkative) DispatchDue(context.Context, store.DueDispatch) (store.DueDispatched, error) {
	return inTwoSteps()
}

// ClaimForScheduling implements store.Executor.
func (t *talkative) ClaimForScheduling(ctx context.Context, c store.SchedulingClaim) ([]execution.Execution, error) {
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
