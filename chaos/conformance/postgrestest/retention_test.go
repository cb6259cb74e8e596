package postgrestest_test

import (
	"testing"
	"time"

	"handoff/chaos/audit"
	"handoff/core/config"
	"handoff/core/execution"
	"handoff/core/store"
)

// The audit leaves by its time alone, in the order of the stream, and readers are told up to which
// place.
func TestTheAuditLeavesInOrderAndSaysUpToWhere(t *testing.T) {
	b := setup(t)
	for range 3 {
		b.requested()
	}
	b.exec("update execution_transition set at = now() - interval '3 hours'")
	old := b.changes(store.ChangeQuery{Limit: 100})
	young := b.requested()
	b.expect("deleted at first", old.Gone, store.Position{})
	p := store.Purge{What: store.KeptTransitions, Age: time.Hour, Limit: 2}
	for _, want := range []store.Purged{{Removed: 2, More: true}, {Removed: 1}, {}} {
		done, err := b.Purge(b.ctx, p)
		b.must(err)
		b.expect("a step", done, want)
	}
	left := b.changes(store.ChangeQuery{Limit: 100})
	b.expect("how many are left", len(left.Changes), 1)
	b.expect("of the youngest", left.Changes[0].Execution, young)
	b.expect("the place", left.Gone, old.Changes[2].Position)
	b.expect("told of the end, too", b.changes(store.ChangeQuery{}).Gone, left.Gone)
}

// A line that was written late, by a transaction that began early, is behind no place.
func TestNoLineIsLeftBehindThePlace(t *testing.T) {
	b := setup(t)
	tx, err := b.pool().Begin(b.ctx)
	b.must(err)
	_, err = tx.Exec(b.ctx, "select pg_current_xact_id()")
	b.must(err)
	b.requested()
	b.exec("update execution_transition set at = now() - interval '3 hours'")
	p := store.Purge{What: store.KeptTransitions, Age: time.Hour, Limit: 10}
	done, err := b.Purge(b.ctx, p)
	b.must(err)
	b.expect("deleted while an older transaction goes on", done.Removed, 0)
	b.must(tx.Rollback(b.ctx))
	done, err = b.Purge(b.ctx, p)
	b.must(err)
	b.expect("afterwards", done.Removed, 1)
}

// What a retention has deleted is not judged, and the judgement says so.
func TestAnAuditWhoseBeginningIsGoneIsJudgedWithoutIt(t *testing.T) {
	b := setup(t)
	cut, whole, gone := b.requested(), execution.ID(0), b.requested()
	b.exec("update execution_record set created = now() - interval '3 hours'")
	b.exec("update execution_transition set at = now() - interval '3 hours' where execution = $1", int64(cut))
	_, err := b.Purge(b.ctx, store.Purge{What: store.KeptTransitions, Age: time.Hour, Limit: 10})
	b.must(err)
	b.exec("delete from execution where id = $1", int64(gone))
	whole = b.requested()
	r, err := audit.Judge(b.ctx, b.url, audit.Options{Config: config.Default(config.Hardened)})
	b.must(err)
	if r.Since.IsZero() || time.Since(r.Since) < 2*time.Hour {
		t.Errorf("the audit is said to be whole since %v", r.Since)
	}
	if r.Executions != 1 || r.Left != 1 || len(r.Violations) != 0 {
		t.Errorf("%d executions are judged, want 1, execution %d; %d are said to have left, want 1; %+v", r.Executions, whole, r.Left, r.Violations)
	}
}
