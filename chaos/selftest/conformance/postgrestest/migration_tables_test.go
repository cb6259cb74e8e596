package postgrestest_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"

	"handoff/chaos/audit"
	"handoff/chaos/servers"
	"handoff/core/config"
	"handoff/core/execution"
	"handoff/core/store"
	"handoff/core/store/postgres"
	"handoff/migrations"
)

// oneTable is the last version in which an execution was one row of one table.
const oneTable = 12

// everyStatus makes executions in every status in the one table, with everything that a status may have. The
// ends of some are not handled. The last are a waiting child, a chain with children to settle, a retry that
// is not yet due and an execution with a key.
const everyStatus = `
set session_replication_role = replica;
insert into action (ref, runtime, entrypoint, max_retries, concurrency) values ('a', 'shell', '/bin/a', 2, null), ('b', 'shell', '/bin/b', 2, 1);
insert into worker (name, incarnation) values ('w', 1);
insert into worker_incarnation (incarnation, worker, process, attempt, lifecycle, runtimes, capacity, lease_expires_at, registered_at, consumer_alive)
values (1, 1, 1, 1, 'active', '{shell}', 10, now() + interval '1 hour', now(), true);
insert into execution (action, action_ref, runtime, entrypoint, max_retries, concurrency, parameters, status, worker, incarnation, epoch, dispatches,
    avoid_worker, dispatch_deadline, run_deadline, result, failure_reason, retry_at, due_at, created, unschedulable_since, scheduling_at, scheduling_by,
    scheduling_expires_at, scheduled_at, published_at, started_at, claim_beat, canceling_at, ended, orchestrated_at, written_by, written_incarnation,
    written_epoch, written_reason, written_actor, submitted_by, own_limits)
select case when n = 3 then 2 else 1 end, case when n = 3 then 'b' else 'a' end, 'shell', '/bin/a', 2, case when n = 3 then 1 end, '{"n": 1}', s, owner, owner, 3, 2,
       7, case when owner is not null then at end, case when ran then at end, case when s >= 'completed' then '{"output": 1}' end::json,
       case when s > 'completed' then 'transient' end::failure_reason, at, at - interval '1 hour', at - interval '1 day',
       case when s = 'requested' then at end, case when s <> 'requested' then at end, case when s <> 'requested' then 'e' end,
       case when s <> 'requested' then at + interval '1 minute' end,
       case when owner is not null then at end, case when owner is not null then at end, case when ran then at end, case when ran then 5 end,
       case when s in ('canceling', 'cancelled') then at end, case when s >= 'completed' then at end, case when s >= 'completed' and n > 1 then at end,
       'worker', 1, 3, case when s > 'completed' then 'transient' end::failure_reason, 'somebody', 'somebody', '{max_retries}'
  from unnest(enum_range(null::execution_status)) s cross join generate_series(1, 3) n
 cross join lateral (select now() - n * interval '1 minute' as at, case when s not in ('requested', 'scheduling') then 1 end as owner,
       s not in ('requested', 'scheduling', 'scheduled') as ran) x;
insert into execution (action, action_ref, runtime, entrypoint, max_retries, due_at, created, parent, written_by)
values (1, 'a', 'shell', '/bin/a', 2, 'infinity', now(), 16, 'api');
update execution set settling_at = now(), has_children = true, cancel_requested_at = now(), cancel_requested_by = 'somebody' where id = 17;
insert into execution (action, action_ref, runtime, entrypoint, max_retries, due_at, retry_at, created, original_execution, retry_count, retry_reason, avoid_worker, written_by)
values (1, 'a', 'shell', '/bin/a', 2, now() - interval '1 minute', now() - interval '1 minute', now(), 20, 1, 'transient', 1, 'retry_manager');
insert into execution (action, action_ref, runtime, entrypoint, max_retries, pinned_worker, idempotency_key, due_at, created, written_by)
values (1, 'a', 'shell', '/bin/a', 2, 1, 'key', now(), now(), 'api');
set session_replication_role = origin`

// Executions in every status read the same after the migration to two tables and after the way back, and the
// store can work on them in both layouts.
func TestMigrationCarriesEveryStatusBothWays(t *testing.T) {
	ctx, url := t.Context(), servers.Database(t).URL
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(ctx) })
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	// The old table lacks the columns of later migrations.
	all := func() []string {
		t.Helper()
		rows, err := conn.Query(ctx, "select (to_jsonb(e) - 'retried_exit_codes')::text from execution e order by id", pgx.QueryExecModeSimpleProtocol)
		must(err)
		found, err := pgx.CollectRows(rows, pgx.RowTo[string])
		must(err)
		return found
	}
	same := func(when string, want []string) {
		t.Helper()
		got := all()
		if len(got) != len(want) {
			t.Fatalf("%s there are %d executions, and there were %d", when, len(got), len(want))
		}
		for i := range got {
			if got[i] != want[i] {
				t.Errorf("%s an execution reads\n%s\nand it read\n%s", when, got[i], want[i])
			}
		}
	}
	must(migrations.Up(ctx, conn))
	must(migrations.Down(ctx, conn, oneTable))
	_, err = conn.PgConn().Exec(ctx, everyStatus).ReadAll()
	must(err)
	before := all()
	must(migrations.Up(ctx, conn))
	same("after the migration", before)
	var works, unhandled int
	must(conn.QueryRow(ctx, "select (select count(*) from execution_work), (select count(*) from execution_unhandled)").Scan(&works, &unhandled))
	if works != 5*3+3 || unhandled != 5 {
		t.Errorf("%d rows of work and %d unhandled ends, want %d and 5", works, unhandled, 5*3+3)
	}
	must(migrations.Down(ctx, conn, oneTable))
	same("after the way back", before)
	must(migrations.Up(ctx, conn))

	s, err := postgres.Open(ctx, url, postgres.Options{})
	must(err)
	t.Cleanup(s.Close)
	claimed, err := s.ClaimForScheduling(ctx, store.SchedulingClaim{Executor: "e", Expiry: lease, Demands: []store.Demand{
		{Runtime: "shell", Limit: 10}, {Runtime: "shell", Pinned: 1, Limit: 10},
	}})
	must(err)
	var ids []execution.ID
	for i := range claimed {
		ids = append(ids, claimed[i].ID)
	}
	slices.Sort(ids)
	// Of the three waiting rows, one needs a slot and none is free, and the child waits for its
	// parent.
	if want := []execution.ID{1, 11, 32, 33}; !slices.Equal(ids, want) {
		t.Errorf("claimed %v, want %v", ids, want)
	}
	found, err := s.Find(ctx, store.Finding{Cause: store.Unorchestrated, Limit: 100})
	must(err)
	if len(found) != 5 {
		t.Errorf("%d ends wait to be handled, want 5", len(found))
	}
	worker := store.WorkerKey{ID: 1, Incarnation: 1}
	running := execution.Key{ID: 4, Epoch: 3}
	outcomes, err := s.Finish(ctx, worker, []store.Finish{{Key: running, To: execution.Completed}})
	must(err)
	if !outcomes[0].Applied || outcomes[0].Row.OrchestratedAt.IsZero() {
		t.Errorf("the result of a run that was carried over: %+v", outcomes[0])
	}
}

// A database, or a dump of one, with executions in one table is judged like one with two tables.
func TestBothAuditLayoutsAreJudgedAlike(t *testing.T) {
	b := newFixture(t)
	w := b.activeWorker("w")
	b.finishRun(w, store.Finish{Key: b.runningExecution(w), To: execution.Completed})
	b.finishRun(w, store.Finish{Key: b.runningExecution(w), To: execution.Failed, Reason: execution.Validation})
	b.scheduledExecution(w)
	broken := b.requestedExecution()
	b.execSQL(`insert into transition_group (base, "from", "to", epoch, old_epoch, named_epoch, writer, at)
		values ($1, 'requested', 'running', 0, 0, 0, 'api', now())`, int64(broken))
	judged := func() string {
		t.Helper()
		r, err := audit.Judge(b.ctx, b.url, audit.Options{Config: config.Default(config.Hardened)})
		b.must(err)
		if len(r.Violations) == 0 {
			t.Errorf("nothing is found in %d executions, and there is something", r.Executions)
		}
		told := fmt.Sprintf("%d executions, %d events, %d can't be read", r.Executions, r.Events, r.Unread)
		for _, v := range r.Violations {
			told += fmt.Sprintf("\n%d of %d: %s", v.Invariant.Number, v.Execution, v.Message)
		}
		return told
	}
	two := judged()
	b.must(migrations.Down(b.ctx, b.conn, oneTable))
	if one := judged(); one != two {
		t.Errorf("one table is judged\n%s\nand two\n%s", one, two)
	}
}
