package postgrestest_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"handoff/chaos/servers"
	"handoff/core/testenv"
	"handoff/migrations"
)

// migrating is a database that lacks its last migration, which needs locks on dead_letter and then
// on execution, and a transaction that holds these locks.
type migrating struct {
	*testing.T
	url    string
	latest int64
	holder *pgx.Conn
	tx     pgx.Tx
}

func migratingBehindAReport(t *testing.T) *migrating {
	m := &migrating{T: t, url: servers.Database(t).URL}
	conn := m.openSession("migrator")
	m.must(migrations.Up(t.Context(), conn))
	var err error
	m.latest, err = migrations.Latest()
	m.must(err)
	m.must(migrations.Down(t.Context(), conn, 10))
	m.holder = m.openSession("a nightly report")
	m.tx, err = m.holder.Begin(t.Context())
	m.must(err)
	_, err = m.tx.Exec(t.Context(), "select count(*) from execution")
	m.must(err)
	return m
}

func (m *migrating) must(err error) {
	m.Helper()
	if err != nil {
		m.Fatal(err)
	}
}

func (m *migrating) openSession(name string) *pgx.Conn {
	m.Helper()
	config, err := pgx.ParseConfig(m.url)
	m.must(err)
	config.RuntimeParams["application_name"] = name
	conn, err := pgx.ConnectConfig(m.Context(), config)
	m.must(err)
	m.Cleanup(func() { _ = conn.Close(context.WithoutCancel(m.Context())) })
	return conn
}

// awaitMigration blocks until the migration waits for the report, and returns false if the migration ended
// first.
func (m *migrating) awaitMigration(looker, migrator *pgx.Conn, ended <-chan error) bool {
	m.Helper()
	for {
		var blocked bool
		m.must(looker.QueryRow(m.Context(), "select $1 = any(pg_blocking_pids($2))", int32(m.holder.PgConn().PID()), int32(migrator.PgConn().PID())).Scan(&blocked))
		if blocked {
			return true
		}
		select {
		case err := <-ended:
			m.Errorf("the migration ended before it waited: %v", err)
			return false
		default:
		}
	}
}

// A migration that waits for its lock blocks every later transaction. While it pauses, readers pass, and it
// ends when the transaction before it does.
func TestReadersContinueWhileMigrationWaits(t *testing.T) {
	m := migratingBehindAReport(t)
	migrator, looker, reader := m.openSession("migrator"), m.openSession("looker"), m.openSession("reader")
	ended := make(chan error, 1)
	patience := migrations.Patience{Lock: 200 * time.Millisecond, Tries: 1000, Pause: 50 * time.Millisecond}
	go func() { ended <- patience.Up(t.Context(), migrator) }()
	for range 3 {
		if !m.awaitMigration(looker, migrator, ended) {
			return
		}
		within, cancel := context.WithTimeout(t.Context(), testenv.Patience())
		_, err := reader.Exec(within, "select from execution limit 1")
		cancel()
		if err != nil {
			t.Fatalf("a reader that came while the migration waited: %v", err)
		}
	}
	m.must(m.tx.Rollback(t.Context()))
	m.must(<-ended)
	var at int64
	m.must(looker.QueryRow(t.Context(), "select max(version) from schema_version").Scan(&at))
	if at != m.latest {
		t.Errorf("the database is at version %d, want %d", at, m.latest)
	}
}

// A migration that never gets its lock ends with an error that names the holder and the remedy. It changes
// nothing.
func TestMigrationTimeoutNamesLockHolder(t *testing.T) {
	m := migratingBehindAReport(t)
	migrator := m.openSession("migrator")
	patience := migrations.Patience{Lock: 500 * time.Millisecond, Tries: 3, Pause: 10 * time.Millisecond}
	err := patience.Up(t.Context(), migrator)
	blocked, ok := errors.AsType[*migrations.Blocked](err)
	if !ok {
		t.Fatalf("the migration ended with %v", err)
	}
	t.Log(err)
	if len(blocked.Holders) != 1 || blocked.Holders[0].PID != int(m.holder.PgConn().PID()) {
		t.Errorf("it names %+v, want the report's process %d; unseen: %v", blocked.Holders, m.holder.PgConn().PID(), blocked.Unseen)
	}
	for _, want := range []string{"00011_hostile_messages.sql", "tried 3 times", "lock on execution", "a nightly report", "idle in transaction", "select count(*)", "pg_terminate_backend("} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not say %q: %v", want, err)
		}
	}
	m.must(m.tx.Rollback(t.Context()))
	m.must(migrations.Up(t.Context(), migrator))
}

// A program that waits between two attempts stops without waiting for the next one.
func TestPausedMigrationEndsWithContext(t *testing.T) {
	m := migratingBehindAReport(t)
	migrator, looker := m.openSession("migrator"), m.openSession("looker")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	patience := migrations.Patience{Lock: 2 * time.Second, Tries: 2, Pause: time.Hour}
	go func() { ended <- patience.Up(ctx, migrator) }()
	if !m.awaitMigration(looker, migrator, ended) {
		return
	}
	// The reader passes when the attempt is over: then the migration pauses.
	_, err := m.openSession("reader").Exec(t.Context(), "select from execution limit 1")
	m.must(err)
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the migration ended with %v", err)
	}
}

// An index is built while others write to its table, and while another process waits to migrate. An index
// that an interrupted process left behind is rebuilt.
func TestIndexIsBuiltDuringWork(t *testing.T) {
	m := &migrating{T: t, url: servers.Database(t).URL}
	first, second, looker := m.openSession("first"), m.openSession("second"), m.openSession("looker")
	m.must(migrations.Up(t.Context(), first))
	m.must(migrations.Down(t.Context(), first, 16))
	_, err := looker.Exec(t.Context(), `create index execution_record_children on execution_record (id);
		update pg_index set indisvalid = false where indexrelid = 'execution_record_children'::regclass`)
	m.must(err)
	m.holder = m.openSession("work")
	m.tx, err = m.holder.Begin(t.Context())
	m.must(err)
	_, err = m.tx.Exec(t.Context(), "delete from execution_record where id = 0")
	m.must(err)
	ended := make(chan error, 2)
	go func() { ended <- migrations.Up(t.Context(), first) }()
	if !m.awaitMigration(looker, first, ended) {
		return
	}
	go func() { ended <- migrations.Up(t.Context(), second) }()
	within, cancel := context.WithTimeout(t.Context(), testenv.Patience())
	defer cancel()
	_, err = looker.Exec(within, "update execution_record set id = id where id = 0")
	m.must(err)
	m.must(m.tx.Commit(t.Context()))
	m.must(<-ended)
	m.must(<-ended)
	var index string
	m.must(looker.QueryRow(t.Context(), "select pg_get_indexdef(indexrelid) from pg_index where indexrelid = to_regclass('execution_record_children') and indisvalid").Scan(&index))
	if !strings.Contains(index, "(parent, id) WHERE (parent IS NOT NULL)") {
		t.Errorf("the index is %s", index)
	}
}
