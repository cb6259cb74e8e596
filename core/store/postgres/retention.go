package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"handoff/core/store"
)

// Purge implements store.Executor.
func (s *Store) Purge(ctx context.Context, p store.Purge) (store.Purged, error) {
	if p.Limit <= 0 {
		return store.Purged{}, nil
	}
	switch p.What {
	case store.KeptExecutions:
		return s.purgeExecutions(ctx, p)
	case store.KeptTransitions:
		return s.purgeTransitions(ctx, p)
	case store.KeptRefusedResults:
		return s.purgeInOrder(ctx, p, purgeRefusedResults)
	case store.KeptExpiries:
		return s.purgeInOrder(ctx, p, purgeExpiries)
	case store.KeptIncarnations:
		return s.purgeWalking(ctx, p, purgeIncarnations)
	case store.KeptWorkers:
		return s.purgeWalking(ctx, p, purgeWorkers)
	}
	return store.Purged{}, fmt.Errorf("purging: there is no kind %d of rows that leave", p.What)
}

// readPurge runs the one statement of a step. A dry run rolls the same statement back, so it counts exactly
// what the step would have removed.
func (s *Store) readPurge(ctx context.Context, p store.Purge, scan func(pgx.Rows) error, sql string, args ...any) error {
	op := "purging " + p.What.String()
	if !p.DryRun {
		return s.query(ctx, op, scan, sql, args...)
	}
	return s.runTransaction(ctx, op, func(tx pgx.Tx) error {
		return runAndUndo(ctx, tx, func(tx pgx.Tx) error { return readRows(ctx, tx, scan, sql, args...) })
	})
}

// runAndUndo calls f and rolls back what it has written.
func runAndUndo(ctx context.Context, tx pgx.Tx, f func(tx pgx.Tx) error) error {
	inner, err := tx.Begin(ctx)
	if err != nil {
		return err
	}
	if err := f(inner); err != nil {
		return err
	}
	return inner.Rollback(ctx)
}

// The records are walked by their ids, whose order is close enough to that of their creation. An index on the
// time of their end would have to be written at every end. After a step that stops at records that are too
// young, the next one starts over. So an old execution that never ends is examined in each round, but delays
// no other.
//
// The locks are taken by a separate statement, so that the next one sees a child that was created meanwhile:
// creating a child locks the first row of the chain.
const lockOldChains = `
with clock as materialized (select coalesce($1::timestamptz, clock_timestamp()) - $2::interval as old),
page as materialized (
    select r.id, r.created, r.original_execution, r.ended, r.orchestrated_at, r.settling_at
      from execution_record r where r.id > $3 order by r.id limit $4
),
locked as materialized (
    select f.id from execution_record f
     where f.id = any(array(
         select p.id from page p
          where p.original_execution is null and p.ended <= (select old from clock) and p.orchestrated_at is not null and p.settling_at is null))
     order by f.id for update skip locked
)
select coalesce((select max(id) from page), 0), (select count(*) from page),
       exists (select from page where created <= (select old from clock)), array(select id from locked),
       coalesce((select id from page where id = (select min(id) from page) and created <= (select old from clock) + $2::interval - $5::interval), 0)`

// chainNeeded is the condition that a row of a chain is still needed, or has not been out of use for long enough.
const chainNeeded = `%[1]s.ended is null or %[1]s.orchestrated_at is null or %[1]s.ended > (select old from clock) or %[1]s.idempotency_key is not null`

// The lookups are subselects, each by an index of its own. The running sum bounds the rows. The
// answer names the last chain that was examined, if the bound left others for the next step.
var deleteOldChains = `
with clock as materialized (select coalesce($1::timestamptz, clock_timestamp()) - $2::interval as old),
over as materialized (
    select f.id, 1 + (select count(*) from execution_record r where r.original_execution = f.id) as size
      from execution_record f
     where f.id = any($3::bigint[]) and not (` + fmt.Sprintf(chainNeeded, "f") + `)
       and not exists (select from execution_record r where r.original_execution = f.id and (` + fmt.Sprintf(chainNeeded, "r") + `))
       and not exists (select from execution_record c where c.parent = f.id)
       and (f.parent is null
            or not exists (select from execution_record q where q.id = f.parent and (` + fmt.Sprintf(chainNeeded, "q") + `))
           and not exists (select from execution_record q where q.original_execution = f.parent and (` + fmt.Sprintf(chainNeeded, "q") + `)))
),
summed as materialized (select o.id, row_number() over w as place, sum(o.size) over w as rows from over o window w as (order by o.id)),
taken as materialized (select id from summed where place = 1 or rows <= $4),
gone as (
    delete from execution_record
     where id = any(array(select id from taken
                          union all
                          select r.id from taken t cross join lateral (select x.id from execution_record x where x.original_execution = t.id offset 0) r))
    returning id
)
select (select count(*) from gone), coalesce((select max(id) from taken), 0), (select count(*) from taken) < (select count(*) from over)`

func (s *Store) purgeExecutions(ctx context.Context, p store.Purge) (done store.Purged, err error) {
	step := func(tx pgx.Tx) error {
		done = store.Purged{}
		var last, looked int64
		var old bool
		var chains []int64
		if err := tx.QueryRow(ctx, lockOldChains, s.clockOverride(), p.Age, p.After, p.Limit, store.VisibleAfter).Scan(&last, &looked, &old, &chains, &done.First); err != nil {
			return err
		}
		if done.More = old && looked == int64(p.Limit); done.More {
			done.Next = last
		}
		if len(chains) == 0 {
			return nil
		}
		var taken int64
		var left bool
		if err := tx.QueryRow(ctx, deleteOldChains, s.clockOverride(), p.Age, chains, p.Limit).Scan(&done.Removed, &taken, &left); err != nil {
			return err
		}
		if left {
			done.Next, done.More = taken, true
		}
		return nil
	}
	err = s.runTransaction(ctx, "purging executions", func(tx pgx.Tx) error {
		if p.DryRun {
			return runAndUndo(ctx, tx, step)
		}
		return step(tx)
	})
	if err != nil {
		return store.Purged{}, err
	}
	return done, nil
}

// A line is deleted by its time alone, with its whole group, which one statement wrote at one time. The
// groups are read in the order of the stream, beginning at the place up to which earlier steps have deleted
// everything, so that no step rereads deleted groups. A step stops at the first group that is too young, and
// at the oldest open transaction, below which nothing can appear any more. Only one executor at a time makes
// such a step; an executor that finds the place locked does nothing. The limit bounds the groups, which are
// the rows of the table; the answer counts lines, of which a group has up to 64. With a limit on lines, a
// step would read many groups and delete few. The place is the last line of the last group.
const purgeTransitions = `
with place as materialized (
    select g.transaction, g.id from execution_transition_gone g for update skip locked
),
page as materialized (
    select t.ctid as line, t.transaction, t.id, t.at, bit_count(t.members::bit(64)) as size from transition_group t
     where (t.transaction, t.id) > (select p.transaction, p.id from place p)
       and t.transaction < (select pg_snapshot_xmin(pg_current_snapshot()))
     order by t.transaction, t.id limit $3
),
judged as materialized (
    select p.*, bool_and(p.at <= (select coalesce($1::timestamptz, clock_timestamp()) - $2::interval)) over w as old
      from page p window w as (order by p.transaction, p.id)
),
taken as materialized (select * from judged where old),
gone as (delete from transition_group t where t.ctid = any(array(select x.line from taken x))),
noted as (
    update execution_transition_gone g set transaction = l.transaction, id = l.last, at = greatest(g.at, (select max(at) from taken))
      from (select transaction, id + size - 1 as last from taken order by transaction desc, id desc limit 1) l
)
select coalesce((select sum(size) from taken), 0), (select count(*) from taken)`

func (s *Store) purgeTransitions(ctx context.Context, p store.Purge) (done store.Purged, err error) {
	var groups int
	err = s.readPurge(ctx, p, func(rows pgx.Rows) error { return rows.Scan(&done.Removed, &groups) }, purgeTransitions, s.clockOverride(), p.Age, p.Limit)
	done.More = groups >= p.Limit
	return done, err
}

// The order is the order of a dedicated index; see the migration.
const purgeRefusedResults = `
with gone as (
    delete from refused_result where id in (
        select id from refused_result
         where received_at at time zone 'utc' <= (select (coalesce($1::timestamptz, clock_timestamp()) - $2::interval) at time zone 'utc')
         order by received_at at time zone 'utc' limit $3 for update skip locked)
    returning id
)
select count(*) from gone`

// A row of this table has no key except its physical place (ctid), which does not change while the row is
// locked.
const purgeExpiries = `
with gone as (
    delete from worker_expiry where ctid = any(array(
        select ctid from worker_expiry
         where at at time zone 'utc' <= (select (coalesce($1::timestamptz, clock_timestamp()) - $2::interval) at time zone 'utc')
         order by at at time zone 'utc' limit $3 for update skip locked))
    returning 1
)
select count(*) from gone`

// purgeInOrder purges rows that are deleted in the order of their times.
func (s *Store) purgeInOrder(ctx context.Context, p store.Purge, sql string) (done store.Purged, err error) {
	err = s.readPurge(ctx, p, func(rows pgx.Rows) error { return rows.Scan(&done.Removed) }, sql, s.clockOverride(), p.Age, p.Limit)
	done.More = done.Removed >= p.Limit
	return done, err
}

// An incarnation that is stopped or lost remains so, gets no more work, and never becomes the latest one
// again. So what the page shows is still true under the lock.
const purgeIncarnations = `
with page as materialized (
    select i.incarnation, i.lifecycle, i.lease_expires_at from worker_incarnation i where i.incarnation > $3 order by i.incarnation limit $4
),
old as materialized (
    select i.incarnation from worker_incarnation i
     where i.incarnation = any(array(
         select p.incarnation from page p
          where p.lifecycle in ('stopped', 'lost') and p.lease_expires_at <= (select coalesce($1::timestamptz, clock_timestamp()) - $2::interval)
            and not exists (select from worker w where w.incarnation = p.incarnation)
            and not exists (select from execution_work e where e.incarnation = p.incarnation)))
     order by i.incarnation for update skip locked
),
gone as (delete from worker_incarnation where incarnation = any(array(select incarnation from old)) returning 1)
select (select count(*) from gone), coalesce((select max(incarnation) from page), 0), (select count(*) from page)`

// A registration locks its worker. If the registration came first, the locked row has an incarnation that
// this statement does not see, and is kept. If it comes later, it finds no such worker and creates one. The
// latest incarnation is deleted by the same statement, because foreign keys are checked at its end.
const purgeWorkers = `
with clock as materialized (select coalesce($1::timestamptz, clock_timestamp()) - $2::interval as old),
page as materialized (
    select w.id, w.incarnation from worker w where w.id > $3 order by w.id limit $4
),
locked as materialized (
    select w.id, w.incarnation, w.cordoned_at, w.queues_deleted_after from worker w
     where w.id = any(array(
         select p.id from page p
          where (select i.lifecycle in ('stopped', 'lost') and i.lease_expires_at <= (select old from clock)
                   from worker_incarnation i where i.incarnation = p.incarnation)))
     order by w.id for update skip locked
),
old as materialized (
    select l.id, l.incarnation from locked l
     where l.cordoned_at is null and l.queues_deleted_after = l.incarnation
       and exists (select from worker_incarnation i where i.incarnation = l.incarnation and i.lifecycle in ('stopped', 'lost'))
       and not exists (select from worker_incarnation i where i.worker = l.id and i.incarnation <> l.incarnation)
       and not exists (select from execution_work e where e.incarnation = l.incarnation)
       and not exists (select from execution_work e where e.lane_worker = l.id and e.lane_worker > 0)
),
gone as (delete from worker where id = any(array(select id from old)) returning 1),
ended as (delete from worker_incarnation where incarnation = any(array(select incarnation from old)))
select (select count(*) from gone), coalesce((select max(id) from page), 0), (select count(*) from page)`

// purgeWalking purges rows of which some are kept.
func (s *Store) purgeWalking(ctx context.Context, p store.Purge, sql string) (done store.Purged, err error) {
	var last int64
	var looked int
	err = s.readPurge(ctx, p, scanInto(func() {}, &done.Removed, &last, &looked), sql, s.clockOverride(), p.Age, p.After, p.Limit)
	if done.More = looked >= p.Limit; done.More {
		done.Next = last
	}
	return done, err
}
