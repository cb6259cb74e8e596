package postgres

import (
	"context"
	"math"
	"slices"

	"github.com/jackc/pgx/v5"

	"handoff/core/execution"
	"handoff/core/store"
)

// unlimitedUnpinned selects the lane of a runtime whose rows need no slot and may go to any worker. It is
// written like the condition of the index of waiting rows, so that the planner uses that index.
const unlimitedUnpinned = `e.waits and e.lane_action = 0 and e.runtime = o.runtime and e.lane_worker = 0
           and e.due_at between o.head and (select now from early)`

// readableRetryOf is readableRetry with the parameter's number in dispatchDue.
const readableRetryOf = `(e.retry_reason is null or e.retry_reason::text = any($14::text[]))`

// dispatchDue combines a claim and a dispatch in one step. Every row of an offer fits each of the offer's
// workers. So the caller can choose the workers without knowing the rows: one for the first row, one for the
// second, and so on. The alternative is to read a list of rows without locks, and move it with a second
// statement. That would be cheaper, but two executors would read the same rows, and one would have worked in
// vain.
//
// Locks are taken in the same order as by dispatchRows: turns, incarnations, rows. So the statement first
// counts the due rows (seen), so that it neither takes the turn nor counts the load of a worker that gets no
// row. Then it walks the rows and locks them as in claimForScheduling: it passes over rows that another
// executor has locked or moved meanwhile. The statement's snapshot is older than the locks, so it never locks
// more rows than it has seen.
//
// Places are found by their index in arrays (base is the index at which those of an offer begin) and not by a
// join. The store turns hash and merge joins off, and a nested loop would compare each row with each place.
//
// The statement must not overtake rows that wait for the same workers but that it does not take: the oldest
// row of each other lane (rival), unless its action has no free slot or its worker has no place, and the
// first row in the lane itself that avoids a worker (halted).
//
// The update has no condition except the ids: the locked rows stay requested until the end of the statement.
// With a condition on the status, the planner might read the whole index of requested rows.
//
// The plan is kept (see plans.go): planning took half the time of a full batch. Only one plan walks a lane,
// whatever the statistics are: it reads that lane of the index in order, up to the limit. The other tables
// are restricted to ids that are already known, and joined with lists.
var (
	dispatchDue         = dispatchDueFrom(headsOfAll)
	dispatchDueAtBounds = dispatchDueFrom(queueHeads(20))
)

// dispatchDueFrom returns the statement that walks lanes beginning at these heads.
func dispatchDueFrom(heads string) string {
	return expandColumns(`
with recursive early as materialized (select coalesce($1::timestamptz, clock_timestamp()) as now),` + heads + `,
offer as materialized (
    select o.*, l.due_at as head
      from unnest($5::text[], $6::int[], $7::bigint[], $8::int[]) as o(runtime, offer, places, base)
      join lane l on l.runtime = o.runtime
     where l.action = 0 and l.pinned = 0
),
other as materialized (
    select l.action, l.runtime, l.pinned, r.due_at, r.id
      from lane l
     cross join lateral (
        select e.due_at, e.id from execution_work e
         where e.waits and e.lane_action = l.action and e.runtime = l.runtime and e.lane_worker = l.pinned
           and e.due_at between l.due_at and (select now from early) and ` + readableRetryOf + `
         order by e.due_at, e.id limit 1
     ) r
     where l.action <> 0 or l.pinned <> 0 or l.runtime <> all ($5::text[])
),
rival as materialized (
    select o.offer, r.due_at, r.id
      from offer o
     cross join lateral (
        select x.due_at, x.id from other x
         where x.runtime = o.runtime and (x.pinned = 0 or x.pinned = any($9::bigint[]))
           and (x.action = 0 or exists (
                select from action a
                 where a.id = x.action and (a.concurrency is null or exists (
                    select from concurrency_slot s where s.action = a.id and s.number <= a.concurrency and s.execution is null))))
         order by x.due_at, x.id limit 1
     ) r
),
seen as materialized (
    select o.offer, o.base, o.places, least(o.places, count(*)) as n, count(*) >= o.places as full_up
      from offer o
     cross join lateral (
        select e.id from execution_work e where ` + unlimitedUnpinned + ` and ` + readableRetryOf + `
         order by e.due_at, e.id limit o.places
     ) r
     group by o.offer, o.base, o.places
),
needed as materialized (
    select distinct case when s.full_up then ($12::bigint[])[s.base + g.n] else ($10::bigint[])[s.base + g.n] end as incarnation
      from seen s cross join lateral generate_series(1, s.n) as g(n)
),
turn as materialized (
    select pg_advisory_xact_lock(hashtextextended('handoff.dispatch', i.incarnation))
      from (select n.incarnation from needed n order by n.incarnation) i
),
owner as materialized (
    select i.*, w.cordoned_at is not null as cordoned
      from worker w join worker_incarnation i on i.worker = w.id
     where w.id = any($9::bigint[] || $11::bigint[])
       and i.incarnation = any(array(select n.incarnation from needed n)) and (select count(*) from turn) >= 0
     order by i.incarnation for share
),
walked as materialized (
    select r.*, o.offer
      from offer o
     cross join lateral (
        select e.id, e.due_at, e.avoid_worker is not null as avoids from execution_work e
         where ` + unlimitedUnpinned + ` and ` + readableRetryOf + `
         order by e.due_at, e.id limit o.places
           for no key update skip locked
     ) r
     where (select count(*) from owner) >= 0
),` + heldOf("owner", "(select count(*) from walked) >= 0", 15) + `,
dealt as materialized (
    select p.*, case when p.full_up then ($11::bigint[])[p.base + p.n] else ($9::bigint[])[p.base + p.n] end as ask_worker,
           case when p.full_up then ($12::bigint[])[p.base + p.n] else ($10::bigint[])[p.base + p.n] end as ask_incarnation,
           ($13::int[])[p.base + p.n + case when p.full_up then cardinality($10::bigint[]) else 0 end] as ask_limit
      from (
        select w.*, s.base, s.places, s.full_up,
               row_number() over (partition by w.offer order by w.due_at, w.id) as n,
               count(*) filter (where w.avoids) over (partition by w.offer order by w.due_at, w.id) as halted
          from walked w join seen s on s.offer = w.offer
      ) p
     where p.n <= p.places and p.halted = 0
       and not exists (select from rival r where r.offer = p.offer and (r.due_at, r.id) < (p.due_at, p.id))
),
-- A full join in a list of its own, for the reasons in claimForScheduling.
met as materialized (
    select d.*, h.worker as owner, h.incarnation as held_incarnation, h.lifecycle, h.lease_expires_at, h.consumer_alive, h.cordoned, h.load
      from dealt d full join held h on h.incarnation = d.ask_incarnation
),
clock as materialized (select coalesce($1::timestamptz, clock_timestamp()) as now from (select count(*) from walked) l),
able as materialized (
    select m.*, c.now,
           coalesce(m.owner = m.ask_worker and m.lifecycle = 'active' and c.now <= m.lease_expires_at
                    and m.consumer_alive and not m.cordoned, false) as able
      from met m cross join clock c
     where m.n is not null
),
judged as materialized (
    select a.*,
           a.able and (a.ask_limit = 0 or a.ask_limit >= a.load
               + count(*) filter (where a.able) over (partition by a.ask_incarnation order by a.offer, a.n)) as fit
      from able a
),
moved as (
    update execution_work w
       set status = 'scheduled', epoch = w.epoch + 1, worker = j.ask_worker, incarnation = j.ask_incarnation,
           scheduling_at = j.now, scheduling_by = $2, scheduling_expires_at = j.now + $3::interval,
           scheduled_at = j.now, unschedulable_since = null,
           dispatch_deadline = j.now + case when r.dispatch_timeout_seconds > 0 then make_interval(secs => r.dispatch_timeout_seconds)
                                            else $4::interval end,
           written_by = 'scheduler', written_incarnation = null, written_epoch = w.epoch, written_reason = null
      from judged j join execution_record r on r.id = j.id
     where r.id = any(array(select id from judged)) and w.id = j.id and w.id = any(array(select id from judged)) and j.fit
    returning j.offer, j.n, {open}
),
told as materialized (
    select (select coalesce(bool_or(s.full_up), false) from seen s) as full_up,
           (select count(*) from judged j where not j.fit) as unfit,
           (select count(*) from other) + (select count(*) from walked w where w.avoids) > 0 as others
)
select t.full_up, t.unfit, t.others, {m} from told t left join moved m on true order by m.offer, m.n`)
}

// DispatchDue implements store.Executor.
func (s *Store) DispatchDue(ctx context.Context, d store.DueDispatch) (store.DueDispatched, error) {
	const op = "dispatching what is due"
	var answer store.DueDispatched
	var r record
	targets := r.scanTargets(&answer.Full, &answer.Unfit, &answer.Others)
	// Without a row the answer is one line: the three flags, and nulls for the row.
	nothing := append([]any{&answer.Full, &answer.Unfit, &answer.Others}, make([]any, len(rowColumns))...)
	sql, bounds := dispatchDue, s.queuesNow(ctx)
	if bounds != nil {
		sql = dispatchDueAtBounds
	}
	err := s.keptPlanQuery(keptHashed)(ctx, op, func(rows pgx.Rows) error {
		if rows.RawValues()[3] == nil {
			return rows.Scan(nothing...)
		}
		if err := rows.Scan(targets...); err != nil {
			return err
		}
		// An unreadable value in another column, set manually, does not keep the row from being dispatched.
		e, _ := r.toExecution()
		answer.Rows = append(answer.Rows, e)
		return nil
	}, sql, append(dueArgs(s, d), bounds...)...)
	if err != nil {
		return store.DueDispatched{}, err
	}
	return answer, nil
}

// dueArgs returns the arguments of dispatchDue: its lanes, and the places of all offers, one offer after the
// other. The places of Packed have separate lists, but the limits of both are in one list, those of Spread
// first. The arguments of queueHeads follow, if the statement begins at bounds.
func dueArgs(s *Store, d store.DueDispatch) []any {
	var runtimes []string
	var offers, bases []int32
	var counts []int64
	workers, incarnations, packedWorkers, packed := []int64{}, []int64{}, []int64{}, []int64{}
	limits, packedLimits := []int32{}, []int32{}
	for i := range d.Offers {
		o := &d.Offers[i]
		n := min(len(o.Spread), len(o.Packed))
		for _, r := range o.Runtimes {
			runtimes, offers = append(runtimes, r), append(offers, int32(i)) //nolint:gosec // few
			counts, bases = append(counts, int64(n)), append(bases, int32(len(workers)))
		}
		for k := range n {
			p, q := &o.Spread[k], &o.Packed[k]
			workers, incarnations = append(workers, int64(p.Worker.ID)), append(incarnations, int64(p.Worker.Incarnation))
			packedWorkers, packed = append(packedWorkers, int64(q.Worker.ID)), append(packed, int64(q.Worker.Incarnation))
			limits = append(limits, int32(min(p.Limit, math.MaxInt32)))
			packedLimits = append(packedLimits, int32(min(q.Limit, math.MaxInt32)))
		}
	}
	return append([]any{
		s.clockOverride(), d.Executor, d.Expiry, d.Timeout, runtimes, offers, counts, bases,
		workers, incarnations, packedWorkers, packed, append(limits, packedLimits...), execution.Reasons(),
	}, s.holding.argsFor(slices.Concat(incarnations, packed)...)...)
}
