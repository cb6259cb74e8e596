package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"handoff/core/execution"
	"handoff/core/store"
	"handoff/migrations"
)

// Options configures a Store. Daemons use the zero value.
type Options struct {
	// MaxConns bounds the pool; 0 means 16. More connections do not help; larger batches do.
	MaxConns int
	// HeartbeatConns bounds a separate pool for heartbeats, so that no other call keeps a lease
	// from being renewed. With 0, heartbeats use the common pool.
	HeartbeatConns int
	// PingTimeout is how long an idle connection may take to answer before the store tries a new one
	// alongside it. If the new one answers first, all older connections are discarded (see pool.go). 0 waits
	// for as long as the call may take.
	PingTimeout time.Duration
	// ConnectTimeout bounds one attempt to connect; 0 means 5 s.
	ConnectTimeout time.Duration
	// StatementTimeout is how long the server may work on a statement; 0 means 10 s. A call's own
	// deadline applies, too.
	StatementTimeout time.Duration
	// LockTimeout is how long a statement waits for a lock; 0 means half of StatementTimeout. It must be well
	// below the deadlines of calls: a statement that waited for longer is repeated row by row. Heartbeats on
	// separate connections wait for half of StatementTimeout.
	LockTimeout time.Duration
	// RowLockTimeout bounds the wait of a statement for a lock after its batch has already waited. It also
	// bounds the waits of a heartbeat after it has renewed the lease. 0 means 20 ms.
	RowLockTimeout time.Duration
	// IdleInTransactionTimeout ends a transaction, with its locks, whose client has fallen silent;
	// 0 means 5 s.
	IdleInTransactionTimeout time.Duration
	// Migrate brings the schema up to date before the store is used.
	Migrate bool

	// BatchRows and BatchWait bound a batch of simultaneous calls: its rows (0 means 500), and how
	// long it waits for more calls (0 means a millisecond).
	BatchRows int
	BatchWait time.Duration
	// BatchPatience is how long a batch waits for its predecessor to return; 0 means 25 ms, a few
	// times the duration of a statement.
	BatchPatience time.Duration

	// Now replaces the database's clock if it returns true. It is for tests; nil in production.
	Now func() (time.Time, bool)

	// NoBounds makes every walk begin at the head of its index (see bounds.go). It is for tests that restore
	// an earlier state of the database.
	NoBounds bool
	// SlowWalk is the time in the database above which a walk from the head of the waiting or held rows is
	// slow. After a slow one, walks begin at bounds until the next walk from the head. 0 means 3 ms, several
	// times the duration if nothing precedes the first row. Every 200 lanes add as much.
	SlowWalk time.Duration

	// Tracer is called before and after every statement, and for connections and batches if it
	// implements pgx.ConnectTracer and pgx.BatchTracer as well; nil for none. A statement is sent
	// when the tracer returns, so a slow tracer slows the store.
	Tracer pgx.QueryTracer
}

func (o Options) withDefaults() Options {
	o.MaxConns = cmp.Or(o.MaxConns, 16)
	o.ConnectTimeout = cmp.Or(o.ConnectTimeout, 5*time.Second)
	o.StatementTimeout = cmp.Or(o.StatementTimeout, 10*time.Second)
	o.LockTimeout = cmp.Or(o.LockTimeout, o.StatementTimeout/2)
	o.SlowWalk = cmp.Or(o.SlowWalk, 3*time.Millisecond)
	o.RowLockTimeout = cmp.Or(o.RowLockTimeout, 20*time.Millisecond)
	o.IdleInTransactionTimeout = cmp.Or(o.IdleInTransactionTimeout, 5*time.Second)
	o.BatchRows = cmp.Or(o.BatchRows, 500)
	o.BatchWait = cmp.Or(o.BatchWait, time.Millisecond)
	o.BatchPatience = cmp.Or(o.BatchPatience, 25*time.Millisecond)
	return o
}

// inFlight bounds the batches of one kind that may be under way at a time. Additional ones help when the
// first waits for a lock. Even more would only compete for the same pages.
const inFlight = 4

// Store implements store.Store on a pool of connections. It is safe for concurrent use.
type Store struct {
	pool *pool
	// beats is the pool of heartbeats. It is the same as pool if they have none of their own.
	beats   *pool
	options Options

	waiting queueBounds
	holding heldBounds
	beating beatBounds
	// virtual is the latest time that options.Now has returned.
	virtual atomic.Pointer[time.Time]

	executions *batcher[execution.ID, *execution.Execution]
	creates    *batcher[store.NewExecution, store.Created]
	claims     *batcher[claimItem, claimAnswer]
	finishes   *batcher[finishItem, store.Outcome]
}

var _ store.Store = (*Store)(nil)

// Open connects to a database and, if the options ask for it, migrates it. The error is store.Retriable
// if the database can't be reached, has no connection to spare, or is to be migrated and can't be
// written at present.
func Open(ctx context.Context, url string, options Options) (*Store, error) {
	options = options.withDefaults()
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("postgres: %w", err)
	}
	configureConnections(config, options)
	if options.Migrate {
		if err := migrateSchema(ctx, config.ConnConfig); err != nil {
			return nil, err
		}
	}
	all, err := newPool(ctx, config, options.MaxConns, options)
	if err != nil {
		return nil, fmt.Errorf("postgres: %w", err)
	}
	s := &Store{pool: all, beats: all, options: options}
	if options.HeartbeatConns > 0 {
		config := config.Copy()
		config.ConnConfig.RuntimeParams["lock_timeout"] = formatMilliseconds(options.StatementTimeout / 2)
		if s.beats, err = newPool(ctx, config, options.HeartbeatConns, options); err != nil {
			all.Close()
			return nil, fmt.Errorf("postgres: %w", err)
		}
	}
	s.beating.off = options.NoBounds
	s.executions = newBatcher(options, s.readExecutions)
	s.creates = newBatcher(options, s.createEach)
	s.claims = newBatcher(options, s.claimEach)
	s.finishes = newBatcher(options, s.finishEach)
	if err := s.query(ctx, "connecting", func(pgx.Rows) error { return nil }, "select 1 where $1", true); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// ErrNoSchema means that the database lacks migrations that this program needs.
var ErrNoSchema = errors.New("the database's schema is behind this program; an executor brings it up to date when it starts, if database.migrate is true, and so does `executor migrate up`")

// SchemaReady returns ErrNoSchema while the database lacks a migration that this program knows. It returns a
// *migrations.Skew if a newer program has migrated the database so that this one can't work with it. A
// program that does not migrate calls it before its first step. Later, a newer program may migrate the
// database at any time.
func (s *Store) SchemaReady(ctx context.Context) error {
	_, _, err := s.Schema(ctx)
	return err
}

// Schema does the same as SchemaReady, and also returns the latest version that this program knows, and the
// database's version. The latter is greater if a newer program has migrated the database in a way that this
// program can work with.
func (s *Store) Schema(ctx context.Context) (latest, applied int64, err error) {
	if latest, err = migrations.Latest(); err != nil {
		return 0, 0, fmt.Errorf("postgres: %w", err)
	}
	const op = "reading the version of the schema"
	exists := false
	err = s.query(ctx, op, func(rows pgx.Rows) error { return rows.Scan(&exists) },
		"select to_regclass($1) is not null", "schema_version")
	if err != nil {
		return 0, 0, err
	}
	var have, needs int64
	var said bool
	if exists {
		err = s.query(ctx, op, func(rows pgx.Rows) error { return rows.Scan(&have, &applied, &needs, &said) }, migrations.SelectVersions, latest)
	}
	switch {
	case err != nil:
		return 0, 0, err
	case have < latest:
		return latest, applied, fmt.Errorf("%w (it is at version %d, this program needs %d)", ErrNoSchema, applied, latest)
	}
	return latest, applied, migrations.Fits(latest, applied, needs, said)
}

// Close waits for the calls under way and ends all connections.
func (s *Store) Close() {
	s.pool.Close()
	if s.beats != s.pool {
		s.beats.Close()
	}
}

// configureConnections sets the parameters of every connection of the store.
func configureConnections(config *pgxpool.Config, o Options) {
	config.ConnConfig.ConnectTimeout = o.ConnectTimeout
	if o.Tracer != nil {
		config.ConnConfig.Tracer = o.Tracer
	}
	set := config.ConnConfig.RuntimeParams
	if set["application_name"] == "" {
		set["application_name"] = "handoff"
	}
	set["statement_timeout"] = formatMilliseconds(o.StatementTimeout)
	set["lock_timeout"] = formatMilliseconds(o.LockTimeout)
	set["idle_in_transaction_session_timeout"] = formatMilliseconds(o.IdleInTransactionTimeout)
	// If its client is gone, a statement ends early, instead of holding its locks until it has finished.
	set["client_connection_check_interval"] = "1000"
	// The statements are written for this isolation, whatever the server's default.
	set["default_transaction_isolation"] = "read committed"
	// A statement uses one processor, so that a list leaves the others to the scheduler.
	set["max_parallel_workers_per_gather"] = "0"
	// See "Plans" in the package comment.
	for _, off := range []string{"enable_seqscan", "enable_bitmapscan", "enable_hashjoin", "enable_mergejoin", "jit"} {
		set[off] = "off"
	}
	set["plan_cache_mode"] = "force_custom_plan"
}

func formatMilliseconds(d time.Duration) string {
	return strconv.FormatInt(max(1, d.Milliseconds()), 10)
}

func migrateSchema(ctx context.Context, config *pgx.ConnConfig) error {
	conn, err := pgx.ConnectConfig(ctx, config.Copy())
	if err != nil {
		return unavailableError("connecting", err)
	}
	defer conn.Close(context.WithoutCancel(ctx)) //nolint:errcheck // what it did is committed or not, whatever closing returns
	// Each migration is applied completely or not at all, and the next attempt checks which. So a caller with
	// an unknown outcome simply retries.
	return classifySent("migrating", migrations.Up(ctx, conn), !conn.IsClosed())
}

// clockOverride returns the parameter with which a test moves the database's clock; null in production.
func (s *Store) clockOverride() *time.Time {
	if s.options.Now != nil {
		if t, ok := s.options.Now(); ok {
			s.noteClockOverride(t)
			return &t
		}
	}
	return nil
}
