package postgrestest_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"handoff/chaos/selftest/conformance/storetest"
	"handoff/core/execution"
	"handoff/core/store"
	"handoff/core/store/postgres"
	"handoff/core/testenv"
)

// In all other tests the clock of the database is the test's, so they do not show which clock of PostgreSQL a
// statement reads. A moment must be read when a statement has the locks that it waits for. If a lease or a
// deadline counted from the beginning of the transaction, it would be too short by the wait, and rows that
// came due during the wait would be missed. So these tests use the real clock, and make each call wait for a
// lock on all tables.

// momentsEach is the number of situations in which each method is tested.
const momentsEach = 3

// offsets are the times after its own moment at which a call sets a deadline, in this package.
var offsets = []time.Duration{
	0, storetest.Lease, storetest.DispatchTimeout, storetest.RunTimeout, 15 * time.Second, time.Second, time.Minute, 5 * time.Second,
}

// realTime prepares a stage for the real clock: moved is a script that moves the situation to now,
// and within finds the moments of the database in an interval.
func (s *stage) realTime() (moved, within string) {
	s.Helper()
	rows, err := s.conn.Query(s.ctx, `
		select table_name::text, column_name::text from information_schema.columns
		 where table_schema = 'public' and data_type = 'timestamp with time zone' and is_generated = 'NEVER' order by 1, 2`)
	s.must(err)
	var moves, reads []string
	columns := make(map[string][]string)
	var table, column string
	_, err = pgx.ForEachRow(rows, []any{&table, &column}, func() error {
		columns[table] = append(columns[table], column)
		return nil
	})
	s.must(err)
	for _, k := range kept {
		var sets []string
		for _, c := range columns[k.table] {
			sets = append(sets, fmt.Sprintf("%s = %[1]s + $1", c))
		}
		if len(sets) > 0 {
			moves = append(moves, fmt.Sprintf("update %s set %s", k.table, strings.Join(sets, ", ")))
		}
		for _, c := range columns[k.table] {
			reads = append(reads, fmt.Sprintf("select '%s.%s' as place, %[2]s as at from %[1]s", k.table, c))
		}
	}
	reads = append(reads,
		`select 'execution_transition.at', at from execution_transition`,
		`select 'worker_incarnation.capabilities', (capabilities #>> '{health,last_check}')::timestamptz from worker_incarnation`)
	s.execSQL("create function kept.move(interval) returns void language plpgsql as $$ begin " + strings.Join(moves, "; ") + "; end $$")
	return "select kept.move(clock_timestamp() - $1::timestamptz)",
		`select distinct m.place || ' ' || (m.at - o)::text || ', between ' || ($1::timestamptz)::text || ' and ' || ($2::timestamptz)::text from (` + strings.Join(reads, " union all ") + `) m, unnest($3::interval[]) o
		  where m.at - o >= $1::timestamptz and m.at - o < $2::timestamptz order by 1`
}

// testMoments makes each writing method wait for a lock on all tables, and searches its writes for moments
// before the end of the wait.
func (s *stage) testMoments(m *meetings, attempts []*attempt) {
	s.Helper()
	moved, within := s.realTime()
	c := &caller{gate: new(gate), name: "real"}
	c.gate.sessions = sessions{set: map[string]string{"application_name": c.name}}
	c.Store = s.openStore(postgres.Options{NoBounds: true, MaxConns: 1, Tracer: c.gate, RowLockTimeout: testenv.Patience()})
	s.connectHand(c)
	for _, a := range attempts {
		if _, unseen := alone[a.Method]; !a.effective && !unseen || !m.needsMoments(a.Method) {
			continue
		}
		early, back := s.earlyMoments(c, a, moved, within)
		for tries := 0; len(early) > 0 && back > 0 && tries < 3; tries++ {
			s.Logf("the machine's clock went back by %v, so %v is tested again; it wrote %v", back, a, early)
			early, back = s.earlyMoments(c, a, moved, within)
		}
		if len(early) > 0 {
			s.Errorf("%v wrote moments at which it still waited for its locks: %v", a, early)
		}
	}
}

// earlyMoments makes a call wait for a lock on all tables, and returns the moments before the end of the wait
// that it has written. back is the time by which the machine's clock was set back meanwhile: then a moment
// after the wait may seem to be before it.
func (s *stage) earlyMoments(c *caller, a *attempt, moved, within string) (early []string, back time.Duration) {
	s.Helper()
	c.gate.armAt(0)
	// The first time its statements are prepared, in their own transactions.
	for range 2 {
		s.awaitEnd(s.beginCall(c, a.Write))
		s.restoreState()
		s.execSQL(moved, s.now)
	}
	tx := s.lockAll()
	start := time.Now()
	var began, over time.Time
	s.scanRow("select clock_timestamp()", nil, &began)
	u := s.beginCall(c, a.Write)
	if !s.awaitStop(u, false) {
		s.Errorf("%v did not wait for the tables", a)
	}
	s.scanRow("select clock_timestamp()", nil, &over)
	s.must(tx.Rollback(s.ctx))
	s.awaitEnd(u)
	end := time.Now()
	rows, err := s.conn.Query(s.ctx, within, began, over, offsets)
	s.must(err)
	early, err = pgx.CollectRows(rows, pgx.RowTo[string])
	s.must(err)
	elapsed := end.Sub(start) // by the monotonic clock
	slowed := elapsed / 1000  // Linux slows a clock down by 500 parts in a million at most
	return early, max(0, elapsed-slowed-end.Round(0).Sub(start.Round(0)))
}

// needsMoments reports whether the moments of a method should be tested once more.
func (m *meetings) needsMoments(method string) (more bool) {
	m.updateCounts(func() {
		m.moments[method]++
		more = m.moments[method] <= momentsEach
	})
	return more
}

// lockAll locks every table until the transaction is over.
func (fi *fixture) lockAll() pgx.Tx {
	fi.Helper()
	tx, err := fi.conn.Begin(fi.ctx)
	fi.must(err)
	tables := []string{"transition_group"}
	for _, k := range kept {
		tables = append(tables, k.table)
	}
	_, err = tx.Exec(fi.ctx, "lock table "+strings.Join(tables, ", ")+" in access exclusive mode")
	fi.must(err)
	return tx
}

// The answers, finds and deletions of a call depend on the moment at which its wait ended.
func TestCallsUseTimeAfterLockWait(t *testing.T) {
	b := newFixture(t)
	real := b.openStore(postgres.Options{NoBounds: true, MaxConns: 1, Tracer: &sessions{set: map[string]string{"application_name": "real"}}})
	b.Store = real
	w := b.activeWorker("w")
	key := b.scheduledExecution(w)
	b.must(errorOf(real.MarkPublished(b.ctx, nil)))
	created, err := real.Create(b.ctx, []store.NewExecution{{ActionRef: "a", IdempotencyKey: "k"}})
	b.must(err)
	b.must(real.StoreDeadLetters(b.ctx, store.DeadLetter{Queue: "q", Reason: "expired", Outcome: "kept", Open: true}))
	_, err = real.ObserveWorkers(b.ctx, []store.ProbedWorker{{WorkerKey: w, Reason: "refused"}})
	b.must(err)
	letters, err := real.DeadLetters(b.ctx, store.DeadLetterQuery{Limit: 1})
	b.must(err)
	observations, err := real.Observations(b.ctx, store.ObservationQuery{Limit: 1})
	b.must(err)

	// wait makes a call wait until a moment has passed, and returns the end of that wait.
	wait := func(what string, until time.Time, call func()) (over time.Time) {
		t.Helper()
		call() // its statements are prepared from here on
		tx := b.lockAll()
		done := make(chan struct{})
		go func() { defer close(done); call() }()
		waits := false
		for !waits || !over.After(until) {
			b.scanRow(`select exists (select from pg_stat_activity where application_name = 'real' and wait_event_type = 'Lock' and datname = current_database()),
				clock_timestamp()`, nil, &waits, &over)
		}
		b.must(tx.Rollback(b.ctx))
		<-done
		if t.Failed() {
			t.Fatal(what)
		}
		return over
	}
	not := func(what string, moment, over time.Time) {
		t.Helper()
		if moment.Before(over) {
			t.Errorf("%s is as of %v before the end of the wait", what, over.Sub(moment))
		}
	}
	fail := func(err error) {
		if err != nil {
			t.Error(err)
		}
	}
	var workers []store.WorkerRow
	over := wait("workers", time.Time{}, func() { workers, err = real.Workers(b.ctx, nil); fail(err) })
	not("the age of a heartbeat", workers[0].LastBeat.Add(workers[0].SinceBeat), over)
	var counted store.Survey
	over = wait("survey", time.Time{}, func() { counted, err = real.Survey(b.ctx); fail(err) })
	not("the age of the oldest scheduled row", b.readRow(key.ID).ScheduledAt.Add(waitingFor(&counted, execution.Scheduled)), over)
	var summary store.DeadLetterSummary
	over = wait("summary", time.Time{}, func() {
		summary, err = real.SummarizeDeadLetters(b.ctx, store.DeadLetterSummaryQuery{Window: time.Hour, Limit: 1})
		fail(err)
	})
	not("the end of the window", summary.Until, over)

	// Each of these comes due while the call waits.
	for _, c := range []struct {
		what  string
		since time.Time
		call  func(age time.Duration) (int, error)
	}{
		{"find", b.readRow(key.ID).ScheduledAt, func(age time.Duration) (int, error) {
			rows, err := real.Find(b.ctx, store.Finding{Cause: store.Unclaimed, Age: age, Limit: 1})
			return len(rows), err
		}},
		{"observe a reclaim", b.readRow(key.ID).ScheduledAt, func(age time.Duration) (int, error) {
			seen, err := real.ObserveReclaims(b.ctx, []store.Reclaim{{
				Key: key, Cause: store.Unclaimed, Age: age, By: execution.TimeoutMonitor, Reason: execution.DispatchTimeout, MaxDispatches: 2,
			}})
			return map[bool]int{true: 1}[err == nil && seen[0].New], err
		}},
		{"forget keys", b.readRow(created[0].ID).Created, func(age time.Duration) (int, error) { return real.ForgetKeys(b.ctx, age, 1) }},
		{"discard dead letters", letters[0].ReceivedAt, func(age time.Duration) (int, error) {
			done, err := real.DiscardDeadLetters(b.ctx, store.DeadLetterDiscard{OlderThan: age, Limit: 1}, "discarded")
			return done.Closed, err
		}},
		{"purge dead letters", letters[0].ReceivedAt, func(age time.Duration) (int, error) { return real.PurgeDeadLetters(b.ctx, age, 1) }},
		{"purge observations", observations[0].At, func(age time.Duration) (int, error) { return real.PurgeObservations(b.ctx, age, 1) }},
	} {
		var now time.Time
		b.scanRow("select clock_timestamp()", nil, &now)
		due := now.Add(50 * time.Millisecond)
		n, age := 0, time.Hour
		wait(c.what, due, func() {
			n, err = c.call(age)
			fail(err)
			age = due.Sub(c.since)
		})
		if n != 1 {
			t.Errorf("%s: what came due while the call waited was passed over", c.what)
		}
	}
}

func waitingFor(s *store.Survey, status execution.Status) time.Duration {
	for _, w := range s.Waiting {
		if w.Status == status {
			return w.Oldest
		}
	}
	return 0
}
