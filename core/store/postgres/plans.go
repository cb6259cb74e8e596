package postgres

import (
	"cmp"
	"context"

	"github.com/jackc/pgx/v5"
)

// The statements of an execution's life are planned once for each session, because for a few rows planning
// costs more than executing. A kept plan must be right for every later size of the table, whatever the
// statistics were when it was made. It must not read an index from end to end, or compare each row of a batch
// with every other.
//
// So these statements leave the planner one choice. Each table is restricted by itself, to keys that are
// known before the join. With e.id = any($1), no path reads an index without that condition, however small
// the table seems to be. No condition on it is written like that of a partial index, or the plan might read
// that index from end to end. (Only dispatchDue walks such an index: see there.) The table is joined only
// with a list of the batch. If only hash joins are allowed, the join is one pass over each side. A list of
// one row is not joined but read by a subselect, as a hash join needs a condition.
//
// A setting holds for the transaction, which is this one statement, and is sent with it. Every
// other statement of a session is replanned for its arguments (see "Plans" in the package
// comment). TestKeptPlans (chaos/selftest/conformance/postgrestest) keeps plans from an empty table and from
// a small one, and checks what they do on larger ones.
const (
	// keptHashed keeps the plan of a statement that joins lists.
	keptHashed = `select set_config('plan_cache_mode', 'force_generic_plan', true),
       set_config('enable_hashjoin', 'on', true), set_config('enable_nestloop', 'off', true)`
	// keptLooped keeps the plan of a statement that looks up each row separately, or joins nothing.
	keptLooped = `select set_config('plan_cache_mode', 'force_generic_plan', true)`
	// hashed is for a statement that joins lists in a longer transaction, whose other statements
	// must not keep their plans.
	hashed = `select set_config('enable_hashjoin', 'on', true), set_config('enable_nestloop', 'off', true)`
)

// sender is a connection or a transaction.
type sender interface {
	SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults
}

// readWithSettings executes one statement under settings, which last to the end of the transaction.
// Outside a transaction, the settings and the statement form one transaction, which takes one round trip.
func readWithSettings(ctx context.Context, conn sender, settings string, scan func(pgx.Rows) error, sql string, args ...any) error {
	var both pgx.Batch
	both.Queue(settings)
	both.Queue(sql, args...)
	results := conn.SendBatch(ctx, &both)
	_, err := results.Exec()
	if err == nil {
		var rows pgx.Rows
		if rows, err = results.Query(); err == nil {
			err = forEachRow(scan)(rows)
			rows.Close()
		}
	}
	// The two statements commit after the second, so the last error is the commit's.
	return cmp.Or(err, results.Close())
}
