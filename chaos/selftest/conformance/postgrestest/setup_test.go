package postgrestest_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"handoff/chaos/servers"
	"handoff/core/execution"
	"handoff/core/store"
	"handoff/core/store/postgres"
)

// The package has its own server. The stream of changes and the audit's retention end before the oldest
// transaction of the whole server, in any of its databases.
func TestMain(m *testing.M) { servers.MainAlone(m) }

// fixture is a store on its own database. Its clock stands still until the test moves it, so that moments are
// exact. Manual statements use conn.
type fixture struct {
	*testing.T
	*postgres.Store
	ctx  context.Context
	url  string
	conn *pgx.Conn

	mu  sync.Mutex
	now time.Time
	// attempt numbers registrations.
	attempt uint64
	// emptied counts how often all rows were deleted.
	emptied int
}

// beginning is the time at which every test begins, by the database's clock.
var beginning = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

const lease = 90 * time.Second

// editable lets a test write impossible rows into the view execution: in the role of a replica, in which no
// other trigger fires. The second statement makes sessions reload the view's triggers.
const editable = `do $$ begin
    update pg_trigger set tgenabled = 'A' where tgname = 'execution_by_hand';
    alter view execution reset (security_barrier);
end $$`

func newFixture(t *testing.T) *fixture {
	t.Helper()
	b := &fixture{T: t, ctx: t.Context(), url: servers.Database(t).URL, now: beginning}
	// Tests edit rows manually, and so behind bounds.
	b.Store = b.openStore(postgres.Options{Migrate: true, Now: b.readClock, NoBounds: true})
	conn, err := pgx.Connect(b.ctx, b.url)
	b.must(err)
	b.conn = conn
	b.execSQL(editable)
	t.Cleanup(func() { conn.Close(context.Background()) })
	return b
}

// openStore opens another store on the same database.
func (fi *fixture) openStore(o postgres.Options) *postgres.Store {
	fi.Helper()
	s, err := postgres.Open(fi.ctx, fi.url, o)
	fi.must(err)
	fi.Cleanup(s.Close)
	return s
}

func (fi *fixture) readClock() (time.Time, bool) {
	fi.mu.Lock()
	defer fi.mu.Unlock()
	return fi.now, true
}

func (fi *fixture) advanceClock(d time.Duration) {
	fi.mu.Lock()
	defer fi.mu.Unlock()
	fi.now = fi.now.Add(d)
}

func (fi *fixture) must(err error) {
	fi.Helper()
	if err != nil {
		fi.Fatal(err)
	}
}

// markPublished records the broker's confirm of dispatches that no other transaction has locked.
func (fi *fixture) markPublished(keys ...execution.Key) {
	fi.Helper()
	left, err := fi.MarkPublished(fi.ctx, keys)
	fi.must(err)
	if len(left) > 0 {
		fi.Fatalf("left unmarked although no transaction has locked them: %v", left)
	}
}

// execSQL executes SQL directly, not through the store.
func (fi *fixture) execSQL(sql string, args ...any) {
	fi.Helper()
	_, err := fi.conn.Exec(fi.ctx, sql, args...)
	fi.must(err)
}

// scanRow reads one row directly, not through the store.
func (fi *fixture) scanRow(sql string, args []any, into ...any) {
	fi.Helper()
	fi.must(fi.conn.QueryRow(fi.ctx, sql, args...).Scan(into...))
}

// registerWorker registers a worker, and worker makes it active and consuming as well.
func (fi *fixture) registerWorker(name string, process uint64) store.WorkerKey {
	fi.Helper()
	fi.attempt++
	newest, err := fi.Newest(fi.ctx, name)
	fi.must(err)
	r, err := fi.Register(fi.ctx, store.Registration{
		Process: process, Attempt: fi.attempt, After: newest, Name: name, Runtimes: []string{"shell"}, Capacity: 10, Lease: lease,
	})
	fi.must(err)
	return r.WorkerKey
}

func (fi *fixture) activeWorker(name string) store.WorkerKey {
	fi.Helper()
	w := fi.registerWorker(name, 7)
	fi.sendHeartbeat(w, 1)
	fi.must(fi.SetLifecycle(fi.ctx, w, execution.Active))
	return w
}

func (fi *fixture) sendHeartbeat(w store.WorkerKey, number uint64, held ...execution.Key) []execution.Key {
	fi.Helper()
	reply, err := fi.Heartbeat(fi.ctx, store.Beat{WorkerKey: w, Number: number, Lease: lease, ConsumerAlive: true, Held: held})
	fi.must(err)
	return reply.Lost
}

var action = execution.Action{Ref: "a", Runtime: "shell", Entrypoint: "/bin/a", Timeout: 10 * time.Second, MaxRetries: 1}

// requestedExecution creates an execution.
func (fi *fixture) requestedExecution() execution.ID {
	fi.Helper()
	fi.must(fi.PutActions(fi.ctx, []execution.Action{action}))
	created, err := fi.Create(fi.ctx, []store.NewExecution{{ActionRef: "a"}})
	fi.must(err)
	return created[0].ID
}

// schedulingExecution creates an execution and claims it for executor "e".
func (fi *fixture) schedulingExecution() execution.Execution {
	fi.Helper()
	id := fi.requestedExecution()
	rows, err := fi.ClaimForScheduling(fi.ctx, store.SchedulingClaim{
		Executor: "e", Expiry: 15 * time.Second, Demands: []store.Demand{{Runtime: "shell", Limit: 1}},
	})
	fi.must(err)
	if len(rows) != 1 || rows[0].ID != id {
		fi.Fatalf("claimed %v for scheduling, created %v", rows, id)
	}
	return rows[0]
}

// scheduledExecution creates an execution and dispatches it, with a dispatch deadline of 20 s.
func (fi *fixture) scheduledExecution(w store.WorkerKey) execution.Key {
	fi.Helper()
	row := fi.schedulingExecution()
	results, err := fi.Dispatch(fi.ctx, "e", []store.Dispatch{{Key: row.Key(), Worker: w, Timeout: 20 * time.Second}})
	fi.must(err)
	if !results[0].Applied {
		fi.Fatalf("the dispatch was refused: %+v", results[0])
	}
	return results[0].Row.Key()
}

func (fi *fixture) runningExecution(w store.WorkerKey) execution.Key {
	fi.Helper()
	key := fi.scheduledExecution(w)
	if r := fi.claimDispatch(w, key); !r.Applied {
		fi.Fatalf("the claim was refused: %+v", r)
	}
	return key
}

func (fi *fixture) claimDispatch(w store.WorkerKey, key execution.Key) store.ClaimResult {
	fi.Helper()
	results, err := fi.Claim(fi.ctx, w, []store.Claim{{Key: key, Beat: 1}})
	fi.must(err)
	return results[0]
}

func (fi *fixture) finishRun(w store.WorkerKey, f store.Finish) store.Outcome {
	fi.Helper()
	results, err := fi.Finish(fi.ctx, w, []store.Finish{f})
	fi.must(err)
	return results[0]
}

func (fi *fixture) reclaimRow(r store.Reclaim) store.Outcome {
	fi.Helper()
	results, err := fi.Reclaim(fi.ctx, []store.Reclaim{r})
	fi.must(err)
	return results[0]
}

func (fi *fixture) readRow(id execution.ID) execution.Execution {
	fi.Helper()
	rows, err := fi.Executions(fi.ctx, []execution.ID{id})
	fi.must(err)
	if len(rows) != 1 {
		fi.Fatalf("execution %d: %v", id, rows)
	}
	return rows[0]
}

// findRows lists the ids that the search for a cause returns.
func (fi *fixture) findRows(cause store.ReclaimCause, age time.Duration) []execution.ID {
	fi.Helper()
	rows, err := fi.Find(fi.ctx, store.Finding{Cause: cause, Age: age, Limit: 100})
	fi.must(err)
	ids := []execution.ID{}
	for i := range rows {
		ids = append(ids, rows[i].ID)
	}
	return ids
}
