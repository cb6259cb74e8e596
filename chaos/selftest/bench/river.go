package main

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
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

type noopWorker struct {
	river.WorkerDefaults[noopArgs]
	worked *atomic.Int64
}

// Work implements river.Worker.
func (n *noopWorker) Work(context.Context, *river.Job[noopArgs]) error {
	n.worked.Add(1)
	return nil
}

// riverQueue runs River on the same PostgreSQL server. It runs in this process, so its processor
// time is that of the clients.
type riverQueue struct {
	cluster *cluster.Cluster
	pool    *pgxpool.Pool
	db      *pgx.Conn
	worked  atomic.Int64
}

// riverBest is the row with which the others are compared.
const riverBest = "River, best settings, COPY"

func openRiver(ctx context.Context, c *cluster.Cluster) (*riverQueue, error) {
	database, err := c.Servers.Postgres.CreateDatabase(ctx)
	if err != nil {
		return nil, err
	}
	config, err := pgxpool.ParseConfig(database.URL)
	if err != nil {
		return nil, err
	}
	config.MaxConns = 20
	r := &riverQueue{cluster: c}
	if r.db, err = pgx.Connect(ctx, database.URL); err != nil {
		return nil, err
	}
	if r.pool, err = pgxpool.NewWithConfig(ctx, config); err != nil {
		return nil, err
	}
	migrator, err := rivermigrate.New(riverpgxv5.New(r.pool), &rivermigrate.Config{Logger: quietLogger()})
	if err != nil {
		return nil, err
	}
	_, err = migrator.Migrate(ctx, rivermigrate.DirectionUp, nil)
	return r, err
}

func (r *riverQueue) close() {
	r.pool.Close()
	_ = r.db.Close(context.Background())
}

// clientSettings are a client's settings. River's rate depends on the number of jobs in each fetch and the
// pause between fetches.
type clientSettings struct {
	maxWorkers int
	cooldown   time.Duration
	// sql creates jobs with inserts of many rows, not with COPY.
	sql bool
}

var best = clientSettings{maxWorkers: concurrency, cooldown: river.FetchCooldownMin}

// riverWays returns River with the fastest settings that we found, with both ways of creating jobs, and with
// its defaults.
func (r *riverQueue) riverWays(jobs int) []way {
	inserts := best
	inserts.sql = true
	var ways []way
	for _, w := range []struct {
		name string
		clientSettings
		jobs int
	}{
		{riverBest, best, jobs},
		{"River, best settings, inserts", inserts, jobs},
		// At about a thousand jobs a second, fewer jobs suffice.
		{"River, default settings, COPY", clientSettings{maxWorkers: 100, cooldown: river.FetchCooldownDefault}, min(jobs, 5000)},
	} {
		ways = append(ways, way{
			name: w.name, jobs: w.jobs,
			throughput: func(ctx context.Context, jobs int) (*measurement, error) {
				return r.measureThroughput(ctx, w.name, w.clientSettings, jobs)
			},
		})
	}
	return ways
}

func quietLogger() *slog.Logger { return slog.New(slog.DiscardHandler) }

// startClient returns a working client, on a table without old jobs.
func (r *riverQueue) startClient(ctx context.Context, s clientSettings) (*river.Client[pgx.Tx], error) {
	for _, statement := range []string{"truncate river_job", "checkpoint"} {
		if _, err := r.db.Exec(ctx, statement); err != nil {
			return nil, err
		}
	}
	r.worked.Store(0)
	workers := river.NewWorkers()
	river.AddWorker(workers, &noopWorker{worked: &r.worked})
	client, err := river.NewClient(riverpgxv5.New(r.pool), &river.Config{
		Queues:  map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: s.maxWorkers}},
		Workers: workers, FetchCooldown: s.cooldown, Logger: quietLogger(),
	})
	if err != nil {
		return nil, err
	}
	return client, client.Start(ctx)
}

func (r *riverQueue) stopClient(client *river.Client[pgx.Tx]) error {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	return client.Stop(ctx)
}

// measureThroughput measures from the creation of the first job to the completion of the last, as for the
// daemons.
func (r *riverQueue) measureThroughput(ctx context.Context, way string, s clientSettings, jobs int) (*measurement, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	// The daemons would query the same server now and then. They are paused for less than a lease.
	var paused []cluster.Instance
	defer func() {
		for _, p := range paused {
			p.Resume()
		}
	}()
	for _, d := range slices.Concat(r.cluster.Executors, r.cluster.Workers) {
		if p := d.Instance(); p.Running() {
			p.Pause()
			paused = append(paused, p)
		}
	}
	client, err := r.startClient(ctx, s)
	if err != nil {
		return nil, err
	}
	meter, err := startMeter(ctx, r.db)
	if err != nil {
		return nil, err
	}
	for left := jobs; left > 0; left -= batch {
		params := make([]river.InsertManyParams, min(left, batch))
		for i := range params {
			params[i].Args = noopArgs{i}
		}
		if s.sql {
			_, err = client.InsertMany(ctx, params)
		} else {
			_, err = client.InsertManyFast(ctx, params)
		}
		if err != nil {
			return nil, err
		}
	}
	if err := r.awaitCompleted(ctx, jobs); err != nil {
		return nil, err
	}
	m, err := meter.newMeasurement(ctx, way, jobs)
	if err != nil {
		return nil, err
	}
	if err := r.db.QueryRow(ctx, "select max(finalized_at) - min(created_at) from river_job").Scan(&m.took); err != nil {
		return nil, err
	}
	return m, r.stopClient(client)
}

// awaitCompleted waits until this many jobs are completed. The client counts the jobs that it worked on, so
// the database is queried only after that count is reached.
func (r *riverQueue) awaitCompleted(ctx context.Context, jobs int) error {
	for {
		var open bool
		if r.worked.Load() >= int64(jobs) {
			err := r.db.QueryRow(ctx, "select exists (select from river_job where state <> 'completed')").Scan(&open)
			if err != nil || !open {
				return err
			}
		}
		if err := pauseCheck(ctx); err != nil {
			return fmt.Errorf("%d of %d jobs were worked on: %w", r.worked.Load(), jobs, err)
		}
	}
}

// measureLatency creates jobs at the slow pace of the daemons' measurement.
func (r *riverQueue) measureLatency(ctx context.Context, o options, t *table) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	client, err := r.startClient(ctx, best)
	if err != nil {
		return err
	}
	for i := range o.samples {
		if _, err := client.Insert(ctx, noopArgs{i}, nil); err != nil {
			return err
		}
		if err := pauseCheck(ctx); err != nil {
			return err
		}
	}
	if err := r.awaitCompleted(ctx, o.samples); err != nil {
		return err
	}
	rows, err := r.pool.Query(ctx, "select finalized_at - created_at from river_job")
	if err != nil {
		return err
	}
	samples, err := pgx.CollectRows(rows, pgx.RowTo[time.Duration])
	if err != nil {
		return err
	}
	t.addLatency("River, best settings, created to completed, at 20 a second", samples)
	return r.stopClient(client)
}
