package postgres

import (
	"context"
	"errors"
	"strings"

	"github.com/jackc/pgx/v5"

	"handoff/core/execution"
	"handoff/core/store"
)

// A decision about a whole chain is made in a transaction that locks the chain's first row. The lock is a
// separate statement, so that the next one sees everything that was committed while it waited.

// Ending a row locks its work first and then its record. So if the first row itself has not ended, lockChain
// locks its work first.
const lockChain = `
with first as materialized (select coalesce(e.original_execution, e.id) as id from execution_record e where e.id = $1),
work as materialized (
    select w.id from execution_work w where w.id = (select id from first) for no key update of w
)
select f.id, f.cancel_requested_at is not null
  from execution_record f
 where f.id = (select id from first) and (select count(*) from work) >= 0
   for no key update of f`

// newestRowID is the id of the last row of the chain that begins with $1: its last retry, or the first
// row itself. These are two lookups, each by an index. The planner has no index for a single
// condition with "or", and would read the whole table.
const newestRowID = `coalesce((
    select x.id from execution_record x where x.original_execution = $1 order by x.retry_count desc limit 1
), $1)`

// lockNewest keeps the last row from ending, if it has not ended yet. Like the chain's lock, it is a separate
// statement.
const lockNewest = `select w.id from execution_work w where w.id = ` + newestRowID + ` for no key update of w`

var selectNewest = expandColumns(`select {e} from execution e where e.id = ` + newestRowID)

const requestCancel = `
update execution_record set cancel_requested_at = coalesce($2::timestamptz, clock_timestamp()), cancel_requested_by = $3::text
 where id = $1 and cancel_requested_at is null`

// A row that no worker has claimed ends at once. A running one becomes canceling.
var cancelRow = expandColumns(`
with clock as materialized (select coalesce($2::timestamptz, clock_timestamp()) as now),
judged as materialized (
    select w.*, c.now from execution_work w cross join clock c
     where w.id = $1 and w.status in ('requested', 'scheduling', 'scheduled', 'running')
),
moved as (
    update execution_work w
       set status = 'canceling', canceling_at = j.now,
           written_by = 'api', written_incarnation = null, written_epoch = w.epoch, written_reason = 'cancelled', written_actor = $4::text
      from judged j join execution_record r on r.id = j.id
     where w.id = j.id and j.status = 'running'
    returning {open}
),
over as (
    update execution_record r
       set status = 'cancelled', failure_reason = 'cancelled', result = $3::text::json, ended = j.now,
           ` + strings.Replace(copyWorkColumns(), "due_at = j.due_at", "due_at = case j.due_at when 'infinity' then j.now else j.due_at end", 1) + `,
           written_by = 'api', written_incarnation = null, written_epoch = j.epoch, written_reason = 'cancelled', written_actor = $4::text
      from judged j
     where r.id = j.id and j.status <> 'running'
    returning {kept}
),` + deleteEndedWork("j.status <> 'running'") + `
select {m} from moved m
union all
select {m} from over m`)

// Cancel implements store.Client.
func (s *Store) Cancel(ctx context.Context, ids []execution.ID, actor string) ([]store.Cancellation, error) {
	answers := make([]store.Cancellation, len(ids))
	for i, id := range ids {
		err := s.runTransaction(ctx, "cancelling", func(tx pgx.Tx) (err error) {
			answers[i], err = s.cancelChain(ctx, tx, id, orNull(actor))
			return err
		})
		switch {
		case err != nil && i > 0 && store.Retriable(err):
			return nil, unknownOutcomeError("cancelling", err)
		case err != nil:
			return nil, err
		}
	}
	return answers, nil
}

func (s *Store) cancelChain(ctx context.Context, tx pgx.Tx, id execution.ID, actor *string) (store.Cancellation, error) {
	var first int64
	var requested bool
	err := tx.QueryRow(ctx, lockChain, int64(id)).Scan(&first, &requested)
	if errors.Is(err, pgx.ErrNoRows) {
		return store.Cancellation{}, nil
	}
	var rows []execution.Execution
	if err == nil {
		_, err = tx.Exec(ctx, lockNewest, first)
	}
	if err == nil {
		err = readRows(ctx, tx, collectRows(&rows), selectNewest, first)
	}
	if err != nil {
		return store.Cancellation{}, err
	}
	last := rows[0]
	answer := store.Cancellation{Outcome: outcome{From: last.Status, Row: last}}
	mayRetry := last.Status != execution.Completed && last.Status != execution.Cancelled &&
		last.FailureReason.Retriable() && (last.RetryCount < last.Action.MaxRetries || last.MayBeFree())
	if last.Status.Terminal() && (!last.OrchestratedAt.IsZero() || !mayRetry) {
		return answer, nil
	}
	if _, err := tx.Exec(ctx, requestCancel, first, s.clockOverride(), actor); err != nil {
		return store.Cancellation{}, err
	}
	result := store.CancelledResult()
	if err := readRows(ctx, tx, collectRows(&rows), cancelRow, int64(last.ID), s.clockOverride(), encodeResult(&result), actor); err != nil {
		return store.Cancellation{}, err
	}
	answer.Applied, answer.Row = true, rows[len(rows)-1]
	if answer.Row.ID == execution.ID(first) && answer.Row.CancelRequestedAt.IsZero() {
		// Reread the chain's first row, because it was read before the cancellation was recorded on it.
		err = readRows(ctx, tx, collectRows(&rows), selectExecutions, []int64{first})
		answer.Row = rows[len(rows)-1]
	}
	return answer, err
}
