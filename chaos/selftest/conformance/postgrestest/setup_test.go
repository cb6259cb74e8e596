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

// The server is this package's own: the stream of changes and the audit's retention end before the oldest
// transaction of the whole server, whatever database it is in.
func TestMain(m *testing.M) { servers.MainAlone(m) }

// fixture is a store on its own database. Its clock stands still until the test moves it, so that
// moments are exact. Statements by hand go through conn.
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

// beginning is when every test begins, by the database's clock.
var beginning = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

const lease = 90 * time.Second

// editable lets a test write impossible rows into the view execution: in the role of a replica, in
// which no other trigger fires. The second statement makes sessions read the view's triggers anew.
const editable = `do $$ begin
    update pg_trigger set tgenabled = 'A' where tgname = 'execution_by_hand';
    alter view execution reset (security_barrier);
end $$`

func setup(t *testing.T) *fixture {
	t.Helper()
	b := &fixture{T: t, ctx: t.Context(), url: servers.Database(t).URL, now: beginning}
	// Tests edit rows by hand, and so behind bounds.
	b.Store = b.open(postgres.Options{Migrate: true, Now: b.clock, NoBounds: true})
	conn, err := pgx.Connect(b.ctx, b.url)
	b.must(err)
	b.conn = conn
	b.exec(editable)
	t.Cleanup(func() { conn.Close(context.Background()) })
	return b
}

// open opens another store on the same database.
func (b *fixture) open(o postgres.Options) *postgres.Store {
	b.Helper()
	s, err := postgres.Open(b.ctx, b.url, o)
	b.must(err)
	b.Cleanup(s.Close)
	return s
}

func (b *fixture) clock() (time.Time, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.now, true
}

func (b *fixture) sleep(d time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.now = b.now.Add(d)
}

func (b *fixture) must(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

// published records the broker's confirm of dispatches that no other transaction has locked.
func (b *fixture) published(keys ...execution.Key) {
	b.Helper()
	left, err := b.MarkPublished(b.ctx, keys)
	b.must(err)
	if len(left) > 0 {
		b.Fatalf("left unmarked although nobody has locked them: %v", left)
	}
}

// exec executes SQL by hand.
func (b *fixture) exec(sql string, args ...any) {
	b.Helper()
	_, err := b.conn.Exec(b.ctx, sql, args...)
	b.must(err)
}

// scan reads one line by hand.
func (b *fixture) scan(sql string, args []any, into ...any) {
	b.Helper()
	b.must(b.conn.QueryRow(b.ctx, sql, args...).Scan(into...))
}

// register registers a worker, and worker makes it active and consuming as well.
func (b *fixture) register(name string, process uint64) store.WorkerKey {
	b.Helper()
	b.attempt++
	newest, err := b.Newest(b.ctx, name)
	b.must(err)
	r, err := b.Register(b.ctx, store.Registration{
		Process: process, Attempt: b.attempt, After: newest, Name: name, Runtimes: []string{"shell"}, Capacity: 10, Lease: lease,
	})
	b.must(err)
	return r.WorkerKey
}

func (b *fixture) worker(name string) store.WorkerKey {
	b.Helper()
	w := b.register(name, 7)
	b.beat(w, 1)
	b.must(b.SetLifecycle(b.ctx, w, execution.Active))
	return w
}

func (b *fixture) beat(w store.WorkerKey, number uint64, held ...execution.Key) []execution.Key {
	b.Helper()
	reply, err := b.Heartbeat(b.ctx, store.Beat{WorkerKey: w, Number: number, Lease: lease, ConsumerAlive: true, Held: held})
	b.must(err)
	return reply.Lost
}

var action = execution.Action{Ref: "a", Runtime: "shell", Entrypoint: "/bin/a", Timeout: 10 * time.Second, MaxRetries: 1}

// requested creates an execution.
func (b *fixture) requested() execution.ID {
	b.Helper()
	b.must(b.PutActions(b.ctx, []execution.Action{action}))
	created, err := b.Create(b.ctx, []store.NewExecution{{ActionRef: "a"}})
	b.must(err)
	return created[0].ID
}

// scheduling creates an execution and claims it for executor "e".
func (b *fixture) scheduling() execution.Execution {
	b.Helper()
	id := b.requested()
	rows, err := b.ClaimForScheduling(b.ctx, store.SchedulingClaim{
		Executor: "e", Expiry: 15 * time.Second, Demands: []store.Demand{{Runtime: "shell", Limit: 1}},
	})
	b.must(err)
	if len(rows) != 1 || rows[0].ID != id {
		b.Fatalf("claimed %v for scheduling, created %v", rows, id)
	}
	return rows[0]
}

// scheduled creates an execution and dispatches it, with a dispatch deadline of 20 s.
func (b *fixture) scheduled(w store.WorkerKey) execution.Key {
	b.Helper()
	row := b.scheduling()
	results, err := b.Dispatch(b.ctx, "e", []store.Dispatch{{Key: row.Key(), Worker: w, Timeout: 20 * time.Second}})
	b.must(err)
	if !results[0].Applied {
		b.Fatalf("the dispatch was refused: %+v", results[0])
	}
	return results[0].Row.Key()
}

func (b *fixture) running(w store.WorkerKey) execution.Key {
	b.Helper()
	key := b.scheduled(w)
	if r := b.claim(w, key); !r.Applied {
		b.Fatalf("the claim was refused: %+v", r)
	}
	return key
}

func (b *fixture) claim(w store.WorkerKey, key execution.Key) store.ClaimResult {
	b.Helper()
	results, err := b.Claim(b.ctx, w, []store.Claim{{Key: key, Beat: 1}})
	b.must(err)
	return results[0]
}

func (b *fixture) finish(w store.WorkerKey, f store.Finish) store.Outcome {
	b.Helper()
	results, err := b.Finish(b.ctx, w, []store.Finish{f})
	b.must(err)
	return results[0]
}

func (b *fixture) reclaim(r store.Reclaim) store.Outcome {
	b.Helper()
	results, err := b.Reclaim(b.ctx, []store.Reclaim{r})
	b.must(err)
	return results[0]
}

func (b *fixture) row(id execution.ID) execution.Execution {
	b.Helper()
	rows, err := b.Executions(b.ctx, []execution.ID{id})
	b.must(err)
	if len(rows) != 1 {
		b.Fatalf("execution %d: %v", id, rows)
	}
	return rows[0]
}

// found lists the ids that a cause finds.
func (b *fixture) found(cause store.ReclaimCause, age time.Duration) []execution.ID {
	b.Helper()
	rows, err := b.Find(b.ctx, store.Finding{Cause: cause, Age: age, Limit: 100})
	b.must(err)
	ids := []execution.ID{}
	for i := range rows {
		ids = append(ids, rows[i].ID)
	}
	return ids
}
