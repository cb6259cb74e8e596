package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"handoff/core/store"
)

// The three answers to "was it applied?", and where each is decided:
//
//   - Before a statement was sent (no connection to be had, the deadline over while waiting for one),
//     and inside a transaction whose COMMIT was not sent: nothing was applied.
//   - The server wrote an error: it rolled back. Whether trying again can help is in its code.
//   - Anything else after a statement that commits by itself, or COMMIT, was sent: unknown. That
//     includes the server's own last words (severity FATAL): it may be ended between its commit and
//     its reply.
//
// pgconn.SafeToRetry is never asked. In the driver's present version it says yes to statements
// without arguments, COMMIT among them, that the server has executed and whose reply was lost.

// unavailable says that nothing was applied.
func unavailable(op string, err error) error {
	return fmt.Errorf("postgres: %s: %w: %w", op, store.ErrUnavailable, err)
}

// unknown says that nobody knows.
func unknown(op string, err error) error {
	return fmt.Errorf("postgres: %s: %w: %w", op, store.ErrUnknownOutcome, err)
}

// sent classifies the error of a statement that commits by itself, or of COMMIT. alive says that the
// connection has survived, which it does not when bytes were lost: the driver closes it.
func sent(op string, err error, alive bool) error {
	if err == nil {
		return nil
	}
	var refused *pgconn.PgError
	switch {
	case errors.As(err, &refused) && !final(refused):
		return answered(op, refused, err)
	case errors.Is(err, pgx.ErrTxCommitRollback):
		return unavailable(op, err)
	case alive && early(err):
		return unavailable(op, err)
	case alive && refused == nil:
		// An argument that the driver could not write, or a column that it could not read.
		return fmt.Errorf("postgres: %s: %w", op, err)
	}
	return unknown(op, err)
}

// early says that the deadline was over before a statement was sent: later, the driver would have
// closed the connection.
func early(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
}

// unsent classifies the error of a statement inside a transaction, before COMMIT.
func unsent(op string, err error, alive bool) error {
	var refused *pgconn.PgError
	switch {
	case errors.As(err, &refused) && !final(refused):
		return answered(op, refused, err)
	case alive && refused == nil && !early(err):
		return fmt.Errorf("postgres: %s: %w", op, err)
	}
	return unavailable(op, err)
}

// final says that the server ended the session with this message, with its transaction open or not.
// The one case in which it tells which: it only gives up on a session for being idle in a transaction
// while that transaction is open.
func final(e *pgconn.PgError) bool {
	return e.SeverityUnlocalized != "ERROR" && e.Code != "25P03"
}

// answered classifies an error that the server wrote before it rolled back.
func answered(op string, refused *pgconn.PgError, err error) error {
	if passing(refused.Code) {
		return unavailable(op, err)
	}
	return fmt.Errorf("postgres: %s: %w", op, err)
}

// readOnly is the SQLSTATE of a write that the server refuses because it is read-only.
const readOnly = "25006"

// passing says that the same statement may succeed later.
func passing(code string) bool {
	switch code {
	case readOnly, // a standby, or a primary that is being replaced
		"25P03", // idle in transaction for too long
		"55P03", // lock_timeout
		"57014", // statement_timeout, or cancelled by an operator
		"58030": // input or output error
		return true
	}
	for _, class := range []string{
		"08", // connection
		"40", // serialization failure, deadlock
		"53", // out of connections, memory, disk
		"57", // shutting down, starting up
	} {
		if strings.HasPrefix(code, class) {
			return true
		}
	}
	return false
}

// again says that the server rolled a statement back in favour of another one, so that it is worth
// sending it once more at once.
func again(err error) bool {
	var refused *pgconn.PgError
	return errors.As(err, &refused) && !final(refused) && (refused.Code == "40001" || refused.Code == "40P01")
}

// demoted says that the server refused to write, as a standby does and a primary that was demoted. Nothing was applied.
func demoted(err error) bool {
	var refused *pgconn.PgError
	return errors.As(err, &refused) && !final(refused) && refused.Code == readOnly
}

// attempts is how often a statement is sent that the server rolls back in favour of another one.
const attempts = 4

// attempt does something on a connection of the pool, and again if the server rolls it back in favour of another one, or
// is not the primary any more.
func (s *Store) attempt(ctx context.Context, op string, do func(ctx context.Context, conn *pgx.Conn) error) error {
	ctx, cancel := context.WithTimeout(ctx, s.options.StatementTimeout+s.options.ConnectTimeout)
	defer cancel()
	u, err := s.over(ctx, op, do)
	if u != nil && demoted(err) && s.pool.moved(ctx, u) {
		_, err = s.over(ctx, op, do)
	}
	return err
}

// over does something on one connection of the pool, whose usage it returns, nil if there was none to be had.
func (s *Store) over(ctx context.Context, op string, do func(ctx context.Context, conn *pgx.Conn) error) (*usage, error) {
	conn, err := s.pool.acquire(ctx)
	if err != nil {
		return nil, unavailable(op, err)
	}
	defer s.pool.release(conn)
	u := used(conn.Conn())
	for attempt := 1; ; attempt++ {
		err := do(ctx, conn.Conn())
		if attempt == attempts || !again(err) {
			return u, err
		}
	}
}

// query executes one statement, which commits by itself, and hands each row of its answer to scan. A
// scan must bear being given a row a second time.
func (s *Store) query(ctx context.Context, op string, scan func(pgx.Rows) error, sql string, args ...any) error {
	return s.attempt(ctx, op, func(ctx context.Context, conn *pgx.Conn) error {
		err := read(ctx, conn, scan, sql, args...)
		return sent(op, err, !conn.IsClosed())
	})
}

func read(ctx context.Context, conn queryer, scan func(pgx.Rows) error, sql string, args ...any) error {
	rows, err := conn.Query(ctx, sql, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	return each(scan)(rows)
}

// kept returns query for a statement whose plan is kept: with settings of plans.go, which are sent along.
func (s *Store) kept(settings string) queryFunc {
	return func(ctx context.Context, op string, scan func(pgx.Rows) error, sql string, args ...any) error {
		return s.attempt(ctx, op, func(ctx context.Context, conn *pgx.Conn) error {
			err := readUnder(ctx, conn, settings, scan, sql, args...)
			return sent(op, err, !conn.IsClosed())
		})
	}
}

// heartbeat sends the statements that queue queues in one go, and then reads their answers: one round trip,
// however many they are, or two on a connection that does not know them yet. They are one transaction, which
// commits behind the last. queue may be called again and must begin anew then: over a connection that turns out to be
// silent they are sent, and over another one once more. It uses the connections of heartbeats, and the others where no
// more of those can be made.
func (s *Store) heartbeat(ctx context.Context, op string, queue func(p *pgx.Batch)) error {
	ctx, cancel := context.WithTimeout(ctx, s.options.StatementTimeout+s.options.ConnectTimeout)
	defer cancel()
	on, moved := s.beats, false
	for attempt, began := 1, on.now(); ; {
		conn, err := on.Acquire(ctx)
		if err != nil {
			if on == s.pool || ctx.Err() != nil {
				return unavailable(op, err)
			}
			on = s.pool
			began = on.now()
			continue
		}
		ask := func(ctx context.Context) error {
			var p pgx.Batch
			queue(&p)
			return conn.Conn().SendBatch(ctx, &p).Close()
		}
		silent := false
		if used(conn.Conn()).made >= began {
			// It was there a moment ago. The statements have to be prepared over it, and on a slow path that takes longer
			// than connecting may: it would be thrown away for another one, again and again.
			err = ask(ctx)
		} else {
			silent, err = on.heard(ctx, conn.Conn(), ask)
		}
		err = sent(op, err, !conn.Conn().IsClosed())
		u := used(conn.Conn())
		on.release(conn)
		if silent && ctx.Err() == nil {
			continue
		}
		if !moved && demoted(err) && on.moved(ctx, u) {
			moved = true
			continue
		}
		if attempt == attempts || !again(err) {
			return err
		}
		attempt++
	}
}

// each hands each row of an answer to scan.
func each(scan func(pgx.Rows) error) func(pgx.Rows) error {
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

// transaction calls f in one short transaction. An error of f that is a verdict of the store's own
// rolls back and is returned as it is.
func (s *Store) transaction(ctx context.Context, op string, f func(tx pgx.Tx) error) error {
	return s.attempt(ctx, op, func(ctx context.Context, conn *pgx.Conn) error { return once(ctx, op, conn, f) })
}

func once(ctx context.Context, op string, conn *pgx.Conn, f func(tx pgx.Tx) error) error {
	tx, err := conn.Begin(ctx)
	if err != nil {
		return unsent(op, err, !conn.IsClosed())
	}
	if err := f(tx); err != nil {
		alive := !conn.IsClosed()
		_ = tx.Rollback(ctx) // the server rolls back what it never hears of again
		if errors.Is(err, store.ErrLost) || errors.Is(err, store.ErrSuperseded) {
			return err
		}
		return unsent(op, err, alive)
	}
	return sent(op, tx.Commit(ctx), !conn.IsClosed())
}
