package live

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"handoff/chaos/fault"
	"handoff/chaos/scenario"
	"handoff/chaos/servers"
	"handoff/core/execution"
	"handoff/core/store"
	"handoff/core/store/postgres"
)

// databaseWorld returns a world with only a database, prepared as for a run.
func databaseWorld(t *testing.T) *world {
	t.Helper()
	set := servers.Own(t, servers.Options{Postgres: true})
	db, err := set.Postgres.CreateDatabase(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	w := &world{sandbox: &Sandbox{servers: set}, scenario: &scenario.Scenario{}, folder: t.TempDir(), ctx: ctx, cancel: cancel, db: db}
	t.Cleanup(func() {
		w.store.Close()
		w.pool.Close()
		if err := errors.Join(db.Drop(context.Background()), w.dropRole(context.Background())); err != nil {
			t.Errorf("dropping the database: %v", err)
		}
		if w.failReason() != "" {
			t.Errorf("the world failed: %s", w.failReason())
		}
	})
	if err := w.prepareDatabase(t.Context()); err != nil {
		t.Fatal(err)
	}
	return w
}

// daemonStore opens a store as a daemon does, with one connection.
func (w *world) daemonStore(t *testing.T, name string) (*postgres.Store, error) {
	t.Helper()
	address, err := w.daemonsURL()
	if err != nil {
		t.Fatal(err)
	}
	if address, err = rewriteAddress(address, mustHost(address), name); err != nil {
		t.Fatal(err)
	}
	s, err := postgres.Open(t.Context(), address, postgres.Options{Migrate: true, MaxConns: 1})
	if err == nil {
		t.Cleanup(s.Close)
	}
	return s, err
}

// registerWorker registers a worker.
func registerWorker(t *testing.T, s *postgres.Store, name string) error {
	t.Helper()
	_, err := s.Register(t.Context(), store.Registration{
		Process: uint64(time.Now().UnixNano()), Attempt: 1, Name: name, Runtimes: []string{"shell"}, Capacity: 1, Lease: time.Minute,
	})
	return err
}

// checkRefused checks that err is a transient error with this SQLSTATE.
func checkRefused(t *testing.T, what string, err error, code string) {
	t.Helper()
	var said *pgconn.PgError
	if !errors.Is(err, store.ErrUnavailable) || !errors.As(err, &said) || said.Code != code {
		t.Errorf("%s: %v, want ErrUnavailable with SQLSTATE %s", what, err, code)
	}
}

// touchCounter counts a fault's touches, and fails the test if the fault fails.
type touchCounter struct {
	fault.Runner
	t     *testing.T
	count int
}

func (tc *touchCounter) Touch(fault.Touched) { tc.count++ }

func (tc *touchCounter) Fail(err error) {
	if err != nil {
		tc.t.Error(err)
	}
}

// injection returns a fault for direct injection, and a function that returns its number of touches so far.
func injection(t *testing.T) (x *fault.Injection, touched func() int) {
	r := &touchCounter{t: t}
	return &fault.Injection{Name: "database", Runner: r}, func() int { return r.count }
}

// While the disk is full, clients can read but not write, on old and new connections. The harness can always
// write.
func TestFullDatabaseAllowsReadsOnly(t *testing.T) {
	w := databaseWorld(t)
	before, err := w.daemonStore(t, "before")
	if err != nil {
		t.Fatal(err)
	}
	if err := w.store.PutActions(t.Context(), []execution.Action{{Ref: "a", Runtime: "shell"}}); err != nil {
		t.Fatal(err)
	}
	x, touches := injection(t)
	undo, err := w.FillDatabase(x)
	if err != nil {
		t.Fatal(err)
	}
	during, err := w.daemonStore(t, "during")
	if err != nil {
		t.Fatalf("a daemon that starts meanwhile: %v", err)
	}
	for name, s := range map[string]*postgres.Store{"before": before, "during": during} {
		checkRefused(t, "a write through the pool from "+name, registerWorker(t, s, name), "53100")
		if workers, err := s.Workers(t.Context(), nil); err != nil || len(workers) != 0 {
			t.Errorf("a read through the pool from %s: %v, %v; want no workers", name, workers, err)
		}
	}
	_, err = w.store.Create(t.Context(), []store.NewExecution{{ActionRef: "a"}})
	checkRefused(t, "a submission", err, "53100")
	if err := w.execSQL("update worker set name = name"); err != nil {
		t.Errorf("a write of the harness: %v", err)
	}
	undo()
	if touched := touches(); touched != 1 {
		t.Errorf("the fault was touched %d times, want once", touched)
	}
	for name, s := range map[string]*postgres.Store{"before": before, "during": during} {
		if err := registerWorker(t, s, name); err != nil {
			t.Errorf("a write after the end, through the pool from %s: %v", name, err)
		}
	}
	if all, err := w.pool.Exec(t.Context(), "select from chaos_evidence where process in ('before', 'during')"); err != nil || all.RowsAffected() == 0 {
		t.Errorf("the evidence of the writes after the end: %v, %v", all, err)
	}
}

// While new connections are refused, a connected daemon still works, and evidence of its changes is written. A
// starting daemon is refused until the fault ends. A fault that has refused no connection has touched nothing.
func TestConnectionRefusalSparesExistingConnections(t *testing.T) {
	w := databaseWorld(t)
	before, err := w.daemonStore(t, "before")
	if err != nil {
		t.Fatal(err)
	}
	x, touches := injection(t)
	refuse := func(during func()) {
		t.Helper()
		undo, err := w.RefuseConnections(x)
		if err != nil {
			t.Fatal(err)
		}
		during()
		undo()
	}
	refuse(func() {})
	if touched := touches(); touched != 0 {
		t.Errorf("a fault without any new connection was touched %d times", touched)
	}
	refuse(func() {
		if err := registerWorker(t, before, "before"); err != nil {
			t.Errorf("a write through a connection from before: %v", err)
		}
		_, err := w.daemonStore(t, "during")
		checkRefused(t, "a daemon that starts", err, "53300")
		if err := w.execSQL("select 1"); err != nil {
			t.Errorf("a connection of the harness: %v", err)
		}
	})
	if touched := touches(); touched != 1 {
		t.Errorf("the fault was touched %d times, want once", touched)
	}
	during, err := w.daemonStore(t, "during")
	if err != nil {
		t.Fatalf("a daemon that starts after the end: %v", err)
	}
	if err := registerWorker(t, during, "during"); err != nil {
		t.Errorf("its first write: %v", err)
	}
	if all, err := w.pool.Exec(t.Context(), "select from chaos_evidence where process in ('before', 'during')"); err != nil || all.RowsAffected() == 0 {
		t.Errorf("the evidence: %v, %v", all, err)
	}
}

// The database receives a process's name as application_name, even a name with spaces, such as a twin's.
func TestRewriteAddressPassesNameToDatabase(t *testing.T) {
	address, err := rewriteAddress("postgres://a@127.0.0.1:1/x?sslmode=disable", "127.0.0.1:2", "shell-2 twin + 1")
	if err != nil {
		t.Fatal(err)
	}
	c, err := pgconn.ParseConfig(address)
	if err != nil {
		t.Fatal(err)
	}
	if got := c.RuntimeParams["application_name"]; got != "shell-2 twin + 1" {
		t.Errorf("the database receives the name %q", got)
	}
}
