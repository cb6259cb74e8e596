package postgrestest_test

import (
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"

	"handoff/chaos/servers"
	"handoff/core/store/postgres"
	"handoff/migrations"
)

// A worker that is started before the first executor learns that it has to wait, also when only a part of
// the migrations has been applied.
func TestTheSchemaIsReadyAfterTheLastMigration(t *testing.T) {
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
