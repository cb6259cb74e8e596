package postgrestest_test

import (
	"context"
	"errors"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// gate watches the statements of a store. It can hold one back. It also counts the deadlocks, which the store
// hides by retrying a statement.
type gate struct {
	sessions

	mu         sync.Mutex
	statements int
	deadlocks  []string
	// at is the statement to hold back, counted from 1; 0 for none. reached is closed when that statement
	// comes, and closing opened lets it pass.
	at              int
	reached, opened chan struct{}
}

// armAt restarts the count.
func (g *gate) armAt(at int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.statements, g.at, g.deadlocks = 0, at, nil
	g.reached, g.opened = make(chan struct{}), make(chan struct{})
}

func (g *gate) seenStatements() (statements int, deadlocks []string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.statements, g.deadlocks
}

func (g *gate) passStatement() {
	g.mu.Lock()
	g.statements++
	held := g.statements == g.at
	reached, opened := g.reached, g.opened
	g.mu.Unlock()
	if held {
		close(reached)
		<-opened
	}
}

func (g *gate) recordFailure(err error, sql string) {
	var refused *pgconn.PgError
	if errors.As(err, &refused) && refused.Code == "40P01" {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.deadlocks = append(g.deadlocks, refused.Detail+"\n"+sql)
	}
}

func (g *gate) TraceQueryStart(ctx context.Context, _ *pgx.Conn, d pgx.TraceQueryStartData) context.Context {
	g.passStatement()
	return context.WithValue(ctx, statement{}, d.SQL)
}

func (g *gate) TraceQueryEnd(ctx context.Context, _ *pgx.Conn, d pgx.TraceQueryEndData) {
	sql, _ := ctx.Value(statement{}).(string)
	g.recordFailure(d.Err, sql)
}

func (g *gate) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	g.passStatement()
	return ctx
}

func (g *gate) TraceBatchQuery(_ context.Context, _ *pgx.Conn, d pgx.TraceBatchQueryData) {
	g.recordFailure(d.Err, d.SQL)
}

func (g *gate) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {}

// statement is the key under which a context carries a statement.
type statement struct{}
