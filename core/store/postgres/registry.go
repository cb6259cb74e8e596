package postgres

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"handoff/core/execution"
	"handoff/core/store"
)

const nextIncarnation = `select nextval(pg_get_serial_sequence('worker_incarnation', 'incarnation'))`

// The update changes nothing: it locks the name's row, so that registrations of one name follow one another.
// A new name has incarnation 0 until its first registration is written, in the same transaction.
const lockWorker = `
insert into worker (name, incarnation) values ($1, 0)
on conflict (name) do update set name = excluded.name
returning id, incarnation`

const selectNewestIncarnation = `select w.incarnation from worker w where w.name = $1`

// Newest implements store.Worker.
func (s *Store) Newest(ctx context.Context, name string) (newest execution.Incarnation, err error) {
	err = s.query(ctx, "reading a worker's latest incarnation", func(rows pgx.Rows) error { return rows.Scan(&newest) }, selectNewestIncarnation, name)
	return newest, err
}

const insertIncarnation = `
with superseded as (
    update worker_incarnation set lifecycle = 'lost' where incarnation = $4 and lifecycle not in ('stopped', 'lost')
),
clock as materialized (select coalesce($1::timestamptz, clock_timestamp()) as now),
registered as (
    insert into worker_incarnation (incarnation, worker, process, attempt, runtimes, capacity, lease_expires_at, registered_at, health_url, drain_requested)
    select $3, $2, $5, $6, $7, $8, c.now + $9::interval, c.now, $10,
           exists (select from worker_incarnation i where i.worker = $2 and i.incarnation >= $11 and i.process = $5 and i.drain_requested)
      from clock c
)
update worker set incarnation = $3 where id = $2`

// Register implements store.Worker.
func (s *Store) Register(ctx context.Context, g store.Registration) (store.Registered, error) {
	var registered store.Registered
	err := s.runTransaction(ctx, "registering", func(tx pgx.Tx) error {
		var id, incarnation, current int64
		if err := tx.QueryRow(ctx, lockWorker, g.Name).Scan(&id, &current); err != nil {
			return err
		}
		// The newest incarnation of a process has inherited any request to drain an older one. It is the
		// name's newest, unless another process has registered since, which is rare.
		drains := current
		if current != 0 {
			var process, attempt int64
			err := tx.QueryRow(ctx, `select process, attempt from worker_incarnation where incarnation = $1 for no key update`, current).
				Scan(&process, &attempt)
			if err != nil {
				return err
			}
			own := uint64(process) == g.Process
			if own && uint64(attempt) >= g.Attempt || !own && execution.Incarnation(current) != g.After {
				return store.ErrLost
			}
			if !own && g.Attempt > 1 {
				drains = 0
			}
		}
		// The number is drawn under the lock, so that a later registration has a greater number.
		if err := tx.QueryRow(ctx, nextIncarnation).Scan(&incarnation); err != nil {
			return err
		}
		runtimes := g.Runtimes
		if runtimes == nil {
			runtimes = []string{}
		}
		// A process draws its number from all 64 bits; the column keeps the bits.
		_, err := tx.Exec(ctx, insertIncarnation, s.clockOverride(), id, incarnation, current, int64(g.Process), int64(g.Attempt), //nolint:gosec // see above
			runtimes, g.Capacity, g.Lease, g.HealthURL, drains)
		registered.WorkerKey = store.WorkerKey{ID: execution.WorkerID(id), Incarnation: execution.Incarnation(incarnation)}
		return err
	})
	if err != nil {
		return store.Registered{}, err
	}
	return registered, nil
}

// permission is the state that determines whether an incarnation may act in its own name.
type permission struct {
	found, current, sameProcess bool
	lifecycle                   execution.Lifecycle
	leaseValid, drain           bool
	beat                        int64
}

// refusalError returns the error for an incarnation that may not act; nil if it may.
func (p permission) refusalError() error {
	switch {
	case !p.found:
		return store.ErrLost
	case !p.current && !p.sameProcess:
		return store.ErrSuperseded
	case !p.current || p.lifecycle.Gone():
		return store.ErrLost
	}
	return nil
}

const selectStanding = `
select i.lifecycle::text, w.incarnation = i.incarnation, newest.process = i.process,
       coalesce($3::timestamptz, clock_timestamp()) <= i.lease_expires_at, i.drain_requested, i.beat
  from worker_incarnation i
  join worker w on w.id = i.worker
  join worker_incarnation newest on newest.incarnation = w.incarnation
 where i.incarnation = $1 and i.worker = $2`

func (s *Store) readPermission(ctx context.Context, q queryer, w store.WorkerKey) (st permission, err error) {
	err = readRows(ctx, q, st.scanRow, selectStanding, int64(w.Incarnation), int64(w.ID), s.clockOverride())
	return st, err
}

// scanRow reads a row of selectStanding.
func (p *permission) scanRow(rows pgx.Rows) error {
	var lifecycle string
	if err := rows.Scan(&lifecycle, &p.current, &p.sameProcess, &p.leaseValid, &p.drain, &p.beat); err != nil {
		return err
	}
	p.found = true
	p.lifecycle, _ = execution.ParseLifecycle(lifecycle) // an unknown lifecycle counts as none
	return nil
}

const lockIncarnation = `select from worker_incarnation where incarnation = $1 for no key update`

// lockPermission locks the incarnation until the end of the transaction and returns its permission. The lock
// is a separate statement, so that the next one sees an incarnation that superseded this one while it waited.
func (s *Store) lockPermission(ctx context.Context, tx pgx.Tx, w store.WorkerKey) (permission, error) {
	_, err := tx.Exec(ctx, lockIncarnation, int64(w.Incarnation))
	if err != nil {
		return permission{}, err
	}
	return s.readPermission(ctx, tx, w)
}

// SetLifecycle implements store.Worker.
func (s *Store) SetLifecycle(ctx context.Context, w store.WorkerKey, to execution.Lifecycle) error {
	return s.runTransaction(ctx, "setting a worker's lifecycle", func(tx pgx.Tx) error {
		st, err := s.lockPermission(ctx, tx, w)
		if err != nil {
			return err
		}
		if st.found && st.lifecycle == to {
			return nil
		}
		if err := st.refusalError(); err != nil {
			return err
		}
		if st.lifecycle > to {
			return nil
		}
		_, err = tx.Exec(ctx, `update worker_incarnation set lifecycle = $2::text::worker_lifecycle where incarnation = $1`,
			int64(w.Incarnation), to.String())
		return err
	})
}

// actingIncarnation selects the incarnation $2 of the worker $3 if it may act in its own name. It is the
// condition of permission.refusalError, for statements that are sent before its result is known.
const actingIncarnation = `select from worker_incarnation i join worker w on w.id = i.worker and w.incarnation = i.incarnation
 where i.incarnation = $2 and i.worker = $3 and i.lifecycle not in ('stopped', 'lost')`

// A late heartbeat must not undo a newer one. A database that lacks an acknowledged heartbeat renews no
// lease: it has lost that write, and perhaps others.
const renewLease = `
update worker_incarnation
   set beat = $4, consumer_alive = $5,
       last_heartbeat = coalesce($1::timestamptz, clock_timestamp()),
       lease_expires_at = coalesce($1::timestamptz, clock_timestamp()) + $6::interval,
       full_at = coalesce($1::timestamptz, clock_timestamp()) - $13::interval,
       capabilities = jsonb_build_object('messages', $15::int, 'health', jsonb_build_object(
           'status', $7::text, 'last_check', coalesce($1::timestamptz, clock_timestamp()),
           'total_executions', $8::bigint, 'failed_executions', $9::bigint, 'consecutive_failures', $10::bigint,
           'failure_rate', case when $8::bigint > 0 then $9::bigint::float8 / $8::bigint else 0 end,
           'queue_depth', (
               select count(*) from execution_work e
                where e.incarnation = $2 and e.status = 'scheduled' and e.scheduled_at >= coalesce($16::timestamptz, '-infinity')
           ) + (
               select count(*) from execution_work x
                where x.id = any($17::bigint[]) and x.incarnation = $2 and x.status = 'scheduled' and x.scheduled_at < $16
           ),
           'last_failure', coalesce($1::timestamptz, clock_timestamp()) - $11::interval, 'average_execution_time_ms', $12::float8))
 where incarnation = $2 and beat < $4 and beat >= $14 and exists (` + actingIncarnation + `)`

// The fate of the rows that the worker holds. A row without work has ended, or this database has never known
// it; the record tells which, and is read afterwards (see Heartbeat).
const selectHeld = `
select a.n, e.id is null as gone, coalesce(e.epoch = a.epoch and e.incarnation = $1 and e.status = 'canceling', false) as canceling
  from unnest($2::bigint[], $3::bigint[]) with ordinality as a(id, epoch, n)
  left join execution_work e on e.id = a.id
 where e.id is null or e.epoch <> a.epoch or e.incarnation is distinct from $1 or e.status = 'canceling'`

const selectRecorded = `select a.n from unnest($1::bigint[]) with ordinality as a(id, n) where exists (select from execution_record r where r.id = a.id)`

// unheld are the rows that, according to the database, the incarnation $2 runs, but that it does not hold.
// "not in" looks the held ids up in a hash; "not exists" would compare each row with each, because hash joins
// are off.
const (
	unheld = `execution_work w
     where w.incarnation = $2 and w.status in ('running', 'canceling') and w.claim_beat < $4 and exists (` + actingSince + `)
       and (w.id, w.epoch) not in (select h.id, h.epoch from unnest($5::bigint[], $6::bigint[]) as h(id, epoch))`
	actingSince = actingIncarnation + ` and i.beat >= $1`
)

// existUnheld walks what was assigned to the incarnation since $8, and looks at the older rows $10. It also
// returns its time, and up to $11 rows that were assigned more than $9 before that time and that the worker
// does not hold. No row can be assigned meanwhile.
const existUnheld = `
with clock as materialized (select coalesce($7::timestamptz, statement_timestamp()) as now),
own as materialized (
    select w.id, w.scheduled_at, w.status in ('running', 'canceling') and w.claim_beat < $4 as runs,
           (w.id, w.epoch) not in (select h.id, h.epoch from unnest($5::bigint[], $6::bigint[]) as h(id, epoch)) as unheld
      from (
        select w.* from execution_work w where w.incarnation = $2 and w.scheduled_at >= coalesce($8::timestamptz, '-infinity')
        union all
        select x.* from execution_work x where x.id = any($10::bigint[]) and x.incarnation = $2 and x.scheduled_at < $8
      ) w
),
old as materialized (
    select o.id, o.scheduled_at from own o
     where o.unheld and o.scheduled_at < (select c.now - $9::interval from clock c)
     order by o.scheduled_at limit $11
)
select exists (select from own o where o.runs and o.unheld) and exists (` + actingSince + `), c.now,
       array(select o.id from old o order by o.scheduled_at, o.id), array(select o.scheduled_at from old o order by o.scheduled_at, o.id)
  from clock c`

var endUnheld = expandColumns(`
with judged as materialized (
    select w.*, coalesce($7::timestamptz, clock_timestamp()) as now from ` + unheld + `
     order by w.id for no key update of w
),
over as (
    update execution_record r
       set status = case when j.status = 'canceling' then 'cancelled' else 'failed' end::execution_status,
           failure_reason = case when j.status = 'canceling' then 'cancelled' else 'worker_lost' end::failure_reason,
           result = $8::text::json, ended = j.now, ` + copyWorkColumns() + `,
           written_by = 'worker', written_incarnation = $2, written_epoch = j.epoch,
           written_reason = case when j.status = 'canceling' then 'cancelled' else 'worker_lost' end::failure_reason, written_actor = null
      from judged j
     where r.id = j.id
    returning j.status::text as was, {kept}
),` + deleteEndedWork("true") + `
select 0, true, false, m.was, {m} from over m`)

// Heartbeat implements store.Worker. It is a transaction of several statements because each must see the
// commits before the first one got the incarnation's lock. While the lock is held, no row can be dispatched
// to the incarnation, claimed by it or taken back from it. The statements are sent together. With a round
// trip for each, a lease would be lost on a slow network, and the lock would be held while the answers
// travel.
//
// The renewal uses only the tables of workers and of live work, because an index build on another table may
// take a minute. Work on the records is rare, and follows in separate statements that hardly wait for locks.
// It is judged as of this beat: a row that is claimed later has a later claim_beat.
func (s *Store) Heartbeat(ctx context.Context, b store.Beat) (store.BeatReply, error) {
	const op = "renewing a lease"
	var reply store.BeatReply
	var st permission
	var lost, gone, canceling []int
	ends := false
	var oldIDs []int64
	var oldMoments []time.Time
	var asOf time.Time
	began, now := time.Now(), s.clockOverride()
	since, known := s.beating.countStart(&b)
	ids, epochs := idsAndEpochs(b.Held)
	beat := []any{int64(b.Acknowledged), int64(b.Incarnation), int64(b.ID), int64(b.Number), ids, epochs}
	err := s.sendHeartbeat(ctx, op, func(p *pgx.Batch) {
		reply, st, lost, gone, canceling, ends = store.BeatReply{}, permission{}, nil, nil, nil, false
		p.Queue(lockIncarnation, int64(b.Incarnation))
		p.Queue(selectStanding, int64(b.Incarnation), int64(b.ID), now).Query(forEachRow(st.scanRow))
		arguments := append([]any{now, int64(b.Incarnation), int64(b.ID), int64(b.Number), b.ConsumerAlive, b.Lease}, heartbeatArgs(&b)...)
		p.Queue(renewLease, append(arguments, int64(b.Acknowledged), b.Messages, since, known)...)
		if len(ids) > 0 {
			var n int
			var ended, cancel bool
			p.Queue(selectHeld, int64(b.Incarnation), ids, epochs).Query(forEachRow(scanInto(func() {
				switch {
				case ended:
					gone = append(gone, n-1)
				case cancel:
					canceling = append(canceling, n-1)
				default:
					lost = append(lost, n-1)
				}
			}, &n, &ended, &cancel)))
		}
		p.Queue(existUnheld, append(slices.Clip(beat), now, since, s.heldMargin(), known, mostOld+1)...).Query(forEachRow(scanInto(func() {}, &ends, &asOf, &oldIDs, &oldMoments)))
	})
	if err != nil {
		return store.BeatReply{}, err
	}
	old := make([]heldRow, len(oldIDs))
	for i := range oldIDs {
		old[i] = heldRow{oldIDs[i], oldMoments[i]}
	}
	s.beating.recordBeat(&b, since, began, old, asOf, s.heldMargin(), ends)
	if err := st.refusalError(); err != nil {
		return store.BeatReply{}, err
	}
	if st.beat < int64(b.Acknowledged) { //nolint:gosec // beats are counted from 1
		return store.BeatReply{}, store.ErrLost
	}
	reply.Drain = st.drain && st.lifecycle < execution.Draining
	reply.Starting = st.lifecycle == execution.Starting
	ctx = withRowLockTimeout(ctx)
	if len(gone) > 0 {
		asked := make([]int64, len(gone))
		for i, n := range gone {
			asked[i] = ids[n]
		}
		var n int
		reply.Incomplete = s.query(ctx, op+": reading which of the held executions have ended", scanInto(func() { lost = append(lost, gone[n-1]) }, &n), selectRecorded, asked)
	}
	if ends {
		result := encodeResult(&execution.Result{Error: "Worker lost", Message: "its worker does not run it", FailedBy: execution.Worker})
		err := s.query(ctx, op+": ending what the worker does not hold", scanVerdicts(func(v *verdict) { reply.Ended = append(reply.Ended, v.toOutcome()) }),
			endUnheld, append(slices.Clip(beat), s.clockOverride(), result)...)
		reply.Incomplete = errors.Join(reply.Incomplete, err)
	}
	slices.Sort(lost)
	lost = slices.Compact(lost)
	for _, n := range lost {
		reply.Lost = append(reply.Lost, b.Held[n])
	}
	slices.Sort(canceling)
	for _, n := range canceling {
		reply.Cancel = append(reply.Cancel, b.Held[n])
	}
	slices.SortFunc(reply.Ended, func(a, b outcome) int { return cmp.Compare(a.Row.ID, b.Row.ID) })
	reply.Ended = slices.CompactFunc(reply.Ended, func(a, b outcome) bool { return a.Row.ID == b.Row.ID }) // a resent query may have answered twice
	return reply, nil
}

var releaseAll = expandColumns(`
with owner as materialized (select i.incarnation from worker_incarnation i where i.incarnation = $2 and i.lifecycle = 'draining'),
locked as materialized (
    select w.id, w.scheduled_at from execution_work w join owner o on o.incarnation = w.incarnation
     where w.status = 'scheduled' order by w.id for no key update of w skip locked
),
clock as materialized (select coalesce($1::timestamptz, clock_timestamp()) as now from (select count(*) from locked) l),
judged as materialized (select l.*, c.now, interval '0' as ask_delay from locked l cross join clock c),
moved as (
    update execution_work w` + setRequested + `,
           written_by = 'worker', written_incarnation = $2, written_epoch = w.epoch, written_reason = 'worker_shutdown'
      from judged j join execution_record r on r.id = j.id
     where w.id = j.id
    returning w.id, w.epoch, r.concurrency, j.scheduled_at as was_scheduled_at
),` + freeSlots + `
select id, epoch from moved order by was_scheduled_at, id`)

// Release implements store.Worker. Nothing is dispatched to an incarnation that drains, so the statement sees
// all its rows. Our programs change these rows only under the lock of the incarnation. So only rows that
// other programs have locked are skipped, and the executors reclaim them later.
func (s *Store) Release(ctx context.Context, w store.WorkerKey) ([]execution.Key, error) {
	var released []execution.Key
	err := s.runTransaction(ctx, "releasing", func(tx pgx.Tx) error {
		released = nil
		st, err := s.lockPermission(ctx, tx, w)
		if err != nil {
			return err
		}
		if err := st.refusalError(); err != nil {
			return err
		}
		var key execution.Key
		return readRows(ctx, tx, scanInto(func() { released = append(released, key) }, &key.ID, &key.Epoch), releaseAll, s.clockOverride(), int64(w.Incarnation))
	})
	if err != nil {
		return nil, err
	}
	return released, nil
}

// claimRefusal returns the error if the incarnation may not claim, after a claim was refused or found no row.
// It may be read after the claim, because being gone is final.
func (s *Store) claimRefusal(ctx context.Context, w store.WorkerKey) error {
	var st permission
	err := s.runWithRetries(ctx, "claiming", func(ctx context.Context, conn *pgx.Conn) (err error) {
		if st, err = s.readPermission(ctx, conn, w); err != nil {
			return unavailableError("claiming", err)
		}
		return nil
	})
	switch {
	case err != nil:
		return err
	case st.refusalError() != nil:
		return st.refusalError()
	case !st.leaseValid:
		return store.ErrLeaseOver
	}
	return nil
}
