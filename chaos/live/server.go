package live

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"handoff/chaos/fault"
	"handoff/chaos/history"
	"handoff/chaos/live/evidence"
)

// This file has the faults of the live world's two servers.

// serverWithin bounds the requests to a server that begin or end a fault.
const serverWithin = 5 * time.Minute

func (w *world) within() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(w.ctx), serverWithin)
}

// takeDown closes every link to a server when it goes down. up opens them again. Call up only when
// the harness listens to the server again, or the history misses the events in between.
func (w *world) takeDown(server string) (up func() error) {
	each := func(f func(link)) {
		var all sync.WaitGroup
		for _, p := range w.all() {
			all.Go(func() { f(p.links[server]) })
		}
		all.Wait()
	}
	each(link.Down)
	return func() error {
		var mu sync.Mutex
		var first error
		each(func(l link) {
			if err := l.Up(); err != nil {
				mu.Lock()
				first = err
				mu.Unlock()
			}
		})
		return first
	}
}

// endServer ends a server and closes every link to it. The server goes first: this breaks the
// connections in the middle of their traffic. In a container the links go first: while the server
// has no address, toxiproxy waits for the connection that it is just making, and accepts no
// commands.
func (w *world) endServer(server string, end func() error) (up func() error, err error) {
	if w.environment.contained() {
		up = w.takeDown(server)
		return up, end()
	}
	err = end()
	return w.takeDown(server), err
}

// StopBroker implements fault.BrokerServer.
func (w *world) StopBroker(x *fault.Injection, kill bool) (func(), error) {
	mq := w.sandbox.servers.RabbitMQ
	x.Touch(fault.Touched{Process: fault.Broker})
	w.down.broker.Lock()
	down := time.Now()
	w.emit(history.Event{Kind: history.BrokerDown, Process: fault.Broker})
	stop := mq.Stop
	if kill {
		stop = mq.Kill
	}
	up, err := w.endServer(fault.Broker, stop)
	if err != nil {
		w.down.broker.Unlock()
		return nil, err
	}
	return func() {
		defer w.down.broker.Unlock()
		w.starting.Add(1)
		defer w.starting.Add(-1)
		ctx, cancel := w.within()
		defer cancel()
		if err := mq.Start(ctx); err != nil {
			x.Fail(fmt.Errorf("the broker did not come back: %w", err))
			return
		}
		x.Fail(w.trace(ctx))
		w.firehose.Deaf(evidence.Gap{From: down.Add(-evidence.Lag), To: time.Now(), Fault: x.Name})
		w.emit(history.Event{Kind: history.BrokerUp, Process: fault.Broker})
		x.Fail(up())
	}, nil
}

// StopDatabase implements fault.DatabaseServer.
func (w *world) StopDatabase(x *fault.Injection, kill bool) (func(), error) {
	pg := w.sandbox.servers.Postgres
	x.Touch(fault.Touched{Process: fault.Database})
	w.down.database.Lock()
	w.emit(history.Event{Kind: history.DatabaseDown, Process: fault.Database})
	stop := pg.Stop
	if kill {
		stop = pg.Kill
	}
	up, err := w.endServer(fault.Database, stop)
	if err != nil {
		w.down.database.Unlock()
		return nil, err
	}
	return func() {
		defer w.down.database.Unlock()
		w.starting.Add(1)
		defer w.starting.Add(-1)
		ctx, cancel := w.within()
		defer cancel()
		if err := pg.Start(ctx); err != nil {
			x.Fail(fmt.Errorf("the database did not come back: %w", err))
			return
		}
		w.emit(history.Event{Kind: history.DatabaseUp, Process: fault.Database})
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
			w.failed(fmt.Errorf("the database did not come back after the faults: %w", err))
		}
	}
	if !servers.RabbitMQ.Running() {
		if err := servers.RabbitMQ.Start(ctx); err != nil {
			w.failed(fmt.Errorf("the broker did not come back after the faults: %w", err))
		}
	}
}

// sql runs statements on the database itself, bypassing all links and their faults.
func (w *world) sql(statements ...string) error {
	w.down.database.Lock() // waits while the server is down
	defer w.down.database.Unlock()
	ctx, cancel := w.within()
	defer cancel()
	conn, err := pgx.Connect(ctx, w.db.URL)
	if err != nil {
		return fmt.Errorf("connecting to the database: %w", err)
	}
	defer func() { _ = conn.Close(ctx) }()
	for _, s := range append([]string{"set default_transaction_read_only = off"}, statements...) {
		if _, err := conn.Exec(ctx, s); err != nil {
			return fmt.Errorf("%s: %w", s, err)
		}
	}
	return nil
}

// bySQL begins a fault with one list of statements and ends it with another. It always touches
// something, because every worker soon writes a heartbeat.
func (w *world) bySQL(x *fault.Injection, begin, end []string) (func(), error) {
	if err := w.sql(begin...); err != nil {
		return nil, err
	}
	x.Touch(fault.Touched{Process: fault.Database})
	return func() { x.Fail(w.sql(end...)) }, nil
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
$$`, x.Uint64N(1_000_000), perMillion, literal(with.Message), literal(with.Code))
	begin, end := []string{draw}, []string{}
	for _, table := range []string{"execution_record", "execution_work", "worker_incarnation"} {
		begin = append(begin, fmt.Sprintf("create trigger chaos_refuses before insert or update on %s for each statement execute function chaos_refuse()", table))
		end = append(end, fmt.Sprintf("drop trigger chaos_refuses on %s", table))
	}
	return w.bySQL(x, begin, append(end, "drop function chaos_refuse", "drop sequence chaos_draws"))
}
