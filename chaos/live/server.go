package live

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"handoff/chaos/fault"
	"handoff/chaos/history"
	"handoff/chaos/live/evidence"
)

// This file holds the faults that affect the live world's two servers.

// serverWithin limits requests to a server that begin or end a fault.
const serverWithin = 5 * time.Minute

func (w *world) serverContext() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(w.ctx), serverWithin)
}

// takeDown closes every link to a server; up reopens them. Call up only when the harness listens to the
// server again, or the history misses events.
func (w *world) takeDown(server string) (up func() error) {
	processes := w.allProcesses()
	each := func(f func(link) error) error {
		errs := make([]error, len(processes))
		var all sync.WaitGroup
		for i, p := range processes {
			all.Go(func() { errs[i] = f(p.links[server]) })
		}
		all.Wait()
		return errors.Join(errs...)
	}
	_ = each(func(l link) error { l.Down(); return nil })
	return func() error { return each(link.Up) }
}

// endServer ends a server and closes every link to it. The server ends first, which breaks connections during
// their traffic. In a container, the links close first: while the server has no address, toxiproxy waits for
// a connection that it is making, and accepts no commands.
func (w *world) endServer(server string, end func() error) (up func() error, err error) {
	if w.environment.isContained() {
		up = w.takeDown(server)
		return up, end()
	}
	err = end()
	return w.takeDown(server), err
}

// StopBroker implements fault.BrokerServer.
func (w *world) StopBroker(x *fault.Injection, kill bool) (func(), error) {
	s := stoppableServer{fault.Broker, w.sandbox.servers.RabbitMQ, &w.down.broker, history.BrokerDown, history.BrokerUp}
	return w.stopServer(x, s, kill, func(ctx context.Context, down time.Time) {
		x.Fail(w.startTrace(ctx))
		w.firehose.Deaf(evidence.Gap{From: down.Add(-evidence.Lag), To: time.Now(), Fault: x.Name})
	})
}

// StopDatabase implements fault.DatabaseServer.
func (w *world) StopDatabase(x *fault.Injection, kill bool) (func(), error) {
	s := stoppableServer{fault.Database, w.sandbox.servers.Postgres, &w.down.database, history.DatabaseDown, history.DatabaseUp}
	return w.stopServer(x, s, kill, func(context.Context, time.Time) {})
}

// stoppableServer is a server that faults can stop and restart.
type stoppableServer struct {
	name   string
	server interface {
		Start(ctx context.Context) error
		Stop() error
		Kill() error
	}
	// lock is held while the server is down.
	lock     *sync.Mutex
	down, up history.Kind
}

// stopServer ends a server. start restarts it, and calls restarted before it reopens the links.
func (w *world) stopServer(x *fault.Injection, s stoppableServer, kill bool, restarted func(ctx context.Context, down time.Time)) (start func(), err error) {
	x.Touch(fault.Touched{Process: s.name})
	s.lock.Lock()
	down := time.Now()
	w.recordEvent(history.Event{Kind: s.down, Process: s.name})
	stop := s.server.Stop
	if kill {
		stop = s.server.Kill
	}
	up, err := w.endServer(s.name, stop)
	if err != nil {
		s.lock.Unlock()
		return nil, err
	}
	return func() {
		defer s.lock.Unlock()
		w.starting.Add(1)
		defer w.starting.Add(-1)
		ctx, cancel := w.serverContext()
		defer cancel()
		if err := s.server.Start(ctx); err != nil {
			x.Fail(fmt.Errorf("the %s did not restart: %w", s.name, err))
			return
		}
		restarted(ctx, down)
		w.recordEvent(history.Event{Kind: s.up, Process: s.name})
		x.Fail(up())
	}, nil
}

// serversUp starts the servers that a fault has left down.
func (w *world) serversUp() {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(w.ctx), time.Minute)
	defer cancel()
	servers := w.sandbox.servers
	if !servers.Postgres.Running() {
		if err := servers.Postgres.Start(ctx); err != nil {
			w.failHarness(fmt.Errorf("the database did not restart after the faults: %w", err))
		}
	}
	if !servers.RabbitMQ.Running() {
		if err := servers.RabbitMQ.Start(ctx); err != nil {
			w.failHarness(fmt.Errorf("the broker did not restart after the faults: %w", err))
		}
	}
}

// onDatabase runs f on a new connection, past all links and their faults. It waits while the server is down.
func (w *world) onDatabase(f func(context.Context, *pgx.Conn) error) error {
	w.down.database.Lock()
	defer w.down.database.Unlock()
	ctx, cancel := w.serverContext()
	defer cancel()
	return withConnection(ctx, w.db.URL, f)
}

// withConnection runs f on a new connection to a database.
func withConnection(ctx context.Context, url string, f func(context.Context, *pgx.Conn) error) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return fmt.Errorf("connecting to the database: %w", err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	return f(ctx, conn)
}

// executeAll runs statements in order, and stops at the first error.
func executeAll(ctx context.Context, conn *pgx.Conn, statements ...string) error {
	for _, s := range statements {
		if _, err := conn.Exec(ctx, s); err != nil {
			return fmt.Errorf("%s: %w", s, err)
		}
	}
	return nil
}

// execSQL runs statements on the database, bypassing all links and their faults.
func (w *world) execSQL(statements ...string) error {
	return w.onDatabase(func(ctx context.Context, conn *pgx.Conn) error {
		return executeAll(ctx, conn, append([]string{"set default_transaction_read_only = off"}, statements...)...)
	})
}

// bySQL begins a fault with one list of statements, and returns a function that ends it with another. It
// always counts as touched, because every worker soon writes a heartbeat.
func (w *world) bySQL(x *fault.Injection, begin, end []string) (func(), error) {
	if err := w.execSQL(begin...); err != nil {
		return nil, err
	}
	x.Touch(fault.Touched{Process: fault.Database})
	return func() { x.Fail(w.execSQL(end...)) }, nil
}

// RefuseWrites implements fault.DatabaseReadOnly.
func (w *world) RefuseWrites(x *fault.Injection) (func(), error) {
	return w.bySQL(x,
		[]string{"alter system set default_transaction_read_only = on", "select pg_reload_conf()"},
		[]string{"alter system reset default_transaction_read_only", "select pg_reload_conf()"})
}

// FailWrites implements fault.DatabaseFailures. A trigger refuses a share of the writing
// statements. Its draws depend on the seed and the statement's number.
func (w *world) FailWrites(x *fault.Injection, perMillion uint64, with fault.WriteFailure) (func(), error) {
	draw := fmt.Sprintf(`
create sequence chaos_draws;
create function chaos_refuse() returns trigger language plpgsql as $$
begin
    if (hashint8(nextval('chaos_draws') + %d)::bigint & 2147483647) %% 1000000 < %d then
        raise exception %s using errcode = %s;
    end if;
    return null;
end
$$`, x.Uint64N(1_000_000), perMillion, quoteLiteral(with.Message), quoteLiteral(with.Code))
	begin, end := []string{draw}, []string{}
	for _, table := range []string{"execution_record", "execution_work", "worker_incarnation"} {
		begin = append(begin, fmt.Sprintf("create trigger chaos_refuses before insert or update on %s for each statement execute function chaos_refuse()", table))
		end = append(end, fmt.Sprintf("drop trigger chaos_refuses on %s", table))
	}
	return w.bySQL(x, begin, append(end, "drop function chaos_refuse", "drop sequence chaos_draws"))
}
