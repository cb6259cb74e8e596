package postgres

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"handoff/core/execution"
	"handoff/core/store"
)

// A decision about a whole chain is made under a lock of its first row, in a transaction of two steps:
// the lock has a statement of its own, so that the next one sees whatever was committed while it waited.

const lockChain = `
select f.id, f.cancel_requested_at is not null
  from execution f
 where f.id = (select coalesce(e.original_execution, e.id) from execution e where e.id = $1)
   for no key update of f`

// newest is the id of the last row of the chain that begins with $1: its last retry, or the first row itself. Two
// looks by an index each: asked for with one "or", the planner has no index for both and reads the whole table.
const newest = `coalesce((
    select x.id from execution x where x.original_execution = $1 order by x.retry_count desc limit 1
), $1)`

var selectNewest = text(`select {e} from execution e where e.id = ` + newest + ` for no key update of e`)

const requestCancel = `
update execution set cancel_requested_at = coalesce($2::timestamptz, clock_timestamp()), cancel_requested_by = $3::text
 where id = $1 and cancel_requested_at is null`

// What nobody has claimed ends at once; what runs is asked to.
var cancelRow = text(`
with clock as materialized (select coalesce($2::timestamptz, clock_timestamp()) as now)
update execution e
   set status = case e.status when 'running' then 'canceling' else 'cancelled' end::execution_status,
       canceling_at = case e.status when 'running' then c.now end,
       ended = case when e.status <> 'running' then c.now end,
       due_at = case e.due_at when 'infinity' then c.now else e.due_at end,
       failure_reason = case when e.status <> 'running' then 'cancelled' else e.failure_reason end,
       result = case when e.status <> 'running' then $3::text::json else e.result end,
       written_by = 'api', written_incarnation = null, written_epoch = e.epoch, written_reason = 'cancelled',
       written_actor = $4::text
  from clock c
 where e.id = $1 and e.status in ('requested', 'scheduling', 'scheduled', 'running')
returning {e}`)

// Cancel implements store.Client.
func (s *Store) Cancel(ctx context.Context, ids []execution.ID, actor string) ([]store.Cancellation, error) {
	answers := make([]store.Cancellation, len(ids))
	for i, id := range ids {
		err := s.transaction(ctx, "cancelling", func(tx pgx.Tx) (err error) {
			answers[i], err = s.cancel(ctx, tx, id, orNull(actor))
			return err
		})
		switch {
		case err != nil && i > 0 && store.Retriable(err):
			return nil, unknown("cancelling", err)
		case err != nil:
			return nil, err
		}
	}
	return answers, nil
}

func (s *Store) cancel(ctx context.Context, tx pgx.Tx, id execution.ID, actor *string) (store.Cancellation, error) {
	var first int64
	var requested bool
	err := tx.QueryRow(ctx, lockChain, int64(id)).Scan(&first, &requested)
	if errors.Is(err, pgx.ErrNoRows) {
		return store.Cancellation{}, nil
	}
	var rows []execution.Execution
	if err == nil {
		err = read(ctx, tx, reader(&rows), selectNewest, first)
	}
	if err != nil {
		return store.Cancellation{}, err
	}
	last := rows[0]
	answer := store.Cancellation{Outcome: outcome{From: last.Status, Row: last}}
	mayRetry := last.Status != execution.Completed && last.Status != execution.Cancelled &&
		last.FailureReason.Retriable() && last.RetryCount < last.Action.MaxRetries
	if last.Status.Terminal() && (!last.OrchestratedAt.IsZero() || !mayRetry) {
		return answer, nil
	}
	if _, err := tx.Exec(ctx, requestCancel, first, s.now(), actor); err != nil {
		return store.Cancellation{}, err
	}
	result := store.CancelledResult()
	if err := read(ctx, tx, reader(&rows), cancelRow, int64(last.ID), s.now(), encodeResult(&result), actor); err != nil {
		return store.Cancellation{}, err
	}
	answer.Applied, answer.Row = true, rows[len(rows)-1]
	if answer.Row.ID == execution.ID(first) && answer.Row.CancelRequestedAt.IsZero() {
		// The row was read before the request was noted on it.
		err = read(ctx, tx, reader(&rows), selectExecutions, []int64{first})
		answer.Row = rows[len(rows)-1]
	}
	return answer, err
}
