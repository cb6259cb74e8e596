package postgrestest_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"handoff/chaos/servers"
	"handoff/core/execution"
	"handoff/core/store"
	"handoff/core/store/postgres"
	"handoff/migrations"
)

// Workers of the costs' database, by number, which is their id and their incarnation. The first
// ones belong to the cases, one or a few to each. Batches are spread over the others, so that there
// are as many workers as rows.
const (
	claimant, beating, releasing, setting, cordoned, named = 1, 2, 3, 4, 5, 6
	gone, goneTo                                           = 91, 100
	spread, spreadTo                                       = 101, 500
	late                                                   = 501 // and 400 behind it, for Reap
	costWorkers                                            = 900
)

// costs is a database with a store whose sessions report the plans of their statements, and a
// connection that fills the database without triggers and foreign keys.
type costs struct {
	testing.TB
	*postgres.Store
	ctx      context.Context
	hand     *pgx.Conn
	observer observer
	// session is the store's only session.
	session *pgx.Conn

	worker store.WorkerKey
	// sizes are the present sizes of the measured dimensions.
	sizes map[string]int
	// serial makes names and heartbeats new with every call.
	serial uint64
	// before is the end of the tables before the dimensions filled them.
	before mark
}

func newCosts(t testing.TB) *costs {
	t.Helper()
	c := &costs{TB: t, ctx: t.Context()}
	url := servers.Database(t).URL
	config, err := pgx.ParseConfig(url)
	c.must(err)
	// This is for whole scripts, and for statements that are all different.
	config.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol
	if c.hand, err = pgx.ConnectConfig(c.ctx, config); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.hand.Close(context.Background()) })
	if _, err := c.hand.Exec(c.ctx, "load 'auto_explain'"); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("auto_explain counts what statements do, and can't be loaded: %v", err)
		}
		t.Skipf("not run: auto_explain counts what statements do, and can't be loaded: %v", err)
	}
	c.must(migrations.Up(c.ctx, c.hand))
	c.execSQL(editable)
	c.Store, err = postgres.Open(c.ctx, url, postgres.Options{NoBounds: true, MaxConns: 1, StatementTimeout: 10 * time.Minute, Tracer: c.observer.observedSessions(func(conn *pgx.Conn) { c.session = conn })})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	c.worker = store.WorkerKey{ID: claimant, Incarnation: claimant}
	// Pages are vacuumed and counted only on the test's command.
	for _, table := range costTables {
		c.execSQL("alter table " + table + " set (autovacuum_enabled = off)")
	}
	c.execSQL("set session_replication_role = replica")
	c.execSQL(`insert into action (ref, runtime, entrypoint, max_retries, concurrency) values
		('a', 'cost', '/bin/a', 3, null), ('limited', 'cost', '/bin/a', 3, 1), ('stale', 'cost', '/bin/a', 3, 1),
		('idle', 'other', '/bin/a', 3, 1), ('busy', 'cost', '/bin/a', 3, 2), ('wide', 'cost', '/bin/a', 3, 1)`)
	c.execSQL(`insert into concurrency_slot (action, number) select a.id, n from action a, generate_series(1, a.concurrency) n`)
	c.execSQL(fmt.Sprintf(`insert into worker (name, incarnation) select 'w' || n, n from generate_series(1, %d) n`, costWorkers))
	c.execSQL(fmt.Sprintf(`insert into worker_incarnation (worker, process, attempt, lifecycle, runtimes, capacity, lease_expires_at, registered_at, consumer_alive)
		select n, 1, 1, (case when n between %d and %d then 'lost' else 'active' end)::worker_lifecycle, '{cost}', 100,
		       now() + case when n between %d and %d then interval '-1 hour' else interval '1 day' end, now(), true
		  from generate_series(1, %d) n`, gone, goneTo, gone, goneTo, costWorkers))
	c.fillExecutions(fillOf{status: "completed", handled: true, count: 1000})
	c.execSQL(`update concurrency_slot s set execution = n, taken_at = now() from generate_series(1, 2) n
		where s.action = (select id from action where ref = 'busy') and s.number = n`)
	c.execSQL("set enable_seqscan = off")
	c.slotsOfCases(few)
	return c
}

// observedSessions makes sessions report to the observer the plans of all statements that they execute,
// including those inside triggers and functions, as auto_explain writes them in JSON. Plans come as
// notices, so they belong to the call that caused them.
func (o *observer) observedSessions(opened func(*pgx.Conn)) *sessions {
	return &sessions{
		set: map[string]string{
			"session_preload_libraries": "auto_explain", "client_min_messages": "notice",
			"auto_explain.log_min_duration": "0", "auto_explain.log_level": "notice", "auto_explain.log_format": "json",
			"auto_explain.log_nested_statements": "on", "auto_explain.log_analyze": "on", "auto_explain.log_buffers": "on",
			"auto_explain.log_timing": "off", "auto_explain.log_verbose": "off", "auto_explain.log_triggers": "off",
		},
		notice: o.readNotice,
		opened: opened,
	}
}

// slotsOfCases gives the actions of the cases as many slots as their batches have rows.
func (c *costs) slotsOfCases(n int) {
	c.Helper()
	c.execSQL("update action set concurrency = $1 where ref in ('limited', 'stale')", n)
	c.execSQL("delete from concurrency_slot s using action a where a.id = s.action and a.ref in ('limited', 'stale') and s.number > $1", n)
	c.execSQL(`insert into concurrency_slot (action, number) select a.id, n from action a, generate_series(1, a.concurrency) n
		where a.ref in ('limited', 'stale') on conflict do nothing`)
}

// costTables are the tables that grow.
var costTables = []string{
	"execution_record", "execution_work", "execution_unhandled", "worker", "worker_incarnation", "worker_expiry", "concurrency_slot", "dead_letter", "observation",
	"transition_group", "refused_result", "action",
}

func (c *costs) execSQL(sql string, args ...any) {
	c.Helper()
	if _, err := c.hand.Exec(c.ctx, sql, args...); err != nil {
		c.Fatalf("%v: %s", err, sql)
	}
}

func (c *costs) must(err error) {
	c.Helper()
	if err != nil {
		c.Fatal(err)
	}
}

// analyzeTables gives the tables fresh statistics, and clean pages.
func (c *costs) analyzeTables() { c.execSQL("vacuum analyze " + strings.Join(costTables, ", ")) }

// fillOf describes a group of equal executions.
type fillOf struct {
	status string
	// n counts from `from` + 1 over count numbers.
	from, count int
	handled     bool
	// owner is the worker of all of them, 0 for the spread workers in turn.
	owner int
	// ago is the time for which they have been in their status.
	ago time.Duration
	// action is the ref of their action, "a" if empty.
	action string
	// more are further columns, as expressions over n.
	more map[string]string
}

// fillExecutions inserts executions, and returns their ids.
func (c *costs) fillExecutions(f fillOf) []execution.ID {
	c.Helper()
	if f.count <= 0 {
		return nil
	}
	if f.action == "" {
		f.action = "a"
	}
	owner := fmt.Sprintf("%d + n %% %d", spread, spreadTo-spread+1)
	if f.owner != 0 {
		owner = fmt.Sprint(f.owner)
	}
	at := fmt.Sprintf("clock_timestamp() - interval '%d microseconds'", f.ago.Microseconds())
	columns := map[string]string{
		"action": "a.id", "action_ref": "a.ref", "runtime": "a.runtime", "entrypoint": "a.entrypoint", "max_retries": "a.max_retries",
		"concurrency": "a.concurrency", "status": "'" + f.status + "'", "due_at": at, "created": at, "written_by": "'api'",
	}
	terminal := false
	switch f.status {
	case "scheduling":
		columns["scheduling_at"], columns["scheduling_by"], columns["scheduling_expires_at"] = at, "'e'", at
	case "completed", "failed", "cancelled", "timeout", "abandoned":
		terminal = true
		columns["ended"] = at
		if f.handled {
			columns["orchestrated_at"] = at
		}
	}
	if terminal || f.status == "scheduled" || f.status == "running" || f.status == "canceling" {
		columns["worker"], columns["incarnation"], columns["epoch"] = owner, owner, "1"
		columns["scheduled_at"], columns["dispatch_deadline"] = at, "clock_timestamp() + interval '1 day'"
	}
	if f.status == "running" || f.status == "canceling" {
		columns["started_at"], columns["claim_beat"], columns["run_deadline"] = at, "1", "clock_timestamp() + interval '1 day'"
	}
	if f.status == "canceling" {
		columns["canceling_at"] = at
	}
	for name, expression := range f.more {
		columns[name] = expression
	}
	var names, values []string
	for name, value := range columns {
		names, values = append(names, name), append(values, value)
	}
	insert := fmt.Sprintf("insert into execution (%s) select %s from generate_series(%d, %d) n, action a where a.ref = '%s'",
		strings.Join(names, ", "), strings.Join(values, ", "), f.from+1, f.from+f.count, f.action)
	if f.count > 1000 {
		c.execSQL(inBulk(insert))
		return nil
	}
	rows, err := c.hand.Query(c.ctx, insert+" returning id")
	c.must(err)
	ids, err := pgx.CollectRows(rows, pgx.RowTo[execution.ID])
	c.must(err)
	return ids
}

// mark is the end of the tables at a moment.
type mark struct {
	at, transaction                                                   string
	execution, worker, incarnation, action, deadLetter, refusedResult int64
}

// tableEnds returns the end of the tables, and deleteAfter deletes all later rows. Rows that a dimension must know
// have ids below zero, so they come before every mark.
func (c *costs) tableEnds() (m mark) {
	c.Helper()
	c.must(c.hand.QueryRow(c.ctx, `select clock_timestamp()::text, pg_current_xact_id()::text,
		(select coalesce(max(id), 0) from execution), (select coalesce(max(id), 0) from worker),
		(select coalesce(max(incarnation), 0) from worker_incarnation), (select coalesce(max(id), 0) from action),
		(select coalesce(max(id), 0) from dead_letter), (select coalesce(max(id), 0) from refused_result)`).
		Scan(&m.at, &m.transaction, &m.execution, &m.worker, &m.incarnation, &m.action, &m.deadLetter, &m.refusedResult))
	return m
}

func (c *costs) deleteAfter(m mark) {
	c.Helper()
	c.execSQL(fmt.Sprintf(`
		update concurrency_slot set execution = null, taken_at = null
		 where execution is not null and action in (select id from action where ref in ('limited', 'stale'));
		delete from execution where id > %d;
		delete from worker where id > %d;
		delete from worker_incarnation where incarnation > %d;
		update worker set incarnation = id where id < 100 and incarnation <> id;
		delete from worker_expiry where at > '%[4]s';
		delete from observation where at > '%[4]s';
		delete from concurrency_slot where action > %[5]d;
		delete from action where id > %[5]d;
		delete from dead_letter where id > %[6]d;
		delete from refused_result where id > %[7]d;
		delete from transition_group where transaction > '%[8]s'`,
		m.execution, m.worker, m.incarnation, m.at, m.action, m.deadLetter, m.refusedResult, m.transaction))
}

// sizeOf returns the size of a dimension: its measured size if it is being measured, otherwise a few.
func (c *costs) sizeOf(dimension string, otherwise int) int {
	if size, ok := c.sizes[dimension]; ok {
		return size
	}
	return otherwise
}

// isGrowing reports whether a dimension is being measured.
func (c *costs) isGrowing(dimension string) bool {
	_, ok := c.sizes[dimension]
	return ok
}

// nextSerial returns a number that was not used before.
func (c *costs) nextSerial() uint64 {
	c.serial++
	return c.serial
}
