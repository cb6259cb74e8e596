package migrations

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Patience configures how a migration waits for the locks that it needs. A statement that waits for an ACCESS
// EXCLUSIVE lock blocks all later ones on the table, even reads: one long transaction would stop the whole
// system. So a migration waits briefly, lets other sessions continue, and retries.
type Patience struct {
	// Lock is the maximum time of each wait for a lock.
	Lock time.Duration
	// Tries bounds how often each migration is attempted. After the last try the error is a *Blocked.
	Tries int
	// Pause is the wait after the first try, in which the sessions behind it can continue. It doubles with
	// every try, up to LongestPause.
	Pause, LongestPause time.Duration
}

// DefaultPatience gives up after two minutes. Its wait is longer than deadlock_timeout (1 s), after which the
// server ends an autovacuum that holds the lock. It is shorter than any lease or statement timeout of the
// daemons that wait behind it.
var DefaultPatience = Patience{Lock: 2 * time.Second, Tries: 12, Pause: time.Second, LongestPause: 10 * time.Second}

// Holder is a session that keeps a migration from getting its lock.
type Holder struct {
	PID         int
	Application string
	User        string
	// State is its state in pg_stat_activity. Query is its present or last one, truncated to 200 characters.
	State, Query string
	// Age is the age of its transaction, in whole seconds.
	Age time.Duration
}

// Blocked is the error of a migration that did not get a lock. Nothing of it was applied.
type Blocked struct {
	Migration string
	Patience  Patience
	// Relation is the table or index of the lock; empty if it could not be determined.
	Relation string
	// Holders are the sessions that held it at the last try; none if they could not be determined, for the
	// reason Unseen.
	Holders []Holder
	Unseen  error
	Err     error
}

// Error names who holds the lock, and what to do.
func (b *Blocked) Error() string {
	var text strings.Builder
	on := "a lock"
	if b.Relation != "" {
		on = "a lock on " + b.Relation
	}
	fmt.Fprintf(&text, "migrations: %s was not applied: it tried %d times and waited up to %v each time for %s", b.Migration, b.Patience.Tries, b.Patience.Lock, on)
	switch {
	case len(b.Holders) > 0:
		text.WriteString(". Held by ")
		for i, h := range b.Holders {
			if i > 0 {
				text.WriteString("; by ")
			}
			fmt.Fprintf(&text, "process %d (application %q, user %q, %s, its transaction is %v old, query %q)", h.PID, h.Application, h.User, h.State, h.Age, h.Query)
		}
		fmt.Fprintf(&text, ". Wait until its transaction is over, or end it with select pg_terminate_backend(%d), then start again", b.Holders[0].PID)
	case b.Unseen != nil:
		fmt.Fprintf(&text, "; who holds it could not be seen: %v. Look at pg_locks and pg_stat_activity, and start again", b.Unseen)
	default:
		text.WriteString("; who held it was not seen. Look at pg_stat_activity for long transactions, and start again")
	}
	fmt.Fprintf(&text, " (%v)", b.Err)
	return text.String()
}

// Unwrap returns the server's error.
func (b *Blocked) Unwrap() error { return b.Err }

// retryOnLockTimeout repeats step while it runs into the lock timeout, at most p.Tries times. step is one
// transaction.
func (p Patience) retryOnLockTimeout(ctx context.Context, conn *pgx.Conn, name string, step func() error) error {
	if _, err := conn.Exec(ctx, fmt.Sprintf("set lock_timeout = %d", max(1, p.Lock.Milliseconds()))); err != nil {
		return fmt.Errorf("migrations: %s: %w", name, err)
	}
	w := &lockWatcher{conn: conn, every: max(p.Lock/4, 10*time.Millisecond)}
	defer w.close()
	pause := p.Pause
	for try := 1; ; try++ {
		// Migrations rarely wait, so the first try is not watched.
		stop := func() {}
		if try > 1 || p.Tries == 1 {
			stop = w.startWatching(ctx)
		}
		err := step()
		stop()
		var refused *pgconn.PgError
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("migrations: %s: %w", name, errors.Join(ctx.Err(), err))
		}
		if !errors.As(err, &refused) || refused.Code != "55P03" || conn.IsClosed() {
			return fmt.Errorf("migrations: %s: %w", name, err)
		}
		if try >= p.Tries {
			return &Blocked{Migration: name, Patience: p, Relation: w.relation, Holders: w.holders, Unseen: w.failed, Err: err}
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return fmt.Errorf("migrations: %s: %w", name, ctx.Err())
		}
		pause = min(2*pause, max(p.LongestPause, p.Pause))
	}
}

// lockWatcher queries, over a second connection, which sessions block the first. They can be determined only
// while it waits.
type lockWatcher struct {
	conn  *pgx.Conn
	every time.Duration
	// second is opened by the first watch. What follows belongs to the watching goroutine until stop has
	// returned.
	second   *pgx.Conn
	relation string
	holders  []Holder
	failed   error
}

const selectHolders = `
select coalesce((select l.relation::regclass::text from pg_locks l where l.pid = $1 and not l.granted limit 1), ''),
       a.pid, coalesce(a.application_name, ''), coalesce(a.usename, ''), coalesce(a.state, a.backend_type, ''), coalesce(left(a.query, 200), ''),
       coalesce(extract(epoch from clock_timestamp() - a.xact_start), 0)::bigint
  from (select distinct unnest(pg_blocking_pids($1)) as pid) b
  join pg_stat_activity a on a.pid = b.pid
 order by a.xact_start limit 5`

// startWatching polls the blocking sessions until the returned function is called, which waits for the last
// poll.
func (l *lockWatcher) startWatching(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var done sync.WaitGroup
	done.Go(func() {
		tick := time.NewTicker(l.every)
		defer tick.Stop()
		for {
			if err := l.readHolders(ctx); err != nil && ctx.Err() == nil {
				l.failed = err
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
		}
	})
	return func() {
		cancel()
		done.Wait()
	}
}

func (l *lockWatcher) readHolders(ctx context.Context) error {
	if l.second == nil || l.second.IsClosed() {
		second, err := pgx.ConnectConfig(ctx, l.conn.Config().Copy())
		if err != nil {
			return err
		}
		l.second = second
	}
	rows, err := l.second.Query(ctx, selectHolders, int32(l.conn.PgConn().PID())) //nolint:gosec // a process id of the server is an int4
	if err != nil {
		return err
	}
	var relation string
	var h Holder
	var age int64
	var seen []Holder
	_, err = pgx.ForEachRow(rows, []any{&relation, &h.PID, &h.Application, &h.User, &h.State, &h.Query, &age}, func() error {
		h.Age = time.Duration(age) * time.Second
		seen = append(seen, h)
		return nil
	})
	if err == nil && len(seen) > 0 {
		l.relation, l.holders, l.failed = relation, seen, nil
	}
	return err
}

func (l *lockWatcher) close() {
	if l.second != nil {
		_ = l.second.Close(context.Background()) // it only read
	}
}
