package mutant

import (
	"cmp"
	"context"
	"slices"

	"handoff/core/execution"
	"handoff/core/store"
)

// This file plants one-step dispatches that lack a part of the guard of the claim and the dispatch, which
// they replace.

func init() {
	registerMutants(
		Mutant{
			Name: "direct-to-the-draining", Source: "D46", Expected: 9, Scenario: "activation-on-a-bad-road",
			About: "neither the dispatch in one step nor the choice of the worker checks whether the worker is active",
			Statements: dispatchDirectly("took a worker for active that is not", forEachWorker(func(w *store.WorkerRow) {
				if w.LeaseValid() {
					w.Lifecycle = execution.Active
				}
			}), directDispatchStore{}),
		},
		Mutant{
			Name: "direct-to-the-deaf", Source: "D32", Expected: 9, Scenario: "mixed-heartbeats",
			About:      "neither the dispatch in one step nor the choice of the worker checks whether the worker's consumer is alive",
			Statements: dispatchDirectly("took a worker for alive whose consumer is not", forEachWorker(func(w *store.WorkerRow) { w.ConsumerAlive = true }), directDispatchStore{}),
		},
		Mutant{
			Name: "direct-beyond-room", Source: "D42", Expected: 9, Scenario: "degraded-then-healthy",
			About: "neither the dispatch in one step nor the choice of the worker counts the executions that the worker holds",
			Statements: dispatchDirectly("did not see what a worker holds", func(ws []store.WorkerRow) {
				for i := range ws {
					ws[i].Load = 0
				}
			}, directDispatchStore{full: true}),
		},
		Mutant{
			Name: "direct-takes-the-limited", Source: "D24", Expected: 11, Scenario: "concurrency-on-a-bad-network",
			About:      "the dispatch in one step takes executions with a concurrency limit, and no slot for them",
			Statements: dispatchDirectly("", asTheyAre, directDispatchStore{limited: true}),
		},
		Mutant{
			Name: "direct-before-due", Source: "D51", Expected: 8, Scenario: "retries-exhausted",
			About:      "the dispatch in one step does not wait until an execution is due",
			Statements: dispatchDirectly("", asTheyAre, directDispatchStore{early: true}),
		},
		Mutant{
			Name: "direct-untold", Source: "D12", Expected: 1, Scenario: "messages-of-many",
			About:      "the audit shows the dispatch in one step as one transition, without the claim for scheduling",
			Statements: dispatchDirectly("", asTheyAre, directDispatchStore{untold: true}),
		},
	)
}

// inTwoSteps is the answer that makes an executor claim first and then dispatch all due rows. Mutants that
// change one of these two steps use it.
func inTwoSteps() (store.DueDispatched, error) { return store.DueDispatched{Others: true}, nil }

// directDispatchStore is a store whose dispatch in one step does not check the worker, and lacks the conditions
// of the fields that are set.
type directDispatchStore struct {
	falseWorkerStore
	p      Process
	client Database

	// full ignores the worker's capacity, limited the concurrency limit, and early the due time. untold omits
	// the first of the two transitions.
	full, limited, early, untold bool
}

func dispatchDirectly(text string, see func(ws []store.WorkerRow), lacks directDispatchStore) func(Process, Database) store.Store {
	return func(p Process, c Database) store.Store {
		if !p.Executor() {
			return c
		}
		own := lacks
		own.falseWorkerStore, own.p, own.client = falseWorkerStore{Store: c, see: reportFalseStates(p, text, see)}, p, c
		return &own
	}
}

// DispatchDue implements store.Executor.
func (dds *directDispatchStore) DispatchDue(ctx context.Context, d store.DueDispatch) (answer store.DueDispatched, err error) {
	err = dds.client.Step(ctx, func(tx Tx) {
		answer = store.DueDispatched{Others: true}
		loads := make(map[execution.Incarnation]int)
		for id := execution.ID(1); int(id) <= tx.Rows(); id++ {
			if row := tx.Row(id); row.Incarnation != 0 && !row.Status.Terminal() {
				loads[row.Incarnation]++
			}
		}
		for i := range d.Offers {
			o := &d.Offers[i]
			rows := dds.dueRows(tx, o)
			for n := 0; n < min(len(rows), len(o.Spread)); n++ {
				to := o.Spread[n]
				if loads[to.Worker.Incarnation]++; loads[to.Worker.Incarnation] > to.Limit && to.Limit > 0 && !dds.full {
					continue
				}
				answer.Rows = append(answer.Rows, dds.dispatchRow(tx, rows[n], to, d))
			}
		}
	})
	return answer, err
}

// dueRows are the rows of an offer in the order in which they are due.
func (dds *directDispatchStore) dueRows(tx Tx, o *store.Offer) (due []execution.ID) {
	for id := execution.ID(1); int(id) <= tx.Rows(); id++ {
		row := tx.Row(id)
		waits := row.Status == execution.Requested && slices.Contains(o.Runtimes, row.Action.Runtime) && !row.AwaitsParent && row.Pinned == 0
		free := row.Avoid == 0 && !row.NotBefore.After(tx.Now())
		if waits && (free || dds.early) && (row.Action.Concurrency == 0 || dds.limited) {
			due = append(due, id)
		}
	}
	slices.SortFunc(due, func(a, b execution.ID) int {
		return cmp.Or(tx.Row(a).NotBefore.Compare(tx.Row(b).NotBefore), cmp.Compare(a, b))
	})
	return due
}

func (dds *directDispatchStore) dispatchRow(tx Tx, id execution.ID, to store.Place, d store.DueDispatch) execution.Execution {
	row := tx.Row(id)
	switch {
	case row.Action.Concurrency > 0:
		dds.p.Acted("dispatched an execution without a slot", id)
	case row.NotBefore.After(tx.Now()):
		dds.p.Acted("dispatched an execution that was not due", id)
	case dds.untold:
		dds.p.Acted("left the claim for scheduling out of the audit", id)
	}
	if !dds.untold {
		tx.Move(id, execution.Scheduling, execution.Scheduler, execution.NoReason, func(e *execution.Execution) {
			e.SchedulingAt, e.SchedulingBy, e.SchedulingExpiresAt = tx.Now(), d.Executor, tx.Now().Add(d.Expiry)
		})
	}
	tx.Move(id, execution.Scheduled, execution.Scheduler, execution.NoReason, func(e *execution.Execution) {
		e.Epoch++
		e.Worker, e.Incarnation = to.Worker.ID, to.Worker.Incarnation
		timeout := d.Timeout
		if e.Action.DispatchTimeout > 0 {
			timeout = e.Action.DispatchTimeout
		}
		e.ScheduledAt, e.DispatchDeadline = tx.Now(), tx.Now().Add(timeout)
	})
	return *tx.Row(id)
}

// asTheyAre does not change the workers.
func asTheyAre([]store.WorkerRow) {}
