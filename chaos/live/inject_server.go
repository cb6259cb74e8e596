package live

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	amqp "github.com/rabbitmq/amqp091-go"

	"handoff/chaos/history"
	"handoff/chaos/live/evidence"
	"handoff/chaos/netproxy"
	"handoff/chaos/scenario"
	"handoff/core/broker"
)

// serverWithin bounds what is asked of a server to bring a fault about, or to end it.
const serverWithin = 2 * time.Minute

func (w *world) within() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(w.ctx), serverWithin)
}

// takeDown closes every way to a server, in the moment in which it goes down, and returns what opens them:
// not before the harness listens again, because what a server does in the meantime nobody would see.
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

// endServer ends a server and closes every way to it. The server goes first: it breaks the connections in the middle
// of whatever they carry. Where it is in a container the ways go first: while the server has no address any more,
// toxiproxy waits for the connection that it is just making, and takes no orders.
func (w *world) endServer(server string, end func() error) (up func() error, err error) {
	if w.environment.contained() {
		up = w.takeDown(server)
		return up, end()
	}
	err = end()
	return w.takeDown(server), err
}

func injectBrokerDown(x *injection) (func(), error) {
	w, mq := x.w, x.w.sandbox.servers.RabbitMQ
	x.touch()
	w.down.broker.Lock()
	down := time.Now()
	w.emit(history.Event{Kind: history.BrokerDown, Process: scenario.Broker})
	stop := mq.Stop
	if x.fault.Kind == scenario.BrokerKill {
		stop = mq.Kill
	}
	up, err := w.endServer(scenario.Broker, stop)
	if err != nil {
		w.down.broker.Unlock()
		return nil, err
	}
	return func() {
		defer w.down.broker.Unlock()
		ctx, cancel := w.within()
		defer cancel()
		if err := mq.Start(ctx); err != nil {
			w.fail("the broker did not come back: " + err.Error())
			return
		}
		if err := w.trace(ctx); err != nil {
			w.fail(err.Error())
		}
		w.firehose.Deaf(evidence.Gap{From: down.Add(-evidence.Lag), To: time.Now(), Fault: x.fault.Name})
		w.emit(history.Event{Kind: history.BrokerUp, Process: scenario.Broker})
		if err := up(); err != nil {
			w.fail(err.Error())
		}
	}, nil
}

func injectDatabaseDown(x *injection) (func(), error) {
	w, pg := x.w, x.w.sandbox.servers.Postgres
	x.touch()
	w.down.database.Lock()
	w.emit(history.Event{Kind: history.DatabaseDown, Process: scenario.Database})
	stop := pg.Stop
	if x.fault.Kind == scenario.DatabaseKill {
		stop = pg.Kill
	}
	up, err := w.endServer(scenario.Database, stop)
	if err != nil {
		w.down.database.Unlock()
		return nil, err
	}
	return func() {
		defer w.down.database.Unlock()
		ctx, cancel := w.within()
		defer cancel()
		if err := pg.Start(ctx); err != nil {
			w.fail("the database did not come back: " + err.Error())
			return
		}
		w.emit(history.Event{Kind: history.DatabaseUp, Process: scenario.Database})
		if err := up(); err != nil {
			w.fail(err.Error())
		}
	}, nil
}

// sql runs statements on the database itself, past every link and every fault that it is in.
func (w *world) sql(statements ...string) error {
	w.down.database.Lock() // a server that is down is waited for
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

// bySQL is a fault that one set of statements begins and another ends.
func (x *injection) bySQL(begin, end []string) (func(), error) {
	if err := x.w.sql(begin...); err != nil {
		return nil, err
	}
	x.touch() // every worker writes a heartbeat before long
	return func() {
		if err := x.w.sql(end...); err != nil {
			x.w.fail(err.Error())
		}
	}, nil
}

func injectReadOnly(x *injection) (func(), error) {
	return x.bySQL(
		[]string{"alter system set default_transaction_read_only = on", "select pg_reload_conf()"},
		[]string{"alter system reset default_transaction_read_only", "select pg_reload_conf()"})
}

// injectSerialization has a trigger refuse a share of the writing statements. What it draws follows from the
// seed and the statement's number.
func injectSerialization(x *injection) (func(), error) {
	draw := fmt.Sprintf(`
create sequence chaos_draws;
create function chaos_refuse() returns trigger language plpgsql as $$
begin
    if (hashint8(nextval('chaos_draws') + %d)::bigint & 2147483647) %% 1000000 < %d then
        raise exception 'could not serialize access due to concurrent update' using errcode = '40001';
    end if;
    return null;
end
$$`, x.random.intN(1_000_000), x.fault.PerMillion)
	begin, end := []string{draw}, []string{}
	for _, table := range []string{"execution", "worker_incarnation"} {
		begin = append(begin, fmt.Sprintf("create trigger chaos_refuses before insert or update on %s for each statement execute function chaos_refuse()", table))
		end = append(end, fmt.Sprintf("drop trigger chaos_refuses on %s", table))
	}
	return x.bySQL(begin, append(end, "drop function chaos_refuse", "drop sequence chaos_draws"))
}

// injectSlowDatabase makes every way to the database longer: who waits can't tell a slow statement from
// a slow network.
func injectSlowDatabase(x *injection) (func(), error) {
	e := netproxy.Effect{Touch: x.touch, Delay: x.delay}
	var ends []func()
	for _, p := range x.w.all() {
		ends = append(ends, p.links[scenario.Database].Begin(netproxy.Out, e))
	}
	return func() {
		for _, end := range ends {
			end()
		}
	}, nil
}

// bindings are the queues that the fault strikes, one of the executors' or those of the workers that were
// drawn as far as they have registered, each with what routes to it.
func (x *injection) bindings() []broker.Binding {
	dead := x.w.config.MessageQueue.RabbitMQ.DeadLetter.Exchange
	one := func(pattern, queue string) []broker.Binding {
		return []broker.Binding{{Exchange: broker.ExchangeExecutions, Pattern: pattern, Queue: queue}}
	}
	switch x.fault.Target {
	case scenario.RequestedQueue:
		return one(broker.KeyRequested, broker.QueueRequested)
	case scenario.StatusChangedQueue:
		return one(broker.KeyStatusChanged, broker.QueueStatusChanged)
	case scenario.CompletedQueue:
		return one(broker.KeyCompleted, broker.QueueCompleted)
	case scenario.DeadLetterQueue:
		return []broker.Binding{{Exchange: dead, Pattern: "#", Queue: broker.DeadLetterQueue(dead)}}
	}
	var all []broker.Binding
	for id, name := range x.w.database.Workers() {
		for _, p := range x.targets {
			if p.name == name {
				all = append(all, one(broker.DispatchKey(id), broker.WorkerQueue(id))...)
			}
		}
	}
	return all
}

func injectDeleteQueue(x *injection) (func(), error) {
	defer x.end()
	for _, b := range x.bindings() {
		began := time.Now()
		err := x.w.interceptor.with(func(ch *amqp.Channel) error {
			_, err := ch.QueueDelete(b.Queue, false, false, false)
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("deleting %s: %w", b.Queue, err)
		}
		x.touch()
		x.w.firehose.Deaf(evidence.Gap{From: began.Add(-evidence.Lag), To: time.Now(), Fault: x.fault.Name, Queue: b.Queue})
	}
	return nil, nil
}

func injectUnbind(x *injection) (func(), error) {
	all, began := x.bindings(), time.Now()
	for _, b := range all {
		err := x.w.interceptor.with(func(ch *amqp.Channel) error { return ch.QueueUnbind(b.Queue, b.Pattern, b.Exchange, nil) })
		if err != nil {
			return nil, fmt.Errorf("unbinding %s: %w", b.Queue, err)
		}
		x.touch()
	}
	return func() {
		for _, b := range all {
			err := x.w.interceptor.with(func(ch *amqp.Channel) error { return ch.QueueBind(b.Queue, b.Pattern, b.Exchange, false, nil) })
			if err != nil {
				x.w.fail(fmt.Sprintf("binding %s again: %v", b.Queue, err))
			}
			if x.fault.Target == scenario.DeadLetterQueue {
				// What died meanwhile, in whatever queue, had nowhere to go.
				x.w.firehose.Deaf(evidence.Gap{From: began.Add(-evidence.Lag), To: time.Now(), Fault: x.fault.Name})
			}
		}
	}, nil
}
