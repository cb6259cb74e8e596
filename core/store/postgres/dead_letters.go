package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"handoff/core/store"
)

const insertDeadLetters = `
insert into dead_letter (execution, epoch, queue, reason, x_death, body, body_bytes, outcome, action_ref, worker, received_at, handled_at)
select nullif(d.execution, 0), case when d.execution <> 0 then d.epoch end, d.queue, d.reason, d.x_death::json, d.body, d.body_bytes, d.outcome,
       nullif(d.action_ref, ''), nullif(d.worker, 0), c.now, case when d.open then null else c.now end
  from (select coalesce($1::timestamptz, clock_timestamp()) as now) c,
       unnest($2::bigint[], $3::bigint[], $4::text[], $5::text[], $6::text[], $7::bytea[], $8::bigint[], $9::text[], $10::text[], $11::bigint[], $12::boolean[])
           with ordinality as d(execution, epoch, queue, reason, x_death, body, body_bytes, outcome, action_ref, worker, open, n)
 order by d.n`

// StoreDeadLetters implements store.Executor and store.Worker.
func (s *Store) StoreDeadLetters(ctx context.Context, ds ...store.DeadLetter) error {
	if len(ds) == 0 {
		return nil
	}
	var ids, epochs, lengths, workers []int64
	var queues, reasons, outcomes, actions []string
	var deaths []*string
	var bodies [][]byte
	var open []bool
	for i := range ds {
		d := &ds[i]
		ids, epochs = append(ids, int64(d.Key.ID)), append(epochs, int64(d.Key.Epoch))
		queues, reasons, outcomes = append(queues, d.Queue), append(reasons, d.Reason), append(outcomes, d.Outcome)
		actions, workers = append(actions, d.ActionRef), append(workers, int64(d.Worker))
		bodies, lengths, open = append(bodies, d.Body), append(lengths, int64(d.BodyBytes)), append(open, d.Open)
		deaths = append(deaths, orNull(string(d.XDeath)))
	}
	return s.query(ctx, "storing dead letters", ignoreRow, insertDeadLetters, s.clockOverride(), ids, epochs, queues, reasons, deaths, bodies, lengths, outcomes, actions, workers, open)
}

// The statement leaves out rows that another executor is deleting. The time is in a subquery, because
// clock_timestamp() is volatile. In a plain condition it would only filter rows, and a purge with nothing to
// delete would read the whole table.
const purgeDeadLetters = `
delete from dead_letter where id in (
    select id from dead_letter
     where received_at <= (select coalesce($1::timestamptz, clock_timestamp()) - $2::interval)
     order by received_at limit $3 for update skip locked)
returning id`

// PurgeDeadLetters implements store.Executor.
func (s *Store) PurgeDeadLetters(ctx context.Context, age time.Duration, limit int) (int, error) {
	purged := 0
	err := s.query(ctx, "purging dead letters", func(pgx.Rows) error { purged++; return nil }, purgeDeadLetters, s.clockOverride(), age, limit)
	return purged, err
}

const deadLetterColumns = `id, coalesce(execution, 0), coalesce(epoch, 0), queue, reason, x_death::text, body, coalesce(body_bytes, 0), outcome, coalesce(action_ref, ''), coalesce(worker, 0), received_at, handled_at, coalesce(handled_by, '')`

func scanDeadLetter(found *[]store.StoredDeadLetter) func(pgx.Rows) error {
	var d store.StoredDeadLetter
	var handled pgtype.Timestamptz
	return scanInto(func() {
		d.Open, d.HandledAt = !handled.Valid, handled.Time
		*found = append(*found, d)
	}, &d.ID, &d.Key.ID, &d.Key.Epoch, &d.Queue, &d.Reason, &d.XDeath, &d.Body, &d.BodyBytes, &d.Outcome, &d.ActionRef, &d.Worker, &d.ReceivedAt, &handled, &d.HandledBy)
}

// The same columns, with null for those that may be large, so that the server does not read them either.
const selectDeadLetters = `
select id, coalesce(execution, 0), coalesce(epoch, 0), left(queue, 1000), left(reason, 1000), null::text, null::bytea, coalesce(body_bytes, 0), left(outcome, 1000), coalesce(action_ref, ''), coalesce(worker, 0), received_at,
       handled_at, coalesce(handled_by, '')
  from dead_letter
 where ($1::bigint = 0 or id < $1) and (not $2 or handled_at is null)
 order by id desc limit $3`

// DeadLetters implements store.Client.
func (s *Store) DeadLetters(ctx context.Context, q store.DeadLetterQuery) ([]store.StoredDeadLetter, error) {
	var page []store.StoredDeadLetter
	err := s.query(ctx, "listing dead letters", scanDeadLetter(&page), selectDeadLetters, q.Before, q.Open, q.Limit)
	return page, err
}

// DeadLetter implements store.Client.
func (s *Store) DeadLetter(ctx context.Context, id int64) (d store.StoredDeadLetter, known bool, err error) {
	var found []store.StoredDeadLetter
	err = s.query(ctx, "reading a dead letter", scanDeadLetter(&found), `select `+deadLetterColumns+` from dead_letter where id = $1`, id)
	if err != nil || len(found) == 0 {
		return d, false, err
	}
	return found[0], true, nil
}

const settleDeadLetter = `
update dead_letter set handled_at = coalesce($1::timestamptz, clock_timestamp()), outcome = $3, handled_by = $4::text
 where id = $2 and handled_at is null
returning id`

// SettleDeadLetter implements store.Client.
func (s *Store) SettleDeadLetter(ctx context.Context, id int64, outcome, actor string) (bool, error) {
	done := false
	err := s.query(ctx, "settling a dead letter", func(pgx.Rows) error { done = true; return nil }, settleDeadLetter, s.clockOverride(), id, outcome, orNull(actor))
	return done, err
}

// discardDeadLetters examines a bounded page of the open dead letters, and closes the selected
// ones. If another call has locked a dead letter, that call closes it. The ids go through an array:
// a join would compare each row of the page with each other row.
const discardDeadLetters = `
with looked as materialized (
    select id, reason, queue, action_ref, worker, received_at from dead_letter
     where handled_at is null and id > $3 %s order by id limit $4::bigint + 1
), page as (
    select * from looked order by id limit $4
), chosen as materialized (
    select id from dead_letter
     where handled_at is null and id = any(array(
         select p.id from page p
          where ($5::text = '' or p.reason = $5) and ($6::text = '' or p.queue = $6)
            and ($7::text = '' or p.action_ref = $7) and ($8::bigint = 0 or p.worker = $8)
            and p.received_at <= (select coalesce($1::timestamptz, clock_timestamp()) - $9::interval)))
     order by id for update skip locked
), closed as (
    update dead_letter d set handled_at = coalesce($1::timestamptz, clock_timestamp()), outcome = $2, handled_by = $10::text
      from chosen where d.id = chosen.id
    returning d.id
)
select (select count(*) from closed), (select coalesce(max(id), $3) from page), (select count(*) > $4 from looked)`

// DiscardDeadLetters implements store.Client.
func (s *Store) DiscardDeadLetters(ctx context.Context, d store.DeadLetterDiscard, outcome string) (done store.DeadLettersDiscarded, err error) {
	args := []any{s.clockOverride(), outcome, d.After, max(0, d.Limit), d.Reason, d.Queue, d.ActionRef, int64(d.Worker), d.OlderThan, orNull(d.Actor)}
	named := ""
	if d.IDs != nil {
		named = "and id = any($11::bigint[])"
		args = append(args, d.IDs)
	}
	err = s.query(ctx, "discarding dead letters", scanInto(func() {}, &done.Closed, &done.Next, &done.More), fmt.Sprintf(discardDeadLetters, named), args...)
	return done, err
}

// The time in the condition is in a subquery: only then can the index on received_at find the window.
const summarizeDeadLetters = `
with clock as materialized (select coalesce($1::timestamptz, clock_timestamp()) as now),
counted as (
    select case when $3::interval > interval '0' then date_bin($3, received_at, timestamptz 'epoch') end as period,
           case when $4 then reason else '' end as reason, case when $5 then coalesce(action_ref, '') else '' end as action_ref,
           case when $6 then coalesce(worker, 0) else 0 end as worker, count(*) as n
      from dead_letter where received_at >= (select now - $2::interval from clock)
     group by 1, 2, 3, 4
)
select c.now - $2::interval, c.now, coalesce(sum(g.n) over (), 0)::bigint, g.period, coalesce(g.reason, ''), coalesce(g.action_ref, ''),
       coalesce(g.worker, 0), coalesce(g.n, 0)
  from clock c left join counted g on true
 order by g.period desc, g.n desc, g.reason collate "C", g.action_ref collate "C", g.worker limit $7`

// SummarizeDeadLetters implements store.Client.
func (s *Store) SummarizeDeadLetters(ctx context.Context, q store.DeadLetterSummaryQuery) (found store.DeadLetterSummary, err error) {
	most := max(0, q.Limit)
	var g store.DeadLetterGroup
	var from pgtype.Timestamptz
	err = s.query(ctx, "summarizing dead letters", scanInto(func() {
		g.From = from.Time
		switch {
		case g.Count == 0:
		case len(found.Groups) == most:
			found.More = true
		default:
			found.Groups = append(found.Groups, g)
		}
	}, &found.Since, &found.Until, &found.Total, &from, &g.Reason, &g.ActionRef, &g.Worker, &g.Count),
		summarizeDeadLetters, s.clockOverride(), q.Window, q.Every, q.ByReason, q.ByAction, q.ByWorker, most+1)
	return found, err
}
