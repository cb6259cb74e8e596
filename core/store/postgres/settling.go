package postgres

import (
	"context"
	"slices"
	"strings"

	"handoff/core/execution"
	"handoff/core/store"
)

// The statement never waits for a lock: it skips a locked chain or child, which a later batch includes. So
// batches of several executors can't block each other, whatever the order of their chains. A chain into which
// children are being created does not delay the others.
//
// A chain's note (settling_at) is judged on the statement's snapshot, and again on the newest
// version once the row is locked. If a snapshot has the note, it also has every child that waited
// when the note was committed, because each was committed before under the same lock. A child that
// was created later does not wait (see createChildren). So "seen" has all of them, up to the bound,
// and the note is removed when as many were moved as were seen.
//
// Rows with known ids must be found by their ids. So the conditions are not written like those of the partial
// indexes of notes and of waiting children. Otherwise the plan would read those indexes from end to end for
// each row, as long as the statistics say that they are short. Conditions that were judged under the lock are
// not rechecked, because they can't change any more. The children of a chain are read in the order of their
// own index, with bounds in place of "=". With "=" the order would be by id alone, which the primary key has
// too. If one chain had most of the children, the plan would walk the primary key for every other chain.
var settleChildren = `
with asked as materialized (
    select * from unnest($2::bigint[]) with ordinality as a(ask_id, n)
),
chain as materialized (
    select f.id, f.status, a.n from asked a join execution_record f on f.id = a.ask_id
     where num_nulls(f.settling_at) = 0
     order by f.id for no key update of f skip locked
),
clock as materialized (select coalesce($1::timestamptz, clock_timestamp()) as now from (select count(*) from chain) l),
ended as materialized (
    select ch.id, ch.n, c.now,
           coalesce((select x.status from execution_record x where x.original_execution = ch.id order by x.retry_count desc limit 1),
                    ch.status) = 'completed' as completed
      from chain ch cross join clock c
),
seen as materialized (
    select e.id as chain, e.n, e.now, e.completed, w.id, row_number() over (partition by e.id order by w.id) as place
      from ended e
     cross join lateral (
         select c.id from execution_work c
          where c.parent >= e.id and c.parent <= e.id and c.awaits_parent
          order by c.parent, c.id limit $3::bigint + 1) w
),
taken as materialized (
    select s.chain, s.n, s.now, s.completed, c.*
      from seen s join execution_work c on c.id = s.id
     where s.place <= $3::bigint and case when c.waits then c.awaits_parent end
     order by c.id for no key update of c skip locked
),
started as (
    update execution_work c set due_at = t.now
      from taken t
     where c.id = t.id and t.completed
    returning c.id, t.n, t.chain, t.now
),
-- A transaction that creates a child of such a child has locked the record.
judged as materialized (
    select t.* from taken t join execution_record r on r.id = t.id
     where not t.completed
     order by r.id for no key update of r skip locked
),
skipped as (
    update execution_record r
       set status = 'cancelled', failure_reason = 'parent_failed', result = $4::text::json, ended = j.now,
           ` + strings.Replace(copyWorkColumns(), "due_at = j.due_at", "due_at = j.now", 1) + `,
           written_by = 'execution_manager', written_incarnation = null, written_epoch = j.epoch, written_reason = 'parent_failed', written_actor = null
      from judged j
     where r.id = j.id
    returning r.id, r.ended, r.orchestrated_at, j.n, j.chain, j.now
),
over as (select k.id, k.ended, k.orchestrated_at from skipped k),` + deleteEndedWork("true") + `,
-- The lists are concatenated and not joined: a join would compare each chain with each child.
counted as materialized (
    select x.chain as id, x.n, x.now, sum(x.left_over) > 0 as more
      from (select e.id as chain, e.n, e.now, 0 as left_over from ended e
            union all
            select s.chain, s.n, s.now, 1 from seen s
            union all
            select m.chain, m.n, m.now, -1 from started m
            union all
            select m.chain, m.n, m.now, -1 from skipped m) x
     group by x.chain, x.n, x.now
),
noted as (
    update execution_record f set settling_at = case when c.more then c.now end from counted c where f.id = c.id
)
select 'more', c.n, 0 from counted c where c.more
union all
select 'started', m.n, m.id from started m
union all
select 'skipped', m.n, m.id from skipped m`

// SettleChildren implements store.Executor.
func (s *Store) SettleChildren(ctx context.Context, chains []execution.ID, most int) ([]store.Settled, error) {
	const op = "settling children"
	return step[execution.ID, store.Settled]{
		op:  op,
		row: func(id *execution.ID) any { return *id },
		run: func(ctx context.Context, chains []execution.ID, results []store.Settled) error {
			if most <= 0 {
				return nil
			}
			skipped := store.SkippedResult()
			clear(results)
			var what string
			var n int
			var id execution.ID
			err := s.query(ctx, op, scanInto(func() {
				switch r := &results[n-1]; what {
				case "more":
					r.More = true
				case "started":
					r.Started = append(r.Started, id)
				default:
					r.Skipped = append(r.Skipped, id)
				}
			}, &what, &n, &id), settleChildren, s.clockOverride(), asInt64s(chains), most, encodeResult(&skipped))
			for i := range results {
				// If the statement was resent, part of its first answer may have been read already.
				slices.Sort(results[i].Started)
				slices.Sort(results[i].Skipped)
				results[i].Started, results[i].Skipped = slices.Compact(results[i].Started), slices.Compact(results[i].Skipped)
			}
			return err
		},
	}.runAll(ctx, chains)
}
