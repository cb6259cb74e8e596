package postgres

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/singleflight"

	"handoff/core/telemetry"
)

// pool extends the driver's pool: it detects connections that have fallen silent, or that lead to a server
// that is no longer the primary.
//
// A database node that dies behind a virtual address leaves every connection of a pool silent. No packet
// announces that the other end is gone, while new connections reach the next node. A call over a silent
// connection takes its whole deadline. There may be as many such calls as the pool has connections, which
// takes longer than a lease lasts.
//
// So the pool pings a connection that was idle. If it is silent for longer than PingTimeout, the pool makes a
// new connection alongside it. If that is ready before the answer comes, the pool discards all older
// connections. On a slow network the answer comes first, because a new connection takes several round trips.
// If no new connection can be made, it can only wait. A heartbeat may be sent twice, so it serves as its own
// ping. On a slow network, a ping before it would cost the lease another round trip.
//
// A demoted primary may keep its connections. It answers reads over them and refuses every write (25006),
// while new connections reach the next primary. After such a refusal, the pool makes a new connection and
// checks whether it can write. If so, it discards all older connections, and the write is repeated. If not,
// the database accepts no writes at present: the pool keeps its connections, and does not check again for a
// second.
type pool struct {
	*pgxpool.Pool
	ping time.Duration

	// suspectAt is the time at which a call last ended without an answer, in nanoseconds since born. A
	// connection that was last used before that is pinged first, however short it was idle.
	suspectAt atomic.Int64
	born      time.Time
	// readOnlyAt is when a probe last found that new connections are also read-only, in nanoseconds since
	// born.
	readOnlyAt atomic.Int64
	resets     atomic.Int64
	probes     singleflight.Group
	// mu keeps two callers that find the same problem from discarding connections that were made between
	// their calls.
	mu          sync.Mutex
	discardedAt int64
	dialing     *pgx.ConnConfig
}

// usage holds the times when a connection of the pool was made and last used, in nanoseconds since the pool
// was born.
type usage struct{ made, last int64 }

// usageKey is the key under which a connection keeps its usage.
const usageKey = "handoff.usage"

// maxIdleUnpinged is the longest idle time after which a connection is used without a ping.
const maxIdleUnpinged = time.Second

func newPool(ctx context.Context, config *pgxpool.Config, size int, o Options) (*pool, error) {
	config = config.Copy()
	config.MaxConns = int32(size) //nolint:gosec // the configuration bounds it
	p := &pool{ping: o.PingTimeout, born: time.Now(), dialing: config.ConnConfig.Copy()}
	p.readOnlyAt.Store(-int64(writableRecheck))
	config.AfterConnect = func(_ context.Context, conn *pgx.Conn) error {
		now := p.sinceBorn()
		conn.PgConn().CustomData()[usageKey] = &usage{made: now, last: now}
		return nil
	}
	// acquireLive pings, so the driver need not.
	config.ShouldPing = func(context.Context, pgxpool.ShouldPingParams) bool { return false }
	var err error
	p.Pool, err = pgxpool.NewWithConfig(ctx, config)
	return p, err
}

func (p *pool) sinceBorn() int64 { return int64(time.Since(p.born)) }

// acquireLive returns a connection that has answered recently.
func (p *pool) acquireLive(ctx context.Context) (*pgxpool.Conn, error) {
	for {
		conn, err := p.Acquire(ctx)
		if err != nil {
			return nil, err
		}
		u := usageOf(conn.Conn())
		if p.sinceBorn()-u.last <= int64(maxIdleUnpinged) && u.last > p.suspectAt.Load() {
			return conn, nil
		}
		if _, err := p.awaitAnswer(ctx, conn.Conn(), conn.Ping); err == nil && !conn.Conn().IsClosed() {
			return conn, nil
		}
		p.discardConn(conn)
		if err := ctx.Err(); err != nil {
			return nil, err
		}
	}
}

// releaseConn returns a connection to the pool. A connection that the driver has closed leaves the pool at
// once. The driver first says goodbye to the server, which takes 15 s if the server is gone. For that time
// the connection would keep its place in the pool.
func (p *pool) releaseConn(conn *pgxpool.Conn) {
	if conn.Conn().IsClosed() {
		p.suspectAt.Store(p.sinceBorn())
		p.discardConn(conn)
		return
	}
	usageOf(conn.Conn()).last = p.sinceBorn()
	conn.Release()
}

// discardConn removes a connection from the pool, and closes it if the driver has not.
func (*pool) discardConn(conn *pgxpool.Conn) {
	if c := conn.Hijack(); !c.IsClosed() {
		ctx, cancel := context.WithTimeout(context.Background(), maxIdleUnpinged)
		defer cancel()
		_ = c.Close(ctx)
	}
}

// awaitAnswer calls ask, which sends a request over a connection, and waits for the answer. If none comes for
// longer than PingTimeout, and a new connection is ready first, the connection is silent. awaitAnswer then
// closes it, and the outcome of ask is unknown.
func (p *pool) awaitAnswer(ctx context.Context, conn *pgx.Conn, ask func(ctx context.Context) error) (silent bool, err error) {
	ctx, giveUp := context.WithCancel(ctx)
	defer giveUp()
	answer := make(chan error, 1)
	go func() { answer <- ask(ctx) }()
	var patience <-chan time.Time
	if p.ping > 0 {
		timer := time.NewTimer(p.ping)
		defer timer.Stop()
		patience = timer.C
	}
	var fresh <-chan singleflight.Result
	for {
		select {
		case err := <-answer:
			return false, err
		case <-patience:
			fresh = p.probes.DoChan("", p.probeConnection)
		case made := <-fresh:
			if made.Err != nil {
				fresh = nil // new connections get no answer either, so keep waiting on this one
				continue
			}
			giveUp()
			err := <-answer
			if err != nil {
				p.discardAll(usageOf(conn))
			}
			return err != nil, err
		}
	}
}

// probeConnection opens a connection outside the pool, to check whether the server can be reached.
func (p *pool) probeConnection() (any, error) {
	// Only ConnectTimeout bounds it: other callers may wait for its result even if the first has given up.
	ctx := context.Background()
	conn, err := pgx.ConnectConfig(ctx, p.dialing.Copy())
	if err != nil {
		return nil, err
	}
	return nil, conn.Close(ctx)
}

// writableRecheck is the minimum interval between a probe connection that was read-only and the next probe.
const writableRecheck = time.Second

// moveToPrimary reports whether the server that refused to write is no longer the primary. If so, the pool
// connects to the new one from now on. u is the usage of the connection with the refusal.
func (p *pool) moveToPrimary(ctx context.Context, u *usage) bool {
	if p.isDiscarded(u) {
		return true
	}
	if p.sinceBorn()-p.readOnlyAt.Load() < int64(writableRecheck) {
		return false
	}
	select {
	case made := <-p.probes.DoChan("writable", p.probeWritable):
		if made.Err != nil || made.Val != true {
			return false
		}
	case <-ctx.Done():
		return false
	}
	p.discardAll(u)
	return true
}

// probeWritable opens a connection outside the pool, to check whether it can write.
func (p *pool) probeWritable() (any, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*p.dialing.ConnectTimeout) // independent of the first caller's context
	defer cancel()
	conn, err := pgx.ConnectConfig(ctx, p.dialing.Copy())
	if err != nil {
		p.readOnlyAt.Store(p.sinceBorn())
		return false, err
	}
	defer conn.Close(ctx) //nolint:errcheck // it was only queried
	readOnly := ""
	if err = conn.QueryRow(ctx, "show transaction_read_only", pgx.QueryExecModeSimpleProtocol).Scan(&readOnly); err != nil || readOnly != "off" {
		p.readOnlyAt.Store(p.sinceBorn())
	}
	return readOnly == "off", err
}

// isDiscarded reports whether a connection is older than the latest discard of all.
func (p *pool) isDiscarded(u *usage) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return u.made < p.discardedAt
}

// discardAll discards every connection, because one of them is useless while a new one works. Connections in
// use are closed when they are released.
func (p *pool) discardAll(u *usage) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if u.made < p.discardedAt {
		return // another caller with the same problem has already discarded it
	}
	p.discardedAt = p.sinceBorn()
	p.Reset()
	p.resets.Add(1)
}

func usageOf(conn *pgx.Conn) *usage {
	u, _ := conn.PgConn().CustomData()[usageKey].(*usage)
	return u
}

// currentUse returns the pool's current use.
func (p *pool) currentUse() telemetry.PoolUse {
	s := p.Stat()
	return telemetry.PoolUse{
		Most: int64(s.MaxConns()), InUse: int64(s.AcquiredConns()), Idle: int64(s.IdleConns()),
		Waits: s.EmptyAcquireCount(), Waited: s.EmptyAcquireWaitTime(), Resets: p.resets.Load(),
	}
}

// Use returns the current use of the store's two pools: the general one, and the one for heartbeats.
// Heartbeats have figures only if they have their own connections.
func (s *Store) Use() (all, heartbeats telemetry.PoolUse) {
	all = s.pool.currentUse()
	if s.beats != s.pool {
		heartbeats = s.beats.currentUse()
	}
	return all, heartbeats
}
