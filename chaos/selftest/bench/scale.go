package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"handoff/chaos/live/cluster"
)

// tableState is the content of the tables while the daemons work through executions.
type tableState struct {
	name string
	// fill makes the state out of the one before it.
	fill func(ctx context.Context) error
	// batch, jobs and parameters of the executions that are created; the usual ones where 0 and nil.
	batch, jobs int
	parameters  any
}

// The numbers of finished executions: aMillion are measured in any case, and then those of --scale.
const (
	aMillion   = 1_000_000
	leastScale = 2 * aMillion
)

// manyParameters are the bytes of the parameters of large executions.
const manyParameters = 100_000

// emptyTables is the way that the others are compared with: the same work in tables that hold
// nothing else.
const emptyTables = "empty tables"

// measureScale measures the same work in tables of several sizes. In turn with each size it measures empty
// tables in a second cluster. If the machine slows down during the run, both slow down, and their ratios
// hold. The first size is empty, too: its ratio shows how far two equal clusters differ.
func measureScale(ctx context.Context, c, beside *cluster.Cluster, o options, t *table) error {
	d, err := openDaemons(ctx, c, o)
	if err != nil {
		return err
	}
	defer d.close()
	reference, err := openDaemons(ctx, beside, o)
	if err != nil {
		return err
	}
	defer reference.close()
	for _, d := range []*daemons{d, reference} {
		if err := d.setWorkers(ctx, 1); err != nil {
			return err
		}
	}
	large := map[string]any{"text": strings.Repeat("x", manyParameters)}
	for i, s := range []tableState{
		{name: "empty tables, too", fill: d.truncateTables},
		{name: "1,000,000 finished, with audit", fill: func(ctx context.Context) error { return d.addFinished(ctx, aMillion, true) }},
		{name: fmt.Sprintf("%d finished", o.scale), fill: func(ctx context.Context) error { return d.addFinished(ctx, o.scale, false) }},
		{name: "100,000 that are due in an hour", fill: func(ctx context.Context) error { return d.leaveWaiting(ctx, 100_000) }},
		{name: "200 workers", fill: func(ctx context.Context) error { return d.addForeignWorkers(ctx, 200) }},
		{name: "parameters of 100 kB, beside 200 workers", fill: d.truncateTables, batch: 5, jobs: max(100, o.jobs/20), parameters: large},
	} {
		began := time.Now()
		if err := s.fill(ctx); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		fmt.Fprintf(os.Stderr, "%s: made in %v\n", s.name, time.Since(began).Round(time.Second))
		if err := measureState(ctx, d, reference, i*o.rounds, &s, t); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	return nil
}

// measureState measures what one state costs compared with empty tables: rates and processor time in some
// rounds, numbered from after on, and the waiting time of an execution at a slow pace. A round before them
// warms up.
func measureState(ctx context.Context, d, reference *daemons, after int, s *tableState, t *table) error {
	w := workload{jobs: d.options.jobs, batch: batch, parameters: s.parameters}
	if s.batch > 0 {
		w.jobs, w.batch = s.jobs, s.batch
	}
	for round := range d.options.rounds + 1 {
		if err := reference.truncateTables(ctx); err != nil {
			return err
		}
		empty, err := reference.measureThroughput(ctx, emptyTables, workload{jobs: d.options.jobs, batch: batch})
		if err != nil {
			return err
		}
		m, err := d.measureThroughput(ctx, s.name, w)
		if err != nil {
			return err
		}
		if round > 0 {
			t.addMeasurement(after+round, empty)
			t.addMeasurement(after+round, m)
		}
	}
	if s.parameters != nil {
		return nil
	}
	for _, of := range []struct {
		name string
		d    *daemons
	}{{emptyTables + " meanwhile", reference}, {s.name, d}} {
		samples, err := of.d.measureScheduling(ctx)
		if err != nil {
			return err
		}
		t.addLatency("created to scheduled, "+of.name, samples)
	}
	return nil
}

// addFinished adds finished executions until there are at least n, as copies of those that the last
// measurement left. If audit is set, it copies their audit, too.
func (d *daemons) addFinished(ctx context.Context, n int, audit bool) error {
	var have, first, last int64
	if err := d.db.QueryRow(ctx, "select count(*), coalesce(min(id), 0), coalesce(max(id), 0) from execution_record").Scan(&have, &first, &last); err != nil {
		return err
	}
	if have == 0 {
		return errors.New("no execution was left behind to be copied")
	}
	// A group of the audit belongs to a block of 64 executions.
	const block = 64
	apart, copies := (last-first+block)/block*block, copiesFor(int64(n), have)
	if copies < 1 {
		return nil
	}
	script := []string{
		"set session_replication_role = replica", "alter table execution_record set (fillfactor = 100)",
		d.copyStatement("execution_record", "id", copies, apart),
	}
	if audit {
		script = append(script, d.copyStatement("transition_group", "base", copies, apart))
	}
	script = append(script, "select setval(pg_get_serial_sequence('execution_record', 'id'), (select max(id) from execution_record))",
		"alter table execution_record set (fillfactor = 40)", "set session_replication_role = origin",
		"vacuum analyze execution_record", "vacuum analyze transition_group", "checkpoint")
	return d.runScript(ctx, script)
}

// copiesFor is the number of copies of each row with which there are at least n rows.
func copiesFor(n, have int64) int64 { return (n+have-1)/have - 1 }

// copyStatement is the statement that copies each row of a table several times. The key of each copy is
// `apart` more than that of the copy before. A column `id` that is not the key gets new values.
func (d *daemons) copyStatement(table, key string, copies, apart int64) string {
	return fmt.Sprintf(`do $do$ declare columns text; begin
    select string_agg(quote_ident(column_name), ', ') into columns from information_schema.columns
     where table_schema = current_schema() and table_name = '%[1]s' and column_name not in ('id', '%[2]s', 'idempotency_key');
    execute format('insert into %[1]s (%[2]s, %%1$s) select o.%[2]s + k * %[4]d, %%1$s from %[1]s o cross join generate_series(1, %[3]d) k', columns);
end $do$`, table, key, copies, apart)
}

// leaveWaiting leaves only executions that are due in an hour, in the lane of the measured ones.
func (d *daemons) leaveWaiting(ctx context.Context, n int) error {
	if err := d.truncateTables(ctx); err != nil {
		return err
	}
	if err := d.createExecutions(ctx, workload{batch: batch}, 1); err != nil {
		return err
	}
	if err := d.awaitOrchestrated(ctx, 0); err != nil {
		return err
	}
	return d.runScript(ctx, []string{
		"set session_replication_role = replica",
		fmt.Sprintf(`insert into execution_record (action, action_ref, runtime, entrypoint, max_retries, created, written_by)
select action, action_ref, runtime, entrypoint, max_retries, created, 'api' from execution_record cross join generate_series(1, %d) limit %[1]d`, n),
		`insert into execution_work (id, lane_action, lane_worker, runtime, due_at, written_by)
select id, 0, 0, runtime, now() + interval '1 hour', 'api' from execution_record where ended is null`,
		"set session_replication_role = origin", "vacuum analyze execution_record", "vacuum analyze execution_work", "checkpoint",
	})
}

// addForeignWorkers empties the tables, and adds active workers that run something else. No process is
// behind them.
func (d *daemons) addForeignWorkers(ctx context.Context, n int) error {
	if err := d.truncateTables(ctx); err != nil {
		return err
	}
	return d.runScript(ctx, []string{
		"set session_replication_role = replica",
		fmt.Sprintf(`with new as (
    insert into worker (name, incarnation) select 'registered-' || n, 1000000 + n from generate_series(1, %d) n returning id, incarnation
)
insert into worker_incarnation (incarnation, worker, process, attempt, lifecycle, runtimes, capacity, lease_expires_at, registered_at, consumer_alive)
overriding system value
select incarnation, id, 1, 1, 'active', '{other}', 10, now() + interval '1 day', now(), true from new`, n),
		"set session_replication_role = origin", "vacuum analyze worker", "vacuum analyze worker_incarnation", "checkpoint",
	})
}

func (d *daemons) runScript(ctx context.Context, statements []string) error {
	for _, sql := range statements {
		if _, err := d.db.Exec(ctx, sql); err != nil {
			return fmt.Errorf("%.60s: %w", sql, err)
		}
	}
	return nil
}
