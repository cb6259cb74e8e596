package postgres

import (
	"context"
	"math"
	"time"

	"handoff/core/execution"
	"handoff/core/store"
)

type outcome = store.Outcome

// readableRetry leaves out a row that a newer program created for a reason that this one does not know. It is
// a condition of the walk, so that such rows do not displace others.
const readableRetry = `(e.retry_reason is null or e.retry_reason::text = any($11::text[]))`

// Rows wait in lanes. A lane has the rows of one runtime that are pinned to the same worker or to none, and
// need a slot of the same action or none. The statement finds the lanes by skipping through their index from
// one to the next (see queueHeads). Then it walks only the demanded lanes, each as far as its limit and the
// free slots of its action allow. So no cost grows with the number of waiting rows. The rows are not sorted
// before a walk's limit is applied, so the limit stops the walk, and almost every locked row is taken. The
// locks are the guard: a locked row stays requested until the end of the statement. With a condition on the
// status in the update, the planner might read the whole index of requested rows.
//
// Three limits then apply to the rows found, oldest first: the free slots, the room of the pinned worker, and
// the room of the pool. A row that exceeds one of them is left for the executor's next claim, after it has
// placed the others.
//
// A slot is locked before it is given. The statement passes over a slot that another transaction has locked
// or taken (counting alone is no guard). A row that gets no slot stays as it is. If an action no longer has a
// concurrency limit, its executions need no slot, even those created under a limit.
var (
	claimForScheduling         = claimForSchedulingFrom(headsOfAll)
	claimForSchedulingAtBounds = claimForSchedulingFrom(queueHeads(12))
)

// claimForSchedulingFrom returns the statement that walks lanes beginning at these heads.
func claimForSchedulingFrom(heads string) string {
	return expandColumns(`
with recursive demand as materialized (
    select * from unnest($4::text[], $5::bigint[], $6::bigint[], $7::bigint[], $8::int[], $9::bigint[])
        as d(runtime, pinned, wanted, room, pool, pool_room)
),
clock as materialized (select coalesce($1::timestamptz, clock_timestamp()) as now),` + heads + `,
asked as materialized (
    select l.action, l.runtime, l.pinned, l.due_at as head, d.runtime is not null as named, coalesce(d.wanted, $10::bigint) as wanted,
           d.room, d.pool, d.pool_room
      from lane l left join demand d on d.runtime = l.runtime and d.pinned = l.pinned
     where coalesce(d.wanted, $10::bigint) > 0
),
slots as materialized (
    select x.action, a.concurrency, case when a.concurrency is null then x.wanted else f.n end as free
      from (select k.action, sum(k.wanted)::bigint as wanted from asked k where k.action > 0 group by k.action) x
      join action a on a.id = x.action
     cross join lateral (
        select count(*) as n from (
            select from concurrency_slot s
             where s.action = x.action and s.number <= a.concurrency and s.execution is null
             limit x.wanted
        ) s
     ) f
),
-- A full join, which can't be executed by comparing each lane with each action. Other joins of two lists would be, as the
-- store turns hash and merge joins off. In a list of its own: a condition on one side would make it another kind of join.
roomy as materialized (
    select k.*, s.concurrency, s.free from asked k full join slots s on s.action = k.action
),
walked as materialized (
    select r.id, r.due_at, k.*
      from roomy k
     cross join lateral (
        select e.id, e.due_at from execution_work e
         where e.waits and e.lane_action = k.action and e.runtime = k.runtime and e.lane_worker = k.pinned
           and e.due_at between k.head and (select now from clock) and ` + readableRetry + `
         order by e.due_at, e.id
         limit least(k.wanted, k.free)
           for no key update skip locked
     ) r
     where k.named
),
named as materialized (
    select w.* from (
        select w.*, row_number() over (partition by w.pool order by w.due_at, w.id) as in_pool from (
            select w.*, row_number() over (partition by w.pinned order by w.due_at, w.id) as at_worker from (
                select w.*, row_number() over (partition by w.action order by w.due_at, w.id) as place from walked w
            ) w where w.action = 0 or w.place <= w.free
        ) w where w.pinned = 0 or w.at_worker <= w.room
    ) w where w.pool_room is null or w.in_pool <= w.pool_room
),
spare as materialized (
    select s.action, s.concurrency, s.free - (select count(*) from named n where n.action = s.action) as free from slots s
),
others as materialized (
    select o.* from (select k.runtime, k.pinned from asked k where not k.named group by k.runtime, k.pinned order by k.runtime, k.pinned) g
     cross join lateral (
        select r.* from (
            select r.id, r.due_at, k.action, k.runtime, k.pinned, s.concurrency, s.free
              from asked k
              left join spare s on s.action = k.action
             cross join lateral (
                select e.id, e.due_at from execution_work e
                 where e.waits and e.lane_action = k.action and e.runtime = k.runtime and e.lane_worker = k.pinned
                   and e.due_at between k.head and (select now from clock) and ` + readableRetry + `
                 order by e.due_at, e.id
                 limit least($10::bigint, s.free)
                   for no key update skip locked
             ) r
             where k.runtime = g.runtime and k.pinned = g.pinned
        ) r order by r.due_at, r.id limit $10::bigint
     ) o
     limit $10::bigint
),
picked as materialized (
    select p.*, row_number() over (partition by p.action order by p.other, p.n) as place from (
        select false as other, row_number() over (order by n.due_at, n.id) as n, n.id, n.action, n.concurrency from named n
        union all
        select true, o.n, o.id, o.action, o.concurrency from (
            select o.*, row_number() over (order by o.runtime, o.pinned, o.due_at, o.id) as n,
                   row_number() over (partition by o.action order by o.runtime, o.pinned, o.due_at, o.id) as place
              from others o
        ) o where o.action = 0 or o.place <= o.free
    ) p
),
locked as materialized (
    select c.*, row_number() over (partition by c.action order by c.number) as place
      from (
        select l.* from (
            select p.action, p.concurrency, count(*) as n from picked p where p.concurrency is not null group by p.action, p.concurrency
        ) x
         cross join lateral (
            select s.action, s.number from concurrency_slot s
             where s.action = x.action and s.number <= x.concurrency and s.execution is null
             order by s.number
             limit x.n
               for no key update skip locked
         ) l
      ) c
),
-- A full join, as above: it would take long to compare each row with each slot.
met as materialized (
    select p.*, l.action as slot_action, l.number from picked p full join locked l on l.action = p.action and l.place = p.place
),
taken as materialized (
    select m.id, m.other, m.n, m.slot_action as action, m.number
      from met m where m.id is not null and (m.concurrency is null or m.number is not null)
),
given as (
    update concurrency_slot c
       set execution = t.id, taken_at = (select now from clock)
      from taken t
     where c.action = t.action and c.number = t.number
),
moved as (
    update execution_work w
       set status = 'scheduling', scheduling_at = c.now, scheduling_by = $2, scheduling_expires_at = c.now + $3::interval,
           written_by = 'scheduler', written_incarnation = null, written_epoch = w.epoch, written_reason = null
      from taken t join execution_record r on r.id = t.id cross join clock c
     where w.id = t.id
    returning t.other, t.n, {open}
)
select {m} from moved m order by m.other, m.n`)
}

// ClaimForScheduling implements store.Executor.
func (s *Store) ClaimForScheduling(ctx context.Context, c store.SchedulingClaim) ([]execution.Execution, error) {
	var found []execution.Execution
	var unreadable []int64 // unreadable in another column after a manual edit; their claims expire
	sql, bounds := claimForScheduling, s.queuesNow(ctx)
	if bounds != nil {
		sql = claimForSchedulingAtBounds
	}
	if err := s.query(ctx, "claiming for scheduling", collectReadable(&found, &unreadable), sql, append(schedulingArgs(s.clockOverride(), c), bounds...)...); err != nil {
		return nil, err
	}
	return found, nil
}

// schedulingArgs returns the arguments of claimForScheduling. They have each lane once, because two walks in
// one statement would find the same rows.
func schedulingArgs(now *time.Time, c store.SchedulingClaim) []any {
	n := len(c.Demands)
	runtimes, pools := make([]string, 0, n), make([]int32, 0, n)
	pinned, limits, rooms, bounds := make([]int64, 0, n), make([]int64, 0, n), make([]int64, 0, n), make([]*int64, 0, n)
	type lane struct {
		runtime string
		pinned  execution.WorkerID
	}
	place := make(map[lane]int, n)
	room := make(map[execution.WorkerID]int64)
	for _, d := range c.Demands {
		at, named := place[lane{d.Runtime, d.Pinned}]
		if !named {
			at = len(runtimes)
			place[lane{d.Runtime, d.Pinned}] = at
			runtimes, pinned, limits = append(runtimes, d.Runtime), append(pinned, int64(d.Pinned)), append(limits, 0)
			var bound *int64
			if d.Pool >= 0 && d.Pool < len(c.Pools) {
				together := int64(c.Pools[d.Pool])
				bound = &together
			}
			pools, bounds = append(pools, int32(d.Pool)), append(bounds, bound)
		}
		limits[at] += int64(max(0, d.Limit))
		room[d.Pinned] = max(room[d.Pinned], limits[at])
	}
	for _, w := range pinned {
		rooms = append(rooms, room[execution.WorkerID(w)])
	}
	return []any{now, c.Executor, c.Expiry, runtimes, pinned, limits, rooms, pools, bounds, int64(max(0, c.Others)), execution.Reasons()}
}

// A worker that is active is also the newest of its name: a registration ends the older one.
//
// The limit applies to the simultaneous dispatches of all executors to one worker. So the executors take
// turns, by a lock that claims and heartbeats do not take, and count the worker's rows during their turn. The
// statement's own snapshot is older than that; the snapshot of a volatile function is not.
var dispatchRows = expandColumns(`
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
locked as materialized (
    select a.*, w.* from asked a join execution_work w on w.id = a.ask_id
     where (select count(*) from owner) >= 0
     order by w.id for no key update of w
),` + heldOf("owner", "(select count(*) from locked) >= 0", 9) + `,
-- A full join in a list of its own, for the reasons in claimForScheduling.
met as materialized (
    select l.*, h.worker as owner, h.lifecycle, h.lease_expires_at, h.consumer_alive, h.cordoned, h.load
      from locked l full join held h on h.incarnation = l.ask_incarnation
),
clock as materialized (select coalesce($1::timestamptz, clock_timestamp()) as now from (select count(*) from locked) l),
able as materialized (
    select m.*, c.now,
           m.status = 'scheduling' and m.epoch = m.ask_epoch and m.scheduling_by = $2 as holds,
           coalesce(m.owner = m.ask_worker and m.lifecycle = 'active' and c.now <= m.lease_expires_at
                    and m.consumer_alive and not m.cordoned, false) as able
      from met m cross join clock c
     where m.n is not null
),
judged as materialized (
    select a.*,
           a.able and (a.ask_limit = 0 or a.ask_limit >= coalesce(a.load, 0)
               + count(*) filter (where a.holds and a.able) over (partition by a.ask_incarnation order by a.n)) as fit
      from able a
),
moved as (
    update execution_work w
       set status = 'scheduled', epoch = w.epoch + 1, worker = j.ask_worker, incarnation = j.ask_incarnation,
           scheduled_at = j.now, dispatch_deadline = j.now + j.ask_timeout, unschedulable_since = null,
           written_by = 'scheduler', written_incarnation = null, written_epoch = j.ask_epoch, written_reason = null
      from judged j join execution_record r on r.id = j.id
     where w.id = j.id and j.holds and j.fit
    returning j.n, j.status::text as was, {open}
)
select m.n, true, false, m.was, {m} from moved m
union all
select j.n, false, j.holds, j.status::text, {judged} from judged j join execution_record r on r.id = j.id where not (j.holds and j.fit)`)

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
			now := s.clockOverride()
			err := s.query(ctx, op, scanVerdicts(func(v *verdict) {
				results[v.n-1] = store.DispatchResult{Outcome: v.toOutcome(), WorkerUnfit: v.remark}
			}), dispatchRows, append([]any{now, executor, ids, epochs, workers, incarnations, timeouts, limits}, s.holding.argsFor(incarnations...)...)...)
			if err != nil {
				return err
			}
			return s.refuseEnded(ctx, op, ids, func(n int) bool { return results[n].Row.ID != 0 }, func(n int, o outcome) { results[n].Outcome = o })
		},
	}.runAll(ctx, ds)
}

// The statement does not wait for a locked row: nearly always the lock belongs to a claim, which marks the
// row itself. The answer lists the rows that were unmarked when the statement began and could not be locked.
const markPublished = `
with unmarked as materialized (
    select a.* from unnest($2::bigint[], $3::bigint[]) with ordinality as a(ask_id, ask_epoch, n)
      join execution_work e on e.id = a.ask_id
     where e.id = any($2::bigint[]) and e.status = 'scheduled' and e.epoch = a.ask_epoch and e.published_at is null
),
locked as materialized (
    select e.id from unmarked u join execution_work e on e.id = u.ask_id
     where e.id = any($2::bigint[]) and e.status = 'scheduled' and e.epoch = u.ask_epoch and e.published_at is null
     order by e.id for no key update of e skip locked
),
marked as (
    update execution_work e
       set published_at = coalesce($1::timestamptz, clock_timestamp())
      from locked l
     where e.id = l.id and e.id = any($2::bigint[])
)
-- A full join, for the reasons in claimForScheduling.
select u.n from unmarked u full join locked l on l.id = u.ask_id where l.id is null`

// MarkPublished implements store.Executor.
func (s *Store) MarkPublished(ctx context.Context, keys []execution.Key) ([]execution.Key, error) {
	const op = "marking dispatches published"
	locked, err := step[execution.Key, bool]{
		op:  op,
		row: func(k *execution.Key) any { return k.ID },
		run: func(ctx context.Context, keys []execution.Key, locked []bool) error {
			ids, epochs := idsAndEpochs(keys)
			var n int
			return s.keptPlanQuery(keptHashed)(ctx, op, scanInto(func() { locked[n-1] = true }, &n), markPublished, s.clockOverride(), ids, epochs)
		},
	}.runAll(ctx, keys)
	var left []execution.Key
	for i := range locked {
		if locked[i] {
			left = append(left, keys[i])
		}
	}
	return left, err
}

// setRequested is the part of an update of execution_work w that returns a row of the list j to
// requested: the next epoch has no owner. A delay in j.ask_delay makes it wait.
const setRequested = `
       set status = 'requested', epoch = w.epoch + 1, avoid_worker = coalesce(w.worker, w.avoid_worker), worker = null, incarnation = null,
           dispatch_deadline = null, scheduled_at = null, published_at = null,
           scheduling_at = null, scheduling_by = null, scheduling_expires_at = null,
           retry_at = case when j.ask_delay > '0' then j.now + j.ask_delay end, due_at = j.now + greatest(j.ask_delay, '0')`

// deleteEndedWork returns lists of a statement. They delete the work of the rows that its list "over" has
// ended, and record those whose end is not handled yet. condition selects them among the rows of the list j.
// They must be one statement with the end, or the transition table refuses both. The rows are found by their
// ids and not by a join: a planner that expects one row of j compares each with each.
func deleteEndedWork(condition string) string {
	return `
gone as (
    delete from execution_work w where w.id = any(array(select j.id from judged j where ` + condition + `))
),
unhandled as (
    insert into execution_unhandled (ended, id) select o.ended, o.id from over o where o.orchestrated_at is null
)`
}

// freeSlots is a list of a statement whose moved rows have become requested again: it releases their
// concurrency slots.
const freeSlots = `
freed as (
    update concurrency_slot s set execution = null, taken_at = null
      from moved m
     where s.execution = m.id and m.concurrency is not null
)`

var parkRows = expandColumns(`
with asked as materialized (
    select * from unnest($3::bigint[], $4::bigint[], $5::interval[], $6::boolean[], $7::interval[], $8::text[], $9::interval[], $10::interval[], $11::interval[])
        with ordinality as a(ask_id, ask_epoch, ask_delay, ask_unschedulable, ask_grace, ask_result, ask_patience, ask_watched, ask_seen, n)
),
locked as materialized (
    select a.*, w.* from asked a join execution_work w on w.id = a.ask_id order by w.id for no key update of w
),
clock as materialized (select coalesce($1::timestamptz, clock_timestamp()) as now from (select count(*) from locked) l),
graced as materialized (
    -- If a row was due for longer than the patience before any executor looked, its grace starts anew, as far back
    -- as the caller knows that no worker fitted. No grace begins before the caller saw a fitting worker: greatest
    -- ignores null.
    select l.*, c.now,
           case when l.unschedulable_since is null then c.now
                else greatest(l.unschedulable_since,
                     case when l.ask_patience > interval '0' and l.scheduling_at - l.due_at > l.ask_patience
                          then c.now - l.ask_watched end,
                     case when l.ask_seen > interval '0' then c.now - l.ask_seen end) end as first
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
    update execution_work w` + setRequested + `, unschedulable_since = j.since,
           written_by = 'scheduler', written_incarnation = null, written_epoch = j.ask_epoch, written_reason = null
      from judged j join execution_record r on r.id = j.id
     where w.id = j.id and j.lawful and j.back
    returning j.n, j.status::text as was, {open}
),
over as (
    update execution_record r
       set status = 'failed', failure_reason = 'no_workers', result = j.ask_result::json, ended = j.now, unschedulable_since = j.since,
           ` + copyWorkColumns("unschedulable_since") + `,
           written_by = 'scheduler', written_incarnation = null, written_epoch = j.ask_epoch, written_reason = 'no_workers', written_actor = null
      from judged j
     where r.id = j.id and j.lawful and not j.back
    returning j.n, j.status::text as was, {kept}
),` + deleteEndedWork("j.lawful and not j.back") + "," + freeSlots + `
select m.n, true, false, m.was, {m} from moved m
union all
select m.n, true, false, m.was, {m} from over m
union all
select j.n, false, false, j.status::text, {judged} from judged j join execution_record r on r.id = j.id where not j.lawful`)

// Park implements store.Executor.
func (s *Store) Park(ctx context.Context, executor string, ps []store.Park) ([]outcome, error) {
	const op = "parking"
	return step[store.Park, outcome]{
		op:  op,
		row: func(p *store.Park) any { return p.Key.ID },
		run: func(ctx context.Context, ps []store.Park, results []outcome) error {
			var ids, epochs []int64
			var delays, graces, patiences, watched, seen []time.Duration
			var unschedulable []bool
			var texts []*string
			for i := range ps {
				p := &ps[i]
				ids, epochs = append(ids, int64(p.Key.ID)), append(epochs, int64(p.Key.Epoch))
				delays, graces, patiences = append(delays, p.Delay), append(graces, p.Grace), append(patiences, p.Patience)
				watched, seen = append(watched, p.Watched), append(seen, p.Seen)
				unschedulable, texts = append(unschedulable, p.Unschedulable), append(texts, encodeResult(&p.Result))
			}
			err := s.query(ctx, op, collectOutcomes(results), parkRows, s.clockOverride(), executor, ids, epochs, delays, unschedulable, graces, texts, patiences, watched, seen)
			return s.outcomesOfEnded(ctx, op, ids, results, err)
		},
	}.runAll(ctx, ps)
}
