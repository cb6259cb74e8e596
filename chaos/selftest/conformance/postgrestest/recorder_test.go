package postgrestest_test

import (
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"handoff/chaos/selftest/conformance/storetest"
	"handoff/core/store/postgres"
)

// recorder is the tracer of a store that records its statements and their arguments.
type recorder struct {
	sessions

	mu sync.Mutex
	// sent has the latest arguments of a statement, by its text.
	sent map[string][]any
	// under has the settings that were sent together with a statement, by its text.
	under map[string]string
}

// settings is the beginning of each statement that sets parameters for the next one.
const settings = "select set_config("

func (r *recorder) TraceQueryStart(ctx context.Context, _ *pgx.Conn, d pgx.TraceQueryStartData) context.Context {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sent[d.SQL] = d.Args
	return ctx
}

func (r *recorder) TraceBatchStart(ctx context.Context, _ *pgx.Conn, d pgx.TraceBatchStartData) context.Context {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, q := range d.Batch.QueuedQueries {
		if strings.HasPrefix(q.SQL, settings) && r.under != nil {
			r.under[d.Batch.QueuedQueries[i+1].SQL] = q.SQL
		}
	}
	return ctx
}

func (r *recorder) TraceBatchQuery(_ context.Context, _ *pgx.Conn, d pgx.TraceBatchQueryData) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !strings.HasPrefix(d.SQL, settings) {
		r.sent[d.SQL] = d.Args
	}
}

func (r *recorder) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {}

// onlyStatement returns the only statement that a call sends, and its arguments.
func (r *recorder) onlyStatement(t *testing.T, call func() error) (sql string, args []any) {
	t.Helper()
	return r.markedStatement(t, "", call)
}

// markedStatement returns the only statement that a call sends and that contains a text, and its arguments.
func (r *recorder) markedStatement(t *testing.T, mark string, call func() error) (sql string, args []any) {
	t.Helper()
	during := &recorder{sent: make(map[string][]any)}
	r.mu.Lock()
	before := r.sent
	r.sent = during.sent
	r.mu.Unlock()
	err := call()
	r.mu.Lock()
	r.sent = before
	r.mu.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	return during.sentStatement(t, mark)
}

// sentStatement returns the only statement sent that contains a text, and its arguments.
func (r *recorder) sentStatement(t *testing.T, mark string) (sql string, args []any) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	found := 0
	for text, a := range r.sent {
		if strings.Contains(text, mark) {
			sql, args = text, a
			found++
		}
	}
	if found != 1 {
		t.Fatalf("%q is in %d of the %d statements that were sent, want one", mark, found, len(r.sent))
	}
	return sql, args
}

// recordContract returns a store on its own database, emptied, and every statement that the contract
// makes it send.
func recordContract(t *testing.T) (*postgres.Store, *recorder) {
	t.Helper()
	b := newFixture(t)
	r := &recorder{sent: make(map[string][]any), under: make(map[string]string)}
	s := b.openStore(postgres.Options{Now: b.readClock, Tracer: r, SlowWalk: 1})
	for _, c := range storetest.Cases() {
		b.emptyDatabase()
		subject := b.newSubject()
		subject.Store = s
		storetest.RunCase(t, c, subject)
	}
	b.emptyDatabase()
	return s, r
}
