package postgrestest_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"handoff/core/store"
	"handoff/core/store/postgres"
	"handoff/core/testenv"
)

// insertWaiting inserts an execution manually that waits in a lane, due some time ago.
func (fi *fixture) insertWaiting(action, worker int64, runtime string, ago time.Duration) {
	fi.Helper()
	fi.execSQL(`insert into execution (action, action_ref, runtime, entrypoint, max_retries, concurrency, pinned_worker, due_at, created, written_by)
		values (greatest($1::bigint, 1), 'a', $3, '/bin/a', 1, case when $1::bigint > 0 then 100 end, nullif($2::bigint, 0), $4, $4, 'api')`,
		action, worker, runtime, fi.now.Add(-ago))
}

// claimedCount is the number of rows that a store claims in all lanes.
func (fi *fixture) claimedCount(s *postgres.Store, others int) int {
	fi.Helper()
	rows, err := s.ClaimForScheduling(fi.ctx, store.SchedulingClaim{Executor: "e", Expiry: time.Minute, Others: others})
	fi.must(err)
	return len(rows)
}

// A lane that the store does not know is found at once, wherever it lies among the known ones.
func TestUnknownLanesAreFoundAtOnce(t *testing.T) {
	b := newFixture(t)
	b.execSQL("insert into action (ref, runtime, entrypoint, max_retries, concurrency) select 'a' || n, 'r', '/bin/a', 1, 100 from generate_series(1, 5) n")
	b.execSQL("insert into concurrency_slot (action, number) select a.id, n from action a, generate_series(1, 100) n")
	runtimes := []string{"a", "B", "b-1", "b1", "Z", "é", "zz", "_"}
	for seed := range uint64(40) {
		random := rand.New(rand.NewPCG(seed, 1))
		insert := func(most int) (n int, text string) {
			for range random.IntN(most) {
				action, worker, runtime := random.Int64N(6), random.Int64N(4), runtimes[random.IntN(len(runtimes))]
				b.insertWaiting(action, worker, runtime, 0)
				text += fmt.Sprintf(" %d/%s/%d", action, runtime, worker)
				n++
			}
			return n, text
		}
		s := b.openStore(postgres.Options{MaxConns: 1, Now: b.readClock, SlowWalk: 1})
		known, first := insert(12)
		if n := b.claimedCount(s, 0); n > 0 {
			t.Fatalf("%d rows are claimed, want none", n)
		}
		unknown, second := insert(12)
		if n := b.claimedCount(s, 1000); n != known+unknown {
			t.Errorf("seed %d: %d rows are claimed, want %d: lanes%s, and then%s", seed, n, known+unknown, first, second)
		}
		s.Close()
		b.execSQL("update concurrency_slot set execution = null, taken_at = null where execution is not null")
		b.execSQL("delete from execution")
	}
}

// A row that appears behind a bound, by an edit, is found by the next walk from the head.
func TestRowsBehindBoundAreFoundLater(t *testing.T) {
	testenv.Nightly(t, "it waits for ten seconds; TestFullWalksTakeFivePercentOfTime has the schedule")
	b := newFixture(t)
	b.Store = b.openStore(postgres.Options{Now: b.readClock, SlowWalk: 1})
	if n := b.claimedCount(b.Store, 10); n > 0 {
		t.Fatalf("%d rows are claimed, want none", n)
	}
	b.insertWaiting(0, 0, "a", time.Hour)
	for began, claimed := time.Now(), 0; claimed == 0; time.Sleep(100 * time.Millisecond) {
		if claimed = b.claimedCount(b.Store, 10); time.Since(began) > testenv.Patience() {
			t.Fatal("the row is not found")
		}
	}
}
