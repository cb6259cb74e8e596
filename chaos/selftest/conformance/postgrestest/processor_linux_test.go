package postgrestest_test

import (
	"context"
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
)

// BenchmarkProcessor reports the cost in PostgreSQL of the statements of an execution's life:
// microseconds of its processor time and bytes of its log for each row, with one caller that makes
// calls of so many rows, one after the other. Every second batch is claimed and dispatched in two
// steps, and fails without a retry, so that its end is handled by a separate statement. A busy
// machine increases all figures, so compare two versions in turns. -benchtime is the number of
// batches.
//
//	go test -run '^$' -bench Processor -benchtime 100x ./chaos/selftest/conformance/postgrestest
func BenchmarkProcessor(b *testing.B) {
	for _, rows := range []int{1, 30, 100} {
		b.Run(fmt.Sprintf("rows=%d", rows), func(b *testing.B) { benchmarkLives(b, rows) })
	}
}

// backend measures the only session of a store, and the server's log.
type backend struct {
	*testing.B
	stat string
	log  *pgx.Conn
}

// usage is nanoseconds of processor time and bytes of log.
type usage struct{ ns, bytes float64 }

func (b *backend) currentUsage() (u usage) {
	b.Helper()
	text, err := os.ReadFile(b.stat)
	fatal(b.B, err)
	ns, err := strconv.ParseFloat(strings.Fields(string(text))[0], 64)
	fatal(b.B, err)
	var bytes float64
	fatal(b.B, b.log.QueryRow(context.Background(), "select pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::float8").Scan(&bytes))
	return usage{ns, bytes}
}

// observeBackend opens a store with one session on an empty database, and finds the process behind it.
func observeBackend(b *testing.B) (*postgres.Store, *backend) {
	ctx, url := context.Background(), servers.Database(b).URL
	var pid uint32
	s, err := postgres.Open(ctx, url, postgres.Options{
		Migrate: true, MaxConns: 1, Tracer: &sessions{opened: func(c *pgx.Conn) { pid = c.PgConn().PID() }},
	})
	fatal(b, err)
	b.Cleanup(s.Close)
	log, err := pgx.Connect(ctx, url)
	fatal(b, err)
	b.Cleanup(func() { _ = log.Close(ctx) })
	k := &backend{B: b, stat: fmt.Sprintf("/proc/%d/schedstat", pid), log: log}
	if name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid)); err != nil || !strings.HasPrefix(string(name), "postgres") {
		b.Fatalf("process %d of this machine is %q (%v), want a session of PostgreSQL: the benchmark needs a server on this machine, outside of containers", pid, name, err)
	}
	return s, k
}

func benchmarkLives(b *testing.B, rows int) {
	ctx := context.Background()
	s, k := observeBackend(b)
	r, err := s.Register(ctx, store.Registration{Process: 1, Attempt: 1, Name: "w", Runtimes: []string{"noop"}, Capacity: 1 << 30, Lease: time.Hour})
	fatal(b, err)
	w := r.WorkerKey
	_, err = s.Heartbeat(ctx, store.Beat{WorkerKey: w, Number: 1, Lease: time.Hour, ConsumerAlive: true})
	fatal(b, err)
	fatal(b, s.SetLifecycle(ctx, w, execution.Active))
	fatal(b, s.PutActions(ctx, []execution.Action{{Ref: "noop", Runtime: "noop"}}))

	spent, counted := make(map[string]usage), make(map[string]int)
	measuring := false
	stage := func(name string, call func() error) {
		before := k.currentUsage()
		fatal(b, call())
		after := k.currentUsage()
		if !measuring {
			return
		}
		t := spent[name]
		spent[name], counted[name] = usage{t.ns + after.ns - before.ns, t.bytes + after.bytes - before.bytes}, counted[name]+rows
	}
	life := func(fails bool) {
		keys, ids := make([]execution.Key, rows), make([]execution.ID, rows)
		stage("create", func() error {
			items := make([]store.NewExecution, rows)
			for i := range items {
				items[i] = store.NewExecution{ActionRef: "noop", Parameters: []byte(`{"n":1}`)}
			}
			created, err := s.Create(ctx, items)
			for i := range created {
				keys[i], ids[i] = execution.Key{ID: created[i].ID, Epoch: 1}, created[i].ID
			}
			return err
		})
		stage("workers", func() error {
			_, err := s.Workers(ctx, nil)
			return err
		})
		if fails {
			inTwoSteps(b, s, w, rows, stage)
		} else {
			stage("due", func() error { return dispatchDue(s, w, rows) })
		}
		stage("mark", func() error { return errorOf(s.MarkPublished(ctx, keys)) })
		stage("claim", func() error {
			cs := make([]store.Claim, rows)
			for i := range cs {
				cs[i] = store.Claim{Key: keys[i], Beat: 1}
			}
			results, err := s.Claim(ctx, w, cs)
			for i := range results {
				if !results[i].Applied {
					return fmt.Errorf("a claim was refused: %+v", results[i])
				}
			}
			return err
		})
		finish, to, reason := "finish", execution.Completed, execution.NoReason
		if fails {
			finish, to, reason = "fail", execution.Failed, execution.Validation
		}
		stage(finish, func() error {
			fs := make([]store.Finish, rows)
			for i := range fs {
				fs[i] = store.Finish{Key: keys[i], To: to, Reason: reason, Result: execution.Result{Output: []byte(`{"ok":true}`)}}
			}
			results, err := s.Finish(ctx, w, fs)
			for i := range results {
				if !results[i].Applied {
					return fmt.Errorf("an end was refused: %+v", results[i])
				}
			}
			return err
		})
		if !fails {
			return
		}
		stage("read", func() error {
			_, err := s.Executions(ctx, ids)
			return err
		})
		stage("orchestrate", func() error {
			os := make([]store.Orchestration, rows)
			for i := range os {
				os[i] = store.Orchestration{ID: ids[i]}
			}
			_, err := s.Orchestrate(ctx, os)
			return err
		})
	}
	for n := range 10 {
		life(n%2 == 1)
	}
	measuring = true
	b.ResetTimer()
	for n := range b.N {
		life(n%2 == 1)
	}
	b.StopTimer()
	b.ReportMetric(0, "ns/op") // a wall clock's
	for name, u := range spent {
		b.ReportMetric(u.ns/1000/float64(counted[name]), name+"-µs")
		b.ReportMetric(u.bytes/float64(counted[name]), name+"-B")
	}
}

// BenchmarkProcessorOfPurge reports the cost of a step of the retention, for each purged execution and each
// purged line of its audit.
func BenchmarkProcessorOfPurge(b *testing.B) {
	const copies = 20_000
	for _, limit := range []int{100, 1000} {
		b.Run(fmt.Sprintf("limit=%d", limit), func(b *testing.B) {
			ctx := context.Background()
			s, k := observeBackend(b)
			exec := func(sql string, args ...any) {
				_, err := k.log.Exec(ctx, sql, args...)
				fatal(b, err)
			}
			exec("set session_replication_role = replica")
			left, spent := map[string]int{}, map[string]usage{}
			for range b.N {
				exec(`insert into execution_record (action, action_ref, runtime, entrypoint, max_retries, created, status, ended, orchestrated_at, written_by, parameters, result)
					select 1, 'a', 'shell', '/bin/a', 1, now() - interval '2 days', 'completed', now() - interval '2 days', now() - interval '2 days', 'api',
					       '{"n": 1}', '{"output": "done"}' from generate_series(1, $1::int)`, copies)
				exec(`insert into transition_group (transaction, base, members, "to", epoch, old_epoch, named_epoch, writer, at)
					select '3', n * 64, -1, 'requested', 0, 0, 0, 'api', now() - interval '2 days' from generate_series(1, $1::int) n`, copies*5/64)
				exec("analyze")
				for _, what := range []store.Kept{store.KeptExecutions, store.KeptTransitions} {
					before, p := k.currentUsage(), store.Purge{What: what, Age: 24 * time.Hour, Limit: limit}
					for {
						done, err := s.Purge(ctx, p)
						fatal(b, err)
						left[what.String()] += done.Removed
						if p.After = done.Next; !done.More {
							break
						}
					}
					after, t := k.currentUsage(), spent[what.String()]
					spent[what.String()] = usage{t.ns + after.ns - before.ns, t.bytes + after.bytes - before.bytes}
				}
			}
			b.ReportMetric(0, "ns/op") // a wall clock's
			for name, u := range spent {
				b.ReportMetric(u.ns/1000/float64(left[name]), name+"-µs")
				b.ReportMetric(u.bytes/float64(left[name]), name+"-B")
			}
		})
	}
}

// dispatchDue claims and dispatches n rows in one step.
func dispatchDue(s *postgres.Store, w store.WorkerKey, rows int) error {
	offered := make([]store.Place, rows)
	for i := range offered {
		offered[i] = store.Place{Worker: w, Limit: 1 << 20}
	}
	due, err := s.DispatchDue(context.Background(), store.DueDispatch{
		Executor: "e", Expiry: time.Hour, Timeout: time.Hour, Offers: []store.Offer{{Runtimes: []string{"noop"}, Spread: offered, Packed: offered}},
	})
	if err == nil && len(due.Rows) != rows {
		err = fmt.Errorf("%d of %d rows were dispatched", len(due.Rows), rows)
	}
	return err
}

// inTwoSteps claims n rows and then dispatches them.
func inTwoSteps(b *testing.B, s *postgres.Store, w store.WorkerKey, rows int, stage func(string, func() error)) {
	b.Helper()
	ctx := context.Background()
	var claimed []execution.Execution
	stage("schedule", func() (err error) {
		claimed, err = s.ClaimForScheduling(ctx, store.SchedulingClaim{
			Executor: "e", Expiry: time.Hour, Demands: []store.Demand{{Runtime: "noop", Limit: rows}},
		})
		return err
	})
	stage("dispatch", func() error {
		ds := make([]store.Dispatch, len(claimed))
		for i := range claimed {
			ds[i] = store.Dispatch{Key: claimed[i].Key(), Worker: w, Timeout: time.Hour}
		}
		_, err := s.Dispatch(ctx, "e", ds)
		return err
	})
}
