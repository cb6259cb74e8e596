package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"handoff/chaos/live/cluster"
	"handoff/core/broker"
	"handoff/core/broker/rabbitmq"
	"handoff/core/config"
	"handoff/core/execution"
	"handoff/core/store"
	"handoff/core/store/postgres"
)

// measureReplay sends what the daemons send for these executions, in batches of 100, from one process: the
// statements of creating, claiming, dispatching, publishing, running, finishing and orchestrating, one
// dispatch message an execution, and the hints. The stages run at the same time and hand each other batches.
func measureReplay(ctx context.Context, c *cluster.Cluster, o options, t *table) error {
	for _, w := range append(c.Workers, c.Executors...) {
		w.Instance().Terminate()
		if err := w.Instance().Wait(ctx); err != nil {
			return err
		}
	}
	r := &replay{jobs: o.jobs, config: config.Default(config.Hardened)}
	if err := r.open(ctx, c); err != nil {
		return err
	}
	defer r.close()
	for i := range o.repeat + 1 {
		took, err := r.throughput(ctx)
		if err != nil {
			return err
		}
		if i > 0 {
			t.rate(o, replayName, o.jobs, took)
		}
	}
	return nil
}

type replay struct {
	jobs    int
	config  config.Config
	db      *pgx.Conn
	store   *postgres.Store
	session broker.Session
	worker  store.WorkerKey
	// dispatches, hints and requests are the consumers of the worker, of ends and of beginnings.
	dispatches, hints, requests broker.Consumer
}

func (r *replay) open(ctx context.Context, c *cluster.Cluster) (err error) {
	if r.db, err = pgx.Connect(ctx, c.Servers.Postgres.URL); err != nil {
		return err
	}
	if r.store, err = postgres.Open(ctx, c.Servers.Postgres.URL, postgres.Options{}); err != nil {
		return err
	}
	vhost, err := c.Servers.RabbitMQ.CreateVhost(ctx)
	if err != nil {
		return err
	}
	registered, err := r.store.Register(ctx, store.Registration{
		Process: 1, Attempt: 1, Name: "replay", Runtimes: []string{"noop"}, Capacity: concurrency, Lease: time.Hour,
	})
	if err != nil {
		return err
	}
	r.worker = registered.WorkerKey
	if err := r.store.SetLifecycle(ctx, r.worker, execution.Active); err != nil {
		return err
	}
	if _, err := r.store.Heartbeat(ctx, store.Beat{WorkerKey: r.worker, Number: 1, Lease: time.Hour, ConsumerAlive: true}); err != nil {
		return err
	}
	if r.session, err = rabbitmq.New(rabbitmq.Options{URL: vhost.URL, Name: "replay"}).Connect(ctx); err != nil {
		return err
	}
	mq := r.config.MessageQueue.RabbitMQ
	err = errors.Join(r.session.Declare(ctx, broker.ExecutorTopology(mq)), r.session.Declare(ctx, broker.WorkerTopology(mq, r.worker.ID)))
	if err != nil {
		return err
	}
	for _, q := range []struct {
		name     string
		consumer *broker.Consumer
	}{
		{broker.WorkerQueue(r.worker.ID), &r.dispatches},
		{broker.QueueCompleted, &r.hints},
		{broker.QueueRequested, &r.requests},
	} {
		if *q.consumer, err = r.session.Consume(ctx, q.name, concurrency); err != nil {
			return err
		}
	}
	return nil
}

func (r *replay) close() {
	if r.session != nil {
		r.session.Close()
	}
	if r.store != nil {
		r.store.Close()
	}
	if r.db != nil {
		_ = r.db.Close(context.Background())
	}
}

// throughput runs all stages until every execution is orchestrated.
func (r *replay) throughput(ctx context.Context) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if _, err := r.db.Exec(ctx, "truncate execution, execution_transition"); err != nil {
		return 0, err
	}
	stages, ctx := errgroup.WithContext(ctx)
	for _, stage := range []func(context.Context) error{r.create, r.listen, r.dispatch, r.work, r.orchestrate} {
		stages.Go(func() error { return stage(ctx) })
	}
	if err := stages.Wait(); err != nil {
		return 0, err
	}
	return settled(context.WithoutCancel(ctx), r.db, r.jobs)
}

const stride = 100

func (r *replay) create(ctx context.Context) error {
	for left := r.jobs; left > 0; left -= stride {
		items := make([]store.NewExecution, min(left, stride))
		for i := range items {
			items[i] = store.NewExecution{ActionRef: "bench.noop", Parameters: []byte(`{"n":` + strconv.Itoa(i) + `}`)}
		}
		made, err := r.store.Create(ctx, items)
		if err != nil {
			return err
		}
		changes := make([]broker.Change, len(made))
		for i, m := range made {
			changes[i] = broker.Change{Key: execution.Key{ID: m.ID}, To: execution.Requested}
		}
		if err := r.publish(ctx, hint(broker.ExecutionRequested, changes)); err != nil {
			return err
		}
	}
	return nil
}

func hint(t broker.Type, changes []broker.Change) broker.Message {
	return broker.Message{Exchange: broker.ExchangeExecutions, RoutingKey: t.String(), Envelope: broker.Envelope{
		MessageID: fmt.Sprint(t, changes[0].Key.ID), Type: t, Timestamp: time.Now(), Version: 1, Changes: changes,
	}}
}

func (r *replay) publish(ctx context.Context, ms ...broker.Message) error {
	for i, o := range r.session.Publish(ctx, ms) {
		if o != broker.Confirmed {
			return fmt.Errorf("message %s: %v", ms[i].Envelope.MessageID, o)
		}
	}
	return nil
}

// listen takes the hints of new executions, which the dispatching stage does not wait for.
func (r *replay) listen(ctx context.Context) error {
	return receive(ctx, r.requests, r.jobs, func(ds []broker.Delivery) (int, error) {
		n := 0
		for _, d := range ds {
			n += len(d.Envelope.Changes)
			r.requests.Ack(d)
		}
		return n, nil
	})
}

func (r *replay) dispatch(ctx context.Context) error {
	claim := store.SchedulingClaim{
		Executor: "replay", Expiry: time.Minute, Demands: []store.Demand{{Runtime: "noop", Limit: stride}}, Others: stride,
	}
	for left := r.jobs; left > 0; {
		if _, err := r.store.Workers(ctx); err != nil {
			return err
		}
		rows, err := r.store.ClaimForScheduling(ctx, claim)
		if err != nil {
			return err
		}
		dispatches := make([]store.Dispatch, len(rows))
		for i := range rows {
			dispatches[i] = store.Dispatch{Key: rows[i].Key(), Worker: r.worker, Timeout: time.Minute}
		}
		results, err := r.store.Dispatch(ctx, "replay", dispatches)
		if err != nil {
			return err
		}
		messages := make([]broker.Message, len(results))
		keys := make([]execution.Key, len(results))
		for i := range results {
			row := &results[i].Row
			keys[i] = row.Key()
			messages[i] = broker.Message{Exchange: broker.ExchangeExecutions, RoutingKey: broker.DispatchKey(row.Worker), Envelope: broker.Envelope{
				MessageID: fmt.Sprintf("%d.%d", row.ID, row.Epoch), Type: broker.ExecutionScheduled, CorrelationID: fmt.Sprint(row.ID),
				Timestamp: time.Now(), Version: 1,
				Dispatch: &broker.Dispatch{Key: row.Key(), Worker: row.Worker, Incarnation: row.Incarnation, Action: row.Action, Parameters: row.Parameters},
			}}
		}
		if err := r.publish(ctx, messages...); err != nil {
			return err
		}
		if err := r.store.MarkPublished(ctx, keys); err != nil {
			return err
		}
		left -= len(rows)
	}
	return nil
}

func (r *replay) work(ctx context.Context) error {
	return receive(ctx, r.dispatches, r.jobs, func(ds []broker.Delivery) (int, error) {
		claims := make([]store.Claim, len(ds))
		finishes := make([]store.Finish, len(ds))
		started, ended := make([]broker.Change, len(ds)), make([]broker.Change, len(ds))
		for i, d := range ds {
			key := d.Envelope.Dispatch.Key
			claims[i] = store.Claim{Key: key, Beat: 1}
			finishes[i] = store.Finish{Key: key, To: execution.Completed}
			started[i] = broker.Change{Key: key, From: execution.Scheduled, To: execution.Running}
			ended[i] = broker.Change{Key: key, From: execution.Running, To: execution.Completed}
		}
		if _, err := r.store.Claim(ctx, r.worker, claims); err != nil {
			return 0, err
		}
		for _, d := range ds {
			r.dispatches.Ack(d)
		}
		if _, err := r.store.Finish(ctx, r.worker, finishes); err != nil {
			return 0, err
		}
		return len(ds), r.publish(ctx,
			hint(broker.ExecutionStatusChanged, started), hint(broker.ExecutionStatusChanged, ended), hint(broker.ExecutionCompleted, ended))
	})
}

func (r *replay) orchestrate(ctx context.Context) error {
	return receive(ctx, r.hints, r.jobs, func(ds []broker.Delivery) (int, error) {
		var ids []execution.ID
		for _, d := range ds {
			for _, c := range d.Envelope.Changes {
				ids = append(ids, c.Key.ID)
			}
		}
		for at := 0; at < len(ids); at += stride {
			some := ids[at:min(at+stride, len(ids))]
			if _, err := r.store.Executions(ctx, some); err != nil {
				return 0, err
			}
			ends := make([]store.Orchestration, len(some))
			for i, id := range some {
				ends[i].ID = id
			}
			if _, err := r.store.Orchestrate(ctx, ends); err != nil {
				return 0, err
			}
		}
		for _, d := range ds {
			r.hints.Ack(d)
		}
		return len(ids), nil
	})
}

// receive hands over what has arrived, up to a stride, until the handled deliveries stand for n executions.
func receive(ctx context.Context, c broker.Consumer, n int, handle func([]broker.Delivery) (int, error)) error {
	arrived := make(chan broker.Delivery, concurrency)
	failed := make(chan error, 1)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		for {
			d, err := c.Receive(ctx)
			if err != nil {
				failed <- err
				return
			}
			arrived <- d
		}
	}()
	for n > 0 {
		var ds []broker.Delivery
		select {
		case d := <-arrived:
			ds = append(ds, d)
		case err := <-failed:
			return err
		}
		for len(ds) < stride && len(arrived) > 0 {
			ds = append(ds, <-arrived)
		}
		done, err := handle(ds)
		if err != nil {
			return err
		}
		n -= done
	}
	return nil
}
