package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"handoff/chaos/live/cluster"
	"handoff/core/broker/rabbitmq"
	"handoff/core/config"
	hostdaemon "handoff/core/host/daemon"
	"handoff/core/store"
	"handoff/core/store/postgres"
	"handoff/core/telemetry"
	"handoff/core/worker"
	"handoff/core/worker/subprocess"
)

// retained is the time for which the executor keeps executions and their audit in measureRetention.
const retained = 24 * time.Hour

// leastRetention is the smallest table for measureRetention: what leaves in the shortest window at
// ten thousand executions a second, twice.
const leastRetention = 200_000

// leastWindow is the shortest window: a pass of the retention begins every ten seconds.
const leastWindow = 10 * time.Second

// The ways of measureRetention.
const (
	nothingLeaves = "nothing comes of age"
	dayLeaves     = "as many leave as come"
)

// mostOpen bounds the executions that are created and not yet claimed, so that creation and claims keep the
// same rate during the whole window.
const mostOpen = 10_000

// measureRetention measures the steady state of a day of retention at the highest rate: each second as many
// executions come of age, with their audit, as are created. The finished executions are copies that ended
// evenly over the seconds of a day ago. In turn with that, the same table is measured before any execution
// has come of age. The executor's configuration is the same in both, and its defaults otherwise.
//
// The only worker runs in this process, so that each of its claims is timed where it waits for the answer.
// Its processor time counts with the clients.
func measureRetention(ctx context.Context, c *cluster.Cluster, o options, t *table) (err error) {
	d, err := openDaemons(ctx, c, o)
	if err != nil {
		return err
	}
	defer d.close()
	if err := d.setWorkers(ctx, 0); err != nil {
		return err
	}
	w, err := startTimed(ctx, c)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.stop()) }()
	a := &agingTables{daemons: d, worker: w}
	if err := a.sampleExecutions(ctx); err != nil {
		return err
	}
	for round := range o.rounds + 1 {
		ways := []string{nothingLeaves, dayLeaves}
		switch {
		case round == 0: // warms up, and finds the rate at which executions come of age
			ways = ways[:1]
		case round%2 == 0:
			ways[0], ways[1] = ways[1], ways[0]
		}
		for _, way := range ways {
			p, err := a.measureWindow(ctx, way)
			if err != nil {
				return fmt.Errorf("%s: %w", way, err)
			}
			if way == nothingLeaves {
				a.rate = p.created / p.window.Seconds()
			}
			if round > 0 {
				t.addPurge(round, p)
			}
		}
	}
	return nil
}

// purgeMeasurement is a measurement during a retention.
type purgeMeasurement struct {
	measurement
	claims []time.Duration
	// created, executions and transitions are the numbers of rows created and removed in the window. ofAge is
	// the number of executions that came of age in it.
	window                                  time.Duration
	created, ofAge, executions, transitions float64
	// behind is the time for which the oldest remaining execution has been of age at the end of the window,
	// behindAudit the same for the audit.
	behind, behindAudit time.Duration
}

// agingTables makes tables of executions that come of age, and measures during their retention.
type agingTables struct {
	*daemons
	worker *timedWorker
	// rate is the number of executions that come of age in a second. It equals the rate of creation in the
	// last measurement in which nothing came of age.
	rate float64
	// filling is the duration of the last filling.
	filling time.Duration
	// first is the end of the first execution of the table.
	first time.Time
}

// sampleExecutions keeps finished executions with their audit, for copies.
func (a *agingTables) sampleExecutions(ctx context.Context) error {
	if err := a.truncateTables(ctx); err != nil {
		return err
	}
	const sampled = 20_000
	if _, err := a.measureThroughput(ctx, "sample", workload{jobs: sampled, batch: batch}); err != nil {
		return err
	}
	return a.runScript(ctx, []string{
		"create table sampled_record as select * from execution_record",
		"create table sampled_group as select * from transition_group",
	})
}

// fillTables makes a table of finished executions with their audit. They ended in the order of their ids:
// the first of them comes of age when this is done, or in half a day. Its duration is guessed
// from that of the last time.
func (a *agingTables) fillTables(ctx context.Context, way string) error {
	if err := a.truncateTables(ctx); err != nil {
		return err
	}
	began, until := time.Now(), retained/2
	if way == dayLeaves {
		until = a.filling + leastWindow
	}
	defer func() { a.filling = time.Since(began) }()
	if err := a.db.QueryRow(ctx, "select now() - $1::interval", retained-until).Scan(&a.first); err != nil {
		return err
	}
	var have, apart, from int64
	// A group of the audit belongs to a block of 64 executions. Ids continue after the earlier ones, because
	// the executor does not search older ids.
	if err := a.db.QueryRow(ctx, `select count(*), (max(id) - min(id) + 64) / 64 * 64,
		(nextval(pg_get_serial_sequence('execution_record', 'id')) - min(id) + 64) / 64 * 64 from sampled_record`).Scan(&have, &apart, &from); err != nil {
		return err
	}
	copies := copiesFor(int64(a.options.retention), have)
	spread := 0.0
	if a.rate > 0 {
		spread = float64((copies+1)*have) / a.rate
	}
	// copied copies the rows of a sample in an order, and moves the times of each so that it is of age
	// in its turn.
	copied := func(table, sample, key, order, ended, overriding string) string {
		return fmt.Sprintf(`do $do$ declare columns text; taken text; begin
    select string_agg(quote_ident(column_name), ', '),
           string_agg(format(case data_type when 'timestamp with time zone' then 'o.%%1$I + (o.target - o.%[5]s)' else 'o.%%1$I' end, column_name), ', ')
      into columns, taken from information_schema.columns
     where table_schema = current_schema() and table_name = '%[1]s' and column_name not in ('id', '%[3]s', 'idempotency_key');
    execute format($x$insert into %[1]s (%[3]s, %%1$s) %[6]s
        select o.%[3]s + %[11]d + o.k * %[7]d, %%2$s
          from (select o.*, k, '%[8]s'::timestamptz + (row_number() over (order by %[4]s) - 1) * interval '1 second' * %[9]f / count(*) over () as target
                  from %[2]s o cross join generate_series(0, %[10]d) k) o
         order by %[4]s$x$, columns, taken);
end $do$`, table, sample, key, order, ended, overriding, apart, a.first.Format(time.RFC3339Nano), spread, copies, from)
	}
	return a.runScript(ctx, []string{
		"set session_replication_role = replica", "alter table execution_record set (fillfactor = 100)",
		copied("execution_record", "sampled_record", "id", "k, id", "ended", "overriding system value"),
		// The stream's order is that of transactions: copies of one have those numbers that follow.
		copied("transition_group", "sampled_group", "base", "transaction, id, k", "at", ""),
		"select setval(pg_get_serial_sequence('execution_record', 'id'), (select max(id) from execution_record))",
		"update execution_transition_gone set transaction = '0', id = 0, at = null",
		"alter table execution_record set (fillfactor = 40)", "set session_replication_role = origin",
		"vacuum analyze execution_record", "vacuum analyze transition_group", "checkpoint",
	})
}

// measureWindow fills the tables, works at the highest rate for the window, and reads what has left.
func (a *agingTables) measureWindow(ctx context.Context, way string) (*purgeMeasurement, error) {
	if way == dayLeaves {
		if most := float64(a.options.retention) / a.rate; most < (a.options.window + 2*leastWindow).Seconds() {
			return nil, fmt.Errorf("%d finished executions leave in %.0f s, and a window of %v needs them for %v: raise --retention or lower --window",
				a.options.retention, most, a.options.window, a.options.window+2*leastWindow)
		}
	}
	if err := a.fillTables(ctx, way); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, patience+a.options.window)
	defer cancel()
	if way == dayLeaves {
		if err := a.comeOfAge(ctx); err != nil {
			return nil, err
		}
	}
	last, err := a.newestID(ctx)
	if err != nil {
		return nil, err
	}
	before, err := a.removedRows(ctx)
	if err != nil {
		return nil, err
	}
	meter, err := startMeter(ctx, a.db)
	if err != nil {
		return nil, err
	}
	a.worker.resetClaims()
	began := time.Now()
	created, err := a.keepBusy(ctx)
	if err != nil {
		return nil, err
	}
	p := &purgeMeasurement{window: time.Since(began), created: float64(created), claims: a.worker.claimTimes()}
	after, err := a.removedRows(ctx)
	if err != nil {
		return nil, err
	}
	p.executions, p.transitions = after["executions"]-before["executions"], after["transitions"]-before["transitions"]
	if way == dayLeaves {
		p.ofAge = a.rate * p.window.Seconds()
		if err := a.db.QueryRow(ctx, `select greatest(now() - $1::interval - (select ended from execution_record order by id limit 1), '0'),
			greatest(now() - $1::interval - (select at from transition_group order by transaction, id limit 1), '0')`, retained).Scan(&p.behind, &p.behindAudit); err != nil {
			return nil, err
		}
	}
	if err := a.awaitOrchestrated(ctx, last); err != nil {
		return nil, err
	}
	m, err := meter.newMeasurement(ctx, way, created)
	if err != nil {
		return nil, err
	}
	p.measurement = *m
	var completed int
	err = a.db.QueryRow(ctx, "select max(orchestrated_at) - min(created), count(*) filter (where status = 'completed') from execution_record where id > $1", last).
		Scan(&p.took, &completed)
	if err == nil && completed != created {
		err = fmt.Errorf("%d of %d executions completed", completed, created)
	}
	return p, err
}

// comeOfAge waits until the first execution has been of age for the longest time that the executor takes to
// notice.
func (a *agingTables) comeOfAge(ctx context.Context) error {
	for {
		of := false
		if err := a.db.QueryRow(ctx, "select now() - $1::interval > $2", retained, a.first.Add(leastWindow)).Scan(&of); err != nil || of {
			return err
		}
		if err := pauseCheck(ctx); err != nil {
			return err
		}
	}
}

// keepBusy creates executions during the window, as fast as they are claimed.
func (a *agingTables) keepBusy(ctx context.Context) (created int, err error) {
	group, ctx := errgroup.WithContext(ctx)
	window, end := context.WithTimeout(ctx, a.options.window)
	defer end()
	var all atomic.Int64
	for range clients {
		group.Go(func() error {
			for window.Err() == nil {
				if all.Load()-a.worker.claimed.Load() > mostOpen {
					select {
					case <-a.worker.more:
					case <-window.Done():
					}
					continue
				}
				all.Add(batch)
				if err := a.createExecutions(ctx, workload{batch: batch}, batch); err != nil {
					return err
				}
			}
			return nil
		})
	}
	err = group.Wait()
	return int(all.Load()), err
}

// removedRows reads from the executor how many rows of each kind its retention has deleted.
func (a *agingTables) removedRows(ctx context.Context) (map[string]float64, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, a.cluster.Executors[0].URL+"/metrics", nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	rows := make(map[string]float64)
	lines := bufio.NewScanner(response.Body)
	for lines.Scan() {
		if rest, ok := strings.CutPrefix(lines.Text(), telemetry.Table()[telemetry.Purged].Name+`{kind="`); ok {
			kind, value, _ := strings.Cut(rest, `"} `)
			if rows[kind], err = strconv.ParseFloat(value, 64); err != nil {
				return nil, fmt.Errorf("reading the executor's figures: %q: %w", lines.Text(), err)
			}
		}
	}
	return rows, lines.Err()
}

// timedWorker is a worker in this process whose claims are timed.
type timedWorker struct {
	store.Worker
	stop    func() error
	claimed atomic.Int64
	// more has an element if claims were made since it was last read.
	more chan struct{}

	mu    sync.Mutex
	times []time.Duration
}

// startTimed starts the worker and returns when it is registered.
func startTimed(ctx context.Context, c *cluster.Cluster) (*timedWorker, error) {
	h := hostdaemon.New(hostdaemon.Options{})
	settings := config.Default(config.Hardened)
	settings.Worker.Concurrency = concurrency
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))
	db, err := postgres.Open(ctx, c.Servers.Postgres.URL, postgres.Options{
		MaxConns: settings.Database.Connections, HeartbeatConns: settings.Database.HeartbeatConnections, PingTimeout: settings.Database.PingTimeout,
	})
	if err != nil {
		return nil, err
	}
	w := &timedWorker{Worker: db, more: make(chan struct{}, 1)}
	const name = "timed"
	service := worker.New(worker.Options{
		Name: name, Runtimes: []string{config.RuntimeNoop}, Host: h, Store: w,
		Broker: rabbitmq.New(rabbitmq.Options{URL: c.Servers.RabbitMQ.URL, Heartbeat: settings.MessageQueue.RabbitMQ.Heartbeat, Name: name, Log: log}),
		Runner: subprocess.New(subprocess.Options{Host: h, Name: name, Log: log}),
		Config: settings, Log: log, Recorder: telemetry.Discard{},
	})
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan error, 1)
	go func() { done <- service.Run(running) }()
	w.stop = func() error {
		cancel()
		err := <-done
		db.Close()
		return err
	}
	return w, nil
}

// Claim implements store.Worker.
func (t *timedWorker) Claim(ctx context.Context, key store.WorkerKey, cs []store.Claim) ([]store.ClaimResult, error) {
	began := time.Now()
	results, err := t.Worker.Claim(ctx, key, cs)
	took, applied := time.Since(began), 0
	for i := range results {
		if results[i].Applied {
			applied++
		}
	}
	t.claimed.Add(int64(applied))
	select {
	case t.more <- struct{}{}:
	default:
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.times = append(t.times, took)
	return results, err
}

// resetClaims forgets the claims so far.
func (t *timedWorker) resetClaims() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.times = nil
	t.claimed.Store(0)
}

func (t *timedWorker) claimTimes() []time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.times
}
