package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"handoff/core/config"
	"handoff/core/execution"
	"handoff/core/store"
)

// finders are the statements of Find, by cause. Each reads a short list, or an index in order, and stops at
// the limit. A list of held rows is no longer than the capacity of the fleet. $1 is the clock, $2 the age, $3
// the limit, $4 the ids to skip.
var finders = map[store.ReclaimCause]string{
	store.Unclaimed: findWork(`
		w.incarnation is not null and w.status = 'scheduled' and w.scheduled_at <= (select now from clock) - $2::interval`, "w.scheduled_at"),
	store.Unpublished: findWork(`
		w.incarnation is not null and w.status = 'scheduled' and w.published_at is null and w.scheduled_at <= (select now from clock) - $2::interval`,
		"w.scheduled_at"),
	store.UnpublishedLate: findWork(`
		w.incarnation is not null and w.status = 'scheduled' and w.published_at is null and w.scheduled_at <= (select now from clock) - $2::interval
		and w.scheduled_at + (w.dispatch_deadline - w.scheduled_at) / 2 <= (select now from clock)`, "w.scheduled_at"),
	store.Overrun: findWork(`
		w.incarnation is not null and w.status in ('running', 'canceling') and w.run_deadline <= (select now from clock) - $2::interval`, "w.run_deadline"),
	store.Unanswered: findWork(`
		w.incarnation is not null and w.status = 'canceling' and w.canceling_at <= (select now from clock) - $2::interval`, "w.canceling_at"),
	store.ClaimExpired: findWork(`
		w.incarnation is null and w.scheduling_expires_at < (select now from clock) and $2::interval is not null`, "w.scheduling_expires_at"),
	store.Unorchestrated: findStatement("{kept}", `
		from (
			select u.ended, u.id from execution_unhandled u
			 where u.ended <= (select now from clock) - $2::interval and u.id <> all($4::bigint[])
			 order by u.ended, u.id limit $3::bigint
		) u join execution_record r on r.id = u.id
		order by u.ended, u.id`),
	store.Unsettled: findStatement("{e}", `
		from execution e
		where e.id in (
			select r.id from execution_record r
			 where r.settling_at is not null and r.settling_at <= (select now from clock) - $2::interval and r.id <> all($4::bigint[])
			 order by r.settling_at, r.id limit $3::bigint
		)
		order by e.settling_at, e.id`),
	// There are far more incarnations than incarnations with work, so the walk visits only those
	// that hold rows.
	store.OwnerGone: findStatement("{open}", `
		from (
			select w.* from holding h
			join worker_incarnation i on i.incarnation = h.incarnation
			join execution_work w on w.incarnation = i.incarnation
			where i.lifecycle in ('draining', 'stopped', 'lost')
			  and (w.status = 'scheduled' or i.lifecycle <> 'draining' and i.lease_expires_at <= (select now from clock) - $2::interval)
			  and w.id <> all($4::bigint[])
			order by w.status <> 'scheduled', case w.status when 'scheduled' then w.scheduled_at else w.started_at end, w.id limit $3::bigint
		) w join execution_record r on r.id = w.id
		order by w.status <> 'scheduled', case w.status when 'scheduled' then w.scheduled_at else w.started_at end, w.id`, `
		holding (incarnation) as (
			select min(w.incarnation) from execution_work w where w.incarnation is not null
			union all
			select (select min(w.incarnation) from execution_work w where w.incarnation > h.incarnation)
			  from holding h where h.incarnation is not null
		)`),
}

// findWork finds work that meets a condition, in the order of a column.
func findWork(condition, order string) string {
	return findStatement("{open}", `
		from (
			select w.* from execution_work w
			 where `+condition+` and w.id <> all($4::bigint[])
			 order by `+order+`, w.id limit $3::bigint
		) w join execution_record r on r.id = w.id
		order by `+order+`, w.id`)
}

func findStatement(columns, from string, lists ...string) string {
	with := `with recursive clock as materialized (select coalesce($1::timestamptz, clock_timestamp()) as now)`
	for _, list := range lists {
		with += "," + list
	}
	return expandColumns(with + ` select ` + columns + ` ` + from + ` limit $3::bigint`)
}

// Find implements store.Executor.
func (s *Store) Find(ctx context.Context, f store.Finding) ([]execution.Execution, error) {
	question, known := finders[f.Cause]
	if !known || f.Limit <= 0 {
		return nil, nil
	}
	const op = "finding"
	skip := asInt64s(f.Skip)
	for range mostPasses {
		var found []execution.Execution
		var unreadable []int64
		if err := s.query(ctx, op, collectReadable(&found, &unreadable), question, s.clockOverride(), f.Age, f.Limit, skip); err != nil {
			return nil, err
		}
		if len(unreadable) == 0 || len(found)+len(unreadable) < f.Limit {
			return found, nil
		}
		// Unreadable rows may have displaced readable ones beyond the limit, so repeat without them.
		skip = append(skip, unreadable...)
	}
	return nil, fmt.Errorf("postgres: %s: %w: too many of the %d oldest rows of the cause %s are unreadable: run a newer executor, or correct them in the database", op, store.ErrUnreadable, mostPasses*f.Limit, f.Cause)
}

// mostPasses bounds how often Find repeats its query, each time without the rows that it could not read.
const mostPasses = 20

// judgedReclaims begins a statement: it locks the requested rows, and judges what a reclaim would do to each.
// It finds the owners to lock by reading the rows without a lock. If a row's owner has changed by the time it
// is locked, its epoch has too, and the reclaim is refused.
const judgedReclaims = `
with asked as materialized (
    select * from unnest($2::bigint[], $3::bigint[], $4::text[], $5::interval[], $6::text[], $7::text[], $8::text[],
                         $9::boolean[], $10::int[], $11::boolean[], $12::interval[], $13::text[], $14::text[])
        with ordinality as a(ask_id, ask_epoch, ask_ground, ask_age, ask_by, ask_reason, ask_result,
                             ask_fail, ask_max, ask_counts, ask_delay, ask_to, ask_actor, n)
),
owner as materialized (
    select i.* from worker_incarnation i
     where i.incarnation = any(array(select w.incarnation from execution_work w where w.id = any($2::bigint[])))
     order by i.incarnation for share
),
taken as materialized (
    select o.*, o.capacity <= (
               select count(*) from execution_work w where w.incarnation = o.incarnation and w.status <> 'scheduled'
           ) as full_now
      from owner o
),
locked as materialized (
    select a.*, w.* from asked a join execution_work w on w.id = a.ask_id
     where (select count(*) from owner) >= 0
     order by w.id for no key update of w
),
clock as materialized (select coalesce($1::timestamptz, clock_timestamp()) as now from (select count(*) from locked) l),
-- A full join in a list of its own, for the reasons in claimForScheduling.
met as materialized (
    select l.*, t.lifecycle, t.lease_expires_at, t.full_now, t.full_at
      from locked l full join taken t on t.incarnation = l.incarnation
),
waited as materialized (
    -- Whether an active worker's slots were all taken at some moment since the dispatch.
    select m.*,
           coalesce(m.lifecycle = 'active', false) as active,
           coalesce(m.lifecycle = 'active' and (m.full_now or m.full_at >= m.scheduled_at), false) as behind
      from met m
     where m.n is not null
),
given as materialized (
    select l.*, c.now, l.status in ('running', 'canceling') as claimed,
           l.epoch = l.ask_epoch and coalesce(case l.ask_ground
               when 'unclaimed' then l.status = 'scheduled' and l.scheduled_at <= c.now - l.ask_age
               when 'dead_lettered' then l.status = 'scheduled'
               when 'undeliverable' then l.status = 'scheduled'
               when 'unpublished' then l.status = 'scheduled' and l.published_at is null and l.scheduled_at <= c.now - l.ask_age
               when 'unpublished_late' then l.status = 'scheduled' and l.published_at is null and l.scheduled_at <= c.now - l.ask_age
                    and l.scheduled_at + (l.dispatch_deadline - l.scheduled_at) / 2 <= c.now
               when 'owner_gone' then case
                   when l.status = 'scheduled' then l.lifecycle in ('draining', 'stopped', 'lost')
                   when l.status in ('running', 'canceling') then
                        l.lifecycle in ('stopped', 'lost') and l.lease_expires_at <= c.now - l.ask_age
               end
               when 'overrun' then l.status in ('running', 'canceling') and l.run_deadline <= c.now - l.ask_age
               when 'claim_expired' then l.status = 'scheduling' and l.scheduling_expires_at < c.now
           end, false) as lawful,
           (l.ask_counts and l.active and not l.behind)::int as used,
           -- A worker that was asked to stop would soon have given the row back itself, and a worker that was full
           -- could not claim it.
           l.ask_fail and not (l.ask_ground = 'owner_gone' and coalesce(l.lifecycle = 'draining', false)) and not l.behind as fails
      from waited l cross join clock c
),
judged as materialized (
    select g.*, not (g.claimed or g.fails or g.used > 0 and g.dispatches + g.used >= g.ask_max) as back,
           -- A row whose end was requested ends as cancelled.
           case when g.status = 'canceling' then 'cancelled' else g.ask_to end as "to",
           case when g.status = 'canceling' then 'cancelled' else g.ask_reason end as why
      from given g
)`

var reclaimRows = expandColumns(judgedReclaims + `,
-- A dispatch that stayed unclaimed at a worker that stayed active counts against the worker. Entries too
-- old for any window are deleted, too.
blamed as (
    insert into worker_expiry (incarnation, at)
    select j.incarnation, j.now from judged j
     where j.lawful and not j.claimed and j.used > 0
),
forgotten as (
    delete from worker_expiry x using judged j
     where j.used > 0 and x.incarnation = j.incarnation and x.at < j.now - interval '1 day'
),
moved as (
    update execution_work w` + setRequested + `,
           -- If a claim expired, no executor has looked at the row for a while.
           unschedulable_since = null, dispatches = w.dispatches + j.used,
           written_by = j.ask_by::part, written_incarnation = null, written_epoch = j.ask_epoch,
           written_reason = j.why::failure_reason, written_actor = j.ask_actor
      from judged j join execution_record r on r.id = j.id
     where w.id = j.id and j.lawful and j.back
    returning j.n, j.status::text as was, {open}
),
over as (
    update execution_record r
       set status = case when j.claimed then j."to" else 'failed' end::execution_status, failure_reason = j.why::failure_reason,
           result = j.ask_result::json, ended = j.now, dispatches = case when j.claimed then j.dispatches else j.dispatches + j.used end,
           ` + copyWorkColumns("dispatches") + `,
           written_by = j.ask_by::part, written_incarnation = null, written_epoch = j.ask_epoch,
           written_reason = j.why::failure_reason, written_actor = j.ask_actor
      from judged j
     where r.id = j.id and j.lawful and not j.back
    returning j.n, j.status::text as was, {kept}
),` + deleteEndedWork("j.lawful and not j.back") + "," + freeSlots + `
select m.n, true, false, m.was, {m} from moved m
union all
select m.n, true, false, m.was, {m} from over m
union all
select j.n, false, false, j.status::text, {judged} from judged j join execution_record r on r.id = j.id where not j.lawful`)

// Reclaim implements store.Executor.
func (s *Store) Reclaim(ctx context.Context, rs []store.Reclaim) ([]outcome, error) {
	const op = "reclaiming"
	return step[store.Reclaim, outcome]{
		op:  op,
		row: func(r *store.Reclaim) any { return r.Key.ID },
		run: func(ctx context.Context, rs []store.Reclaim, results []outcome) error {
			err := s.query(ctx, op, collectOutcomes(results), reclaimRows, s.reclaimArgs(rs)...)
			ids := make([]int64, len(rs))
			for i := range rs {
				ids[i] = int64(rs[i].Key.ID)
			}
			return s.outcomesOfEnded(ctx, op, ids, results, err)
		},
	}.runAll(ctx, rs)
}

// reclaimArgs returns the arguments of judgedReclaims.
func (s *Store) reclaimArgs(rs []store.Reclaim) []any {
	var ids, epochs []int64
	var by, cause []string
	var reasons, texts, to, actors []*string
	var ages, delays []time.Duration
	var fail, counts []bool
	var most []int32
	for i := range rs {
		r := &rs[i]
		ids, epochs = append(ids, int64(r.Key.ID)), append(epochs, int64(r.Key.Epoch))
		cause, by, ages = append(cause, r.Cause.String()), append(by, r.By.String()), append(ages, r.Age)
		reasons, texts = append(reasons, reasonOrNull(r.Reason)), append(texts, encodeResult(&r.Result))
		fail, most = append(fail, r.Policy == config.Fail), append(most, int32(r.MaxDispatches))
		counts, delays, to = append(counts, r.Counts), append(delays, r.Delay), append(to, statusOrNull(r.To))
		actors = append(actors, orNull(r.Actor))
	}
	return []any{s.clockOverride(), ids, epochs, cause, ages, by, reasons, texts, fail, most, counts, delays, to, actors}
}

func statusOrNull(status execution.Status) *string {
	if status == execution.None {
		return nil
	}
	return orNull(status.String())
}

const markLost = `
with asked as materialized (
    select * from unnest($2::bigint[], $3::bigint[], $4::bigint[]) with ordinality as a(ask_worker, ask_incarnation, ask_beat, n)
),
locked as materialized (
    select a.n, a.ask_beat, i.* from asked a
      join worker_incarnation i on i.incarnation = a.ask_incarnation and i.worker = a.ask_worker
     order by i.incarnation for no key update of i
),
clock as materialized (select coalesce($1::timestamptz, clock_timestamp()) as now from (select count(*) from locked) l)
update worker_incarnation i
   set lifecycle = 'lost'
  from locked l, clock c
 where i.incarnation = l.incarnation
   and l.lifecycle in ('starting', 'active', 'draining') and l.beat = l.ask_beat and l.lease_expires_at < c.now
returning l.n`

// Reap implements store.Executor.
func (s *Store) Reap(ctx context.Context, rs []store.Reap) ([]bool, error) {
	const op = "marking workers lost"
	return step[store.Reap, bool]{
		op:  op,
		row: func(r *store.Reap) any { return r.Incarnation },
		run: func(ctx context.Context, rs []store.Reap, marked []bool) error {
			var workers, incarnations, beats []int64
			for _, r := range rs {
				workers, incarnations = append(workers, int64(r.ID)), append(incarnations, int64(r.Incarnation))
				beats = append(beats, int64(r.Beat))
			}
			var n int
			return s.query(ctx, op, scanInto(func() { marked[n-1] = true }, &n), markLost, s.clockOverride(), workers, incarnations, beats)
		},
	}.runAll(ctx, rs)
}

// The statement may see a slot that was just taken without seeing the execution that took it.
const freeStaleSlots = `
with stale as materialized (
    select s.action, s.number, s.execution
      from concurrency_slot s
     where s.execution is not null and s.taken_at < coalesce($1::timestamptz, clock_timestamp()) - interval '1 minute'
       and not exists (select from execution_work w where w.id = s.execution and not w.waits)
       and not exists (select from execution_record r where r.id = s.execution and r.ended is not null and r.orchestrated_at is null)
     order by s.action, s.number
     limit $2::bigint
       for no key update of s skip locked
)
update concurrency_slot s set execution = null, taken_at = null
  from stale t
 where s.action = t.action and s.number = t.number
returning t.execution`

// Clock implements store.Executor.
func (s *Store) Clock(ctx context.Context) (now time.Time, err error) {
	err = s.query(ctx, "reading the clock", func(rows pgx.Rows) error { return rows.Scan(&now) },
		`select coalesce($1::timestamptz, clock_timestamp())`, s.clockOverride())
	return now, err
}

// FreeSlots implements store.Executor.
func (s *Store) FreeSlots(ctx context.Context, limit int) ([]execution.ID, error) {
	var freed []execution.ID
	var id execution.ID
	err := s.query(ctx, "freeing concurrency slots", scanInto(func() { freed = append(freed, id) }, &id), freeStaleSlots, s.clockOverride(), limit)
	if err != nil {
		return nil, err
	}
	return freed, nil
}

// The time is in a subquery, for the same reason as in purgeDeadLetters.
const forgetKeys = `
with old as materialized (
    select e.id from execution_record e
     where e.idempotency_key is not null and e.created <= (select coalesce($1::timestamptz, clock_timestamp()) - $2::interval)
     order by e.created, e.id
     limit $3::bigint
       for no key update skip locked
)
update execution_record e set idempotency_key = null from old o where e.id = o.id
returning e.id`

// ForgetKeys implements store.Executor.
func (s *Store) ForgetKeys(ctx context.Context, age time.Duration, limit int) (int, error) {
	forgotten := 0
	err := s.query(ctx, "forgetting idempotency keys", func(pgx.Rows) error { forgotten++; return nil }, forgetKeys, s.clockOverride(), age, limit)
	return forgotten, err
}
