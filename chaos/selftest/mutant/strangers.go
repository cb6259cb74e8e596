package mutant

import (
	"context"
	"fmt"

	"handoff/core/execution"
	"handoff/core/store"
)

// This file plants programs that are held up by other sessions in the database.

func init() {
	registerMutants(
		Mutant{
			Name: "a-locked-row-holds-up-its-batch", Source: "D61", Expected: 28, Scenario: "rows-locked-by-a-stranger",
			About:      "a claim, a result or a take-back waits for as long as a stranger has locked the row of another one in its batch",
			Statements: func(p Process, c Database) store.Store { return &wholeBatchStore{c, p, c} },
		},
		Mutant{
			Name: "a-locked-row-ends-the-sweep", Source: "D61", Expected: 26, Scenario: "rows-locked-by-a-stranger",
			About: "an executor that takes rows back together with one that a stranger has locked does not learn which it took, and tells nobody",
			Store: func(p Process, s store.Store) store.Store { return &errorOnlyStore{s, p} },
		},
		Mutant{
			Name: "a-lease-needs-the-record", Source: "D61", Expected: 17, Scenario: "tables-locked-by-a-stranger",
			About:      "a heartbeat also ends what nobody runs any more, in one statement, so a lock of the table of ended executions ends the leases of all workers",
			Statements: func(p Process, c Database) store.Store { return &beatDependentStore{c, p, c} },
		},
	)
}

// errLocked is the error of a statement whose wait for a lock timed out.
var errLocked = fmt.Errorf("%w: canceling statement due to lock timeout (55P03)", store.ErrUnavailable)

// wholeBatchStore is a store that does not retry statements row by row when one of their rows is locked.
type wholeBatchStore struct {
	store.Store
	p Process
	c Database
}

func (wbs *wholeBatchStore) refuseIfAnyLocked(ctx context.Context, ids []execution.ID) (err error) {
	if len(ids) < 2 {
		return nil
	}
	if failed := wbs.c.Step(ctx, func(tx Tx) {
		for _, id := range ids {
			if tx.Locked(id) {
				wbs.p.Acted("repeats a whole batch because of a locked row", ids...)
				err = errLocked
			}
		}
	}); failed != nil {
		return failed
	}
	return err
}

// Claim implements store.Worker.
func (wbs *wholeBatchStore) Claim(ctx context.Context, w store.WorkerKey, cs []store.Claim) ([]store.ClaimResult, error) {
	var ids []execution.ID
	for i := range cs {
		ids = append(ids, cs[i].Key.ID)
	}
	if err := wbs.refuseIfAnyLocked(ctx, ids); err != nil {
		return nil, err
	}
	return wbs.Store.Claim(ctx, w, cs)
}

// Finish implements store.Worker.
func (wbs *wholeBatchStore) Finish(ctx context.Context, w store.WorkerKey, fs []store.Finish) ([]store.Outcome, error) {
	var ids []execution.ID
	for i := range fs {
		ids = append(ids, fs[i].Key.ID)
	}
	if err := wbs.refuseIfAnyLocked(ctx, ids); err != nil {
		return nil, err
	}
	return wbs.Store.Finish(ctx, w, fs)
}

// Reclaim implements store.Executor.
func (wbs *wholeBatchStore) Reclaim(ctx context.Context, rs []store.Reclaim) ([]store.Outcome, error) {
	var ids []execution.ID
	for i := range rs {
		ids = append(ids, rs[i].Key.ID)
	}
	if err := wbs.refuseIfAnyLocked(ctx, ids); err != nil {
		return nil, err
	}
	return wbs.Store.Reclaim(ctx, rs)
}

// errorOnlyStore is a store whose callers get nothing but an error: the answers about rows that are not
// locked are lost.
type errorOnlyStore struct {
	store.Store
	p Process
}

// Reclaim implements store.Executor.
func (e *errorOnlyStore) Reclaim(ctx context.Context, rs []store.Reclaim) ([]store.Outcome, error) {
	outcomes, err := e.Store.Reclaim(ctx, rs)
	if store.Retriable(err) && outcomes != nil {
		e.p.Acted("drops the answers that come beside an error")
		return nil, err
	}
	return outcomes, err
}

// beatDependentStore is a store whose heartbeats also write to the table of what has ended.
type beatDependentStore struct {
	store.Store
	p Process
	c Database
}

// Heartbeat implements store.Worker.
func (bds *beatDependentStore) Heartbeat(ctx context.Context, b store.Beat) (store.BeatReply, error) {
	var locked bool
	if err := bds.c.Step(ctx, func(tx Tx) { locked = tx.LockedTable("execution_record") }); err != nil {
		return store.BeatReply{}, err
	}
	if locked {
		bds.p.Acted("does not renew a lease because a table of ended executions is locked")
		return store.BeatReply{}, errLocked
	}
	return bds.Store.Heartbeat(ctx, b)
}
