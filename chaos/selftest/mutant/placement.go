package mutant

import (
	"context"
	"fmt"
	"sync"
	"time"

	"handoff/core/execution"
	"handoff/core/store"
)

// This file plants executors that give work to the wrong worker, and workers that make false
// reports about themselves.

func init() {
	register(
		Mutant{
			Name: "stale-is-fresh", Source: "D33", Expected: 9, Scenario: "mixed-heartbeats",
			About: "the executor has its own freshness rule, by which a worker stays fresh for a while after its lease",
			Statements: unguarded("took a worker for fresh whose lease is over", each(func(w *store.WorkerRow) {
				if !w.LeaseValid() {
					w.LeaseOverFor -= 8 * time.Second
				}
			})),
		},
		Mutant{
			Name: "deaf-is-alive", Source: "D32", Expected: 9, Scenario: "mixed-heartbeats",
			About:      "no executor checks whether the consumer of a worker with heartbeats is alive",
			Statements: unguarded("took a worker for alive whose consumer is not", each(func(w *store.WorkerRow) { w.ConsumerAlive = true })),
		},
		Mutant{
			Name: "first-available", Source: "D42", Expected: 9, Scenario: "degraded-then-healthy",
			About: "the first worker that fits gets everything, whatever it holds",
			Statements: unguarded("did not see what a worker holds", func(ws []store.WorkerRow) {
				for i := range ws {
					ws[i].Load = 0
				}
			}),
		},
		Mutant{
			Name: "permanent-quarantine", Source: "D43", Expected: 9, Scenario: "degraded-then-healthy",
			About: "an unhealthy worker gets nothing, so its count of failures never ends",
			Store: seeing("took the failures of a worker for new ones", each(func(w *store.WorkerRow) { w.Figures.LastFailure = 0 })),
		},
		Mutant{
			Name: "action-failures-blamed", Source: "D44", Expected: 9, Scenario: "broken-action",
			About: "the failures of actions count against their worker, so an action that fails everywhere takes every worker down",
			Store: func(p Process, c store.Store) store.Store {
				if !p.Worker {
					return c
				}
				return &blaming{Store: c, p: p}
			},
		},
		Mutant{
			Name: "unhealthy-gets-work", Source: "D44", Expected: 9, Scenario: "degraded-then-healthy",
			About: "no executor reads the failures that a worker reports",
			Store: seeing("did not see the failures of a worker", each(func(w *store.WorkerRow) { w.Figures, w.Expired = execution.Figures{}, nil })),
		},
		Mutant{
			Name: "total-quarantine", Source: "D44", Expected: 9, Scenario: "quarantine-never-total",
			About: "unhealthy workers are never chosen, even if no other worker is left",
			Store: seeing("took an unhealthy worker out of the choice", each(func(w *store.WorkerRow) {
				if w.Figures.Consecutive >= 10 {
					w.Lifecycle = execution.Stopped
				}
			})),
		},
		Mutant{
			Name: "probe-reactivates", Source: "D46", Expected: 9, Scenario: "worker-stops-gracefully",
			About: "every worker with a recent heartbeat counts as active, even while it drains",
			Statements: unguarded("took a worker for active that is not", each(func(w *store.WorkerRow) {
				if w.LeaseValid() {
					w.Lifecycle = execution.Active
				}
			})),
		},
		Mutant{
			Name: "cordon-ignored", Source: "D46", Expected: 9, Scenario: "cordon-under-load",
			About:      "an operator's cordon is displayed and not obeyed",
			Statements: unguarded("did not see the cordon of a worker", each(func(w *store.WorkerRow) { w.Cordoned = false })),
		},
		Mutant{
			Name: "any-runtime", Source: "D45", Expected: 9, Scenario: "wrong-runtime",
			About: "a worker is chosen without checking its runtimes",
			Statements: unguarded("saw a worker with every runtime", func(ws []store.WorkerRow) {
				var all []string
				for i := range ws {
					all = append(all, ws[i].Runtimes...)
				}
				all = append(all, "python")
				for i := range ws {
					ws[i].Runtimes = all
				}
			}),
		},
		Mutant{
			Name: "stale-is-unsaid", Source: "D45", Expected: 9, Scenario: "workers-gone-without-a-word",
			About: "an execution that no worker fits fails without saying that the cause was stale heartbeats",
			Store: func(p Process, c store.Store) store.Store { return speechless{c, p} },
		},
	)
}

// misplacing is a store that shows workers in a false state.
type misplacing struct {
	store.Store
	// see changes the workers that an executor sees.
	see func(ws []store.WorkerRow)
}

// seeing is for mutants that see workers in a false state; text says how.
func seeing(text string, see func(ws []store.WorkerRow)) func(Process, store.Store) store.Store {
	return func(p Process, c store.Store) store.Store {
		if p.Worker {
			return c
		}
		return &misplacing{Store: c, see: noticing(p, text, see)}
	}
}

// unguarded is for mutants that also dispatch without checking the worker: the guard of the
// dispatch would see its true state.
func unguarded(text string, see func(ws []store.WorkerRow)) func(Process, Database) store.Store {
	return func(p Process, c Database) store.Store {
		if p.Worker {
			return c
		}
		return &byIDOnly{misplacing{Store: c, see: noticing(p, text, see)}, c}
	}
}

// noticing reports, each time a worker begins to be shown in a false state, that the mutant acted.
func noticing(p Process, text string, see func(ws []store.WorkerRow)) func([]store.WorkerRow) {
	if p.Report == nil {
		return see
	}
	var mu sync.Mutex
	differs := make(map[execution.Incarnation]bool)
	return func(ws []store.WorkerRow) {
		before := make([]string, len(ws))
		for i := range ws {
			before[i] = fmt.Sprint(ws[i])
		}
		see(ws)
		var begun []string
		mu.Lock()
		for i := range ws {
			now := fmt.Sprint(ws[i]) != before[i]
			if now && !differs[ws[i].Incarnation] {
				begun = append(begun, ws[i].Name)
			}
			differs[ws[i].Incarnation] = now
		}
		mu.Unlock()
		for _, name := range begun {
			p.Acted(text + ": " + name)
		}
	}
}

// each applies the same change to every worker.
func each(change func(w *store.WorkerRow)) func([]store.WorkerRow) {
	return func(ws []store.WorkerRow) {
		for i := range ws {
			change(&ws[i])
		}
	}
}

// Workers implements store.Store.
func (m *misplacing) Workers(ctx context.Context, into []store.WorkerRow) ([]store.WorkerRow, error) {
	ws, err := m.Store.Workers(ctx, into)
	m.see(ws)
	return ws, err
}

// byIDOnly dispatches without checking the worker.
type byIDOnly struct {
	misplacing
	client Database
}

// DispatchDue implements store.Store.
func (b *byIDOnly) DispatchDue(context.Context, store.DueDispatch) (store.DueDispatched, error) {
	return inTwoSteps()
}

// Dispatch implements store.Store.
func (b *byIDOnly) Dispatch(ctx context.Context, executor string, ds []store.Dispatch) ([]store.DispatchResult, error) {
	results := make([]store.DispatchResult, len(ds))
	err := b.client.Step(ctx, func(tx Tx) {
		for i, d := range ds {
			row := tx.Row(d.Key.ID)
			if row == nil || row.Status != execution.Scheduling || row.Epoch != d.Key.Epoch || row.SchedulingBy != executor {
				continue
			}
			tx.Named(d.Key, 0)
			tx.Move(d.Key.ID, execution.Scheduled, execution.Scheduler, execution.NoReason, func(e *execution.Execution) {
				e.Epoch++
				e.Worker, e.Incarnation = d.Worker.ID, d.Worker.Incarnation
				e.ScheduledAt, e.DispatchDeadline = tx.Now(), tx.Now().Add(d.Timeout)
			})
			results[i] = store.DispatchResult{Outcome: store.Outcome{Applied: true, Row: *tx.Row(d.Key.ID)}}
		}
	})
	if err != nil {
		return nil, err
	}
	return results, nil
}

// blaming is a store that is told of failures that were the actions' fault.
type blaming struct {
	store.Store
	p                   Process
	failed, consecutive int
}

// Finish implements store.Store.
func (bl *blaming) Finish(ctx context.Context, w store.WorkerKey, fs []store.Finish) ([]store.Outcome, error) {
	for i := range fs {
		bl.consecutive++
		if fs[i].Reason == execution.NoReason {
			bl.consecutive = 0
			continue
		}
		bl.failed++
		if !fs[i].Reason.BlamesWorker() {
			bl.p.Acted("counted a failure of an action against the worker", fs[i].Key.ID)
		}
	}
	return bl.Store.Finish(ctx, w, fs)
}

// Heartbeat implements store.Store.
func (bl *blaming) Heartbeat(ctx context.Context, b store.Beat) (store.BeatReply, error) {
	b.Figures.Failed, b.Figures.Consecutive = bl.failed, bl.consecutive
	return bl.Store.Heartbeat(ctx, b)
}

// speechless fails executions that no worker fits without giving the reason.
type speechless struct {
	store.Store
	p Process
}

// Park implements store.Store.
func (s speechless) Park(ctx context.Context, executor string, ps []store.Park) ([]store.Outcome, error) {
	for i := range ps {
		if ps[i].Result.Message != "" {
			s.p.Acted("did not say why no worker fits", ps[i].Key.ID)
		}
		ps[i].Result.Message = ""
	}
	return s.Store.Park(ctx, executor, ps)
}
