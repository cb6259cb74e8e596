package postgrestest_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"handoff/chaos/servers"
	"handoff/core/store/postgres"
	"handoff/migrations"
)

// A worker that starts before the first executor learns that it must wait, even if some of the migrations
// have been applied.
func TestSchemaIsReadyAfterLastMigration(t *testing.T) {
	ctx := t.Context()
	url := servers.Database(t).URL
	s, err := postgres.Open(ctx, url, postgres.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.SchemaReady(ctx); !errors.Is(err, postgres.ErrNoSchema) {
		t.Errorf("of an empty database: %v", err)
	}
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	if err := migrations.Up(ctx, conn); err != nil {
		t.Fatal(err)
	}
	if err := s.SchemaReady(ctx); err != nil {
		t.Errorf("after all migrations: %v", err)
	}
	latest, err := migrations.Latest()
	if err != nil {
		t.Fatal(err)
	}
	if err := migrations.Down(ctx, conn, latest-1); err != nil {
		t.Fatal(err)
	}
	if err := s.SchemaReady(ctx); !errors.Is(err, postgres.ErrNoSchema) {
		t.Errorf("without the last migration: %v", err)
	}
}

// A newer program records in the database which programs can work with its schema. A compatible program
// starts, and leaves the schema as it is. Any other names the version that it would have to know.
func TestProgramStartsOnCompatibleNewerSchema(t *testing.T) {
	b := newFixture(t)
	latest, err := migrations.Latest()
	b.must(err)
	for _, c := range []struct {
		name, insert string
		needs        int64
		refused      bool
	}{
		{"it needs what this program knows", "values ($1 + 1, $1)", 0, false},
		{"it needs what an older program knows", "values ($1 + 1, 3), ($1 + 2, 5)", 0, false},
		{"it needs what this program does not know", "values ($1 + 1, $1 + 1)", latest + 1, true},
		{"an earlier one of the newer ones needs more than the last", "values ($1 + 1, $1 + 1), ($1 + 2, 1)", latest + 1, true},
		{"it does not say", "values ($1 + 1, null)", 0, true},
		{"one of them does not say", "values ($1 + 1, null), ($1 + 2, 1)", 0, true},
	} {
		b.execSQL("delete from schema_version where version > $1", latest)
		b.execSQL("insert into schema_version (version, needs) "+strings.ReplaceAll(c.insert, "$1", "$1::bigint"), latest)
		for what, err := range map[string]error{"migrating": migrations.Up(b.ctx, b.conn), "asking": b.Store.SchemaReady(b.ctx)} {
			skew, ok := errors.AsType[*migrations.Skew](err)
			if ok != c.refused || !ok && err != nil || ok && (skew.Needs != c.needs || skew.Known != latest) {
				t.Errorf("%s: %s: %v", c.name, what, err)
			}
			if ok && !strings.Contains(err.Error(), "start a release that knows version ") {
				t.Errorf("%s: %s does not say what to do: %v", c.name, what, err)
			}
		}
	}
	b.execSQL("alter table schema_version drop column needs")
	if err := b.Store.SchemaReady(b.ctx); err == nil {
		t.Error("a newer schema that has no such column was taken")
	}
	b.execSQL("delete from schema_version where version > $1", latest)
	b.must(b.Store.SchemaReady(b.ctx))
}
