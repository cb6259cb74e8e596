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

func setup(t *testing.T) *fixture {
	t.Helper()
	b := &fixture{T: t, ctx: t.Context(), url: servers.Database(t).URL, now: beginning}
	// Tests edit rows manually, and so behind bounds.
	b.Store = b.open(postgres.Options{Migrate: true, Now: b.clock, NoBounds: true})
	conn, err := pgx.Connect(b.ctx, b.url)
	b.must(err)
	b.conn = conn
	b.exec(editable)
	t.Cleanup(func() { conn.Close(context.Background()) })
	return b
}

// open opens another store on the same database.
func (fi *fixture) open(o postgres.Options) *postgres.Store {
	fi.Helper()
	s, err := postgres.Open(fi.ctx, fi.url, o)
	fi.must(err)
	fi.Cleanup(s.Close)
	return s
}

func (fi *fixture) clock() (time.Time, bool) {
	fi.mu.Lock()
	defer fi.mu.Unlock()
	return fi.now, true
}

func (fi *fixture) sleep(d time.Duration) {
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

// published records the broker's confirm of dispatches that no other transaction has locked.
func (fi *fixture) published(keys ...execution.Key) {
	fi.Helper()
	left, err := fi.MarkPublished(fi.ctx, keys)
	fi.must(err)
	if len(left) > 0 {
		fi.Fatalf("left unmarked although no transaction has locked them: %v", left)
	}
}

// exec executes SQL directly, not through the store.
func (fi *fixture) exec(sql string, args ...any) {
	fi.Helper()
	_, err := fi.conn.Exec(fi.ctx, sql, args...)
	fi.must(err)
}

// scan reads one row directly, not through the store.
func (fi *fixture) scan(sql string, args []any, into ...any) {
	fi.Helper()
	fi.must(fi.conn.QueryRow(fi.ctx, sql, args...).Scan(into...))
}

// register registers a worker, and worker makes it active and consuming as well.
func (fi *fixture) register(name string, process uint64) store.WorkerKey {
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

func (fi *fixture) worker(name string) store.WorkerKey {
	fi.Helper()
	w := fi.register(name, 7)
	fi.beat(w, 1)
	fi.must(fi.SetLifecycle(fi.ctx, w, execution.Active))
	return w
}

func (fi *fixture) beat(w store.WorkerKey, number uint64, held ...execution.Key) []execution.Key {
	fi.Helper()
	reply, err := fi.Heartbeat(fi.ctx, store.Beat{WorkerKey: w, Number: number, Lease: lease, ConsumerAlive: true, Held: held})
	fi.must(err)
	return reply.Lost
}

var action = execution.Action{Ref: "a", Runtime: "shell", Entrypoint: "/bin/a", Timeout: 10 * time.Second, MaxRetries: 1}

// requested creates an execution.
func (fi *fixture) requested() execution.ID {
	fi.Helper()
	fi.must(fi.PutActions(fi.ctx, []execution.Action{action}))
	created, err := fi.Create(fi.ctx, []store.NewExecution{{ActionRef: "a"}})
	fi.must(err)
	return created[0].ID
}

// scheduling creates an execution and claims it for executor "e".
func (fi *fixture) scheduling() execution.Execution {
	fi.Helper()
	id := fi.requested()
	rows, err := fi.ClaimForScheduling(fi.ctx, store.SchedulingClaim{
		Executor: "e", Expiry: 15 * time.Second, Demands: []store.Demand{{Runtime: "shell", Limit: 1}},
	})
	fi.must(err)
	if len(rows) != 1 || rows[0].ID != id {
		fi.Fatalf("claimed %v for scheduling, created %v", rows, id)
	}
	return rows[0]
}

// scheduled creates an execution and dispatches it, with a dispatch deadline of 20 s.
func (fi *fixture) scheduled(w store.WorkerKey) execution.Key {
	fi.Helper()
	row := fi.scheduling()
	results, err := fi.Dispatch(fi.ctx, "e", []store.Dispatch{{Key: row.Key(), Worker: w, Timeout: 20 * time.Second}})
	fi.must(err)
	if !results[0].Applied {
		fi.Fatalf("the dispatch was refused: %+v", results[0])
	}
	return results[0].Row.Key()
}

func (fi *fixture) running(w store.WorkerKey) execution.Key {
	fi.Helper()
	key := fi.scheduled(w)
	if r := fi.claim(w, key); !r.Applied {
		fi.Fatalf("the claim was refused: %+v", r)
	}
	return key
}

func (fi *fixture) claim(w store.WorkerKey, key execution.Key) store.ClaimResult {
	fi.Helper()
	results, err := fi.Claim(fi.ctx, w, []store.Claim{{Key: key, Beat: 1}})
	fi.must(err)
	return results[0]
}

func (fi *fixture) finish(w store.WorkerKey, f store.Finish) store.Outcome {
	fi.Helper()
	results, err := fi.Finish(fi.ctx, w, []store.Finish{f})
	fi.must(err)
	return results[0]
}

func (fi *fixture) reclaim(r store.Reclaim) store.Outcome {
	fi.Helper()
	results, err := fi.Reclaim(fi.ctx, []store.Reclaim{r})
	fi.must(err)
	return results[0]
}

func (fi *fixture) row(id execution.ID) execution.Execution {
	fi.Helper()
	rows, err := fi.Executions(fi.ctx, []execution.ID{id})
	fi.must(err)
	if len(rows) != 1 {
		fi.Fatalf("execution %d: %v", id, rows)
	}
	return rows[0]
}

// found lists the ids that the search for a cause returns.
func (fi *fixture) found(cause store.ReclaimCause, age time.Duration) []execution.ID {
	fi.Helper()
	rows, err := fi.Find(fi.ctx, store.Finding{Cause: cause, Age: age, Limit: 100})
	fi.must(err)
	ids := []execution.ID{}
	for i := range rows {
		ids = append(ids, rows[i].ID)
	}
	return ids
}
