package postgrestest_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// refused fails a test as soon as the server refuses a statement for its syntax, or because it does not fit
// the schema (class 42). To a caller such an error looks like one of its request, so a case that compares
// errors may mistake it for the expected answer.
type refused struct {
	sessions
	t *testing.T
}

func (r *refused) checkError(err error) {
	var said *pgconn.PgError
	if errors.As(err, &said) && strings.HasPrefix(said.Code, "42") {
		r.t.Errorf("PostgreSQL refuses a statement: %v", said)
	}
}

func (r *refused) TraceQueryEnd(_ context.Context, _ *pgx.Conn, d pgx.TraceQueryEndData) {
	r.checkError(d.Err)
}

func (r *refused) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	return ctx
}

func (r *refused) TraceBatchQuery(_ context.Context, _ *pgx.Conn, d pgx.TraceBatchQueryData) {
	r.checkError(d.Err)
}

func (r *refused) TraceBatchEnd(_ context.Context, _ *pgx.Conn, d pgx.TraceBatchEndData) {
	r.checkError(d.Err)
}
