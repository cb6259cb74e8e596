package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"handoff/chaos/live/cluster"
)

// listers is the number of clients that read lists concurrently. Each requests its next page or filter as
// soon as it has an answer.
const listers = 32

// listRounds is the number of measurements without and with the listers, in turn, so that other work of the
// machine affects both alike.
const listRounds = 3

// manyRows are executions that ended long ago. They are hard for lists: hardly one is abandoned,
// none of the last half has failed, and worker 7, the action old.rare and the parent 5 are far
// back.
const manyRows = `
insert into execution_record (action, action_ref, runtime, entrypoint, max_retries, parameters, status, worker, incarnation, epoch, dispatch_deadline, run_deadline,
    due_at, created, scheduled_at, started_at, claim_beat, ended, orchestrated_at, parent, failure_reason, written_by)
select 1000000, case when n < 1000 then 'old.rare' else 'old.often' end, 'old', '/bin/true', 1, '{"n": 1}', x.status, w, w, 1, x.at, x.at, x.at, x.at, x.at, x.at, 1, x.at, x.at,
       case when n between 100 and 120 then 5 end, case when x.status <> 'completed' then 'transient'::failure_reason end, 'api'
  from generate_series(1, $1::bigint) n
 cross join lateral (select (case when n in (10, 20) then 'abandoned' when n < $1 / 2 and n % 50 = 0 then 'failed' else 'completed' end)::execution_status as status,
       case when n < 500 then 7 else 8 + n % 5 end as w, now() - ($1 - n) * interval '1 second' as at) x`

// listFilters are all filters of the API, each in its worst case.
var listFilters = []string{
	"", "status=abandoned", "status=failed", "status=timeout", "status=cancelled", "status=requested", "status=running", "status=canceling", "status=completed",
	"action_ref=old.rare", "action_ref=no.such", "worker_id=7", "worker_id=999999", "parent=5", "parent=999999", "status=failed&worker_id=9", "limit=500",
}

// measureLists compares how long scheduling takes with and without clients that read lists of many
// executions.
func measureLists(ctx context.Context, c *cluster.Cluster, o options, t *table) error {
	d, err := openDaemons(ctx, c, o)
	if err != nil {
		return err
	}
	defer d.close()
	db := d.db
	if err := d.setWorkers(ctx, 1); err != nil {
		return err
	}
	began := time.Now()
	for _, sql := range []string{"set session_replication_role = replica", manyRows, "set session_replication_role = origin", "vacuum analyze execution_record"} {
		var args []any
		if sql == manyRows {
			args = []any{o.lists}
		}
		if _, err := db.Exec(ctx, sql, args...); err != nil {
			return err
		}
	}
	fmt.Fprintf(os.Stderr, "%d rows made in %v\n", o.lists, time.Since(began).Round(time.Second))
	var quiet, listing []time.Duration
	var answers answerCounts
	if _, err := d.measureScheduling(ctx); err != nil { // warms up
		return err
	}
	for range listRounds {
		without, err := d.measureScheduling(ctx)
		if err != nil {
			return err
		}
		with, err := d.besideListers(ctx, &answers)
		if err != nil {
			return err
		}
		fmt.Fprintf(os.Stderr, "scheduling, p99: %v without lists, %v with\n", p99(without), p99(with))
		quiet, listing = append(quiet, without...), append(listing, with...)
	}
	t.addLatency(fmt.Sprintf("created to scheduled, %d rows", o.lists), quiet)
	t.addLatency(fmt.Sprintf("the same beside %d listing clients", listers), listing)
	fmt.Fprintf(os.Stderr, "p99 %v without and %v with listing clients: %.2f times\n", p99(quiet), p99(listing),
		float64(p99(listing))/float64(max(1, p99(quiet))))
	answers.printAnswers(os.Stderr)
	return nil
}

// p99 is the 99th percentile of the samples.
func p99(samples []time.Duration) time.Duration {
	sorted := slices.Sorted(slices.Values(samples))
	return sorted[min(len(sorted)-1, len(sorted)*99/100)]
}

// measureScheduling creates one execution after the other, and reads from the rows how long each waited to
// be scheduled.
func (d *daemons) measureScheduling(ctx context.Context) ([]time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var last int64
	if err := d.db.QueryRow(ctx, "select coalesce(max(id), 0) from execution").Scan(&last); err != nil {
		return nil, err
	}
	for range d.options.samples {
		if err := d.postJSON(ctx, "/api/v1/executions", map[string]any{"action_ref": "bench.noop"}); err != nil {
			return nil, err
		}
		if err := pauseCheck(ctx); err != nil {
			return nil, err
		}
	}
	for {
		var done int
		if err := d.db.QueryRow(ctx, "select count(*) from execution where id > $1 and orchestrated_at is not null", last).Scan(&done); err != nil {
			return nil, err
		}
		if done >= d.options.samples {
			break
		}
		select {
		case <-time.After(200 * time.Millisecond):
		case <-ctx.Done():
			return nil, errors.Join(fmt.Errorf("%d of %d executions were orchestrated", done, d.options.samples), ctx.Err())
		}
	}
	rows, err := d.db.Query(ctx, "select scheduled_at - created from execution where id > $1", last)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[time.Duration])
}

// besideListers does the same as measureScheduling while clients list.
func (d *daemons) besideListers(ctx context.Context, a *answerCounts) ([]time.Duration, error) {
	ctx, stop := context.WithCancel(ctx)
	var group sync.WaitGroup
	var next atomic.Int64
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: listers}}
	for range listers {
		group.Go(func() {
			for ctx.Err() == nil {
				filter := listFilters[int(next.Add(1))%len(listFilters)]
				began := time.Now()
				code, err := d.getPath(ctx, client, "/api/v1/executions?"+filter)
				if ctx.Err() == nil {
					a.countAnswer(filter, code, err, time.Since(began))
				}
			}
		})
	}
	samples, err := d.measureScheduling(ctx)
	stop()
	group.Wait()
	client.CloseIdleConnections()
	return samples, err
}

func (d *daemons) getPath(ctx context.Context, client *http.Client, path string) (code int, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, d.cluster.Executors[0].URL+path, nil)
	if err != nil {
		return 0, err
	}
	response, err := client.Do(request)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	_, err = io.Copy(io.Discard, response.Body)
	return response.StatusCode, err
}

// answerCounts counts the answers of lists by filter and status.
type answerCounts struct {
	mu    sync.Mutex
	kinds map[string]*answerStats
}

type answerStats struct {
	count   int
	longest time.Duration
}

func (a *answerCounts) countAnswer(filter string, code int, err error, took time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.kinds == nil {
		a.kinds = make(map[string]*answerStats)
	}
	kind := fmt.Sprintf("%-28s %d", filter, code)
	if err != nil {
		kind = fmt.Sprintf("%-28s %v", filter, err)
	}
	of := a.kinds[kind]
	if of == nil {
		of = &answerStats{}
		a.kinds[kind] = of
	}
	of.count++
	of.longest = max(of.longest, took)
}

func (a *answerCounts) printAnswers(w io.Writer) {
	a.mu.Lock()
	defer a.mu.Unlock()
	var kinds []string
	for kind := range a.kinds {
		kinds = append(kinds, kind)
	}
	slices.Sort(kinds)
	for _, kind := range kinds {
		fmt.Fprintf(w, "%s: %d answers, the longest after %v\n", kind, a.kinds[kind].count, a.kinds[kind].longest.Round(time.Millisecond))
	}
}
