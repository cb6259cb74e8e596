package postgres

import (
	"context"
	"math"
	"time"

	"handoff/core/execution"
	"handoff/core/store"
)

type outcome = store.Outcome

func lifecycleNamed(name string) execution.Lifecycle {
	for l := execution.Starting; l <= execution.Lost; l++ {
		if l.String() == name {
			return l
		}
	}
	return execution.NoLifecycle
}

// Each runtime is a walk along its part of one index. Runtimes that nobody named are found by
// skipping through that index from one to the next. The limit on those rows has no order above it,
// so it stops the walk, and hardly a row is locked that is not taken. The locks are the guard: what is locked
// here is requested until the end of the statement. Saying so again in the update would offer it the
// index of requested rows, to be read from end to end.
//
// Executions with a limit of concurrency stand in an index by action, and are only looked at as far as
// their action has free slots, so those that wait for one hinder nobody. A slot is locked before it is
// given; one that another transaction has locked is passed over (counting is no guard). Executions that were
// created under a limit which their action has no more need no slot.
var claimForScheduling = text(`
with recursive demand as materialized (
    select * from unnest($4::text[], $5::bigint[]) with ordinality as d(runtime, wanted, n)
),
clock as materialized (select coalesce($1::timestamptz, clock_timestamp()) as now),
free as materialized (
    select s.action, s.number
      from action a join concurrency_slot s on s.action = a.id and s.number <= a.concurrency
     where s.execution is null
     order by s.action, s.number
       for no key update of s skip locked
),
slot as materialized (select f.action, f.number, row_number() over (partition by f.action order by f.number) as place from free f),
lifted (action) as (
    select min(e.action) from execution e where e.status = 'requested' and e.concurrency is not null
    union all
    select (select min(e.action) from execution e where e.status = 'requested' and e.concurrency is not null and e.action > l.action)
      from lifted l where l.action is not null
),
room as materialized (
    select s.action, count(*) as n from slot s group by s.action
    union all
    select a.id, (select coalesce(sum(d.wanted), 0)::bigint from demand d) + $6::bigint
      from lifted l join action a on a.id = l.action where a.concurrency is null
),
limited as materialized (
    select x.id, x.due_at, x.runtime, x.action
      from room
     cross join lateral (
        select r.id, r.due_at, r.runtime, r.action from execution r
         where r.status = 'requested' and r.concurrency is not null and r.action = room.action and r.due_at <= (select now from clock)
         order by r.due_at, r.id
         limit room.n
           for no key update skip locked
     ) x
),
waiting (runtime) as (
    select min(e.runtime) from execution e where e.status = 'requested' and e.concurrency is null and $6::bigint > 0
    union all
    select (select min(e.runtime) from execution e where e.status = 'requested' and e.concurrency is null and e.runtime > w.runtime)
      from waiting w where w.runtime is not null
),
named as materialized (
    select d.n, e.id, e.due_at
      from demand d
     cross join lateral (
        select u.id, u.due_at
          from (
            select * from (
                select r.id, r.due_at from execution r
                 where r.status = 'requested' and r.concurrency is null and r.runtime = d.runtime and r.due_at <= (select now from clock)
                 order by r.due_at, r.id
                 limit d.wanted
                   for no key update skip locked
            ) unlimited
            union all
            select l.id, l.due_at from limited l where l.runtime = d.runtime
          ) u
         order by u.due_at, u.id
         limit d.wanted
     ) e
),
others as materialized (
    select $6::bigint + 1 + row_number() over (order by e.runtime, e.due_at, e.id) as n, e.id, e.due_at
      from (
        select * from (
            select r.id, r.due_at, r.runtime
              from waiting w
             cross join lateral (
                select x.id, x.due_at, x.runtime from execution x
                 where x.status = 'requested' and x.concurrency is null and x.runtime = w.runtime and x.due_at <= (select now from clock)
                 order by x.due_at, x.id
                 limit $6::bigint
                   for no key update skip locked
             ) r
             where w.runtime is not null and w.runtime <> all ($4::text[])
             limit $6::bigint
        ) unlimited
        union all
        select l.id, l.due_at, l.runtime from limited l where l.runtime <> all ($4::text[])
         order by runtime, due_at, id
        limit $6::bigint
      ) e
),
picked as materialized (
    select p.*, l.action, row_number() over (partition by l.action order by p.due_at, p.id) as place
      from (select n, id, due_at, false as other from named union all select n, id, due_at, true from others) p
      left join limited l on l.id = p.id
),
given as (
    update concurrency_slot c
       set execution = p.id, taken_at = (select now from clock)
      from picked p
      join slot s on s.action = p.action and s.place = p.place
     where c.action = s.action and c.number = s.number
),
moved as (
    update execution e
       set status = 'scheduling', scheduling_at = c.now, scheduling_by = $2, scheduling_expires_at = c.now + $3::interval,
           written_by = 'scheduler', written_incarnation = null, written_epoch = e.epoch, written_reason = null
      from picked p, clock c
     where e.id = p.id
    returning p.other, p.n, p.due_at as due, e.*
)
select {m} from moved m order by m.other, m.n, m.due, m.id`)

// ClaimForScheduling implements store.Executor.
func (s *Store) ClaimForScheduling(ctx context.Context, c store.SchedulingClaim) ([]execution.Execution, error) {
	var runtimes []string
	var limits []int64
	place := make(map[string]int, len(c.Demands))
	for _, d := range c.Demands {
		n, named := place[d.Runtime]
		if !named {
			n = len(runtimes)
			place[d.Runtime] = n
			runtimes, limits = append(runtimes, d.Runtime), append(limits, 0)
		}
		// Two walks in one statement would find the same rows.
		limits[n] += int64(max(0, d.Limit))
	}
	if runtimes == nil {
		runtimes, limits = []string{}, []int64{}
	}
	var found []execution.Execution
	err := s.query(ctx, "claiming for scheduling", reader(&found), claimForScheduling,
		s.now(), c.Executor, c.Expiry, runtimes, limits, int64(max(0, c.Others)))
	if err != nil {
		return nil, err
	}
	return found, nil
}

// A worker that is active is also the newest of its name: registering ends the older one.
//
// What several executors dispatch to one worker at the same time counts together. So they take turns, by a
// lock that claims and heartbeats do not meet, and what the worker holds is counted when the turn has
// come: a statement's own snapshot is older than that, and a volatile function's is not.
var dispatch = text(`
with asked as materialized (
    select * from unnest($3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::interval[], $8::int[])
        with ordinality as a(ask_id, ask_epoch, ask_worker, ask_incarnation, ask_timeout, ask_limit, n)
),
turn as materialized (
    select pg_advisory_xact_lock(hashtextextended('handoff.dispatch', i.ask_incarnation)) from (
        select distinct a.ask_incarnation from asked a where a.ask_limit > 0 order by a.ask_incarnation
    ) i
),
owner as materialized (
    select i.*, w.cordoned_at is not null as cordoned
      from worker w join worker_incarnation i on i.worker = w.id
     where i.incarnation = any($6::bigint[]) and (select count(*) from turn) >= 0
     order by i.incarnation for share
),
held as materialized (
    select o.incarnation, held_by(o.incarnation) as load from owner o
),
locked as materialized (
    select a.*, e.* from asked a join execution e on e.id = a.ask_id
     where (select count(*) from owner) >= 0
     order by e.id for no key update of e
),
clock as materialized (select coalesce($1::timestamptz, clock_timestamp()) as now from (select count(*) from locked) l),
able as materialized (
    select l.*, c.now,
           l.status = 'scheduling' and l.epoch = l.ask_epoch and l.scheduling_by = $2 as holds,
           coalesce(o.worker = l.ask_worker and o.lifecycle = 'active' and c.now <= o.lease_expires_at
                    and o.consumer_alive and not o.cordoned, false) as able
      from locked l cross join clock c
      left join owner o on o.incarnation = l.ask_incarnation
),
judged as materialized (
    select a.*,
           a.able and (a.ask_limit = 0 or a.ask_limit >= coalesce(h.load, 0)
               + count(*) filter (where a.holds and a.able) over (partition by a.ask_incarnation order by a.n)) as fit
      from able a
      left join held h on h.incarnation = a.ask_incarnation
),
moved as (
    update execution e
       set status = 'scheduled', epoch = e.epoch + 1, worker = j.ask_worker, incarnation = j.ask_incarnation,
           scheduled_at = j.now, dispatch_deadline = j.now + j.ask_timeout, unschedulable_since = null,
           written_by = 'scheduler', written_incarnation = null, written_epoch = j.ask_epoch, written_reason = null
      from judged j
     where e.id = j.id and j.holds and j.fit
    returning j.n, j.status::text as was, e.*
)
select m.n, true, false, m.was, {m} from moved m
union all
select j.n, false, j.holds, j.status::text, {j} from judged j where not (j.holds and j.fit)`)

// Dispatch implements store.Executor.
func (s *Store) Dispatch(ctx context.Context, executor string, ds []store.Dispatch) ([]store.DispatchResult, error) {
	const op = "dispatching"
	return step[store.Dispatch, store.DispatchResult]{
		op:  op,
		row: func(d *store.Dispatch) any { return d.Key.ID },
		run: func(ctx context.Context, ds []store.Dispatch, results []store.DispatchResult) error {
			var ids, epochs, workers, incarnations []int64
			var timeouts []time.Duration
			var limits []int32
			for i := range ds {
				d := &ds[i]
				limits = append(limits, int32(min(d.Limit, math.MaxInt32)))
				ids, epochs = append(ids, int64(d.Key.ID)), append(epochs, int64(d.Key.Epoch))
				workers, incarnations = append(workers, int64(d.Worker.ID)), append(incarnations, int64(d.Worker.Incarnation))
				timeouts = append(timeouts, d.Timeout)
			}
			return s.query(ctx, op, verdicts(func(v *verdict) {
				results[v.n-1] = store.DispatchResult{Outcome: v.outcome(), WorkerUnfit: v.remark}
			}), dispatch, s.now(), executor, ids, epochs, workers, incarnations, timeouts, limits)
		},
	}.all(ctx, ds)
}

// No row is answered and nothing is judged at a moment, so locks alone come first.
const markPublished = `
with asked as materialized (
    select * from unnest($2::bigint[], $3::bigint[]) as a(ask_id, ask_epoch)
),
locked as materialized (
    select e.id from asked a join execution e on e.id = a.ask_id
     where e.epoch = a.ask_epoch and e.published_at is null
     order by e.id for no key update of e
)
update execution e
   set published_at = coalesce($1::timestamptz, clock_timestamp())
  from locked l
 where e.id = l.id`

// MarkPublished implements store.Executor.
func (s *Store) MarkPublished(ctx context.Context, keys []execution.Key) error {
	_, err := s.published.do(ctx, "marking dispatches published", keys)
	return err
}

func (s *Store) markEach(ctx context.Context, keys []execution.Key) ([]struct{}, []error) {
	const op = "marking dispatches published"
	return step[execution.Key, struct{}]{
		op:  op,
		row: func(k *execution.Key) any { return k.ID },
		run: func(ctx context.Context, keys []execution.Key, _ []struct{}) error {
			var ids, epochs []int64
			for _, k := range keys {
				ids, epochs = append(ids, int64(k.ID)), append(epochs, int64(k.Epoch))
			}
			return s.query(ctx, op, nothing, markPublished, s.now(), ids, epochs)
		},
	}.each(ctx, keys)
}

// takeBack is the part of an update that returns a row to requested where j.back says so: the next
// epoch belongs to nobody. A delay in j.ask_delay makes it wait.
const takeBack = `
           epoch = case when j.back then e.epoch + 1 else e.epoch end,
           avoid_worker = case when j.back then coalesce(e.worker, e.avoid_worker) else e.avoid_worker end,
           worker = case when j.back then null else e.worker end,
           incarnation = case when j.back then null else e.incarnation end,
           dispatch_deadline = case when j.back then null else e.dispatch_deadline end,
           scheduled_at = case when j.back then null else e.scheduled_at end,
           published_at = case when j.back then null else e.published_at end,
           scheduling_at = case when j.back then null else e.scheduling_at end,
           scheduling_by = case when j.back then null else e.scheduling_by end,
           scheduling_expires_at = case when j.back then null else e.scheduling_expires_at end,
           retry_at = case when not j.back then e.retry_at when j.ask_delay > '0' then j.now + j.ask_delay end,
           due_at = case when j.back then j.now + greatest(j.ask_delay, '0') else e.due_at end,
           ended = case when j.back then null else j.now end`

// freeSlots is a list of a statement whose moved rows may have become requested again: those give their
// concurrency slots back.
const freeSlots = `
freed as (
    update concurrency_slot s set execution = null, taken_at = null
      from moved m
     where s.execution = m.id and m.status = 'requested' and m.concurrency is not null
)`

var park = text(`
with asked as materialized (
    select * from unnest($3::bigint[], $4::bigint[], $5::interval[], $6::boolean[], $7::interval[], $8::text[], $9::interval[], $10::interval[])
        with ordinality as a(ask_id, ask_epoch, ask_delay, ask_unschedulable, ask_grace, ask_result, ask_patience, ask_watched, n)
),
locked as materialized (
    select a.*, e.* from asked a join execution e on e.id = a.ask_id order by e.id for no key update of e
),
clock as materialized (select coalesce($1::timestamptz, clock_timestamp()) as now from (select count(*) from locked) l),
graced as materialized (
    -- A row that was due for longer than the patience before anybody looked starts its grace anew, as far back as
    -- the caller knows that no worker fitted.
    select l.*, c.now,
           case when l.unschedulable_since is null then c.now
                when l.ask_patience > interval '0' and l.scheduling_at - l.due_at > l.ask_patience
                then greatest(l.unschedulable_since, c.now - l.ask_watched)
                else l.unschedulable_since end as first
      from locked l cross join clock c
),
judged as materialized (
    select g.*,
           g.status = 'scheduling' and g.epoch = g.ask_epoch and g.scheduling_by = $2 as lawful,
           case when g.ask_unschedulable then g.first end as since,
           not (g.ask_unschedulable and g.now - g.first >= g.ask_grace) as back
      from graced g
),
moved as (
    update execution e
       set status = case when j.back then 'requested' else 'failed' end::execution_status,` + takeBack + `,
           unschedulable_since = j.since,
           failure_reason = case when j.back then e.failure_reason else 'no_workers' end,
           result = case when j.back then e.result else j.ask_result::json end,
           written_by = 'scheduler', written_incarnation = null, written_epoch = j.ask_epoch,
           written_reason = case when not j.back then 'no_workers'::failure_reason end
      from judged j
     where e.id = j.id and j.lawful
    returning j.n, j.status::text as was, e.*
),` + freeSlots + `
select m.n, true, false, m.was, {m} from moved m
union all
select j.n, false, false, j.status::text, {j} from judged j where not j.lawful`)

// Park implements store.Executor.
func (s *Store) Park(ctx context.Context, executor string, ps []store.Park) ([]outcome, error) {
	const op = "parking"
	return step[store.Park, outcome]{
		op:  op,
		row: func(p *store.Park) any { return p.Key.ID },
		run: func(ctx context.Context, ps []store.Park, results []outcome) error {
			var ids, epochs []int64
			var delays, graces, patiences, watched []time.Duration
			var unschedulable []bool
			var texts []*string
			for i := range ps {
				p := &ps[i]
				ids, epochs = append(ids, int64(p.Key.ID)), append(epochs, int64(p.Key.Epoch))
				delays, graces, patiences = append(delays, p.Delay), append(graces, p.Grace), append(patiences, p.Patience)
				watched = append(watched, p.Watched)
				unschedulable, texts = append(unschedulable, p.Unschedulable), append(texts, encodeResult(&p.Result))
			}
			return s.query(ctx, op, outcomes(results), park, s.now(), executor, ids, epochs, delays, unschedulable, graces, texts, patiences, watched)
		},
	}.all(ctx, ps)
}
