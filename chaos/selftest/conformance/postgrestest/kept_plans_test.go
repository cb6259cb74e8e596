package postgrestest_test

import (
	"context"
	"fmt"
	"os"
	"regexp"
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

// keeper is a store with one session, whose plans the test watches.
type keeper struct {
	*testing.T
	*postgres.Store
	ctx      context.Context
	url      string
	session  *pgx.Conn
	observer observer
	worker   store.WorkerKey
	// dispatched counts the rows that have left the lane.
	dispatched int
}

// newKeeper opens a store on an empty database with one worker, whose heartbeats do not matter, and 50 others
// of the same fleet, which are gone. rewrite changes the statements that it prepares; nil changes none.
func newKeeper(t *testing.T, rewrite func(sql string) string) *keeper {
	t.Helper()
	return newKeeperAt(t, rewrite, nil)
}

// newKeeperAt is newKeeper with a clock; nil is the database's.
func newKeeperAt(t *testing.T, rewrite func(sql string) string, clock func() (time.Time, bool)) *keeper {
	t.Helper()
	k := &keeper{T: t, ctx: t.Context(), url: servers.Database(t).URL}
	k.runScript("select 1") // fails if auto_explain can't be loaded
	observed := k.observer.observedSessions(func(c *pgx.Conn) { k.session = c })
	observed.rewrite = rewrite
	o := postgres.Options{Migrate: true, MaxConns: 1, StatementTimeout: testenv.Patience(), Tracer: observed, Now: clock, NoBounds: true}
	if clock != nil {
		o.NoBounds, o.SlowWalk = false, 1 // searches of lanes begin at bounds
	}
	var err error
	k.Store, err = postgres.Open(k.ctx, k.url, o)
	k.must(err)
	t.Cleanup(k.Close)
	k.runScript("alter table execution_record set (autovacuum_enabled = off); alter table execution_work set (autovacuum_enabled = off)")
	r, err := k.Register(k.ctx, store.Registration{Process: 1, Attempt: 1, Name: "w", Runtimes: []string{"noop"}, Capacity: 1 << 30, Lease: time.Hour})
	k.must(err)
	k.worker = r.WorkerKey
	_, err = k.Heartbeat(k.ctx, store.Beat{WorkerKey: k.worker, Number: 1, Lease: time.Hour, ConsumerAlive: true})
	k.must(err)
	k.must(k.SetLifecycle(k.ctx, k.worker, execution.Active))
	k.must(k.PutActions(k.ctx, []execution.Action{{Ref: "noop", Runtime: "noop"}}))
	return k
}

func (k *keeper) must(err error) {
	k.Helper()
	if err != nil {
		k.Fatal(err)
	}
}

// runScript executes a script on its own connection, without triggers.
func (k *keeper) runScript(script string) {
	k.Helper()
	conn, err := pgx.Connect(k.ctx, k.url)
	k.must(err)
	defer conn.Close(k.ctx)
	if _, err := conn.PgConn().Exec(k.ctx, "load 'auto_explain'; set session_replication_role = replica; "+script).ReadAll(); err != nil {
		k.Fatal(err)
	}
}

// finishedScript is a script that makes n finished executions.
func finishedScript(n int) string {
	return fmt.Sprintf(`insert into execution_record (action, action_ref, runtime, entrypoint, max_retries, status, worker, incarnation, epoch,
    scheduled_at, dispatch_deadline, started_at, run_deadline, claim_beat, ended, orchestrated_at, due_at, created, idempotency_key, written_by)
select 1, 'noop', 'noop', '', 0, 'completed', 1, 1, 1, now(), now(), now(), now(), 1, now(), now(), now(), now(),
       case when n %% 10 = 0 then 'old' || (select count(*) from execution_record) + n end, 'api'
  from generate_series(1, %d) n`, n)
}

// runLife runs n executions from their creation to their end by the statements that keep their plans, and
// returns the cost of each. If fails is set, the executions fail and their ends are handled by a separate
// statement.
func (k *keeper) runLife(n int, fails bool) map[string]observed {
	k.Helper()
	costs := make(map[string]observed)
	step := func(name string, call func() error) {
		k.Helper()
		k.observer.plans = nil
		if err := call(); err != nil {
			k.Fatalf("%s of %d rows: %v", name, n, err)
		}
		k.must(k.observer.wrong)
		costs[name] = k.observer.totalCost()
	}
	ids, keys := make([]execution.ID, n), make([]execution.Key, n)
	items := make([]store.NewExecution, n)
	finish, end := "Finish", store.Finish{To: execution.Completed}
	if fails {
		finish, end = "Finish, failed", store.Finish{To: execution.Failed, Reason: execution.Validation}
	}
	for i := range items {
		items[i].ActionRef = "noop"
	}
	step("Create", func() error {
		created, err := k.Create(k.ctx, items)
		for i := range created {
			ids[i], keys[i] = created[i].ID, execution.Key{ID: created[i].ID, Epoch: 1}
		}
		return err
	})
	step("DispatchDue", func() error { return dispatchDue(k.Store, k.worker, n) })
	k.dispatched += n
	step("MarkPublished", func() error { return errorOf(k.MarkPublished(k.ctx, keys)) })
	cs, fs, os := make([]store.Claim, n), make([]store.Finish, n), make([]store.Orchestration, n)
	for i := range keys {
		cs[i], fs[i], os[i] = store.Claim{Key: keys[i], Beat: 1}, end, store.Orchestration{ID: ids[i]}
		fs[i].Key = keys[i]
	}
	step("Claim", func() error {
		results, err := k.Claim(k.ctx, k.worker, cs)
		for i := range results {
			if !results[i].Applied {
				return fmt.Errorf("refused: %+v", results[i])
			}
		}
		return err
	})
	step("Workers", func() error {
		_, err := k.Workers(k.ctx, nil)
		return err
	})
	step("Executions", func() error {
		_, err := k.Executions(k.ctx, ids)
		return err
	})
	step(finish, func() error {
		results, err := k.Finish(k.ctx, k.worker, fs)
		for i := range results {
			if !results[i].Applied || results[i].Row.OrchestratedAt.IsZero() != fails {
				return fmt.Errorf("not as requested: %+v", results[i])
			}
		}
		return err
	})
	if fails {
		step("Orchestrate", func() error {
			results, err := k.Orchestrate(k.ctx, os)
			for i := range results {
				if !results[i].Applied {
					return fmt.Errorf("not applied: %+v", results[i])
				}
			}
			return err
		})
	}
	return costs
}

// The allowed cost of a statement, as cost counts it: rows for each row of the batch, and rows for the call.
// The most expensive, DispatchDue, has 50 and 370, half of it for the lanes. A plan that compares the rows of
// a batch with each other has 110 and more for a row; one that reads unwanted rows has thousands.
const (
	rowsOfARow  = 53
	rowsOfACall = 390
	// The pages of a statement: its own, those of its indexes and of its audit.
	pagesOfARow  = 70
	pagesOfACall = 200
	// DispatchDue walks a lane three times. It skips the index entries of rows that have left the lane, but
	// reads each of these rows as long as any transaction in the database might still see it in the lane.
	pagesOfTheGone = 3
)

// dueScript is a script that makes n executions that wait for any worker.
func dueScript(n int) string {
	return fmt.Sprintf(`insert into execution (action, action_ref, runtime, entrypoint, max_retries, status, epoch, due_at, created, written_by)
select 1, 'noop', 'noop', '', 0, 'requested', 0, now(), now(), 'api'
  from generate_series(1, %d) n`, n)
}

// judgeDispatches dispatches batches of due executions, and returns those that cost too much. Each also counts
// the worker's rows, so a small batch must come first.
func (k *keeper) judgeDispatches(where string, sizes ...int) (wrong []string) {
	k.Helper()
	for _, n := range sizes {
		k.observer.plans = nil
		k.must(dispatchDue(k.Store, k.worker, n))
		k.dispatched += n
		k.must(k.observer.wrong)
		wrong = append(wrong, k.tooMuch(where, "DispatchDue", n, k.observer.totalCost())...)
	}
	return wrong
}

// tooMuch describes what is wrong with the cost of a statement for n rows, if anything is.
func (k *keeper) tooMuch(where, name string, n int, c observed) []string {
	k.Helper()
	if os.Getenv("PLANS") != "" {
		k.Logf("%s, %s of %d: %v rows/pages, %.1f and %.1f a row", where, name, n, c.cost, c.rows/float64(n), c.buffers/float64(n))
	}
	besides := pagesOfACall
	if name == "DispatchDue" {
		besides += pagesOfTheGone * k.dispatched
	}
	if c.rows <= float64(rowsOfACall+rowsOfARow*n) && c.buffers <= float64(besides+pagesOfARow*n) {
		return nil
	}
	return []string{fmt.Sprintf("%s: %s of %d rows costs %v rows/pages, more than %d and %d for each row of a batch, and %d and %d besides:%s",
		where, name, n, c.cost, rowsOfARow, pagesOfARow, rowsOfACall, besides, grownNodes(observed{}, c))}
}

// judgeLives runs batches of several sizes through their lives and returns the statements that cost too much.
func (k *keeper) judgeLives(where string, sizes ...int) (wrong []string) {
	k.Helper()
	for _, n := range sizes {
		for _, fails := range []bool{false, true} {
			for name, c := range k.runLife(n, fails) {
				wrong = append(wrong, k.tooMuch(where, name, n, c)...)
			}
		}
	}
	return wrong
}

// expectKeptPlans fails if a statement of an execution's life was planned for its arguments.
func (k *keeper) expectKeptPlans() {
	k.Helper()
	rows, err := k.session.Query(k.ctx, "select statement, generic_plans, custom_plans from pg_prepared_statements where parameter_types <> '{}'", pgx.QueryExecModeSimpleProtocol)
	k.must(err)
	found := 0
	for rows.Next() {
		var sql string
		var generic, custom int64
		k.must(rows.Scan(&sql, &generic, &custom))
		for _, mark := range []string{"where w.id = r.id offset 0", "null::bigint as existing", "set published_at", "set status = 'running'", "set status = j.ask_to", "from clock c cross join worker w", "chain, null, null, null, null", "rival as materialized"} {
			if !strings.Contains(sql, mark) {
				continue
			}
			found++
			if custom > 0 || generic == 0 {
				k.Errorf("planned %d times for its arguments, %d times the plan that was kept: %s", custom, generic, statementStart(sql))
			}
			break
		}
	}
	k.must(rows.Err())
	if found < 8 {
		k.Errorf("%d statements of an execution's life were found in the session, want 8 at least", found)
	}
}

// The statements of an execution's life keep their plans. A plan made on an empty table, or on one that seems
// tiny by its statistics, still works on a large one: nothing grows with the table, and only in proportion
// with the batch. The same holds for plans made after an analyze.
func TestKeptPlans(t *testing.T) {
	for _, begins := range []string{"on an empty table", "on a tiny table with statistics"} {
		t.Run(begins, func(t *testing.T) {
			t.Parallel()
			k := newKeeper(t, nil)
			if begins != "on an empty table" {
				k.runScript(finishedScript(3) + "; analyze execution_record; analyze execution_work; analyze worker; analyze worker_incarnation; analyze action")
			}
			report := func(wrong []string) {
				t.Helper()
				for _, w := range wrong {
					t.Error(w)
				}
			}
			report(k.judgeLives("first", 1))
			k.runScript(finishedScript(10_000))
			report(k.judgeLives("with 10,000 finished executions and no statistics of them", 1, 10, 100, 200))
			k.runScript("analyze execution_record; analyze execution_work")
			report(k.judgeLives("with 10,000 finished executions and statistics", 10, 100, 200))
			if begins == "on an empty table" && testenv.All() {
				k.runScript(finishedScript(290_000))
				report(k.judgeLives("with 300,000 and statistics of 10,000", 100))
				k.runScript("analyze execution_record; analyze execution_work")
				report(k.judgeLives("with 300,000 and statistics", 10, 100, 200))
			}
			k.runScript(inBulk(dueScript(20_000)))
			report(k.judgeDispatches("with 20,000 due executions and no statistics of them", 1, 100))
			k.runScript("analyze execution_record; analyze execution_work")
			report(k.judgeDispatches("with 20,000 due executions and statistics", 100))
			k.expectKeptPlans()
		})
	}
}

// restriction is the part of a statement that keeps its plan from reading an index from end to end;
// see core/store/postgres/plans.go.
var restriction = regexp.MustCompile(`[erw]\.id = any\((\$\d+::bigint\[\]|array\(select \w+ from \w+\))\) and |and [erw]\.id = any\((\$\d+::bigint\[\]|array\(select \w+ from \w+\))\)|where e\.id = any\(array\(select ask_id from named\)\)`)

// The test detects the same statements without the part that leaves the planner one choice.
func TestKeptPlansDetectsExpensivePlans(t *testing.T) {
	for name, rewrite := range map[string]func(sql string) string{
		"without keys known before the join": func(sql string) string {
			return restriction.ReplaceAllString(sql, "")
		},
		"with nested loops": func(sql string) string {
			return strings.Replace(sql, "set_config('enable_hashjoin', 'on', true), set_config('enable_nestloop', 'off', true)", "true, true", 1)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := newKeeper(t, rewrite)
			k.judgeLives("first", 1)
			k.runScript(finishedScript(10_000))
			if wrong := k.judgeLives("later", 100); len(wrong) == 0 {
				t.Error("no statement costs too much")
			} else {
				t.Log(wrong[0])
			}
		})
	}
}
