package postgrestest_test

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"handoff/core/execution"
	"handoff/core/store"
	"handoff/core/store/postgres"
)

// The database refuses two claims together and accepts them one by one, and the worker's lease ends after the
// first. If the worker only learned of the ended lease, it would treat its own row as another worker's.
// Instead it learns that it must retry.
func TestLeaseEndBetweenClaimsLeavesDoubt(t *testing.T) {
	b := newFixture(t)
	w := b.activeWorker("w")
	keys := []execution.Key{b.scheduledExecution(w), b.scheduledExecution(w)}
	b.execSQL(`create function only_one() returns trigger language plpgsql as $$
begin if (select count(*) from n) > 1 then raise exception 'internal error' using errcode = 'XX000'; end if; return null; end $$`)
	b.execSQL("create trigger only_one after update on execution_work referencing new table as n for each statement execute function only_one()")
	var looks atomic.Int64
	s := b.openStore(postgres.Options{Now: func() (time.Time, bool) {
		now, _ := b.readClock()
		// The third statement is the claim of the second row.
		if looks.Add(1) == 3 {
			now = now.Add(2 * lease)
		}
		return now, true
	}})
	results, err := s.Claim(b.ctx, w, []store.Claim{{Key: keys[0], Beat: 1}, {Key: keys[1], Beat: 1}})
	if results != nil || !errors.Is(err, store.ErrUnknownOutcome) || errors.Is(err, store.ErrLeaseOver) {
		t.Errorf("two claims give %v and %v, want nothing and ErrUnknownOutcome alone", results, err)
	}
	if first, second := b.readRow(keys[0].ID).Status, b.readRow(keys[1].ID).Status; first != execution.Running || second != execution.Scheduled {
		t.Errorf("the rows are %v and %v, want running and scheduled", first, second)
	}
}
