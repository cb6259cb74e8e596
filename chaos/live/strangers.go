package live

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"handoff/chaos/fault"
	"handoff/chaos/history"
	"handoff/core/execution"
)

// openStrangerSession opens a session of a program other than the daemons, with a transaction that stays open
// until end is called.
func (w *world) openStrangerSession(isolation pgx.TxIsoLevel) (tx pgx.Tx, end func(), err error) {
	w.down.database.Lock() // waits while the server is down
	defer w.down.database.Unlock()
	ctx, cancel := w.serverContext()
	defer cancel()
	conn, err := pgx.Connect(ctx, w.db.URL)
	if err != nil {
		return nil, nil, fmt.Errorf("connecting to the database as a stranger: %w", err)
	}
	end = func() { _ = conn.Close(context.WithoutCancel(w.ctx)) } // which rolls back
	if tx, err = conn.BeginTx(ctx, pgx.TxOptions{IsoLevel: isolation}); err != nil {
		end()
		return nil, nil, fmt.Errorf("beginning a stranger's transaction: %w", err)
	}
	return tx, end, nil
}

// LockRows implements fault.Strangers.
func (w *world) LockRows(x *fault.Injection, most int) (locked int, free func(), err error) {
	tx, end, err := w.openStrangerSession(pgx.ReadCommitted)
	if err != nil {
		return 0, nil, err
	}
	ctx, cancel := w.serverContext()
	defer cancel()
	rows, err := tx.Query(ctx, `select id from execution_work where status in ('scheduled', 'running', 'canceling') order by id limit $1 for update skip locked`, most)
	if err != nil {
		end()
		return 0, nil, fmt.Errorf("locking rows as a stranger: %w", err)
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	if err != nil || len(ids) == 0 {
		end()
		return 0, nil, err
	}
	say := func(count int64) {
		for _, id := range ids {
			w.recordEvent(history.Event{Kind: history.RowLocked, Process: fault.Database, Execution: execution.ID(id), Count: count, Fault: x.Name})
		}
	}
	say(1)
	return len(ids), func() {
		end()
		say(0)
	}, nil
}

// LockTable implements fault.Strangers.
func (w *world) LockTable(x *fault.Injection, l fault.TableLock) (free func(), err error) {
	tx, end, err := w.openStrangerSession(pgx.ReadCommitted)
	if err != nil {
		return nil, err
	}
	ctx, cancel := w.serverContext()
	defer cancel()
	mode := "share"
	if l.Exclusive {
		mode = "access exclusive"
	}
	if _, err := tx.Exec(ctx, fmt.Sprintf("lock table %s in %s mode", pgx.Identifier{l.Table}.Sanitize(), mode)); err != nil {
		end()
		return nil, fmt.Errorf("locking table %s as a stranger: %w", l.Table, err)
	}
	x.Touch(fault.Touched{Process: fault.Database})
	return end, nil
}

// OpenTransaction implements fault.Strangers.
func (w *world) OpenTransaction(*fault.Injection) (end func(), err error) {
	tx, end, err := w.openStrangerSession(pgx.RepeatableRead)
	if err != nil {
		return nil, err
	}
	ctx, cancel := w.serverContext()
	defer cancel()
	if _, err := tx.Exec(ctx, "select pg_current_xact_id()"); err != nil {
		end()
		return nil, fmt.Errorf("writing as a stranger: %w", err)
	}
	return end, nil
}
