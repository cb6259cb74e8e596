package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"handoff/core/execution"
	"handoff/core/store"
)

// The answers of these statements are assigned to their items in Go: a join with the request would
// compare each with each, because hash joins are off. The lookup of an earlier observation only
// saves ids of the sequence; the unique index decides.
const observeReclaims = judgedReclaims + `,
decided as materialized (
    select j.*, case when j.claimed then j."to" when j.back then 'requested' else 'failed' end as would
      from judged j
     where j.lawful
),
noted as (
    insert into observation (part, execution, epoch, worker, incarnation, would, reason, at)
    select d.ask_by, d.id, d.epoch, d.worker, d.incarnation, d.would, coalesce(d.why, ''), d.now
      from decided d
     where d.would is not null
       and not exists (select from observation o where o.execution = d.id and o.epoch = d.epoch and o.part = d.ask_by)
     order by d.id
    on conflict (execution, epoch, part) where execution is not null do nothing
    returning execution, would
)
select execution, would from noted`

// ObserveReclaims implements store.Executor.
func (s *Store) ObserveReclaims(ctx context.Context, rs []store.Reclaim) ([]store.Observed, error) {
	const op = "recording what reclaims would do"
	return step[store.Reclaim, store.Observed]{
		op:  op,
		row: func(r *store.Reclaim) any { return r.Key.ID },
		run: func(ctx context.Context, rs []store.Reclaim, results []store.Observed) error {
			places := make(map[int64]int, len(rs))
			for i := range rs {
				places[int64(rs[i].Key.ID)] = i
			}
			return s.query(ctx, op, func(rows pgx.Rows) error {
				var id int64
				var would string
				if err := rows.Scan(&id, &would); err != nil {
					return err
				}
				status, err := execution.ParseStatus(would)
				results[places[id]] = store.Observed{New: true, Would: status}
				return err
			}, observeReclaims, s.reclaimArgs(rs)...)
		},
	}.runAll(ctx, rs)
}

const observeWorkers = `
with asked as materialized (
    select * from unnest($2::bigint[], $3::bigint[], $4::boolean[], $5::text[])
        as a(ask_worker, ask_incarnation, ask_ready, ask_reason)
),
lasting as materialized (
    -- An array, because a join with the requested rows would compare each with each.
    select o.id, o.incarnation from observation o
     where o.incarnation = any(array(select a.ask_incarnation from asked a where a.ask_ready)) and o.execution is null and o.ended_at is null
     order by o.id for no key update of o
),
clock as materialized (select coalesce($1::timestamptz, clock_timestamp()) as now from (select count(*) from lasting) l),
ended as (
    update observation o set ended_at = c.now from lasting l, clock c where o.id = l.id and o.ended_at is null
    returning l.incarnation
),
begun as (
    insert into observation (part, worker, incarnation, would, reason, at)
    select 'health_prober', i.worker, i.incarnation, 'unreachable', a.ask_reason, c.now
      from asked a
      join worker w on w.id = a.ask_worker and w.incarnation = a.ask_incarnation
      join worker_incarnation i on i.incarnation = w.incarnation and i.lifecycle = 'active'
     cross join clock c
     where not a.ask_ready
       and not exists (select from observation o where o.incarnation = i.incarnation and o.execution is null and o.ended_at is null)
     order by i.incarnation
    on conflict (incarnation) where execution is null and ended_at is null do nothing
    returning incarnation
)
select incarnation from ended
union all
select incarnation from begun`

// ObserveWorkers implements store.Executor.
func (s *Store) ObserveWorkers(ctx context.Context, ws []store.ProbedWorker) ([]bool, error) {
	const op = "recording outages of health endpoints"
	return step[store.ProbedWorker, bool]{
		op:  op,
		row: func(w *store.ProbedWorker) any { return w.Incarnation },
		run: func(ctx context.Context, ws []store.ProbedWorker, changed []bool) error {
			var workers, incarnations []int64
			var ready []bool
			var reasons []string
			places := make(map[int64]int, len(ws))
			for i, w := range ws {
				places[int64(w.Incarnation)] = i
				workers, incarnations = append(workers, int64(w.ID)), append(incarnations, int64(w.Incarnation))
				ready, reasons = append(ready, w.Ready), append(reasons, w.Reason)
			}
			var incarnation int64
			return s.query(ctx, op, scanInto(func() { changed[places[incarnation]] = true }, &incarnation), observeWorkers, s.clockOverride(), workers, incarnations, ready, reasons)
		},
	}.runAll(ctx, ws)
}

// The statement leaves out rows that another executor is deleting. The moment is in a subquery, as in
// purgeDeadLetters.
const purgeObservations = `
delete from observation where id in (
    select id from observation
     where at <= (select coalesce($1::timestamptz, clock_timestamp()) - $2::interval)
     order by at limit $3 for update skip locked)
returning id`

// PurgeObservations implements store.Executor.
func (s *Store) PurgeObservations(ctx context.Context, age time.Duration, limit int) (int, error) {
	purged := 0
	err := s.query(ctx, "purging observations", func(pgx.Rows) error { purged++; return nil }, purgeObservations, s.clockOverride(), age, limit)
	return purged, err
}

const selectObservations = `
select id, part, coalesce(execution, 0), coalesce(epoch, 0), coalesce(worker, 0), coalesce(incarnation, 0), would, left(reason, 2000), at, ended_at
  from observation
 where ($1::bigint = 0 or id < $1) and ($2::text = '' or part = $2) and ($3::bigint = 0 or execution = $3) and ($4::bigint = 0 or worker = $4)
 order by id desc limit $5`

// Observations implements store.Client.
func (s *Store) Observations(ctx context.Context, q store.ObservationQuery) ([]store.Observation, error) {
	var page []store.Observation
	var o store.Observation
	var ended pgtype.Timestamptz
	err := s.query(ctx, "listing observations", scanInto(func() {
		o.EndedAt = ended.Time
		page = append(page, o)
	}, &o.ID, &o.Part, &o.Key.ID, &o.Key.Epoch, &o.Worker.ID, &o.Worker.Incarnation, &o.Would, &o.Reason, &o.At, &ended),
		selectObservations, q.Before, q.Part, int64(q.Execution), int64(q.Worker), q.Limit)
	return page, err
}
