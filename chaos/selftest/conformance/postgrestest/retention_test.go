package postgrestest_test

import (
	"slices"
	"testing"
	"time"

	"handoff/chaos/audit"
	"handoff/core/config"
	"handoff/core/execution"
	"handoff/core/store"
)

// of selects the groups that have a transition of execution $1.
const of = "base in ($1, $1 & ~63::bigint) and (members >> (($1 - base) & 63)::integer) & 1 = 1"

// The purge of the audit depends on time alone and follows the order of the stream. Readers learn the
// position up to which lines are gone.
func TestAuditPurgeReportsItsPosition(t *testing.T) {
	b := newFixture(t)
	for range 3 {
		b.requestedExecution()
	}
	b.execSQL("update transition_group set at = $1", b.now.Add(-3*time.Hour))
	old := b.readChanges(store.ChangeQuery{Limit: 100})
	young := b.requestedExecution()
	b.execSQL("update transition_group set at = $2 where "+of, int64(young), b.now)
	expectEqual(b, "deleted at first", old.Gone, store.Position{})
	p := store.Purge{What: store.KeptTransitions, Age: time.Hour, Limit: 2}
	for _, want := range []store.Purged{{Removed: 2, More: true}, {Removed: 1}, {}} {
		done, err := b.Purge(b.ctx, p)
		b.must(err)
		expectEqual(b, "a step", done, want)
	}
	left := b.readChanges(store.ChangeQuery{Limit: 100})
	expectEqual(b, "how many are left", len(left.Changes), 1)
	expectEqual(b, "of the youngest", left.Changes[0].Execution, young)
	expectEqual(b, "the position", left.Gone, old.Changes[2].Position)
	expectEqual(b, "told of the end, too", b.readChanges(store.ChangeQuery{}).Gone, left.Gone)
}

// A group is purged as a whole, and the limit bounds the groups of a step.
func TestAuditPurgeRemovesWholeGroups(t *testing.T) {
	b := newFixture(t)
	b.must(b.PutActions(b.ctx, []execution.Action{action}))
	for _, n := range []int{3, 2, 2, 1} {
		_, err := b.Create(b.ctx, slices.Repeat([]store.NewExecution{{ActionRef: "a"}}, n))
		b.must(err)
	}
	b.execSQL("update transition_group set at = $1", b.now.Add(-3*time.Hour))
	last := b.readChanges(store.ChangeQuery{Limit: 100}).Changes
	p := store.Purge{What: store.KeptTransitions, Age: time.Hour, Limit: 2}
	for i, want := range []store.Purged{{Removed: 5, More: true}, {Removed: 3, More: true}, {}} {
		done, err := b.Purge(b.ctx, p)
		b.must(err)
		expectEqual(b, "a step", done, want)
		if i == 0 {
			page := b.readChanges(store.ChangeQuery{Limit: 100})
			expectEqual(b, "the place", page.Gone, last[4].Position)
			expectEqual(b, "the next line", page.Changes[0].Position, last[5].Position)
		}
	}
}

// A line that was written late, by a transaction that began early, is behind no position.
func TestAuditPurgeLeavesNoEarlierLine(t *testing.T) {
	b := newFixture(t)
	b.requestedExecution()
	b.execSQL("update transition_group set at = $1, transaction = (pg_current_xact_id()::text::bigint + 1)::text::xid8", b.now.Add(-3*time.Hour))
	tx, err := b.conn.Begin(b.ctx)
	b.must(err)
	_, err = tx.Exec(b.ctx, "select pg_current_xact_id()")
	b.must(err)
	p := store.Purge{What: store.KeptTransitions, Age: time.Hour, Limit: 10}
	done, err := b.Purge(b.ctx, p)
	b.must(err)
	expectEqual(b, "deleted while an older transaction goes on", done.Removed, 0)
	b.must(tx.Rollback(b.ctx))
	done, err = b.Purge(b.ctx, p)
	b.must(err)
	expectEqual(b, "afterwards", done.Removed, 1)
}

// Executions that a retention has deleted are not judged, and the judgement reports that.
func TestJudgeAcceptsPurgedAuditStart(t *testing.T) {
	b := newFixture(t)
	cut, whole, gone := b.requestedExecution(), execution.ID(0), b.requestedExecution()
	b.execSQL("update execution_record set created = $1", b.now.Add(-3*time.Hour))
	b.execSQL("update transition_group set at = case when "+of+" then $2::timestamptz else $3 end", int64(cut), b.now.Add(-3*time.Hour), b.now)
	_, err := b.Purge(b.ctx, store.Purge{What: store.KeptTransitions, Age: time.Hour, Limit: 10})
	b.must(err)
	b.execSQL("delete from execution where id = $1", int64(gone))
	whole = b.requestedExecution()
	r, err := audit.Judge(b.ctx, b.url, audit.Options{Config: config.Default(config.Hardened)})
	b.must(err)
	if !r.Since.Equal(b.now.Add(-3 * time.Hour)) {
		t.Errorf("the audit is reported as complete since %v", r.Since)
	}
	if r.Executions != 1 || r.Left != 1 || len(r.Violations) != 0 {
		t.Errorf("%d executions are judged, want 1, execution %d; %d are reported as purged, want 1; %+v", r.Executions, whole, r.Left, r.Violations)
	}
}

// A large table of rows that have come of age is purged in as many steps as it has pages, and no step exceeds
// its limit. The log shows the speed.
func TestPurgeStepsAreBounded(t *testing.T) {
	b := newFixture(t)
	const rows, limit = 20_000, 1000
	b.execSQL("set session_replication_role = replica")
	b.execSQL(`insert into execution_record (action, action_ref, runtime, entrypoint, max_retries, created, status, ended, orchestrated_at, written_by, parameters, result)
		select 1, 'a', 'shell', '/bin/a', 1, $1, 'completed', $1, $1, 'api', '{"n": 1}', '{"output": "done"}' from generate_series(1, $2::int)`, b.now.Add(-2*time.Hour), rows)
	b.execSQL("set session_replication_role = origin")
	young := b.requestedExecution()
	p := store.Purge{What: store.KeptExecutions, Age: time.Hour, Limit: limit}
	began := time.Now()
	for n := 1; ; n++ {
		done, err := b.Purge(b.ctx, p)
		b.must(err)
		if p.After = done.Next; !done.More {
			expectEqual(b, "steps, with one that finds the end", n, rows/limit+1)
			break
		}
		expectEqual(b, "removed by a step", done.Removed, limit)
	}
	t.Logf("%d executions left in %v", rows, time.Since(began).Round(time.Millisecond))
	expectEqual(b, "what is young stays", b.readRow(young).ID, young)
}

// expectEqual fails the test if a value is not the wanted one.
func expectEqual[T comparable](b *fixture, what string, got, want T) {
	b.Helper()
	if got != want {
		b.Errorf("%s: %v, want %v", what, got, want)
	}
}
