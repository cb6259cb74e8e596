package postgres

import (
	"cmp"
	"context"

	"github.com/jackc/pgx/v5"
)

// The statements of an execution's life are planned once for each session, because planning costs more than executing
// them for a few rows. A plan that is kept must be right for every size of the table that it meets later, whatever statistics
// said when it was made: nobody may read an index from end to end, or compare each row of a batch with each.
//
// So these statements leave the planner one choice. Each table is restricted by itself, to keys that are known before the
// join: with e.id = any($1) there is no path that reads an index without that condition, however small the table is said to
// be. No condition on it reads as that of a partial index does, or that index would be read from end to end. What the table is
// joined with is a list of the batch, and where only hash joins are allowed, one pass over each side joins them. A
// list of one row is not joined but asked for by a subselect, as there is no hash join without a condition.
//
// A setting holds for the transaction that one such statement is, and is sent with it: everything else that a session does
// is planned anew for its arguments (see "Plans" in the package comment). TestKeptPlans (chaos/conformance/postgrestest) keeps plans
// from an empty table and from a small one, and looks at what they do on larger ones.
const (
	// keptHashed is for statements that join lists.
	keptHashed = `select set_config('plan_cache_mode', 'force_generic_plan', true),
       set_config('enable_hashjoin', 'on', true), set_config('enable_nestloop', 'off', true)`
	// keptLooped is for those that look up each row by itself, or join nothing.
	keptLooped = `select set_config('plan_cache_mode', 'force_generic_plan', true)`
	// hashed is for a statement of the first kind in a longer transaction, whose others must not be kept.
	hashed = `select set_config('enable_hashjoin', 'on', true), set_config('enable_nestloop', 'off', true)`
)

// sender is a connection or a transaction.
type sender interface {
	SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults
}

// readUnder is read with settings, which last to the end of the transaction: that of the two statements, where there is no
// other. They take one round trip.
func readUnder(ctx context.Context, conn sender, settings string, scan func(pgx.Rows) error, sql string, args ...any) error {
	var both pgx.Batch
	both.Queue(settings)
	both.Queue(sql, args...)
	results := conn.SendBatch(ctx, &both)
	_, err := results.Exec()
	if err == nil {
		var rows pgx.Rows
		if rows, err = results.Query(); err == nil {
			err = each(scan)(rows)
			rows.Close()
		}
	}
	// They commit behind the second, so the last word is the end of the whole.
	return cmp.Or(err, results.Close())
}
