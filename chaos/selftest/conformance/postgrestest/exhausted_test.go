package postgrestest_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"handoff/core/execution"
	"handoff/core/store"
	"handoff/core/store/postgres"
)

// expectUnavailable checks that nothing was applied, that a retry may help, and which code the server sent.
func (fi *fixture) expectUnavailable(what string, err error, code string) {
	fi.Helper()
	var said *pgconn.PgError
	if !errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrUnknownOutcome) {
		fi.Errorf("%s gives %v, want ErrUnavailable", what, err)
	} else if !errors.As(err, &said) || said.Code != code {
		fi.Errorf("%s gives %v, want SQLSTATE %s in it", what, err, code)
	}
}

// A full disk (53100) refuses each kind of write as long as it lasts. Reads continue, and nothing is half
// written, as in sim/simstore's SetFull.
func TestFullDiskRefusesWritesTemporarily(t *testing.T) {
	b := newFixture(t)
	w := b.activeWorker("w")
	key := b.scheduledExecution(w)
	b.execSQL(`create function full_disk() returns trigger language plpgsql as $$
begin raise exception 'could not extend file "base/1/1": No space left on device' using errcode = '53100'; end $$`)
	tables := []string{"execution_record", "execution_work", "worker_incarnation", "worker"}
	for _, table := range tables {
		b.execSQL(fmt.Sprintf("create trigger full_disk before insert or update or delete on %s for each statement execute function full_disk()", table))
	}
	_, err := b.Claim(b.ctx, w, []store.Claim{{Key: key, Beat: 1}})
	b.expectUnavailable("a batched statement", err, "53100")
	_, err = b.Heartbeat(b.ctx, store.Beat{WorkerKey: w, Number: 2, Lease: lease, ConsumerAlive: true})
	b.expectUnavailable("a pipeline", err, "53100")
	_, err = b.Register(b.ctx, store.Registration{Process: 9, Attempt: 1, Name: "other", Runtimes: []string{"shell"}, Capacity: 1, Lease: lease})
	b.expectUnavailable("a transaction", err, "53100")
	_, err = b.ClaimForScheduling(b.ctx, store.SchedulingClaim{Executor: "e", Expiry: lease, Demands: []store.Demand{{Runtime: "shell", Limit: 1}}})
	b.expectUnavailable("a claim that finds nothing", err, "53100")
	if s := b.readRow(key.ID).Status; s != execution.Scheduled {
		t.Errorf("the row is %v after refused writes, want scheduled", s)
	}
	rows, err := b.Workers(b.ctx, nil)
	b.must(err)
	if len(rows) != 1 || rows[0].Beat != 1 {
		t.Errorf("the workers after refused writes: %+v, want one with its first heartbeat", rows)
	}
	for _, table := range tables {
		b.execSQL("drop trigger full_disk on " + table)
	}
	if r := b.claimDispatch(w, key); !r.Applied {
		t.Errorf("a claim when there is room again: %+v", r)
	}
}

// A server that has no connection to spare (53300) refuses a new pool, with or without a migration, and
// further connections of an existing pool. Existing connections keep working. This is as in sim/simstore's
// SetNoConnections.
func TestExhaustedServerRefusesNewConnections(t *testing.T) {
	b := newFixture(t)
	role := b.conn.Config().Database + "_app"
	name := pgx.Identifier{role}.Sanitize()
	owner := pgx.Identifier{b.conn.Config().User}.Sanitize()
	u, err := url.Parse(b.url)
	b.must(err)
	u.User = url.UserPassword(role, "secret") // a server given by its address may require one
	b.execSQL(fmt.Sprintf("create role %s login password 'secret' in role %s", name, owner))
	t.Cleanup(func() {
		conn, err := pgx.Connect(context.Background(), b.url)
		b.must(err)
		defer conn.Close(context.Background())
		if _, err := conn.Exec(context.Background(), "drop role "+name); err != nil {
			t.Errorf("dropping the role %s: %v", role, err)
		}
	})

	existing, err := postgres.Open(b.ctx, u.String(), postgres.Options{MaxConns: 2})
	b.must(err)
	t.Cleanup(existing.Close)
	b.execSQL(fmt.Sprintf("alter role %s connection limit 0", name))
	for what, o := range map[string]postgres.Options{"a start": {}, "a start that migrates": {Migrate: true}} {
		_, err = postgres.Open(b.ctx, u.String(), o)
		b.expectUnavailable(what, err, "53300")
	}
	if _, err := existing.Workers(b.ctx, nil); err != nil {
		t.Errorf("a pool that has its connection: %v", err)
	}
	b.execSQL("begin")
	b.execSQL("lock table worker in access exclusive mode")
	busy := make(chan error)
	go func() {
		_, err := existing.Workers(b.ctx, nil)
		busy <- err
	}()
	for waits := false; !waits; {
		b.scanRow("select exists (select from pg_stat_activity where usename = $1 and wait_event_type = 'Lock')", []any{role}, &waits)
	}
	_, err = existing.Workers(b.ctx, nil)
	b.expectUnavailable("a pool whose one connection is in use", err, "53300")
	b.execSQL("commit")
	b.must(<-busy)
	b.execSQL("select pg_terminate_backend(pid) from pg_stat_activity where usename = $1", role)
	for err = nil; err == nil; { // until the pool has detected it
		_, err = existing.Workers(b.ctx, nil)
	}
	_, err = existing.Workers(b.ctx, nil)
	b.expectUnavailable("a pool that has lost its connection", err, "53300")
	b.execSQL(fmt.Sprintf("alter role %s connection limit -1", name))
	if _, err := existing.Workers(b.ctx, nil); err != nil {
		t.Errorf("that pool when there are connections again: %v", err)
	}
}

// A daemon that migrates at its start retries while the database accepts no writes, and does not exit. It
// would exit only for an error that waiting does not cure.
func TestMigrationWaitsForWritableDatabase(t *testing.T) {
	b := newFixture(t)
	database := pgx.Identifier{b.conn.Config().Database}.Sanitize()
	b.execSQL(fmt.Sprintf("alter database %s set default_transaction_read_only = on", database))
	_, err := postgres.Open(b.ctx, b.url, postgres.Options{Migrate: true})
	b.expectUnavailable("a migration of a read-only database", err, "25006")
	b.execSQL("set default_transaction_read_only = off")
	b.execSQL(fmt.Sprintf("alter database %s reset default_transaction_read_only", database))

	b.execSQL("delete from schema_version where version >= 18") // 18 creates what exists already, and can't run twice
	b.execSQL(`create function full_disk() returns event_trigger language plpgsql as $$
begin raise exception 'could not extend file "base/1/1": No space left on device' using errcode = '53100'; end $$`)
	b.execSQL("create event trigger full_disk on ddl_command_start execute function full_disk()")
	_, err = postgres.Open(b.ctx, b.url, postgres.Options{Migrate: true})
	b.expectUnavailable("a migration of a full database", err, "53100")
	b.execSQL("drop event trigger full_disk")
	if _, err = postgres.Open(b.ctx, b.url, postgres.Options{Migrate: true}); err == nil || store.Retriable(err) {
		t.Errorf("a migration that can't be applied gives %v, want an error that no retry cures", err)
	}
}
