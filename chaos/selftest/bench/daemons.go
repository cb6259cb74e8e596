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
	"github.com/jackc/pgx/v5/pgconn"
	"golang.org/x/sync/errgroup"

	"handoff/chaos/live/cluster"
)

// daemons drives the real processes through the API and reads the times of events from the rows.
type daemons struct {
	cluster *cluster.Cluster
	db      *pgx.Conn
	options options
}

func openDaemons(ctx context.Context, c *cluster.Cluster, o options) (*daemons, error) {
	db, err := pgx.Connect(ctx, c.Servers.Postgres.URL)
	return &daemons{cluster: c, db: db, options: o}, err
}

func (d *daemons) close() { _ = d.db.Close(context.Background()) }

// workersWay is the way of working with n workers.
func (d *daemons) workersWay(n int) way {
	name := fmt.Sprintf("daemons, %d workers", n)
	if n == 1 {
		name = "daemons, 1 worker"
	}
	return way{
		name: name, jobs: d.options.jobs,
		throughput: func(ctx context.Context, jobs int) (*measurement, error) {
			if err := d.setWorkers(ctx, n); err != nil {
				return nil, err
			}
			if err := d.truncateTables(ctx); err != nil {
				return nil, err
			}
			return d.measureThroughput(ctx, name, workload{jobs: jobs, batch: batch})
		},
	}
}

// setWorkers leaves exactly n workers running.
func (d *daemons) setWorkers(ctx context.Context, n int) error {
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

// clients is the number of concurrent requests.
const clients = 4

// workload describes the executions that a measurement creates: their number, in requests of `batch`.
// Parameters are a few bytes if none are given.
type workload struct {
	jobs, batch int
	parameters  any
}

// measureThroughput creates many executions through the API, and waits until all of them are orchestrated.
func (d *daemons) measureThroughput(ctx context.Context, way string, w workload) (*measurement, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	last, err := d.newestID(ctx)
	if err != nil {
		return nil, err
	}
	if _, err := d.db.Exec(ctx, "checkpoint"); err != nil {
		return nil, err
	}
	meter, err := startMeter(ctx, d.db)
	if err != nil {
		return nil, err
	}
	var group errgroup.Group
	group.SetLimit(clients)
	for left := w.jobs; left > 0; left -= w.batch {
		size := min(left, w.batch)
		group.Go(func() error { return d.createExecutions(ctx, w, size) })
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	if err := d.awaitOrchestrated(ctx, last); err != nil {
		return nil, err
	}
	m, err := meter.newMeasurement(ctx, way, w.jobs)
	if err != nil {
		return nil, err
	}
	var completed int
	err = d.db.QueryRow(ctx, "select max(orchestrated_at) - min(created), count(*) filter (where status = 'completed') from execution where id > $1", last).
		Scan(&m.took, &completed)
	if err == nil && completed != w.jobs {
		err = fmt.Errorf("%d of %d executions completed", completed, w.jobs)
	}
	return m, err
}

// newestID is the highest id of an execution, 0 if there is none.
func (d *daemons) newestID(ctx context.Context) (id int64, err error) {
	err = d.db.QueryRow(ctx, "select coalesce(max(id), 0) from execution_record").Scan(&id)
	return id, err
}

// deadlockDetected is PostgreSQL's code of a statement that it ended because of one.
const deadlockDetected = "40P01"

// truncateTables removes the rows of earlier measurements, so that they do not burden this one. The daemons
// keep reading and lock the tables in another order. So the truncation may meet a deadlock, and is then
// repeated.
func (d *daemons) truncateTables(ctx context.Context) error {
	for {
		_, err := d.db.Exec(ctx, "truncate execution_record, execution_work, execution_unhandled, transition_group")
		var refused *pgconn.PgError
		if errors.As(err, &refused) && refused.Code == deadlockDetected {
			continue
		}
		if err == nil {
			_, err = d.db.Exec(ctx, "checkpoint")
		}
		return err
	}
}

// batch is the number of executions that one request creates.
const batch = 200

func (d *daemons) createExecutions(ctx context.Context, w workload, n int) error {
	items := make([]map[string]any, n)
	for i := range items {
		items[i] = map[string]any{"action_ref": "bench.noop", "parameters": w.parameters}
		if w.parameters == nil {
			items[i]["parameters"] = map[string]any{"n": i}
		}
	}
	return d.postJSON(ctx, "/api/v1/executions/batch", map[string]any{"executions": items})
}

func (d *daemons) postJSON(ctx context.Context, path string, body any) error {
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

// look is the pause between two checks whether everything is done.
const look = 50 * time.Millisecond

// awaitOrchestrated waits until every execution after the one with id `last` is orchestrated. Each check
// costs measured time. So it checks one open execution by its key, and searches for another one only when
// that is orchestrated. An open execution has a row of work, or one in the list of unhandled ends.
func (d *daemons) awaitOrchestrated(ctx context.Context, last int64) error {
	open := int64(0)
	for {
		done := true
		if open != 0 {
			if err := d.db.QueryRow(ctx, "select orchestrated_at is not null from execution where id = $1", open).Scan(&done); err != nil {
				return err
			}
		}
		if done {
			// The newest one is probably the last to be orchestrated.
			err := d.db.QueryRow(ctx, `select coalesce(greatest((select max(id) from execution_work where id > $1), (select max(id) from execution_unhandled where id > $1)), 0)`, last).
				Scan(&open)
			if err != nil {
				return err
			}
			if open == 0 {
				return nil
			}
		}
		if err := pauseCheck(ctx); err != nil {
			return fmt.Errorf("execution %d was not orchestrated in time: %w", open, err)
		}
	}
}

// pauseCheck waits for the duration look, or returns the reason why ctx has ended.
func pauseCheck(ctx context.Context) error {
	timer := time.NewTimer(look)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// measureLatency creates executions at a steady pace and reads from the rows how long each took.
func (d *daemons) measureLatency(ctx context.Context, t *table) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := d.setWorkers(ctx, 1); err != nil {
		return err
	}
	for _, p := range []struct {
		name  string
		n, of int // requests, and executions in each
		every time.Duration
		until []string
	}{
		{"at 20 a second", d.options.samples, 1, 50 * time.Millisecond, []string{"running", "completed", "orchestrated"}},
		{"at 1,000 a second", d.options.samples, 10, 10 * time.Millisecond, []string{"completed"}},
	} {
		if err := d.truncateTables(ctx); err != nil {
			return err
		}
		if err := d.createPaced(ctx, p.n, p.of, p.every); err != nil {
			return err
		}
		if err := d.awaitOrchestrated(ctx, 0); err != nil {
			return err
		}
		for _, until := range p.until {
			column := map[string]string{"running": "started_at", "completed": "ended", "orchestrated": "orchestrated_at"}[until]
			rows, err := d.db.Query(ctx, "select "+column+" - created from execution")
			if err != nil {
				return err
			}
			samples, err := pgx.CollectRows(rows, pgx.RowTo[time.Duration])
			if err != nil {
				return err
			}
			t.addLatency("daemons, created to "+until+", "+p.name, samples)
		}
	}
	return nil
}

// createPaced makes n requests of `of` executions each. A late request does not delay the next one.
func (d *daemons) createPaced(ctx context.Context, n, of int, every time.Duration) error {
	group, ctx := errgroup.WithContext(ctx)
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for range n {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return group.Wait()
		}
		group.Go(func() error {
			if of == 1 {
				return d.postJSON(ctx, "/api/v1/executions", map[string]any{"action_ref": "bench.noop"})
			}
			return d.createExecutions(ctx, workload{}, of)
		})
	}
	return group.Wait()
}
