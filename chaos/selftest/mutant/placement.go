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
	registerMutants(
		Mutant{
			Name: "stale-is-fresh", Source: "D33", Expected: 9, Scenario: "mixed-heartbeats",
			About: "the executor has its own freshness rule, by which a worker stays fresh for a while after its lease",
			Statements: dispatchUnguarded("took a worker for fresh whose lease is over", forEachWorker(func(w *store.WorkerRow) {
				if !w.LeaseValid() {
					w.LeaseOverFor -= 8 * time.Second
				}
			})),
		},
		Mutant{
			Name: "deaf-is-alive", Source: "D32", Expected: 9, Scenario: "mixed-heartbeats",
			About:      "no executor checks whether the consumer of a worker with heartbeats is alive",
			Statements: dispatchUnguarded("took a worker for alive whose consumer is not", forEachWorker(func(w *store.WorkerRow) { w.ConsumerAlive = true })),
		},
		Mutant{
			Name: "first-available", Source: "D42", Expected: 9, Scenario: "degraded-then-healthy",
			About: "the first worker that fits gets everything, whatever it holds",
			Statements: dispatchUnguarded("did not see what a worker holds", func(ws []store.WorkerRow) {
				for i := range ws {
					ws[i].Load = 0
				}
			}),
		},
		Mutant{
			Name: "permanent-quarantine", Source: "D43", Expected: 9, Scenario: "degraded-then-healthy",
			About: "an unhealthy worker gets nothing, so its count of failures never ends",
			Store: showFalseWorkers("took the failures of a worker for new ones", forEachWorker(func(w *store.WorkerRow) { w.Figures.LastFailure = 0 })),
		},
		Mutant{
			Name: "action-failures-blamed", Source: "D44", Expected: 9, Scenario: "broken-action",
			About: "the failures of actions count against their worker, so an action that fails everywhere takes every worker down",
			Store: func(p Process, c store.Store) store.Store {
				if !p.Worker {
					return c
				}
				return &blameStore{Store: c, p: p}
			},
		},
		Mutant{
			Name: "unhealthy-gets-work", Source: "D44", Expected: 9, Scenario: "degraded-then-healthy",
			About: "no executor reads the failures that a worker reports",
			Store: showFalseWorkers("did not see the failures of a worker", forEachWorker(func(w *store.WorkerRow) { w.Figures, w.Expired = execution.Figures{}, nil })),
		},
		Mutant{
			Name: "total-quarantine", Source: "D44", Expected: 9, Scenario: "quarantine-never-total",
			About: "unhealthy workers are never chosen, even if no other worker is left",
			Store: showFalseWorkers("took an unhealthy worker out of the choice", forEachWorker(func(w *store.WorkerRow) {
				if w.Figures.Consecutive >= 10 {
					w.Lifecycle = execution.Stopped
				}
			})),
		},
		Mutant{
			Name: "probe-reactivates", Source: "D46", Expected: 9, Scenario: "worker-stops-gracefully",
			About: "every worker with a recent heartbeat counts as active, even while it drains",
			Statements: dispatchUnguarded("took a worker for active that is not", forEachWorker(func(w *store.WorkerRow) {
				if w.LeaseValid() {
					w.Lifecycle = execution.Active
				}
			})),
		},
		Mutant{
			Name: "cordon-ignored", Source: "D46", Expected: 9, Scenario: "cordon-under-load",
			About:      "an operator's cordon is displayed and not obeyed",
			Statements: dispatchUnguarded("did not see the cordon of a worker", forEachWorker(func(w *store.WorkerRow) { w.Cordoned = false })),
		},
		Mutant{
			Name: "any-runtime", Source: "D45", Expected: 9, Scenario: "wrong-runtime",
			About: "a worker is chosen without checking its runtimes",
			Statements: dispatchUnguarded("saw a worker with every runtime", func(ws []store.WorkerRow) {
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
			Store: func(p Process, c store.Store) store.Store { return noReasonStore{c, p} },
		},
	)
}

// falseWorkerStore is a store that shows workers in a false state.
type falseWorkerStore struct {
	store.Store
	// see changes the workers that an executor sees.
	see func(ws []store.WorkerRow)
}

// showFalseWorkers makes mutants that see workers in a false state, which text describes.
func showFalseWorkers(text string, see func(ws []store.WorkerRow)) func(Process, store.Store) store.Store {
	return func(p Process, c store.Store) store.Store {
		if p.Worker {
			return c
		}
		return &falseWorkerStore{Store: c, see: reportFalseStates(p, text, see)}
	}
}

// dispatchUnguarded makes mutants that also dispatch without checking the worker: the guard of the dispatch
// would see its true state.
func dispatchUnguarded(text string, see func(ws []store.WorkerRow)) func(Process, Database) store.Store {
	return func(p Process, c Database) store.Store {
		if p.Worker {
			return c
		}
		return &unguardedDispatchStore{falseWorkerStore{Store: c, see: reportFalseStates(p, text, see)}, c}
	}
}

// reportFalseStates reports an act each time a worker begins to be shown in a false state.
func reportFalseStates(p Process, text string, see func(ws []store.WorkerRow)) func([]store.WorkerRow) {
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

// forEachWorker applies the same change to every worker.
func forEachWorker(change func(w *store.WorkerRow)) func([]store.WorkerRow) {
	return func(ws []store.WorkerRow) {
		for i := range ws {
			change(&ws[i])
		}
	}
}

// Workers implements store.Store.
func (f *falseWorkerStore) Workers(ctx context.Context, into []store.WorkerRow) ([]store.WorkerRow, error) {
	ws, err := f.Store.Workers(ctx, into)
	f.see(ws)
	return ws, err
}

// unguardedDispatchStore dispatches without checking the worker.
type unguardedDispatchStore struct {
	falseWorkerStore
	client Database
}

// DispatchDue implements store.Store.
func (u *unguardedDispatchStore) DispatchDue(context.Context, store.DueDispatch) (store.DueDispatched, error) {
	return inTwoSteps()
}

// Dispatch implements store.Store.
func (u *unguardedDispatchStore) Dispatch(ctx context.Context, executor string, ds []store.Dispatch) ([]store.DispatchResult, error) {
	results := make([]store.DispatchResult, len(ds))
	err := u.client.Step(ctx, func(tx Tx) {
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

// blameStore is a store to which failures are reported that were the actions' fault.
type blameStore struct {
	store.Store
	p                   Process
	failed, consecutive int
}

// Finish implements store.Store.
func (bs *blameStore) Finish(ctx context.Context, w store.WorkerKey, fs []store.Finish) ([]store.Outcome, error) {
	for i := range fs {
		bs.consecutive++
		if fs[i].Reason == execution.NoReason {
			bs.consecutive = 0
			continue
		}
		bs.failed++
		if !fs[i].Reason.BlamesWorker() {
			bs.p.Acted("counted a failure of an action against the worker", fs[i].Key.ID)
		}
	}
	return bs.Store.Finish(ctx, w, fs)
}

// Heartbeat implements store.Store.
func (bs *blameStore) Heartbeat(ctx context.Context, b store.Beat) (store.BeatReply, error) {
	b.Figures.Failed, b.Figures.Consecutive = bs.failed, bs.consecutive
	return bs.Store.Heartbeat(ctx, b)
}

// noReasonStore omits the reason when it fails executions that no worker fits.
type noReasonStore struct {
	store.Store
	p Process
}

// Park implements store.Store.
func (n noReasonStore) Park(ctx context.Context, executor string, ps []store.Park) ([]store.Outcome, error) {
	for i := range ps {
		if ps[i].Result.Message != "" {
			n.p.Acted("did not say why no worker fits", ps[i].Key.ID)
		}
		ps[i].Result.Message = ""
	}
	return n.Store.Park(ctx, executor, ps)
}
