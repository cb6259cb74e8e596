// Package migrations holds the schema and applies it.
//
// The files are in goose's format, so goose's own tool reads them too. This package applies them itself.
// Goose's provider uses database/sql, which resends a statement when its reply was lost; this package uses
// the same driver as everything else.
package migrations

import (
	"cmp"
	"context"
	"embed"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

//go:embed *.sql
var files embed.FS

// lockPause is how long a process waits before it checks again whether another one still migrates.
const lockPause = 100 * time.Millisecond

// lock is the advisory lock under which migrations run: the first eight letters of "handoff.".
const lock int64 = 0x68616e646f66662e

const versionTable = `create table if not exists schema_version (
    version    bigint primary key,
    applied_at timestamptz not null default clock_timestamp(),
    needs      bigint
)`

// hasNeeds checks whether schema_version has its newest column; addNeeds adds it.
const (
	hasNeeds = `select exists (select from pg_attribute where attrelid = 'schema_version'::regclass and attname = 'needs' and not attisdropped)`
	addNeeds = `alter table schema_version add column needs bigint`
)

// Latest returns the version that this build of the program needs.
func Latest() (int64, error) {
	all, err := loadMigrations()
	if err != nil || len(all) == 0 {
		return 0, err
	}
	return all[len(all)-1].version, nil
}

// Version is one version of the schema.
type Version struct {
	Number int64
	// Name is the migration's title; empty for one that this program does not know.
	Name string
	// Applied is the time at which it was applied; zero if it was not.
	Applied time.Time
	// Loses lists what reverting it drops, with all stored data: tables, and columns as table.column.
	Loses []string
}

// Known reports whether this program has the migration.
func (v *Version) Known() bool { return v.Name != "" }

// Status lists every version that this program knows or the database has, by number. It only reads.
func Status(ctx context.Context, conn *pgx.Conn) ([]Version, error) {
	all, err := loadMigrations()
	if err != nil {
		return nil, err
	}
	applied := make(map[int64]time.Time)
	var exists bool
	if err := conn.QueryRow(ctx, "select to_regclass('schema_version') is not null").Scan(&exists); err != nil {
		return nil, fmt.Errorf("migrations: %w", err)
	}
	if exists {
		rows, err := conn.Query(ctx, "select version, applied_at from schema_version")
		if err != nil {
			return nil, fmt.Errorf("migrations: %w", err)
		}
		var number int64
		var at time.Time
		_, err = pgx.ForEachRow(rows, []any{&number, &at}, func() error {
			applied[number] = at
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("migrations: %w", err)
		}
	}
	var versions []Version
	for _, m := range all {
		versions = append(versions, Version{Number: m.version, Name: m.title(), Applied: applied[m.version], Loses: m.droppedObjects()})
		delete(applied, m.version)
	}
	for number, at := range applied {
		versions = append(versions, Version{Number: number, Applied: at})
	}
	slices.SortFunc(versions, func(a, b Version) int { return cmp.Compare(a.Number, b.Number) })
	return versions, nil
}

// Up applies every migration that the database lacks, in order, each in its own transaction, with
// DefaultPatience. If several processes start at once, one applies them and the others wait for it. If a
// migration does not get its locks, the error is a *Blocked. A database that a newer program has migrated is
// not changed; the error is a *Skew, unless this program can work with it.
func Up(ctx context.Context, conn *pgx.Conn) error { return DefaultPatience.Up(ctx, conn) }

// Up is the function Up with this patience.
func (p Patience) Up(ctx context.Context, conn *pgx.Conn) error {
	return withMigrationLock(ctx, conn, func(all []migration, applied int64) error {
		if n := len(all); n > 0 && applied > all[n-1].version {
			known := all[n-1].version
			var have, needs int64
			var said bool
			if err := conn.QueryRow(ctx, SelectVersions, known).Scan(&have, &applied, &needs, &said); err != nil {
				return fmt.Errorf("migrations: %w", err)
			}
			return Fits(known, applied, needs, said)
		}
		for _, m := range all {
			if m.version <= applied {
				continue
			}
			needs, err := m.neededVersion()
			if err != nil {
				return err
			}
			if err := m.applyScript(ctx, conn, p, m.up, "insert into schema_version (version, needs) values ($1, $2)", m.version, needs); err != nil {
				return err
			}
		}
		return nil
	})
}

// Down reverts every migration above a version, newest first. It refuses a database that has migrations which
// this program does not know: they may depend on those that it would revert.
func Down(ctx context.Context, conn *pgx.Conn, to int64) error {
	return withMigrationLock(ctx, conn, func(all []migration, applied int64) error {
		if n := len(all); n > 0 && applied > all[n-1].version {
			return fmt.Errorf("migrations: the database is at version %d, this program knows %d: take the newer ones back with the newer program", applied, all[n-1].version)
		}
		for _, m := range slices.Backward(all) {
			if m.version <= to || m.version > applied {
				continue
			}
			if err := m.applyScript(ctx, conn, DefaultPatience, m.down, "delete from schema_version where version = $1", m.version); err != nil {
				return err
			}
		}
		return nil
	})
}

// withMigrationLock calls f under the lock, with the database's version. The lock belongs to the session, so
// a process that dies releases it.
func withMigrationLock(ctx context.Context, conn *pgx.Conn, f func(all []migration, applied int64) error) error {
	all, err := loadMigrations()
	if err != nil {
		return err
	}
	// There is no time limit for building an index, or for waiting for another migration, which blocks no
	// other session.
	if _, err := conn.Exec(ctx, "set statement_timeout = 0; set lock_timeout = 0"); err != nil {
		return fmt.Errorf("migrations: %w", err)
	}
	// It polls instead of waiting in the server: a concurrent index build waits for every statement under
	// way, so it would wait for this one.
	for {
		var got bool
		if err := conn.QueryRow(ctx, "select pg_try_advisory_lock($1)", lock).Scan(&got); err != nil {
			return fmt.Errorf("migrations: asking for the lock: %w", err)
		}
		if got {
			break
		}
		select {
		case <-time.After(lockPause):
		case <-ctx.Done():
			return fmt.Errorf("migrations: waiting until another process has migrated: %w", ctx.Err())
		}
	}
	err = func() error {
		if _, err := conn.Exec(ctx, versionTable); err != nil {
			return fmt.Errorf("migrations: %w", err)
		}
		var current bool
		if err := conn.QueryRow(ctx, hasNeeds).Scan(&current); err != nil {
			return fmt.Errorf("migrations: %w", err)
		}
		if !current {
			err := DefaultPatience.retryOnLockTimeout(ctx, conn, "schema_version", func() error {
				_, err := conn.Exec(ctx, addNeeds)
				return err
			})
			if err != nil {
				return err
			}
		}
		var applied int64
		if err := conn.QueryRow(ctx, "select coalesce(max(version), 0) from schema_version").Scan(&applied); err != nil {
			return fmt.Errorf("migrations: %w", err)
		}
		return f(all, applied)
	}()
	if _, unlock := conn.Exec(ctx, "select pg_advisory_unlock($1)", lock); unlock != nil && err == nil {
		err = fmt.Errorf("migrations: releasing the lock: %w", unlock)
	}
	return err
}

// migration is one migration file.
type migration struct {
	version  int64
	name     string
	up, down string
	// noTransaction reports whether its statements run one by one, outside a transaction.
	noTransaction bool
}

// title returns the name without number and file extension.
func (m migration) title() string {
	_, title, _ := strings.Cut(strings.TrimSuffix(m.name, ".sql"), "_")
	return title
}

var (
	dropTable  = regexp.MustCompile(`(?m)^drop table (?:if exists )?(\w+)`)
	dropColumn = regexp.MustCompile(`(?m)^alter table (\w+) drop column (\w+)`)
)

// droppedObjects lists the tables and columns that reverting the migration drops.
func (m migration) droppedObjects() (lost []string) {
	for _, found := range dropTable.FindAllStringSubmatch(m.down, -1) {
		lost = append(lost, found[1])
	}
	for _, found := range dropColumn.FindAllStringSubmatch(m.down, -1) {
		lost = append(lost, found[1]+"."+found[2])
	}
	return lost
}

// applyScript executes the script of one direction and records it, both in one transaction if the migration
// allows one.
func (m migration) applyScript(ctx context.Context, conn *pgx.Conn, p Patience, script, note string, values ...any) error {
	if m.noTransaction {
		return m.applyStatements(ctx, conn, script, note, values...)
	}
	return p.retryOnLockTimeout(ctx, conn, m.name, func() error {
		return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
			// Without arguments, Exec accepts a script of many statements.
			if _, err := tx.Exec(ctx, script); err != nil {
				return err
			}
			_, err := tx.Exec(ctx, note, values...)
			return err
		})
	})
}

// statement matches each statement of a script that runs without a transaction. indexBuilt finds the name of
// the index that a statement builds.
var (
	statement  = regexp.MustCompile(`(?ms)^[a-z].*?;$`)
	indexBuilt = regexp.MustCompile(`^create index concurrently if not exists (\w+)`)
)

// applyStatements executes a script statement by statement. Each may be repeated after a process that ended
// in the middle. Their locks block no reader or writer, and those for which they wait block nobody behind
// them, so the wait has no bound.
func (m migration) applyStatements(ctx context.Context, conn *pgx.Conn, script, note string, values ...any) error {
	if _, err := conn.Exec(ctx, "set lock_timeout = 0"); err != nil {
		return fmt.Errorf("migrations: %s: %w", m.name, err)
	}
	for _, sql := range statement.FindAllString(script, -1) {
		if built := indexBuilt.FindStringSubmatch(sql); built != nil {
			// If a process ended while it was building the index, the index exists but is invalid.
			var broken bool
			err := conn.QueryRow(ctx, "select exists (select from pg_index where indexrelid = to_regclass($1) and not indisvalid)", built[1]).Scan(&broken)
			if err == nil && broken {
				_, err = conn.Exec(ctx, "drop index concurrently "+built[1])
			}
			if err != nil {
				return fmt.Errorf("migrations: %s: %w", m.name, err)
			}
		}
		if _, err := conn.Exec(ctx, sql); err != nil {
			return fmt.Errorf("migrations: %s: %w", m.name, err)
		}
	}
	if _, err := conn.Exec(ctx, note, values...); err != nil {
		return fmt.Errorf("migrations: %s: %w", m.name, err)
	}
	return nil
}

// loadMigrations reads the files, in the order of their versions.
func loadMigrations() ([]migration, error) {
	names, err := fs.Glob(files, "*.sql")
	if err != nil {
		return nil, err
	}
	var all []migration
	for _, name := range names {
		text, err := files.ReadFile(name)
		if err != nil {
			return nil, err
		}
		m, err := parseMigration(name, string(text))
		if err != nil {
			return nil, err
		}
		all = append(all, m)
	}
	return inOrder(all)
}

// inOrder sorts migrations by number, and refuses duplicate numbers.
func inOrder(all []migration) ([]migration, error) {
	slices.SortStableFunc(all, func(a, b migration) int { return cmp.Compare(a.version, b.version) })
	for i := 1; i < len(all); i++ {
		if all[i].version == all[i-1].version {
			return nil, fmt.Errorf("migrations: %s and %s have the same number; give the later one the next free number", all[i-1].name, all[i].name)
		}
	}
	return all, nil
}

// parseMigration splits a file at its two headings. The marks around a statement that contains semicolons are
// comments here: nothing splits statements.
func parseMigration(name, text string) (migration, error) {
	number, _, _ := strings.Cut(name, "_")
	version, err := strconv.ParseInt(number, 10, 64)
	if err != nil {
		return migration{}, fmt.Errorf("migrations: %s does not begin with its version: %w", name, err)
	}
	_, body, up := strings.Cut(text, "-- +goose Up\n")
	above, below, down := strings.Cut(body, "-- +goose Down\n")
	if !up || !down {
		return migration{}, fmt.Errorf("migrations: %s lacks a heading: -- +goose Up, -- +goose Down", name)
	}
	return migration{version: version, name: name, up: above, down: below, noTransaction: strings.HasPrefix(text, "-- +goose NO TRANSACTION\n")}, nil
}
