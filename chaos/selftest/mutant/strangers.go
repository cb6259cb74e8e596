package mutant

import (
	"context"
	"fmt"

	"handoff/core/execution"
	"handoff/core/store"
)

// This file plants programs that other sessions in the database hold up.

func init() {
	register(
		Mutant{
			Name: "a-locked-row-holds-up-its-batch", Source: "D61", Expected: 28, Scenario: "rows-locked-by-a-stranger",
			About:      "a claim, a result or a take-back waits for as long as a stranger has locked the row of another one in its batch",
			Statements: func(p Process, c Database) store.Store { return &together{c, p, c} },
		},
		Mutant{
			Name: "a-locked-row-ends-the-sweep", Source: "D61", Expected: 26, Scenario: "rows-locked-by-a-stranger",
			About: "an executor that takes rows back together with one that a stranger has locked does not learn which it took, and tells nobody",
			Store: func(p Process, s store.Store) store.Store { return &unanswered{s, p} },
		},
		Mutant{
			Name: "a-lease-needs-the-record", Source: "D61", Expected: 17, Scenario: "tables-locked-by-a-stranger",
			About:      "a heartbeat also ends what nobody runs any more, in one statement, so a lock of the table of ended executions ends the leases of all workers",
			Statements: func(p Process, c Database) store.Store { return &dependent{c, p, c} },
		},
	)
}

// errLocked is the error of a statement that has waited for a lock for too long.
var errLocked = fmt.Errorf("%w: canceling statement due to lock timeout (55P03)", store.ErrUnavailable)

// together is a store whose statements are not repeated row by row when one of their rows is locked.
type together struct {
	store.Store
	p Process
	c Database
}

func (t *together) refuseIfAnyLocked(ctx context.Context, ids []execution.ID) (err error) {
	if len(ids) < 2 {
		return nil
	}
	if failed := t.c.Step(ctx, func(tx Tx) {
		for _, id := range ids {
			if tx.Locked(id) {
				t.p.Acted("repeats a whole batch because of a locked row", ids...)
				err = errLocked
			}
		}
	}); failed != nil {
		return failed
	}
	return err
}

// Claim implements store.Worker.
func (t *together) Claim(ctx context.Context, w store.WorkerKey, cs []store.Claim) ([]store.ClaimResult, error) {
	var ids []execution.ID
	for i := range cs {
		ids = append(ids, cs[i].Key.ID)
	}
	if err := t.refuseIfAnyLocked(ctx, ids); err != nil {
		return nil, err
	}
	return t.Store.Claim(ctx, w, cs)
}

// Finish implements store.Worker.
func (t *together) Finish(ctx context.Context, w store.WorkerKey, fs []store.Finish) ([]store.Outcome, error) {
	var ids []execution.ID
	for i := range fs {
		ids = append(ids, fs[i].Key.ID)
	}
	if err := t.refuseIfAnyLocked(ctx, ids); err != nil {
		return nil, err
	}
	return t.Store.Finish(ctx, w, fs)
}

// Reclaim implements store.Executor.
func (t *together) Reclaim(ctx context.Context, rs []store.Reclaim) ([]store.Outcome, error) {
	var ids []execution.ID
	for i := range rs {
		ids = append(ids, rs[i].Key.ID)
	}
	if err := t.refuseIfAnyLocked(ctx, ids); err != nil {
		return nil, err
	}
	return t.Store.Reclaim(ctx, rs)
}

// unanswered is a store whose callers get nothing beside an error: the answers about rows that are not
// locked are lost.
type unanswered struct {
	store.Store
	p Process
}

// Reclaim implements store.Executor.
func (u *unanswered) Reclaim(ctx context.Context, rs []store.Reclaim) ([]store.Outcome, error) {
	outcomes, err := u.Store.Reclaim(ctx, rs)
	if store.Retriable(err) && outcomes != nil {
		u.p.Acted("drops the answers that come beside an error")
		return nil, err
	}
	return outcomes, err
}

// dependent is a store whose heartbeats also write to the table of what has ended.
type dependent struct {
	store.Store
	p Process
	c Database
}

// Heartbeat implements store.Worker.
func (d *dependent) Heartbeat(ctx context.Context, b store.Beat) (store.BeatReply, error) {
	var locked bool
	if err := d.c.Step(ctx, func(tx Tx) { locked = tx.LockedTable("execution_record") }); err != nil {
		return store.BeatReply{}, err
	}
	if locked {
		d.p.Acted("does not renew a lease because a table of ended executions is locked")
		return store.BeatReply{}, errLocked
	}
	return d.Store.Heartbeat(ctx, b)
}
