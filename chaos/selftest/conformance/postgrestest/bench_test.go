package postgrestest_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"handoff/chaos/servers"
	"handoff/core/execution"
	"handoff/core/store"
	"handoff/core/store/postgres"
)

// BenchmarkHandoff runs executions from their creation to their end and reports the rows per second of each
// stage: in calls of 100 rows by a few callers, and in single calls by many callers, which the store batches.
//
//	go test -run '^$' -bench Handoff -benchtime 20000x ./chaos/selftest/conformance/postgrestest
func BenchmarkHandoff(b *testing.B) {
	for _, audit := range []bool{true, false} {
		for _, shape := range []struct{ callers, rows int }{{2, 100}, {4, 100}, {256, 1}} {
			b.Run(fmt.Sprintf("audit=%v/callers=%d/rows=%d", audit, shape.callers, shape.rows), func(b *testing.B) {
				benchmarkHandoff(b, audit, shape.callers, shape.rows)
			})
		}
	}
}

// openActive opens a store with one worker that gets every execution.
func openActive(ctx context.Context, b *testing.B, audit bool) (*postgres.Store, store.WorkerKey) {
	url := servers.Database(b).URL
	s, err := postgres.Open(ctx, url, postgres.Options{Migrate: true})
	fatal(b, err)
	b.Cleanup(s.Close)
	if !audit {
		conn, err := pgx.Connect(ctx, url)
		fatal(b, err)
		_, err = conn.Exec(ctx, "select set_execution_audit(false)")
		fatal(b, err)
		fatal(b, conn.Close(ctx))
	}
	r, err := s.Register(ctx, store.Registration{Process: 1, Attempt: 1, Name: "w", Runtimes: []string{"noop"}, Capacity: 1 << 30, Lease: time.Hour})
	fatal(b, err)
	_, err = s.Heartbeat(ctx, store.Beat{WorkerKey: r.WorkerKey, Number: 1, Lease: time.Hour, ConsumerAlive: true})
	fatal(b, err)
	fatal(b, s.SetLifecycle(ctx, r.WorkerKey, execution.Active))
	fatal(b, s.PutActions(ctx, []execution.Action{{Ref: "noop", Runtime: "noop"}}))
	return s, r.WorkerKey
}

func benchmarkHandoff(b *testing.B, audit bool, callers, rows int) {
	ctx := context.Background()
	s, w := openActive(ctx, b, audit)
	keys := make([]execution.Key, b.N)

	b.ResetTimer()
	stage := func(name string, callers, rows int, call func(at, end int) error) {
		start := time.Now()
		next := make(chan int)
		var wg sync.WaitGroup
		for range callers {
			wg.Go(func() {
				for at := range next {
					if err := call(at, min(at+rows, b.N)); err != nil {
						b.Error(err)
					}
				}
			})
		}
		for at := 0; at < b.N; at += rows {
			next <- at
		}
		close(next)
		wg.Wait()
		b.ReportMetric(float64(b.N)/time.Since(start).Seconds(), name+"/s")
	}
	stage("create", callers, rows, func(at, end int) error {
		items := make([]store.NewExecution, end-at)
		for i := range items {
			items[i] = store.NewExecution{ActionRef: "noop", Parameters: []byte(`{"n":1}`)}
		}
		created, err := s.Create(ctx, items)
		for i := range created {
			keys[at+i] = execution.Key{ID: created[i].ID, Epoch: 1}
		}
		return err
	})
	stage("schedule", 2, 100, func(at, end int) error {
		claimed, err := s.ClaimForScheduling(ctx, store.SchedulingClaim{
			Executor: "e", Expiry: time.Hour, Demands: []store.Demand{{Runtime: "noop", Limit: end - at}},
		})
		if err != nil {
			return err
		}
		var ds []store.Dispatch
		for i := range claimed {
			ds = append(ds, store.Dispatch{Key: claimed[i].Key(), Worker: w, Timeout: time.Hour})
		}
		_, err = s.Dispatch(ctx, "e", ds)
		return err
	})
	stage("publish", callers, rows, func(at, end int) error { return errorOf(s.MarkPublished(ctx, keys[at:end])) })
	start := time.Now()
	stage("claim", callers, rows, func(at, end int) error {
		cs := make([]store.Claim, end-at)
		for i := range cs {
			cs[i] = store.Claim{Key: keys[at+i], Beat: 1}
		}
		results, err := s.Claim(ctx, w, cs)
		for i := range results {
			if !results[i].Applied {
				return fmt.Errorf("refused: %+v", results[i])
			}
		}
		return err
	})
	stage("finish", callers, rows, func(at, end int) error {
		fs := make([]store.Finish, end-at)
		for i := range fs {
			fs[i] = store.Finish{Key: keys[at+i], To: execution.Completed, Result: execution.Result{Output: []byte(`{"ok":true}`)}}
		}
		_, err := s.Finish(ctx, w, fs)
		return err
	})
	b.ReportMetric(float64(b.N)/time.Since(start).Seconds(), "claim+finish/s")
}

func fatal(b *testing.B, err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}
