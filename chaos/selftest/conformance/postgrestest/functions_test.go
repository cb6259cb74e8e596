package postgrestest_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"handoff/core/config"
	"handoff/core/execution"
	"handoff/core/store"
	"handoff/core/testenv"
)

// The function of the database and the decision of the retry manager are the same rule in two languages.
func TestRetriableFunctionMatchesRetryManager(t *testing.T) {
	b := newFixture(t)
	// Rows of every kind, including impossible ones.
	b.execSQL(`do $$ declare c record; begin
		for c in select conrelid::regclass as relation, conname from pg_constraint
			where conrelid in ('execution_record'::regclass, 'execution_work'::regclass) and contype = 'c' loop
			execute format('alter table %s drop constraint %I', c.relation, c.conname);
		end loop; end $$`)
	b.execSQL("set session_replication_role = replica")
	b.execSQL(`insert into execution (action, action_ref, runtime, entrypoint, status, failure_reason, retry_count, max_retries, due_at, created, written_by)
		select 1, 'a', 'shell', 'x', s.status, f.reason, n.count, m.most, now(), now(), 'api'
		  from unnest(enum_range(null::execution_status)) s (status), unnest(enum_range(null::failure_reason) || null::failure_reason) f (reason),
		       generate_series(0, 3) n (count), generate_series(0, 3) m (most)`)
	rows, err := b.conn.Query(b.ctx, `select status::text, coalesce(failure_reason::text, ''), retry_count, max_retries, is_execution_retriable(id) from execution`)
	b.must(err)
	var status, reason string
	var e execution.Execution
	var retriable bool
	seen := map[bool]int{}
	_, err = pgx.ForEachRow(rows, []any{&status, &reason, &e.RetryCount, &e.Action.MaxRetries, &retriable}, func() (err error) {
		if e.Status, err = execution.ParseStatus(status); err != nil {
			return err
		}
		if e.FailureReason, err = execution.ParseReason(reason); err != nil {
			return err
		}
		seen[retriable]++
		if retriable != e.Retriable() {
			t.Errorf("%s for %q after %d of %d retries: the database says %v, the domain %v", status, reason, e.RetryCount, e.Action.MaxRetries, retriable, !retriable)
		}
		return nil
	})
	b.must(err)
	if n := (execution.Statuses - int(execution.Requested)) * (len(execution.Reasons()) + 1) * 16; seen[true]+seen[false] != n || seen[true] == 0 {
		t.Errorf("%d rows were compared, of %d; retriable %d", seen[true]+seen[false], n, seen[true])
	}
	var unknown bool
	b.scanRow("select is_execution_retriable(-1)", nil, &unknown)
	if unknown {
		t.Error("an execution that does not exist is retriable")
	}
}

// isEligible reports whether the scheduler would give work to a worker that no other worker can replace: it
// fits one of its runtimes, and its own figures do not make it unhealthy.
func isEligible(w *store.WorkerRow, c config.Config) bool {
	fits := slices.ContainsFunc(w.Runtimes, w.Fits)
	return fits && c.Health.Of(w.Evidence(c.Health.Window), 0) != execution.Unhealthy
}

// The view and the function are compared with the scheduler's reads, for fleets in which every condition of a
// worker meets every other one.
func TestEligibleWorkersMatchScheduler(t *testing.T) {
	c := config.Default(config.Hardened)
	seeds := uint64(2)
	if testenv.All() {
		seeds = 6
	}
	for seed := range seeds {
		b := newFixture(t)
		// The view uses the server's clock. With the test's clock an hour ahead, leases stay valid
		// there for the duration of the test.
		b.now = time.Now().Add(time.Hour)
		draw := rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // reproducible
		one := func(of ...int) int { return of[draw.IntN(len(of))] }
		for n := range 60 {
			w := b.activeWorker(fmt.Sprint("w", n))
			b.generateWork(w, draw)
			lifecycle := []execution.Lifecycle{execution.Starting, execution.Active, execution.Draining, execution.Stopped, execution.Lost}[one(0, 1, 1, 1, 1, 1, 1, 2, 3, 4)]
			figures := execution.Figures{Total: one(0, 20, 30), Consecutive: one(0, 0, 3, 10)}
			figures.Failed = max(figures.Consecutive, figures.Total*one(0, 0, 4, 9)/10)
			figures.Total = max(figures.Total, figures.Failed)
			if lifecycle == execution.Active {
				_, err := b.Heartbeat(b.ctx, store.Beat{
					WorkerKey: w, Number: 2, Lease: lease, ConsumerAlive: one(0, 1, 1) == 1, Figures: figures, Health: c.Health.Of(figures, 0),
				})
				b.must(err)
			}
			if one(0, 0, 0, 1) == 1 {
				_, err := b.SetCordon(b.ctx, store.Cordon{Worker: w.ID, On: true, Reason: "test"})
				b.must(err)
			}
			over := time.Duration(one(0, 0, 3)) * time.Hour
			b.execSQL("update worker_incarnation set lifecycle = $2::text::worker_lifecycle, lease_expires_at = lease_expires_at - $3::interval where incarnation = $1",
				int64(w.Incarnation), lifecycle.String(), over)
		}
		rows, err := b.Workers(b.ctx, nil)
		b.must(err)
		var listed, chosen []int64
		b.scanRow("select coalesce(array_agg(id order by id), '{}') from healthy_workers", nil, &listed)
		for i := range rows {
			if isEligible(&rows[i], c) {
				chosen = append(chosen, int64(rows[i].ID))
			}
			var depth int
			b.scanRow("select get_worker_queue_depth($1)", []any{int64(rows[i].ID)}, &depth)
			if depth != rows[i].Queued {
				t.Errorf("seed %d: the queue of worker %d is %d deep, and the scheduler counts %d", seed, rows[i].ID, depth, rows[i].Queued)
			}
		}
		if !slices.Equal(listed, chosen) || len(listed) == 0 || len(listed) == len(rows) {
			t.Errorf("seed %d: the view lists %v, the scheduler may choose %v", seed, listed, chosen)
		}
	}
}

// generateWork gives a worker some executions in several statuses.
func (fi *fixture) generateWork(w store.WorkerKey, draw *rand.Rand) {
	fi.Helper()
	fi.execSQL("set session_replication_role = replica")
	fi.execSQL(`insert into execution (action, action_ref, runtime, entrypoint, max_retries, status, worker, incarnation, epoch, scheduled_at, dispatch_deadline,
			started_at, run_deadline, claim_beat, due_at, created, written_by)
		select 1, 'a', 'shell', 'x', 0, s.status::execution_status, $1, $2, 1, now(), now(), case when s.status = 'running' then now() end, now(), 1, now(), now(), 'api'
		  from (select case when n <= $3 then 'scheduled' else 'running' end as status from generate_series(1, $4::int) n) s`,
		int64(w.ID), int64(w.Incarnation), draw.IntN(5), 5)
	fi.execSQL("set session_replication_role = origin")
}

// A dispatch to an earlier incarnation still waits in the worker's queue. The function counts it.
// The scheduler does not, because it counts the rows of the present incarnation.
func TestQueueDepthIncludesEarlierIncarnations(t *testing.T) {
	b := newFixture(t)
	w := b.activeWorker("w")
	b.scheduledExecution(w)
	b.advanceClock(2 * lease)
	again := b.registerWorker("w", 8)
	if again.ID != w.ID {
		t.Fatalf("%v registered as %v", w, again)
	}
	var depth int
	b.scanRow("select get_worker_queue_depth($1)", []any{int64(w.ID)}, &depth)
	rows, err := b.Workers(b.ctx, nil)
	b.must(err)
	if depth != 1 || rows[0].Queued != 0 {
		t.Errorf("the queue is %d deep, and the present incarnation holds %d of it", depth, rows[0].Queued)
	}
}
