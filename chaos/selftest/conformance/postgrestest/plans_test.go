package postgrestest_test

import (
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"handoff/chaos/servers"
	"handoff/core/execution"
	"handoff/core/store"
	"handoff/core/store/postgres"
	"handoff/core/testenv"
)

// fillRows makes plannedRows executions: mostly history, and some of the rest in every status. 30,000
// children wait for one parent that has not ended, and 40 each for 250 chains whose children are to
// be settled.
func fillRows() string { return strings.ReplaceAll(fillTemplate, "$rows", strconv.Itoa(plannedRows())) }

// plannedRows is the number of executions on which plans are judged.
func plannedRows() int {
	if testenv.All() {
		return 200_000
	}
	return 50_000
}

const fillTemplate = `
set session_replication_role = replica;
insert into action (ref, runtime, entrypoint, max_retries) values ('a', 'shell', '/bin/a', 1);
with new as (insert into worker (name, incarnation) select 'w' || n, n from generate_series(1, 200) n returning id, incarnation)
insert into worker_incarnation (worker, process, attempt, lifecycle, runtimes, capacity, lease_expires_at, registered_at, consumer_alive)
select id, 1, 1, (case when incarnation > 190 then 'lost' else 'active' end)::worker_lifecycle, '{shell}', 10, now() + interval '1 hour', now(), true
  from new order by incarnation;
insert into execution (action, action_ref, runtime, entrypoint, max_retries, status, worker, incarnation, epoch,
    dispatch_deadline, run_deadline, due_at, created, scheduling_at, scheduling_by, scheduling_expires_at, scheduled_at, started_at, claim_beat,
    ended, orchestrated_at, written_by, idempotency_key)
select 1, 'a', 'runtime' || n % 5, '/bin/a', 1, s.status, w, w, case when w is null then 0 else 1 end,
       case when w is not null then at end, case when claimed then at end, at, at,
       case when s.status = 'scheduling' then at end, case when s.status = 'scheduling' then 'e' end, case when s.status = 'scheduling' then at end,
       case when w is not null then at end, case when claimed then at end, case when claimed then 1 end,
       case when s.status >= 'completed' then at end, case when s.status >= 'completed' and n % 200 > 20 then at end, 'api',
       case when n % 10 = 0 then 'key' || n end
  from generate_series(1, $rows) n
 cross join lateral (select (case when n % 100 < 2 then 'requested' when n % 100 = 2 then 'scheduling' when n % 100 = 3 then 'scheduled'
       when n % 100 = 4 then 'running' else 'completed' end)::execution_status as status) s
 cross join lateral (select case when s.status in ('scheduled', 'running', 'completed') then n / 100 % 200 + 1 end as w,
       s.status in ('running', 'completed') as claimed, clock_timestamp() - n * interval '1 millisecond' as at) x;
insert into execution (action, action_ref, runtime, entrypoint, max_retries, due_at, created, parent, written_by)
select 1, 'a', 'shell', '/bin/a', 1, 'infinity', now(), case when n % 4 = 0 then 50 + n % 1000 / 4 * 100 else 10 end, 'api'
  from generate_series(1, 40000) n;
update execution set settling_at = ended where id in (select 50 + n * 100 from generate_series(1, 250) n) and orchestrated_at is not null;
set session_replication_role = origin`

// hot is a statement with arguments as the store sends them, and the number of rows that it may touch.
type hot struct {
	name, sql string
	args      []any
	most      float64
}

// hotStatements are the statements that the contract makes a store send, each found by a unique
// part of its text. under are the settings that are sent before some of them, by their texts.
func hotStatements(t *testing.T) (all []hot, under map[string]string) {
	s, r := recordContract(t)
	ctx := t.Context()
	const batch = 100
	var ids, epochs, ones, owners []int64
	var falses []bool
	var zero []time.Duration
	var texts, refs, completed []string
	var nulls, keyed []*string
	var settling []int64
	var none []*int64
	var counts []*int32
	var timeouts []*float64
	var most []int32
	one, timeout := int32(1), 1.5
	for i := range int64(batch) {
		// Scheduled rows all over the table, and their owners.
		ids, epochs, ones, owners = append(ids, 3+i*1700), append(epochs, 1), append(ones, 1), append(owners, i*17%200+1)
		falses, zero, texts = append(falses, false), append(zero, 0), append(texts, "owner_gone")
		none = append(none, nil)
		key := fmt.Sprint("key", (i+1)*10)
		keyed, settling = append(keyed, &key), append(settling, 50+(i+1)*100)
		nulls, refs, completed = append(nulls, nil), append(refs, "a"), append(completed, "completed")
		counts, most, timeouts = append(counts, &one), append(most, 3), append(timeouts, &timeout)
	}
	by := make([]string, batch)
	for i := range by {
		by[i] = "reconciler"
	}
	var now *time.Time
	with := func(mark string) string {
		t.Helper()
		sql, _ := r.sentStatement(t, mark)
		return sql
	}
	executions, _ := r.onlyStatement(t, func() error {
		_, err := s.Executions(ctx, []execution.ID{1})
		return err
	})
	transitions, _ := r.onlyStatement(t, func() error {
		_, err := s.Transitions(ctx, store.TransitionQuery{Execution: 1, Limit: 500})
		return err
	})
	listed, _ := r.onlyStatement(t, func() error {
		_, err := s.List(ctx, store.ExecutionQuery{Limit: 100})
		return err
	})
	counted, _ := r.onlyStatement(t, func() error {
		_, err := s.List(ctx, store.ExecutionQuery{Limit: 100, OnlyIDs: true})
		return err
	})
	all = []hot{
		{"Executions", executions, []any{ids}, batch},
		{"Create", with("null::bigint as existing"), []any{now, refs, nulls, nulls, none, falses, none, 24 * time.Hour, timeouts, timeouts, counts, nulls}, batch},
		{"Create under keys", with("left join execution_record old"), []any{now, refs, nulls, keyed, none, falses, none, 24 * time.Hour, timeouts, timeouts, counts, nulls}, batch},
		{"Create under old keys", with("left join execution_record old"), []any{now, refs, nulls, keyed, none, falses, none, time.Duration(0), timeouts, timeouts, counts, nulls}, 3 * batch},
		{"Create, locks of parents", with("as chain from execution_record e where e.id = any"), []any{ids}, batch},
		{"Create, ends of parents", with("select f.id, coalesce(last.status, f.status)"), []any{ids}, batch},
		{"Create, parents marked", with("set has_children = true where id"), []any{ids}, batch},
		{"Workers", with("w.queues_deleted_after is distinct from"), []any{now, int64(0), "", int64(0), nil, nil, nil, nil, nil, nil}, 4000},
		claimFor(t, s, r, "ClaimForScheduling", store.SchedulingClaim{
			Executor: "e", Expiry: time.Minute, Demands: []store.Demand{{Runtime: "runtime1", Limit: 100}}, Others: 100,
		}, 400),
		dispatchDueOf(t, s, r, 400),
		{"Dispatch", with("set status = 'scheduled', epoch = w.epoch + 1, worker = j.ask_worker, incarnation = j.ask_incarnation,\n           scheduled_at"), []any{now, "e", ids, epochs, ones, ones, zero, most, nil, nil, nil, nil, nil}, batch},
		{"MarkPublished", with("set published_at"), []any{now, ids, epochs}, batch},
		{"Park", with("ask_unschedulable"), []any{now, "e", ids, epochs, zero, falses, zero, nulls, zero, zero, zero}, batch},
		// The rows of the 100 owners are counted: 20 each.
		{"Reclaim", with("insert into worker_expiry"), []any{now, ids, epochs, texts, zero, by, nulls, nulls, falses, most, falses, zero, nulls, nulls}, 20 * batch},
		{"Orchestrate", with("select chain, null, null, null, null, null from asked"), []any{now, ids, counts, nulls, zero, counts}, batch},
		{"SettleChildren of one chain", with("num_nulls(f.settling_at)"), []any{now, settling[:1], 100, nulls[0]}, batch + 1},
		{"SettleChildren of many chains", with("num_nulls(f.settling_at)"), []any{now, settling, 1, nulls[0]}, 2 * batch},
		{"Claim", with("set status = 'running'"), []any{now, 300.0, ids, epochs, owners, owners, ones}, batch},
		{"Finish", with("set status = j.ask_to::"), []any{now, ids, epochs, ones, completed, nulls, nulls}, batch},
		{"Heartbeat, held", with("select a.n, e.id is null as gone"), []any{int64(1), ids, epochs}, batch},
		{"Heartbeat, recorded", with("where exists (select from execution_record r where r.id = a.id)"), []any{ids}, batch},
		{"Heartbeat, unheld", with("where o.runs and o.unheld"), []any{int64(0), int64(5), int64(5), int64(2), ids, epochs, now, nil, time.Minute, nil, 100}, 2500},
		{"Heartbeat, ended", with("select w.*, coalesce($7::timestamptz"), []any{int64(0), int64(5), int64(5), int64(2), ids, epochs, now, nulls[0]}, 2500},
		{"List", listed, []any{int64(0), int64(0), nil, int64(0), int64(0), nil, nil, nil, nil, nil, 100}, 600},
		{"List, ids", counted, []any{int64(0), int64(0), nil, int64(0), int64(0), nil, nil, nil, nil, nil, 100}, 600},
		{"Chain", with("with chain as materialized"), []any{int64(3), store.MaxChain}, batch},
		{"Transitions", transitions, []any{int64(3), int64(0), 500}, batch},
		{"Release", with("i.lifecycle = 'draining'),"), []any{now, int64(4)}, 2500},
		{"Dispatched", with("where w.incarnation = $2 and w.status = 'scheduled'\n"), []any{now, int64(4), 100}, 2500},
		// Waiting rows are counted (4,000 rows and 40,000 children). Rows that have ended and are
		// handled are not read.
		{"Survey", with("min(due_at) filter"), []any{now}, 45_000},
		{"FreeSlots", with("with stale as"), []any{now, batch}, batch},
		{"ForgetKeys", with("with old as"), []any{now, time.Duration(0), batch}, 600},
	}
	for cause := store.Unclaimed; cause <= store.Unsettled; cause++ {
		switch cause {
		case store.DeadLettered, store.Undeliverable:
			continue // only for Reclaim
		}
		sql, _ := r.onlyStatement(t, func() error {
			_, err := s.Find(ctx, store.Finding{Cause: cause, Limit: 1})
			return err
		})
		most := 600.0
		switch cause {
		case store.Unclaimed, store.Unpublished, store.UnpublishedLate, store.Overrun, store.Unanswered:
			// All held rows are walked: 4,000.
			most = 4200
		}
		all = append(all, hot{fmt.Sprintf("Find %d", cause), sql, []any{now, time.Duration(0), 100, ones[:1]}, most})
	}
	return all, r.under
}

// claimFor is a claim by the clock of the database, with the store's arguments for these demands.
func claimFor(t *testing.T, s *postgres.Store, r *recorder, name string, c store.SchedulingClaim, most float64) hot {
	t.Helper()
	sql, args := r.markedStatement(t, "set status = 'scheduling'", func() error {
		_, err := s.ClaimForScheduling(t.Context(), c)
		return err
	})
	args[0] = (*time.Time)(nil)
	clear(args[len(args)-5:]) // it knows no lanes
	return hot{name, sql, args, most}
}

// dispatchDueOf is a dispatch in one step of a full batch, by the clock of the database.
func dispatchDueOf(t *testing.T, s *postgres.Store, r *recorder, most float64) hot {
	t.Helper()
	o := store.Offer{Runtimes: []string{"runtime1"}}
	for i := range 100 {
		n := int64(i/10 + 1)
		o.Spread = append(o.Spread, store.Place{Worker: store.WorkerKey{ID: execution.WorkerID(n), Incarnation: execution.Incarnation(n)}, Limit: 1 << 20})
	}
	o.Packed = o.Spread
	sql, args := r.markedStatement(t, "rival as materialized", func() error {
		_, err := s.DispatchDue(t.Context(), store.DueDispatch{Executor: "e", Expiry: time.Minute, Timeout: time.Minute, Offers: []store.Offer{o}})
		return err
	})
	args[0] = (*time.Time)(nil)
	clear(args[len(args)-10:]) // it knows no incarnations and no lanes
	return hot{"DispatchDue", sql, args, most}
}

// node has the parts of a plan that the test reads.
type node struct {
	Type     string  `json:"Node Type"`
	Relation string  `json:"Relation Name"`
	Index    string  `json:"Index Name"`
	Rows     float64 `json:"Actual Rows"`
	Loops    float64 `json:"Actual Loops"`
	Removed  float64 `json:"Rows Removed by Filter"`
	Hit      float64 `json:"Shared Hit Blocks"`
	Read     float64 `json:"Shared Read Blocks"`
	Plans    []node
}

func (n *node) walkNodes(f func(*node)) {
	f(n)
	for i := range n.Plans {
		n.Plans[i].walkNodes(f)
	}
}

// Every hot statement reaches its rows by an index and touches few: with fresh statistics, and also
// on a table that was empty when the statement was first used and has no statistics.
func TestPlans(t *testing.T) {
	statements, under := hotStatements(t)
	ctx := t.Context()
	conn, fill := openPlanned(t)
	exec := func(sql string) {
		t.Helper()
		if _, err := conn.PgConn().Exec(ctx, sql).ReadAll(); err != nil {
			t.Fatal(err)
		}
	}
	exec("alter table execution_record set (autovacuum_enabled = off); alter table execution_work set (autovacuum_enabled = off)")
	for _, h := range statements {
		// If the session keeps a plan, it keeps the plan made here.
		explainPlan(t, conn, under, h)
	}
	fill(fillRows())
	t.Run("first used on an empty table", func(t *testing.T) { judgePlans(t, conn, under, statements) })
	exec("analyze execution_record, execution_work, execution_unhandled")
	t.Run("fresh statistics", func(t *testing.T) { judgePlans(t, conn, under, statements) })
}

// openPlanned returns a session as the store opens it, on an empty database, and a function that
// executes a script there on its own connection: the setting with which a script fills tables
// discards the plans of its session.
func openPlanned(t *testing.T) (conn *pgx.Conn, fill func(script string)) {
	t.Helper()
	ctx, url := t.Context(), servers.Database(t).URL
	s, err := postgres.Open(ctx, url, postgres.Options{
		Migrate: true, MaxConns: 1, StatementTimeout: testenv.Patience(),
		Tracer: &sessions{opened: func(c *pgx.Conn) { conn = c }},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return conn, func(script string) {
		t.Helper()
		filling, err := pgx.Connect(ctx, url)
		if err != nil {
			t.Fatal(err)
		}
		defer filling.Close(ctx)
		script = editable + ";" + inBulk(script)
		if _, err := filling.PgConn().Exec(ctx, script).ReadAll(); err != nil {
			t.Fatal(err)
		}
	}
}

// executionTable reports whether a table contains executions.
func executionTable(name string) bool {
	return strings.HasPrefix(name, "execution_") && name != "transition_group"
}

func judgePlans(t *testing.T, conn *pgx.Conn, under map[string]string, statements []hot) {
	for _, h := range statements {
		plan := explainPlan(t, conn, under, h)
		text := ""
		touched := 0.0
		bad := false
		plan.walkNodes(func(n *node) {
			if !executionTable(n.Relation) || n.Type == "ModifyTable" {
				return
			}
			rows := (n.Rows + n.Removed) * n.Loops
			touched = max(touched, rows)
			bad = bad || n.Type == "Seq Scan" || n.Type == "Bitmap Heap Scan"
			text += fmt.Sprintf("\n\t%s using %s: %.0f rows in %.0f loops", n.Type, n.Index, rows, n.Loops)
		})
		if bad || touched > h.most {
			t.Errorf("%s touches %.0f rows, at most %.0f expected:%s", h.name, touched, h.most, text)
		}
		if os.Getenv("PLANS") != "" {
			t.Logf("%s:%s", h.name, text)
		}
	}
}

// explainPlan executes a statement as the store would, prepared and planned as its session does under
// the settings sent before it. It rolls the statement back, and returns the server's plan.
func explainPlan(t *testing.T, conn *pgx.Conn, under map[string]string, h hot) *node {
	t.Helper()
	ctx := t.Context()
	name := "hot_" + strings.Map(func(r rune) rune {
		if r == ' ' || r == ',' {
			return '_'
		}
		return r
	}, h.name)
	described, err := conn.Prepare(ctx, name, h.sql)
	if err != nil {
		t.Fatalf("%s: %v", h.name, err)
	}
	tx, err := conn.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(ctx) // it leaves nothing behind either way
	if first := under[h.sql]; first != "" {
		if _, err := tx.Exec(ctx, first); err != nil {
			t.Fatalf("%s: %v", h.name, err)
		}
	}
	literals := make([]string, len(h.args))
	for i, arg := range h.args {
		buffer, err := conn.TypeMap().Encode(described.ParamOIDs[i], pgx.TextFormatCode, arg, nil)
		if err != nil {
			t.Fatalf("%s: argument %d: %v", h.name, i+1, err)
		}
		literals[i] = "null"
		if buffer != nil {
			literals[i] = "'" + string(buffer) + "'"
		}
	}
	var answer []byte
	sql := fmt.Sprintf("explain (analyze, buffers, timing off, format json) execute %q (%s)", name, strings.Join(literals, ", "))
	if err := tx.QueryRow(ctx, sql, pgx.QueryExecModeSimpleProtocol).Scan(&answer); err != nil {
		t.Fatalf("%s: %v", h.name, err)
	}
	var plans []struct{ Plan node }
	if err := json.Unmarshal(answer, &plans); err != nil {
		t.Fatal(err)
	}
	return &plans[0].Plan
}
