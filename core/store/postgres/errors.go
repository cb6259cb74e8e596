package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"handoff/core/store"
)

// There are three cases of whether a failed call was applied:
//
//   - Before a statement was sent (no connection available, or the deadline over while waiting for
//     one), and inside a transaction whose COMMIT was not sent: nothing was applied.
//   - The server wrote an error: it rolled back. The error's code shows whether a retry can
//     help.
//   - Any other failure after COMMIT, or after a statement that commits by itself, was sent:
//     unknown. That includes an error with which the server ends the session (severity FATAL): the
//     server may be stopped between its commit and its reply.
//
// pgconn.SafeToRetry is not used. In the driver's present version it returns true for statements without
// arguments, including COMMIT, that the server has executed and whose reply was lost.

// unavailableError returns the error of a call of which nothing was applied.
func unavailableError(op string, err error) error {
	return fmt.Errorf("postgres: %s: %w: %w", op, store.ErrUnavailable, err)
}

// unknownOutcomeError returns the error of a call whose outcome is unknown.
func unknownOutcomeError(op string, err error) error {
	return fmt.Errorf("postgres: %s: %w: %w", op, store.ErrUnknownOutcome, err)
}

// classifySent classifies the error of COMMIT, or of a statement that commits by itself. alive reports
// whether the connection has survived: the driver closes it if bytes were lost.
func classifySent(op string, err error, alive bool) error {
	if err == nil {
		return nil
	}
	var refused *pgconn.PgError
	switch {
	case errors.As(err, &refused) && !endsSession(refused):
		return classifyRefusal(op, refused, err)
	case errors.Is(err, pgx.ErrTxCommitRollback):
		return unavailableError(op, err)
	case alive && isContextError(err):
		return unavailableError(op, err)
	case alive && refused == nil:
		// The driver could not write an argument, or could not read a column.
		return fmt.Errorf("postgres: %s: %w", op, err)
	}
	return unknownOutcomeError(op, err)
}

// isContextError reports whether the call's context ended. If the connection is still open, that was before
// the statement was sent: otherwise the driver would have closed the connection.
func isContextError(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
}

// classifyUnsent classifies the error of a statement inside a transaction, before COMMIT.
func classifyUnsent(op string, err error, alive bool) error {
	var refused *pgconn.PgError
	switch {
	case errors.As(err, &refused) && !endsSession(refused):
		return classifyRefusal(op, refused, err)
	case alive && refused == nil && !isContextError(err):
		return fmt.Errorf("postgres: %s: %w", op, err)
	}
	return unavailableError(op, err)
}

// endsSession reports whether the server ended the session with this error, so that its transaction may have
// been committed. Code 25P03 is excluded: a session that is idle in a transaction has an open one.
func endsSession(e *pgconn.PgError) bool {
	return e.SeverityUnlocalized != "ERROR" && e.Code != "25P03"
}

// classifyRefusal classifies an error with which the server rolled back.
func classifyRefusal(op string, refused *pgconn.PgError, err error) error {
	if isTransientCode(refused.Code) {
		return unavailableError(op, err)
	}
	return fmt.Errorf("postgres: %s: %w", op, err)
}

// readOnly is the SQLSTATE of a write that the server refuses because it is read-only.
const readOnly = "25006"

// lockTimeout is the SQLSTATE of a statement that has waited for a lock for lock_timeout.
const lockTimeout = "55P03"

// refusedWith reports whether the server rolled a statement back with one of these codes.
func refusedWith(err error, codes ...string) bool {
	refused, ok := errors.AsType[*pgconn.PgError](err)
	return ok && !endsSession(refused) && slices.Contains(codes, refused.Code)
}

// waitedForLock reports whether the server rolled a statement back because it did not get a lock in time.
func waitedForLock(err error) bool { return refusedWith(err, lockTimeout) }

// isTransientCode reports whether the same statement may succeed later.
func isTransientCode(code string) bool {
	switch code {
	case readOnly, // a standby, or a primary that is being replaced
		"25P03", // idle in transaction for too long
		lockTimeout,
		"57014", // statement_timeout, or cancelled by an operator
		"58030": // input or output error
		return true
	}
	switch code[:min(2, len(code))] {
	case "08", // connection
		"40", // serialization failure, deadlock
		"53", // out of connections, memory, disk
		"57": // shutting down, starting up
		return true
	}
	return false
}

// isConflict reports whether the server rolled a statement back in favour of another one, so that it should
// be resent at once.
func isConflict(err error) bool { return refusedWith(err, "40001", "40P01") }

// isReadOnlyRefusal reports whether the server refused to write, as a standby or a demoted primary does.
// Nothing was applied.
func isReadOnlyRefusal(err error) bool { return refusedWith(err, readOnly) }

// attempts bounds how often a statement is sent if the server rolls it back in favour of another one.
const attempts = 4

// runWithRetries calls do with a connection of the pool. It repeats the call if the server rolls back in
// favour of another statement, or is no longer the primary.
func (s *Store) runWithRetries(ctx context.Context, op string, do func(ctx context.Context, conn *pgx.Conn) error) error {
	ctx, cancel := context.WithTimeout(ctx, s.options.StatementTimeout+s.options.ConnectTimeout)
	defer cancel()
	u, err := s.runOnConnection(ctx, op, do)
	if u != nil && isReadOnlyRefusal(err) && s.pool.moveToPrimary(ctx, u) {
		_, err = s.runOnConnection(ctx, op, do)
	}
	return err
}

// runOnConnection calls do with one connection of the pool and returns the connection's usage; nil if there
// was no connection.
func (s *Store) runOnConnection(ctx context.Context, op string, do func(ctx context.Context, conn *pgx.Conn) error) (*usage, error) {
	conn, err := s.pool.acquireLive(ctx)
	if err != nil {
		return nil, unavailableError(op, err)
	}
	defer s.pool.releaseConn(conn)
	u := usageOf(conn.Conn())
	for attempt := 1; ; attempt++ {
		err := do(ctx, conn.Conn())
		if attempt == attempts || !isConflict(err) {
			return u, err
		}
	}
}

// query executes one statement, which commits by itself, and passes each row of its answer to scan.
// scan may get a row a second time.
func (s *Store) query(ctx context.Context, op string, scan func(pgx.Rows) error, sql string, args ...any) error {
	return s.runWithRetries(ctx, op, func(ctx context.Context, conn *pgx.Conn) error {
		var err error
		if hasRowLockTimeout(ctx) {
			err = readWithSettings(ctx, conn, `select `+s.rowLockSetting(), scan, sql, args...)
		} else {
			err = readRows(ctx, conn, scan, sql, args...)
		}
		return classifySent(op, err, !conn.IsClosed())
	})
}

func readRows(ctx context.Context, conn queryer, scan func(pgx.Rows) error, sql string, args ...any) error {
	rows, err := conn.Query(ctx, sql, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	return forEachRow(scan)(rows)
}

// keptPlanQuery returns a query function for statements whose plan is kept: it sends settings from plans.go
// alongside each statement.
func (s *Store) keptPlanQuery(settings string) queryFunc {
	return func(ctx context.Context, op string, scan func(pgx.Rows) error, sql string, args ...any) error {
		settings := settings
		if hasRowLockTimeout(ctx) {
			settings += ", " + s.rowLockSetting()
		}
		return s.runWithRetries(ctx, op, func(ctx context.Context, conn *pgx.Conn) error {
			err := readWithSettings(ctx, conn, settings, scan, sql, args...)
			return classifySent(op, err, !conn.IsClosed())
		})
	}
}

// sendHeartbeat sends the statements that queue adds to a batch, and then reads their answers. That takes one
// round trip, or two on a connection that has not prepared them yet. They are one transaction, which commits
// after the last. sendHeartbeat may call queue a second time, which then must start over: if a connection
// turns out to be silent, the statements are resent over another one. It uses the connections for heartbeats,
// and the others if no more of those can be made.
func (s *Store) sendHeartbeat(ctx context.Context, op string, queue func(p *pgx.Batch)) error {
	ctx, cancel := context.WithTimeout(ctx, s.options.StatementTimeout+s.options.ConnectTimeout)
	defer cancel()
	on, moved := s.beats, false
	for attempt, began := 1, on.sinceBorn(); ; {
		conn, err := on.Acquire(ctx)
		if err != nil {
			if on == s.pool || ctx.Err() != nil {
				return unavailableError(op, err)
			}
			on = s.pool
			began = on.sinceBorn()
			continue
		}
		ask := func(ctx context.Context) error {
			var p pgx.Batch
			queue(&p)
			return conn.Conn().SendBatch(ctx, &p).Close()
		}
		silent := false
		if usageOf(conn.Conn()).made >= began {
			// The connection is new. The statements must be prepared on it first, which on a slow network may
			// take longer than connecting. awaitAnswer would then replace it with a new one, over and over.
			err = ask(ctx)
		} else {
			silent, err = on.awaitAnswer(ctx, conn.Conn(), ask)
		}
		err = classifySent(op, err, !conn.Conn().IsClosed())
		u := usageOf(conn.Conn())
		on.releaseConn(conn)
		if silent && ctx.Err() == nil {
			continue
		}
		if !moved && isReadOnlyRefusal(err) && on.moveToPrimary(ctx, u) {
			moved = true
			continue
		}
		if attempt == attempts || !isConflict(err) {
			return err
		}
		attempt++
	}
}

// forEachRow passes each row of an answer to scan.
func forEachRow(scan func(pgx.Rows) error) func(pgx.Rows) error {
	return func(rows pgx.Rows) error {
		for rows.Next() {
			if err := scan(rows); err != nil {
				return err
			}
		}
		return rows.Err()
	}
}

type queryer interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// runTransaction calls f in one short transaction. If f returns an error of the store itself, the
// transaction rolls back and returns that error unchanged.
func (s *Store) runTransaction(ctx context.Context, op string, f func(tx pgx.Tx) error) error {
	if hasRowLockTimeout(ctx) {
		call := f
		f = func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, "select "+s.rowLockSetting()); err != nil {
				return err
			}
			return call(tx)
		}
	}
	return s.runWithRetries(ctx, op, func(ctx context.Context, conn *pgx.Conn) error { return runTransactionOnce(ctx, op, conn, f) })
}

func runTransactionOnce(ctx context.Context, op string, conn *pgx.Conn, f func(tx pgx.Tx) error) error {
	tx, err := conn.Begin(ctx)
	if err != nil {
		return classifyUnsent(op, err, !conn.IsClosed())
	}
	if err := f(tx); err != nil {
		alive := !conn.IsClosed()
		_ = tx.Rollback(ctx) // the server rolls back a transaction whose connection is gone
		if errors.Is(err, store.ErrLost) || errors.Is(err, store.ErrSuperseded) {
			return err
		}
		return classifyUnsent(op, err, alive)
	}
	return classifySent(op, tx.Commit(ctx), !conn.IsClosed())
}

// rowLockKey is the key of a context whose statements wait for a lock for at most RowLockTimeout.
type rowLockKey struct{}

func withRowLockTimeout(ctx context.Context) context.Context {
	return context.WithValue(ctx, rowLockKey{}, true)
}

func hasRowLockTimeout(ctx context.Context) bool { return ctx.Value(rowLockKey{}) != nil }

// rowLockSetting returns the expression that sets the lock timeout.
func (s *Store) rowLockSetting() string {
	return "set_config('lock_timeout', '" + formatMilliseconds(s.options.RowLockTimeout) + "', true)"
}
