package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"handoff/chaos/live/cluster"
)

// measureDaemons drives the real processes through the API and reads from the rows when what happened.
func measureDaemons(ctx context.Context, c *cluster.Cluster, o options, t *table) error {
	db, err := pgx.Connect(ctx, c.Servers.Postgres.URL)
	if err != nil {
		return err
	}
	defer func() { _ = db.Close(context.WithoutCancel(ctx)) }()
	d := &daemons{cluster: c, db: db, options: o, table: t}
	if err := d.workers(ctx, 1); err != nil {
		return err
	}
	if err := d.latency(ctx); err != nil {
		return err
	}
	for _, n := range o.workers {
		if err := d.workers(ctx, n); err != nil {
			return err
		}
		name := fmt.Sprintf("daemons, %d workers", n)
		if n == 1 {
			name = "daemons, 1 worker"
		}
		// The first one warms up: caches, plans, pools.
		for i := range o.repeat + 1 {
			took, err := d.throughput(ctx)
			if err != nil {
				return err
			}
			if i > 0 {
				t.rate(o, name, o.jobs, took)
			}
		}
	}
	return nil
}

type daemons struct {
	cluster *cluster.Cluster
	db      *pgx.Conn
	options options
	table   *table
}

// workers lets exactly n workers run.
func (d *daemons) workers(ctx context.Context, n int) error {
	for i, w := range d.cluster.Workers {
		p := w.Instance()
		switch {
		case i < n && !p.Running():
			if err := w.Start(ctx); err != nil {
				return err
			}
		case i >= n && p.Running():
			p.Terminate()
			if err := p.Wait(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// clients is how many requests are made at a time.
const clients = 4

// throughput creates a lot, waits until all of it is orchestrated, and returns how long that took by the
// database's clock: from the first row's creation to the last row's orchestration.
func (d *daemons) throughput(ctx context.Context) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	// What earlier measurements left is not to be this one's burden.
	if _, err := d.db.Exec(ctx, "truncate execution, execution_transition"); err != nil {
		return 0, err
	}
	var group errgroup.Group
	group.SetLimit(clients)
	for left := d.options.jobs; left > 0; left -= batch {
		size := min(left, batch)
		group.Go(func() error { return d.create(ctx, size) })
	}
	if err := group.Wait(); err != nil {
		return 0, err
	}
	return settled(ctx, d.db, d.options.jobs)
}

// batch is how many executions are created at once.
const batch = 200

func (d *daemons) create(ctx context.Context, n int) error {
	items := make([]map[string]any, n)
	for i := range items {
		items[i] = map[string]any{"action_ref": "bench.noop", "parameters": map[string]any{"n": i}}
	}
	return d.post(ctx, "/api/v1/executions/batch", map[string]any{"executions": items})
}

func (d *daemons) post(ctx context.Context, path string, body any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, d.cluster.Executors[0].URL+path, bytes.NewReader(text))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if response.StatusCode/100 != 2 {
		return fmt.Errorf("%s: %s", response.Status, answer)
	}
	return nil
}

// settled waits until n executions are orchestrated. It asks rarely, because asking costs what is measured;
// the rows say when it was.
func settled(ctx context.Context, db *pgx.Conn, n int) (time.Duration, error) {
	for {
		var done, completed int
		err := db.QueryRow(ctx, `select count(orchestrated_at), count(*) filter (where status = 'completed') from execution`).Scan(&done, &completed)
		if err != nil {
			return 0, err
		}
		if done >= n {
			if completed != n {
				return 0, fmt.Errorf("%d of %d executions completed", completed, n)
			}
			break
		}
		select {
		case <-time.After(200 * time.Millisecond):
		case <-ctx.Done():
			return 0, errors.Join(fmt.Errorf("%d of %d executions were orchestrated", done, n), ctx.Err())
		}
	}
	var took time.Duration
	err := db.QueryRow(ctx, "select max(orchestrated_at) - min(created) from execution").Scan(&took)
	return took, err
}

// pace is the time between two executions of a latency measurement.
const pace = 50 * time.Millisecond

// latency creates one execution after the other and reads from the rows how long each took.
func (d *daemons) latency(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for range d.options.samples {
		err := d.post(ctx, "/api/v1/executions", map[string]any{"action_ref": "bench.noop"})
		if err != nil {
			return err
		}
		time.Sleep(pace)
	}
	if _, err := settled(ctx, d.db, d.options.samples); err != nil {
		return err
	}
	for _, l := range []struct{ name, until string }{
		{"daemons, created to running", "started_at"},
		{"daemons, created to completed", "ended"},
		{"daemons, created to orchestrated", "orchestrated_at"},
	} {
		rows, err := d.db.Query(ctx, "select "+l.until+" - created from execution")
		if err != nil {
			return err
		}
		samples, err := pgx.CollectRows(rows, pgx.RowTo[time.Duration])
		if err != nil {
			return err
		}
		d.table.latency(l.name, samples)
	}
	return nil
}
