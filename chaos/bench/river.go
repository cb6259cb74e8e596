package main

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"

	"handoff/chaos/live/cluster"
)

type noopArgs struct {
	N int `json:"n"`
}

// Kind implements river.JobArgs.
func (noopArgs) Kind() string { return "noop" }

type noopWorker struct{ river.WorkerDefaults[noopArgs] }

// Work implements river.Worker.
func (*noopWorker) Work(context.Context, *river.Job[noopArgs]) error { return nil }

// measureRiver runs River in this process on the same PostgreSQL server, with its default settings, and with
// the fastest that were found: it is bound by how many jobs it fetches at a time and how often.
func measureRiver(ctx context.Context, c *cluster.Cluster, o options, t *table) error {
	for _, w := range append(c.Workers, c.Executors...) {
		w.Instance().Terminate()
		if err := w.Instance().Wait(ctx); err != nil {
			return err
		}
	}
	database, err := c.Servers.Postgres.CreateDatabase(ctx)
	if err != nil {
		return err
	}
	config, err := pgxpool.ParseConfig(database.URL)
	if err != nil {
		return err
	}
	config.MaxConns = 20
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return err
	}
	defer pool.Close()
	migrator, err := rivermigrate.New(riverpgxv5.New(pool), &rivermigrate.Config{Logger: quiet()})
	if err != nil {
		return err
	}
	if _, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return err
	}
	settings := []struct {
		name       string
		maxWorkers int
		cooldown   time.Duration
		jobs       int
	}{
		// At about a thousand a second fewer jobs say as much.
		{"River, default settings", 100, river.FetchCooldownDefault, min(o.jobs, 5000)},
		{"River, best settings", 1000, river.FetchCooldownMin, o.jobs},
	}
	for _, s := range settings {
		r := &riverQueue{pool: pool, maxWorkers: s.maxWorkers, cooldown: s.cooldown}
		samples, err := r.latency(ctx, o.samples)
		if err != nil {
			return err
		}
		t.latency(s.name+", created to completed", samples)
		for i := range o.repeat + 1 {
			took, err := r.throughput(ctx, s.jobs)
			if err != nil {
				return err
			}
			if i > 0 {
				t.rate(o, s.name, s.jobs, took)
			}
		}
	}
	return nil
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

type riverQueue struct {
	pool       *pgxpool.Pool
	maxWorkers int
	cooldown   time.Duration
}

// start returns a client that works, on a table without old jobs.
func (r *riverQueue) start(ctx context.Context) (*river.Client[pgx.Tx], error) {
	if _, err := r.pool.Exec(ctx, "truncate river_job"); err != nil {
		return nil, err
	}
	workers := river.NewWorkers()
	river.AddWorker(workers, &noopWorker{})
	client, err := river.NewClient(riverpgxv5.New(r.pool), &river.Config{
		Queues:  map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: r.maxWorkers}},
		Workers: workers, FetchCooldown: r.cooldown, Logger: quiet(),
	})
	if err != nil {
		return nil, err
	}
	return client, client.Start(ctx)
}

func (r *riverQueue) stop(client *river.Client[pgx.Tx]) error {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	return client.Stop(ctx)
}

// throughput counts from the first job's creation to the last one's completion, as for the daemons.
func (r *riverQueue) throughput(ctx context.Context, jobs int) (took time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	client, err := r.start(ctx)
	if err != nil {
		return 0, err
	}
	for left := jobs; left > 0; left -= batch {
		params := make([]river.InsertManyParams, min(left, batch))
		for i := range params {
			params[i].Args = noopArgs{i}
		}
		if _, err := client.InsertManyFast(ctx, params); err != nil {
			return 0, err
		}
	}
	if err := r.completed(ctx, jobs); err != nil {
		return 0, err
	}
	err = r.pool.QueryRow(ctx, "select max(finalized_at) - min(created_at) from river_job").Scan(&took)
	if err != nil {
		return 0, err
	}
	return took, r.stop(client)
}

func (r *riverQueue) completed(ctx context.Context, jobs int) error {
	for {
		var n int
		if err := r.pool.QueryRow(ctx, "select count(*) from river_job where state = 'completed'").Scan(&n); err != nil {
			return err
		}
		if n >= jobs {
			return nil
		}
		select {
		case <-time.After(200 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("%d of %d jobs were completed: %w", n, jobs, ctx.Err())
		}
	}
}

func (r *riverQueue) latency(ctx context.Context, samples int) ([]time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	client, err := r.start(ctx)
	if err != nil {
		return nil, err
	}
	for i := range samples {
		if _, err := client.Insert(ctx, noopArgs{i}, nil); err != nil {
			return nil, err
		}
		time.Sleep(pace)
	}
	if err := r.completed(ctx, samples); err != nil {
		return nil, err
	}
	rows, err := r.pool.Query(ctx, "select finalized_at - created_at from river_job")
	if err != nil {
		return nil, err
	}
	found, err := pgx.CollectRows(rows, pgx.RowTo[time.Duration])
	if err != nil {
		return nil, err
	}
	return found, r.stop(client)
}
