package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"handoff/core/execution"
	"handoff/core/store"
)

// The survey examines up to lookedThrough rows of each list. It reads the result of an execution only if its
// end is not handled: such results are few, but may be large.
const (
	lookedThrough = 10000
	looksAtEnds   = 1000
)

// A row can't have a value outside the database's types. So while this program knows every label of the
// types, the survey reads only results: each of the other conditions is checked before its list is read.
const surveyUnreadable = `
with unknown as materialized (
    select array(select l.enumlabel::text from pg_enum l where l.enumtypid = 'failure_reason'::regtype and l.enumlabel <> all($1::text[])) as reasons,
           array(select l.enumlabel::text from pg_enum l where l.enumtypid = 'execution_status'::regtype and l.enumlabel <> all($2::text[])) as statuses
),
looked as materialized (
    (select e.id, e.status, null::failure_reason as failure_reason, e.retry_reason, null::json as result from execution_work e
      where (select cardinality(u.reasons) > 0 from unknown u) and e.waits limit $3)
    union all
    (select e.id, e.status, null, e.retry_reason, null from execution_work e
      where (select cardinality(u.reasons) > 0 from unknown u) and e.incarnation is null and e.scheduling_expires_at is not null limit $3)
    union all
    (select e.id, e.status, null, e.retry_reason, null from execution_work e
      where (select cardinality(u.reasons) > 0 from unknown u) and e.incarnation is not null limit $3)
    union all
    (select x.id, x.status, null, null, null from execution_work x where (select cardinality(u.statuses) > 0 from unknown u) order by x.id desc limit $3)
    union all
    (select e.id, e.status, e.failure_reason, e.retry_reason, e.result
       from (select u.id from execution_unhandled u order by u.ended, u.id limit $4) u join execution_record e on e.id = u.id)
),
judged as materialized (
    select l.id, l.status::text as status, coalesce(l.failure_reason::text, '') as failure_reason, coalesce(l.retry_reason::text, '') as retry_reason,
           coalesce(case when json_typeof(l.result) <> 'object' then json_typeof(l.result)
                         when json_typeof(l.result -> 'error') <> 'string' or json_typeof(l.result -> 'message') <> 'string'
                           or json_typeof(l.result -> 'failed_by') <> 'string' then '{"error": 0}' end, '') as result
      from looked l
)
select j.id, j.status, j.failure_reason, j.retry_reason, j.result, count(*) over ()
  from judged j cross join unknown u
 where j.status = any(u.statuses) or j.failure_reason = any(u.reasons) or j.retry_reason = any(u.reasons) or j.result <> ''
 order by j.id limit $5`

// surveyUnreadable adds the unreadable rows to a survey.
func (s *Store) surveyUnreadable(ctx context.Context, found *store.Survey) error {
	return s.query(ctx, "counting what can't be read", func(rows pgx.Rows) error {
		var r record
		var reason, retryReason, result string
		if err := rows.Scan(&r.id, &r.status, &reason, &retryReason, &result, &found.UnreadableCount); err != nil {
			return err
		}
		r.reason, r.retryReason, r.result = pgtype.Text{String: reason}, pgtype.Text{String: retryReason}, []byte(result)
		// Describe the row with the same text as in lists.
		listed := r.toListed()
		found.Unreadable = append(found.Unreadable, store.UnreadableRow{ID: listed.ID, Why: listed.Unreadable})
		return nil
	}, surveyUnreadable, execution.Reasons(), statusNames(), lookedThrough, looksAtEnds, store.MostUnreadable)
}

// statusNames returns the statuses that this program knows.
func statusNames() (names []string) {
	for status := execution.Requested; int(status) < execution.Statuses; status++ {
		names = append(names, status.String())
	}
	return names
}
