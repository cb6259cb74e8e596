package mutant

import (
	"context"
	"slices"

	"handoff/core/execution"
	"handoff/core/store"
)

// This file plants statements that leave the tables inconsistent. An execution has a live row and a permanent
// row. A list holds its unhandled end, and one audit row records several transitions.

func init() {
	registerMutants(
		Mutant{
			Name: "created-without-work", Source: "D8", Expected: 5, Scenario: "more-than-a-batch",
			About: "the statement that creates several executions writes no row of what waits for the last one",
			Statements: changeTables(func(p Process) tableChangeStore {
				return tableChangeStore{created: func(tx Tx, ids []execution.ID) {
					if len(ids) > 1 {
						last := slices.Max(ids)
						p.Acted("created an execution that waits nowhere", last)
						tx.Rewait(last, nil)
					}
				}}
			}),
		},
		Mutant{
			Name: "taken-back-without-work", Source: "D8", Expected: 5, Scenario: "worker-never-picks-up",
			About: "an execution that is taken back has no row of what waits any more",
			Statements: changeTables(func(p Process) tableChangeStore {
				return tableChangeStore{retaken: func(tx Tx, id execution.ID) {
					p.Acted("took an execution back that waits nowhere", id)
					tx.Rewait(id, nil)
				}}
			}),
		},
		Mutant{
			Name: "end-leaves-its-work", Source: "D23", Expected: 13, Scenario: "results-together",
			About: "of the results that are written together, the last one leaves the row of what is live: the worker is told that it has ended, and everybody else that it runs",
			Statements: func(p Process, c Database) store.Store {
				return &lastEndStore{c, p}
			},
		},
		Mutant{
			Name: "end-keeps-no-reason", Source: "D22", Expected: 7, Scenario: "ends-told-to-nobody",
			About: "the row that is kept of a failure lacks its reason, so no retry follows",
			Statements: changeTables(func(p Process) tableChangeStore {
				return tableChangeStore{ended: func(tx Tx, id execution.ID) {
					if row := tx.Row(id); row.FailureReason != execution.NoReason {
						p.Acted("kept a failure without its reason", id)
						row.FailureReason = execution.NoReason
					}
				}}
			}),
		},
		Mutant{
			Name: "end-in-no-list", Source: "D22", Expected: 12, Scenario: "ends-told-to-nobody",
			About: "an end is not in the list of ends that nobody has handled, so only its message leads to it",
			Statements: changeTables(func(p Process) tableChangeStore {
				return tableChangeStore{ended: func(tx Tx, id execution.ID) {
					p.Acted("left an end out of the list of the unhandled", id)
					tx.Unlist(id)
				}}
			}),
		},
		Mutant{
			Name: "retry-waits-unpinned", Source: "D10", Expected: 9, Scenario: "pinned-and-retried",
			About: "the retry of a pinned execution waits in the lane of those that any worker may run",
			Statements: changeRetryWait("let a retry wait for any worker", func(_ Tx, e *execution.Execution) bool {
				was := e.Pinned
				e.Pinned = 0
				return was != 0
			}),
		},
		Mutant{
			Name: "retry-waits-unlimited", Source: "D24", Expected: 11, Scenario: "concurrency-under-crashes",
			About: "the retry of an execution with a concurrency limit waits in the lane of those without one",
			Statements: changeRetryWait("let a retry wait for no slot", func(_ Tx, e *execution.Execution) bool {
				was := e.Action.Concurrency
				e.Action.Concurrency = 0
				return was != 0
			}),
		},
		Mutant{
			Name: "retry-waits-undelayed", Source: "D51", Expected: 8, Scenario: "retries-exhausted",
			About: "a retry keeps the moment from which it may run, and waits as if it were due",
			Statements: changeRetryWait("let a retry wait as if it were due", func(tx Tx, e *execution.Execution) bool {
				early := e.NotBefore.After(tx.Now())
				e.NotBefore = tx.Now()
				return early
			}),
		},
		Mutant{
			Name: "group-loses-one", Source: "D12", Expected: 1, Scenario: "messages-of-many",
			About:      "the group of the audit that tells of claims made together lacks the last one",
			Statements: misattributeClaim("left a claim out of the audit's group", func(execution.ID) execution.ID { return 0 }),
		},
		Mutant{
			Name: "group-names-a-neighbour", Source: "D12", Expected: 1, Scenario: "messages-of-many",
			About:      "the group of the audit that tells of claims made together names the first execution in place of the last one",
			Statements: misattributeClaim("told a claim of another execution", func(first execution.ID) execution.ID { return first }),
		},
	)
}

// tableChangeStore is a store whose statements are followed by changes of single tables.
type tableChangeStore struct {
	Database

	created func(tx Tx, ids []execution.ID)
	// retaken is called with a row that was requeued, ended with one that has ended.
	retaken, ended func(tx Tx, id execution.ID)
	// retried is called with a row that is another row's retry.
	retried func(tx Tx, id execution.ID)
}

func changeTables(make func(p Process) tableChangeStore) func(Process, Database) store.Store {
	return func(p Process, c Database) store.Store {
		own := make(p)
		own.Database = c
		return &own
	}
}

// Create implements store.Store.
func (t *tableChangeStore) Create(ctx context.Context, items []store.NewExecution) ([]store.Created, error) {
	created, err := t.Database.Create(ctx, items)
	if err != nil || t.created == nil {
		return created, err
	}
	var ids []execution.ID
	for i := range created {
		if c := &created[i]; c.ID != 0 && !c.Existed {
			ids = append(ids, c.ID)
		}
	}
	return created, t.Step(ctx, func(tx Tx) { t.created(tx, ids) })
}

// Reclaim implements store.Store.
func (t *tableChangeStore) Reclaim(ctx context.Context, rs []store.Reclaim) ([]store.Outcome, error) {
	outcomes, err := t.Database.Reclaim(ctx, rs)
	if err != nil || t.retaken == nil {
		return outcomes, err
	}
	return outcomes, t.Step(ctx, func(tx Tx) {
		for i := range outcomes {
			if o := &outcomes[i]; o.Applied && o.Row.Status == execution.Requested {
				t.retaken(tx, o.Row.ID)
			}
		}
	})
}

// Finish implements store.Store.
func (t *tableChangeStore) Finish(ctx context.Context, w store.WorkerKey, fs []store.Finish) ([]store.Outcome, error) {
	outcomes, err := t.Database.Finish(ctx, w, fs)
	if err != nil || t.ended == nil {
		return outcomes, err
	}
	return outcomes, t.Step(ctx, func(tx Tx) {
		for i := range outcomes {
			if o := &outcomes[i]; o.Applied && isUnhandled(tx.Row(o.Row.ID)) {
				t.ended(tx, o.Row.ID)
			}
		}
	})
}

// Orchestrate implements store.Store.
func (t *tableChangeStore) Orchestrate(ctx context.Context, os []store.Orchestration) ([]store.Orchestrated, error) {
	done, err := t.Database.Orchestrate(ctx, os)
	if err != nil || t.retried == nil {
		return done, err
	}
	return done, t.Step(ctx, func(tx Tx) {
		for i := range done {
			if done[i].Retry != 0 && tx.Row(done[i].Retry) != nil {
				t.retried(tx, done[i].Retry)
			}
		}
	})
}

// changeRetryWait makes a mutant's retries wait incorrectly. change reports whether it changes the row.
func changeRetryWait(says string, change func(tx Tx, e *execution.Execution) bool) func(Process, Database) store.Store {
	return changeTables(func(p Process) tableChangeStore {
		return tableChangeStore{retried: func(tx Tx, id execution.ID) {
			if copied := *tx.Row(id); copied.Status == execution.Requested && change(tx, &copied) {
				p.Acted(says, id)
				tx.Rewait(id, func(e *execution.Execution) { change(tx, e) })
			}
		}}
	})
}

// lastEndStore is a store that leaves the last of several ends running.
type lastEndStore struct {
	Database
	p Process
}

// Finish implements store.Store.
func (l *lastEndStore) Finish(ctx context.Context, w store.WorkerKey, fs []store.Finish) ([]store.Outcome, error) {
	last := len(fs) - 1
	if last < 1 {
		return l.Database.Finish(ctx, w, fs)
	}
	left := store.Outcome{}
	if err := l.Step(ctx, func(tx Tx) {
		f := &fs[last]
		left = store.Outcome{}
		if row := tx.Row(f.Key.ID); row != nil && row.Key() == f.Key && row.Incarnation == w.Incarnation && row.Status.Claimed() {
			l.p.Acted("left an execution running that has ended", row.ID)
			left = store.Outcome{Applied: true, Row: *row, From: row.Status}
			left.Row.Status, left.Row.FailureReason, left.Row.Result, left.Row.Ended = f.To, f.Reason, f.Result, tx.Now()
		}
	}); err != nil {
		return nil, err
	}
	if !left.Applied {
		return l.Database.Finish(ctx, w, fs)
	}
	outcomes, err := l.Database.Finish(ctx, w, fs[:last])
	if err != nil {
		return nil, err
	}
	return append(outcomes, left), nil
}

// misattributeClaim makes a mutant that claims the last of several executions, and records another execution
// in the audit. That is `told`, given the first of them; 0 for none.
func misattributeClaim(says string, told func(first execution.ID) execution.ID) func(Process, Database) store.Store {
	return func(p Process, c Database) store.Store { return &auditGroupStore{c, p, says, told} }
}

type auditGroupStore struct {
	Database
	p    Process
	says string
	told func(first execution.ID) execution.ID
}

// Claim implements store.Store.
func (a *auditGroupStore) Claim(ctx context.Context, w store.WorkerKey, cs []store.Claim) ([]store.ClaimResult, error) {
	last := len(cs) - 1
	if last < 1 {
		return a.Database.Claim(ctx, w, cs)
	}
	results, err := a.Database.Claim(ctx, w, cs[:last])
	if err != nil {
		return nil, err
	}
	replaced := false
	var of store.ClaimResult
	if err := a.Step(ctx, func(tx Tx) {
		c := &cs[last]
		row := tx.Row(c.Key.ID)
		replaced = results[0].Applied && row != nil && row.Status == execution.Scheduled && row.Key() == c.Key && row.Incarnation == w.Incarnation &&
			tx.Now().Before(row.DispatchDeadline)
		if !replaced {
			return
		}
		a.p.Acted(a.says, row.ID)
		tx.MarkPublished(c.Key.ID)
		tx.Named(c.Key, w.Incarnation)
		tx.MoveTold(c.Key.ID, a.told(cs[0].Key.ID), execution.Running, execution.Worker, execution.NoReason, func(e *execution.Execution) {
			e.StartedAt, e.RunDeadline, e.ClaimBeat = tx.Now(), tx.Now().Add(e.Action.RunTimeout()), c.Beat
		})
		of = store.ClaimResult{Outcome: store.Outcome{Applied: true, Row: *tx.Row(c.Key.ID)}}
	}); err != nil {
		return nil, err
	}
	if replaced {
		return append(results, of), nil
	}
	rest, err := a.Database.Claim(ctx, w, cs[last:])
	if err != nil {
		return nil, err
	}
	return append(results, rest...), nil
}
