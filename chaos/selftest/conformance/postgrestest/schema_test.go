package postgrestest_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"handoff/chaos/servers"
	"handoff/core/execution"
	"handoff/core/store"
	"handoff/migrations"
)

// All migrations can be applied, reverted and applied again, and leave nothing behind.
func TestMigrationsUpAndDown(t *testing.T) {
	b := newFixture(t)
	left := func() (n int) {
		b.scanRow(`select (select count(*) from pg_class where relnamespace = 'public'::regnamespace and relname not like 'schema_version%')
			+ (select count(*) from pg_proc where pronamespace = 'public'::regnamespace)
			+ (select count(*) from pg_type where typnamespace = 'public'::regnamespace and typtype = 'e')`, nil, &n)
		return n
	}
	full := left()
	latest, err := migrations.Latest()
	b.must(err)
	for to := latest - 1; to >= 0; to-- {
		b.must(migrations.Down(b.ctx, b.conn, to))
	}
	if n := left(); n != 0 {
		t.Errorf("%d things are left after going down", n)
	}
	b.must(migrations.Up(b.ctx, b.conn))
	b.must(migrations.Up(b.ctx, b.conn))
	if n := left(); n != full {
		t.Errorf("%d things after down and up, %d before", n, full)
	}
	b.execSQL("insert into schema_version (version) values ($1)", latest+1)
	if err := migrations.Up(b.ctx, b.conn); err == nil {
		t.Error("an old program started on a newer database that does not say whether it can work with it")
	}
}

// If four programs start at once, one migrates and the others wait for it.
func TestMigrationsRunOnceConcurrently(t *testing.T) {
	url := servers.Database(t).URL
	errs := make([]error, 4)
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() {
			conn, err := pgx.Connect(t.Context(), url)
			if err != nil {
				errs[i] = err
				return
			}
			defer conn.Close(context.Background())
			errs[i] = migrations.Up(t.Context(), conn)
		})
	}
	wg.Wait()
	for i, err := range errs {
		if err != nil {
			t.Errorf("migrator %d: %v", i, err)
		}
	}
}

// The trigger accepts the lawful transitions of the domain and no others.
func TestDatabaseTransitions(t *testing.T) {
	b := newFixture(t)
	transitions := execution.NewTransitionTable()
	id := b.requestedExecution()
	// The constraints on the other columns are a separate matter, and in the role of a replica a
	// session fires no triggers.
	b.execSQL(`do $$ declare c record; begin
		for c in select conrelid::regclass as relation, conname from pg_constraint
			where conrelid in ('execution_record'::regclass, 'execution_work'::regclass) and contype = 'c' loop
			execute format('alter table %s drop constraint %I', c.relation, c.conname);
		end loop; end $$`)
	b.execSQL("select set_execution_audit(false)")
	for from := execution.Requested; from <= execution.Abandoned; from++ {
		for to := execution.Requested; to <= execution.Abandoned; to++ {
			for by := execution.API; by <= execution.Worker && from != to; by++ {
				b.execSQL(fmt.Sprintf(`set session_replication_role = replica;
					update execution set status = '%v' where id = %d;
					set session_replication_role = origin`, from, id))
				_, err := b.conn.Exec(b.ctx, fmt.Sprintf("update execution set status = '%v', written_by = '%v' where id = %d", to, by, id))
				if lawful := err == nil; lawful != transitions.May(by, from, to) {
					t.Errorf("%v to %v by %v: the database says %v, the domain %v (%v)", from, to, by, lawful, !lawful, err)
				}
			}
		}
	}
}

// A terminal row keeps its status for every writer, and constraints refuse invalid rows.
func TestImpossibleStates(t *testing.T) {
	b := newFixture(t)
	w := b.activeWorker("w")
	done, runs, waits := b.runningExecution(w), b.runningExecution(w), b.requestedExecution()
	b.finishRun(w, store.Finish{Key: done, To: execution.Completed})
	for constraint, sql := range map[string]string{
		"execution_terminal_is_final": fmt.Sprintf("update execution set status = 'failed', written_by = 'worker' where id = %d", done.ID),
		"execution_transition_lawful": fmt.Sprintf("update execution set status = 'requested', written_by = 'worker' where id = %d", runs.ID),
		"execution_begins_requested":  "insert into execution (action, action_ref, runtime, entrypoint, max_retries, status, due_at, created, written_by) values (1, 'a', 'shell', 'x', 0, 'running', now(), now(), 'api')",
		"canceling_since":             fmt.Sprintf("update execution set status = 'canceling', written_by = 'api' where id = %d", runs.ID),
		"waits_before_scheduling":     fmt.Sprintf("update execution set due_at = 'infinity' where id = %d", runs.ID),
		"waits_for_a_parent":          fmt.Sprintf("update execution set due_at = 'infinity' where id = %d", waits),
		"worker_with_incarnation":     fmt.Sprintf("update execution set worker = null where id = %d", runs.ID),
		"unowned_before_dispatch":     fmt.Sprintf("update execution set worker = 1, incarnation = 1 where id = %d", waits),
		"claimed_for_scheduling":      fmt.Sprintf("update execution set status = 'scheduling', written_by = 'scheduler' where id = %d", waits),
		"ended_when_terminal":         fmt.Sprintf("update execution set status = 'cancelled', written_by = 'api' where id = %d", waits),
		"orchestrated_after_end":      fmt.Sprintf("update execution set orchestrated_at = now() where id = %d", runs.ID),
		"retry_of_something":          fmt.Sprintf("update execution set retry_count = 1 where id = %d", waits),
		"execution_epoch_check":       fmt.Sprintf("update execution set epoch = -1 where id = %d", waits),
		"started_when_claimed":        fmt.Sprintf("update execution set run_deadline = null where id = %d", runs.ID),
		"owned_from_dispatch":         fmt.Sprintf("update execution set dispatch_deadline = null where id = %d", runs.ID),
	} {
		_, err := b.conn.Exec(b.ctx, sql)
		var refused *pgconn.PgError
		if !errors.As(err, &refused) || refused.ConstraintName != constraint {
			t.Errorf("%s: %v", constraint, err)
		}
	}
}

// The audit contains a row's changes and can be turned off, and the views and functions return rows.
func TestAuditAndViews(t *testing.T) {
	b := newFixture(t)
	w := b.activeWorker("w")
	key := b.runningExecution(w)
	b.finishRun(w, store.Finish{Key: key, To: execution.Failed, Reason: execution.Transient})
	rows, err := b.conn.Query(b.ctx, `select concat_ws(' ', coalesce("from"::text, '-'), "to", old_epoch, epoch, named_epoch, writer,
		coalesce(writer_incarnation, 0), coalesce(incarnation, 0), coalesce(reason::text, '-'))
		from execution_transition where execution = $1 order by id`, int64(key.ID))
	b.must(err)
	story, err := pgx.CollectRows(rows, pgx.RowTo[string])
	b.must(err)
	want := []string{
		"- requested 0 0 0 api 0 0 -",
		"requested scheduling 0 0 0 scheduler 0 0 -",
		"scheduling scheduled 0 1 0 scheduler 0 1 -",
		"scheduled running 1 1 1 worker 1 1 -",
		"running failed 1 1 1 worker 1 1 transient",
	}
	if fmt.Sprint(story) != fmt.Sprint(want) {
		t.Errorf("the story:\n%q, want\n%q", story, want)
	}
	b.execSQL("select set_execution_audit(false)")
	quiet := b.runningExecution(w)
	b.execSQL("select set_execution_audit(true)")
	b.scheduledExecution(w)
	// The clock of the test is ahead of the server's, so the lease is valid there too.
	var silent, healthy, depth int
	var retriable, running bool
	b.scanRow(`select (select count(*) from execution_transition where execution = $2), (select count(*) from healthy_workers),
		get_worker_queue_depth($3), is_execution_retriable($1), is_execution_retriable($2)`,
		[]any{int64(key.ID), int64(quiet.ID), int64(w.ID)}, &silent, &healthy, &depth, &retriable, &running)
	if silent != 0 || healthy != 1 || depth != 1 || !retriable || running {
		t.Errorf("transitions while off %d, healthy %d, depth %d, retriable %v, running retriable %v", silent, healthy, depth, retriable, running)
	}
}
