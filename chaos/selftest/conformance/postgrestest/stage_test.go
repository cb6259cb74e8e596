package postgrestest_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"handoff/chaos/history"
	"handoff/chaos/selftest/conformance/storetest"
	"handoff/core/execution"
	"handoff/core/store/postgres"
	"handoff/core/testenv"
	"handoff/sim/kernel"
	"handoff/sim/simnet"
	"handoff/sim/simstore"
)

// stage is a situation on its own database, saved so that it can be restored, and the same situation on the
// model.
type stage struct {
	*fixture
	*storetest.Stage
	modelStage *storetest.Stage
	model      storetest.State
	// one and two are the stores that call at the same time.
	one, two *caller
	// watch is the store that shows the result. It keeps its plans, because planning is most of its cost.
	watch *postgres.Store
	// met are the methods that another call has met.
	met map[string]bool
}

// caller is a store whose statements can be distinguished from those of others.
type caller struct {
	*postgres.Store
	gate *gate
	name string
	// hand is a session for manual edits of rows.
	hand *pgx.Conn
}

// EditByHand implements storetest.Editor.
func (c *caller) EditByHand(ctx context.Context, id execution.ID, maxRetries int) error {
	_, err := c.hand.Exec(ctx, "update execution set max_retries = $2 where id = $1", int64(id), maxRetries)
	return err
}

// kept are the tables that make up the situation, with their keys, and whether their rows are locked.
var kept = []struct {
	table, key string
	locked     bool
}{
	{"action", "id", true},
	{"concurrency_slot", "action, number", true},
	{"worker", "id", true},
	{"worker_incarnation", "incarnation", true},
	{"worker_expiry", "", false},
	{"execution_record", "id", true},
	{"execution_work", "id", true},
	{"execution_unhandled", "", false},
	{"dead_letter", "id", true},
	{"observation", "id", true},
	{"refused_result", "id", false},
}

// newStage prepares a situation. If rewrite is not nil, it rewrites the statements of the two
// callers.
func newStage(t *testing.T, situation storetest.Situation, rewrite func(sql string) string) *stage {
	b := newFixture(t)
	begin := b.now
	s := &stage{fixture: b, met: make(map[string]bool)}
	k := kernel.New(kernel.Options{Start: b.now})
	t.Cleanup(k.Close)
	db := simstore.New(k, simnet.New(k), history.Tee{})
	real := storetest.Subject{Store: b.Store, Advance: b.advanceClock, LeaveSlot: b.leaveSlot}
	s.Stage = situation.Prepare(t, real)
	s.modelStage = situation.Prepare(t, storetest.Subject{
		Store: db.Detached(), Advance: func(d time.Duration) { db.Clock().Step(d) },
		LeaveSlot: rowEditor(t, db, func(tx *simstore.Tx, id execution.ID) { tx.HandleKeepingSlot(id, nil) }),
	})
	s.model = modelState(db)
	if got, want := s.Shown(b.Store), s.modelStage.Shown(s.model.Clone().Store); got != want {
		t.Fatalf("the situation is not the model's:\n%s", storetest.Orders{want}.Explain(got))
	}
	// Shown has made two calls.
	b.emptyDatabase()
	b.now = begin
	s.Stage = situation.Prepare(t, real)
	s.saveState()
	s.one, s.two = s.newCaller("one", rewrite), s.newCaller("two", rewrite)
	s.watch = s.openStore(postgres.Options{Now: s.readClock, NoBounds: true, MaxConns: 1, Tracer: &sessions{set: map[string]string{"plan_cache_mode": "force_generic_plan"}}})
	return s
}

func (s *stage) newCaller(name string, rewrite func(sql string) string) *caller {
	c := &caller{gate: new(gate), name: name}
	c.gate.sessions = sessions{set: map[string]string{"application_name": name, "deadlock_timeout": "10"}, rewrite: rewrite}
	c.Store = s.openStore(postgres.Options{Now: s.readClock, NoBounds: true, MaxConns: 2, Tracer: c.gate, RowLockTimeout: testenv.Patience()})
	s.connectHand(c)
	return c
}

// connectHand opens the session of a caller who edits rows manually.
func (s *stage) connectHand(c *caller) {
	config, err := pgx.ParseConfig(s.url)
	s.must(err)
	config.RuntimeParams["application_name"], config.RuntimeParams["deadlock_timeout"], config.Tracer = c.name, "10", c.gate
	c.hand, err = pgx.ConnectConfig(s.ctx, config)
	s.must(err)
	s.Cleanup(func() { c.hand.Close(s.ctx) })
}

// saveState saves the present state of the database.
func (s *stage) saveState() {
	// From here on, manual statements fire neither triggers nor foreign keys.
	s.execSQL(`set session_replication_role = replica`)
	s.execSQL(`create schema kept`)
	s.execSQL(`create table kept.restored (by text)`)
	// A function keeps the plans of its statements.
	sql := []string{"delete from transition_group", "delete from kept.restored", "insert into kept.restored values (pg_current_xact_id()::text)"}
	for _, k := range kept {
		s.execSQL(fmt.Sprintf("create table kept.%s as table public.%[1]s", k.table))
		var columns string
		s.scanRow(`select string_agg(quote_ident(column_name), ', ') from information_schema.columns
			where table_schema = 'public' and table_name = $1 and is_generated = 'NEVER'`, []any{k.table}, &columns)
		sql = append(sql, "delete from "+k.table, fmt.Sprintf("insert into %s (%s) overriding system value select %[2]s from kept.%[1]s", k.table, columns))
		if k.key == "id" || k.key == "incarnation" {
			sql = append(sql, fmt.Sprintf("perform setval(pg_get_serial_sequence('%s', '%s'), (select coalesce(max(%[2]s), 0) + 1 from %[1]s), false)", k.table, k.key))
		}
	}
	s.execSQL("create function kept.restore() returns void language plpgsql as $$ begin " + strings.Join(sql, ";\n") + "; end $$")
}

// restoreState restores the situation.
func (s *stage) restoreState() {
	s.Helper()
	s.execSQL("select kept.restore()")
}

// lock is something that a call can wait for: a row, or the name in Write.Meets.
type lock string

// touchedRows are the rows that were locked, changed or deleted since the situation was restored: a
// lock leaves its transaction on the row, and a change leaves another version.
func (s *stage) touchedRows() (locks []lock) {
	s.Helper()
	var parts []string
	for _, k := range kept {
		if !k.locked {
			continue
		}
		key := "k." + strings.ReplaceAll(k.key, ", ", ", k.")
		parts = append(parts, fmt.Sprintf(`select '%s where (%s) = (' || concat_ws(', ', %s) || ')' from kept.%[1]s k left join %[1]s t using (%[2]s)
			where t.xmin is null or t.xmin::text <> (select by from kept.restored) or t.xmax::text <> '0'`, k.table, k.key, key))
	}
	rows, err := s.conn.Query(s.ctx, strings.Join(parts, " union all ")+" order by 1")
	s.must(err)
	locks, err = pgx.CollectRows(rows, pgx.RowTo[lock])
	s.must(err)
	return locks
}

// holdLock takes a lock until the transaction is over.
func (s *stage) holdLock(l lock) pgx.Tx {
	s.Helper()
	tx, err := s.conn.Begin(s.ctx)
	s.must(err)
	switch l {
	case "key new":
		_, err = tx.Exec(s.ctx, `insert into execution (action, action_ref, runtime, entrypoint, max_retries, due_at, created, written_by, idempotency_key)
			values (1, 'a', 'a', 'a', 0, now(), now(), 'api', 'new')`)
	case "name new":
		_, err = tx.Exec(s.ctx, `insert into worker (name, incarnation) values ('new', 1)`)
	case "turn":
		_, err = tx.Exec(s.ctx, `select pg_advisory_xact_lock(hashtextextended('handoff.dispatch', $1))`, int64(s.Worker().Incarnation))
	default:
		_, err = tx.Exec(s.ctx, "select from "+string(l)+" for update")
	}
	s.must(err)
	return tx
}

// underway is a call that has begun.
type underway struct {
	by     *caller
	done   chan struct{}
	answer storetest.Answer
}

func (s *stage) beginCall(by *caller, w storetest.Write) *underway {
	u := &underway{by: by, done: make(chan struct{})}
	go func() {
		defer close(u.done)
		u.answer = w.Do(s.ctx, by)
	}()
	return u
}

// awaitStop returns once the call has ended, is blocked on a lock, or has reached its caller's closed gate. It
// reports whether the call has stopped for now.
func (s *stage) awaitStop(u *underway, gated bool) (stopped bool) {
	s.Helper()
	if gated {
		select {
		case <-u.by.gate.reached:
			return true
		case <-u.done:
			return false
		}
	}
	for {
		select {
		case <-u.done:
			return false
		default:
		}
		s.scanRow(`select exists (select from pg_stat_activity where application_name = $1 and wait_event_type = 'Lock' and datname = current_database())`,
			[]any{u.by.name}, &stopped)
		if stopped {
			return true
		}
	}
}

// awaitEnd waits for the end of a call.
func (s *stage) awaitEnd(u *underway) {
	s.Helper()
	select {
	case <-u.done:
	case <-time.After(testenv.Patience()):
		s.Fatalf("a call is not over after %v", testenv.Patience())
	}
}

// callFootprint is the locks of a call that is made alone, and the number of its statements.
func (s *stage) callFootprint(w storetest.Write) (locks []lock, statements int) {
	s.Helper()
	s.restoreState()
	s.one.gate.armAt(0)
	u := s.beginCall(s.one, w)
	s.awaitEnd(u)
	statements, _ = s.one.gate.seenStatements()
	locks = s.touchedRows()
	for _, m := range w.Meets {
		locks = append(locks, lock(m))
	}
	slices.Sort(locks)
	return locks, statements
}
