package main

import (
	"bytes"
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"handoff/chaos/servers"
	"handoff/migrations"
)

// console runs `executor migrate` on one database.
type console struct {
	*testing.T
	url string
}

// does runs the command, and asserts its exit code and that its output contains texts.
func (c console) does(code int, command string, texts ...string) {
	c.Helper()
	var stdout, stderr bytes.Buffer
	got := run(c.Context(), append([]string{"migrate"}, strings.Fields(command)...), []string{"HANDOFF_DATABASE_URL=" + c.url}, &stdout, &stderr)
	all := stdout.String() + stderr.String()
	if got != code {
		c.Errorf("migrate %s: exit %d, want %d\n%s", command, got, code, all)
	}
	if (code == exitStopped) != (stderr.Len() == 0) && !strings.HasPrefix(command, "status") {
		c.Errorf("migrate %s: exit %d with this on standard error:\n%s", command, got, &stderr)
	}
	for _, text := range texts {
		if !strings.Contains(all, text) {
			c.Errorf("migrate %s: %q is missing in\n%s", command, text, all)
		}
	}
	if u, err := url.Parse(c.url); err == nil {
		if password, has := u.User.Password(); has && password != "" && strings.Contains(all, password) {
			c.Errorf("migrate %s prints the password:\n%s", command, all)
		}
	}
}

func (c console) query(sql string, args ...any) (found []string) {
	c.Helper()
	conn, err := pgx.Connect(c.Context(), c.url)
	if err != nil {
		c.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(c.Context()))
	rows, err := conn.Query(c.Context(), sql, args...)
	if err != nil {
		c.Fatal(err)
	}
	found, err = pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		c.Fatal(err)
	}
	return found
}

func TestMigrateUpDownAndStatus(t *testing.T) {
	c := console{t, servers.Database(t).URL}
	latest, err := migrations.Latest()
	if err != nil {
		t.Fatal(err)
	}
	c.does(exitFailed, "status", "version  name", "1  workers_and_executions   not yet", "The schema is behind", "`executor migrate up`")
	if found := c.query("select relname from pg_class where relnamespace = 'public'::regnamespace"); len(found) > 0 {
		t.Errorf("a look has made %v", found)
	}
	c.does(exitStopped, "down --to 0", "Nothing to do")
	c.does(exitStopped, "up", "applied 1 workers_and_executions\napplied 2 law_and_audit\n", fmt.Sprintf("Done: the schema is current, at version %d.", latest))
	c.does(exitStopped, "up", "Nothing to do: the schema is current")
	c.does(exitStopped, "status", "1  workers_and_executions   20", " UTC\n", "The schema is current.")

	// A wrong command removes nothing.
	c.does(exitBadConfig, "down", "say how far with --to N", "law_and_audit            execution_transition\n", "workers_and_executions   refused_result, dead_letter, execution,")
	c.does(exitBadConfig, fmt.Sprint("down --to ", latest+1), "is above the latest version")
	for _, command := range []string{"", "sideways", "down --to", "down --to -1", "down --to x", "up --to 3", "status --bogus", "up now"} {
		c.does(exitBadConfig, command, "executor migrate")
	}
	c.does(exitStopped, "status", "The schema is current.")

	c.does(exitStopped, fmt.Sprint("down --to ", latest-1), "Taken back", fmt.Sprintf("the schema is at version %d.", latest-1))
	c.does(exitFailed, "status", "not yet", "The schema is behind: 1 migration is not applied.")
	c.does(exitStopped, "up --profile documented", fmt.Sprintf("applied %d ", latest))

	// This simulates a newer program that has migrated the database.
	c.query("insert into schema_version (version) values ($1) returning 'x'", latest+5)
	c.does(exitFailed, "status", "unknown to this program", "The schema is ahead: 1 migration is unknown to this program.")
	c.does(exitFailed, "up", fmt.Sprint("start a release that knows version ", latest+5))
	c.does(exitFailed, "down --to 0", "take the newer ones back with the newer program")
	if found := c.query("select relname from pg_class where relname = 'execution'"); len(found) != 1 {
		t.Error("what a newer program has migrated was taken back")
	}
}

// `migrate down` lists exactly the tables and columns that the database loses.
func TestMigrateDownListsLosses(t *testing.T) {
	c := console{t, servers.Database(t).URL}
	c.does(exitStopped, "up")
	conn, err := pgx.Connect(t.Context(), c.url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(t.Context()))
	versions, err := migrations.Status(t.Context(), conn)
	if err != nil {
		t.Fatal(err)
	}
	there := func() (names []string) {
		tables := c.query(`select relname from pg_class where relnamespace = 'public'::regnamespace and relkind = 'r' and relname <> 'schema_version'`)
		columns := c.query(`select c.relname || '.' || a.attname from pg_attribute a join pg_class c on c.oid = a.attrelid
			where c.relnamespace = 'public'::regnamespace and c.relkind = 'r' and c.relname <> 'schema_version' and a.attnum > 0 and not a.attisdropped`)
		return append(tables, columns...)
	}
	// Reverting moves the content of these tables to execution and execution_transition:
	// TestMigrationCarriesEveryStatusBothWays, TestMigrationKeepsAudit.
	carried := []string{"execution_record", "execution_work", "execution_unhandled", "transition_group"}
	before := there()
	for _, v := range slices.Backward(versions) {
		below := int64(0)
		for _, w := range versions {
			if w.Number < v.Number {
				below = w.Number
			}
		}
		c.does(exitStopped, fmt.Sprint("down --to ", below))
		after := there()
		lost := slices.DeleteFunc(slices.Clone(before), func(name string) bool {
			table, _, column := strings.Cut(name, ".")
			// The output does not list the columns of a dropped table.
			return slices.Contains(after, name) || column && !slices.Contains(after, table) || slices.Contains(carried, name)
		})
		slices.Sort(lost)
		listed := slices.Sorted(slices.Values(v.Loses))
		if !slices.Equal(lost, listed) {
			t.Errorf("with migration %d %v went, and %v are listed", v.Number, lost, listed)
		}
		before = after
	}
}

// An executor that is not allowed to migrate refuses an old schema, with an error that names the remedy. An
// executor that is allowed to migrate does so.
func TestExecutorWithoutMigrateRefusesOldSchema(t *testing.T) {
	c := console{t, servers.Database(t).URL}
	latest, err := migrations.Latest()
	if err != nil {
		t.Fatal(err)
	}
	start := func(migrate string) (code int, log string) {
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		var stderr lockedBuffer
		stderr.seen = func(text string) {
			// The broker is away, so the executor counts as up as soon as it tries to connect.
			if strings.Contains(text, "broker") && strings.Contains(text, "failed") || strings.Contains(text, "connecting to the broker") {
				stop()
			}
		}
		code = run(ctx, []string{"--listen", ""}, []string{
			"HANDOFF_DATABASE_URL=" + c.url, "HANDOFF_MESSAGE_QUEUE_RABBITMQ_URL=amqp://127.0.0.1:1/", "HANDOFF_DATABASE_MIGRATE=" + migrate,
		}, &bytes.Buffer{}, &stderr)
		return code, stderr.String()
	}
	const refusal = "run `executor migrate up` with a role that may alter tables"
	if code, log := start("false"); code != exitFailed || !strings.Contains(log, refusal) {
		t.Errorf("an empty database: exit %d\n%s", code, log)
	}
	c.does(exitStopped, "up")
	c.does(exitStopped, fmt.Sprint("down --to ", latest-1))
	if code, log := start("false"); code != exitFailed || !strings.Contains(log, refusal) {
		t.Errorf("one migration behind: exit %d\n%s", code, log)
	}
	c.does(exitFailed, "status")
	if code, log := start("true"); code != exitStopped {
		t.Errorf("with migrate: true: exit %d\n%s", code, log)
	}
	c.does(exitStopped, "status")
	if code, log := start("false"); code != exitStopped {
		t.Errorf("a current schema: exit %d\n%s", code, log)
	}
}

// lockedBuffer collects a log that the test can read while it grows.
type lockedBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
	seen func(line string)
}

// Write implements io.Writer.
func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	l.text.Write(p)
	l.mu.Unlock()
	l.seen(string(p))
	return len(p), nil
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}
