package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"handoff/core/execution"
	"handoff/core/store"
)

// Ages are microseconds, the database's own unit. The figures that a worker reports are read as text, so that
// a manually edited row does not fail the whole statement.
const selectWorkers = `
with clock as materialized (select coalesce($1::timestamptz, clock_timestamp()) as now),
bound as materialized (select * from unnest($6::bigint[], $7::timestamptz[], $8::int[]) as b(incarnation, since, ends)),
old as materialized (
    select x.incarnation, count(*) as load, count(*) filter (where x.status = 'scheduled') as queued, max(x.started_at) as latest
      from execution_work x where x.id = any($10::bigint[]) and x.scheduled_at < $9
     group by x.incarnation
)
select w.id, w.incarnation, w.name, i.lifecycle::text, array_remove(i.runtimes, null), i.capacity, i.consumer_alive, i.beat,
       i.last_heartbeat, (extract(epoch from c.now - coalesce(i.last_heartbeat, i.registered_at)) * 1000000)::bigint,
       (extract(epoch from c.now - i.lease_expires_at) * 1000000)::bigint,
       held.load, held.queued,
       case when held.load - held.queued >= i.capacity then (extract(epoch from c.now - held.latest) * 1000000)::bigint end, w.cordoned_at is not null, w.cordon_reason, coalesce(w.cordon_changed_by, ''), i.health_url,
       coalesce(left(i.capabilities #>> '{health,total_executions}', 40), '0'),
       coalesce(left(i.capabilities #>> '{health,failed_executions}', 40), '0'),
       coalesce(left(i.capabilities #>> '{health,consecutive_failures}', 40), '0'),
       coalesce(left(i.capabilities #>> '{health,last_failure}', 40), ''),
       coalesce(left(i.capabilities #>> '{health,average_execution_time_ms}', 40), '0'), coalesce(left(i.capabilities ->> 'messages', 9), ''),
       jsonb_typeof(i.capabilities), c.now,
       array(select (extract(epoch from c.now - x.at) * 1000000)::bigint from worker_expiry x
              where x.incarnation = w.incarnation order by x.at desc limit 100)
  from clock c cross join worker w
  left join bound b on b.incarnation = w.incarnation
  left join old o on o.incarnation = w.incarnation
 cross join lateral (select * from worker_incarnation i where i.incarnation = w.incarnation offset 0) i
 cross join lateral (
    select count(*) + coalesce(o.load, 0) as load, count(*) filter (where e.status = 'scheduled') + coalesce(o.queued, 0) as queued,
           greatest(max(e.started_at), o.latest) as latest
      from execution_work e
     where e.incarnation = w.incarnation and e.scheduled_at >= coalesce(b.since, $9, '-infinity')
 ) held
 where ($2::bigint = 0 or w.id = $2) and ($3::text = '' or w.name = $3) and w.id > $4`

// The executor's passes read workers continually, so they use an index that has only the workers in use.
// FindWorkers reads a page of all.
const (
	selectEveryWorker  = selectWorkers + workersInOrder
	selectWorkersInUse = selectWorkers + ` and w.queues_deleted_after is distinct from w.incarnation` + workersInOrder
	workersInOrder     = ` order by w.id limit $5`
)

// Workers implements store.Executor.
func (s *Store) Workers(ctx context.Context, into []store.WorkerRow) ([]store.WorkerRow, error) {
	s.lookAtHeld(ctx)
	return s.readWorkers(ctx, s.keptPlanQuery(keptHashed), selectWorkersInUse, store.WorkerQuery{}, nil, into[:0])
}

// FindWorkers implements store.Client.
func (s *Store) FindWorkers(ctx context.Context, q store.WorkerQuery) ([]store.WorkerRow, error) {
	limit := max(0, q.Limit)
	// The plan is not kept, because the best index depends on the query.
	return s.readWorkers(ctx, s.query, selectEveryWorker, q, &limit, nil)
}

// readWorkers appends the workers to found.
func (s *Store) readWorkers(ctx context.Context, query queryFunc, sql string, q store.WorkerQuery, limit *int, found []store.WorkerRow) ([]store.WorkerRow, error) {
	clock := s.clockOverride()
	err := query(ctx, "reading workers", func(rows pgx.Rows) error {
		var w store.WorkerRow
		var lifecycle, kind, messages string
		var lastBeat pgtype.Timestamptz
		var sinceBeat, overFor int64
		var fullFor pgtype.Int8
		var expired []int64
		var f reportedFigures
		var now time.Time
		if err := rows.Scan(&w.ID, &w.Incarnation, &w.Name, &lifecycle, &w.Runtimes, &w.Capacity, &w.ConsumerAlive, &w.Beat,
			&lastBeat, &sinceBeat, &overFor, &w.Load, &w.Queued, &fullFor, &w.Cordoned, &w.CordonReason, &w.CordonChangedBy, &w.HealthURL,
			&f.total, &f.failed, &f.consecutive, &f.lastFailure, &f.average, &messages, &kind, &now, &expired); err != nil {
			return err
		}
		var unknown error
		w.Lifecycle, unknown = execution.ParseLifecycle(lifecycle)
		w.LastBeat = timeOrZero(lastBeat)
		w.SinceBeat, w.LeaseOverFor = fromMicroseconds(sinceBeat), fromMicroseconds(overFor)
		// A worker whose value can't be read gets messages of the first version.
		w.Messages, _ = strconv.Atoi(messages)
		w.FullFor = fromMicroseconds(fullFor.Int64)
		var err error
		if w.Figures, err = f.parseFigures(now); err == nil && kind != "object" {
			err = fmt.Errorf("capabilities is a JSON %s, must be an object", kind)
		}
		if unknown != nil {
			err = unknown
		}
		if err != nil {
			w.Figures, w.Unreadable = execution.Figures{}, err.Error()
		}
		for _, ago := range expired {
			w.Expired = append(w.Expired, fromMicroseconds(ago))
		}
		found = append(found, w)
		return nil
	}, sql, append([]any{clock, int64(q.ID), q.Name, int64(q.After), limit}, s.holding.argsForAll()...)...)
	return found, err
}

// reportedFigures are the figures about a worker's runs, as texts from its capabilities.
type reportedFigures struct{ total, failed, consecutive, lastFailure, average string }

func (r *reportedFigures) parseFigures(now time.Time) (f execution.Figures, err error) {
	whole := func(name, text string) int {
		n, bad := strconv.ParseInt(text, 10, 64)
		if bad != nil {
			err = cmp.Or(err, fmt.Errorf("capabilities.health.%s is %q, must be a whole number", name, text))
		}
		return int(n)
	}
	f.Total, f.Failed, f.Consecutive = whole("total_executions", r.total), whole("failed_executions", r.failed), whole("consecutive_failures", r.consecutive)
	if r.lastFailure != "" {
		at, bad := time.Parse(time.RFC3339Nano, r.lastFailure)
		if bad != nil {
			err = cmp.Or(err, fmt.Errorf("capabilities.health.last_failure is %q, must be a time such as 2026-01-31T09:30:00+00:00", r.lastFailure))
		}
		f.LastFailure = now.Sub(at)
	}
	average, bad := strconv.ParseFloat(r.average, 64)
	if bad != nil {
		err = cmp.Or(err, fmt.Errorf("capabilities.health.average_execution_time_ms is %q, must be a number", r.average))
	}
	f.Average = fromMicroseconds(int64(math.Round(average * 1000)))
	return f, err
}

func fromMicroseconds(n int64) time.Duration { return time.Duration(n) * time.Microsecond }

// An incarnation that is stopped or lost remains so and gets no more work, so what the statement sees of it
// holds under the lock. A registration locks the worker, after which the worker's row has another
// incarnation. Workers that another session has locked are left out.
const markQueuesDeleted = `
with gone as materialized (
    select i.worker, i.incarnation
      from unnest($1::bigint[], $2::bigint[]) n(worker, incarnation)
     cross join lateral (select * from worker_incarnation x where x.incarnation = n.incarnation and x.worker = n.worker offset 0) i
     where i.lifecycle in ('stopped', 'lost') and not exists (select from execution_work e where e.incarnation = i.incarnation)
),
locked as materialized (
    select w.id, w.incarnation from worker w
     where w.id = any(array(select worker from gone)) and w.incarnation = any(array(select incarnation from gone))
     order by w.id for no key update skip locked
)
update worker w set queues_deleted_after = l.incarnation from locked l where w.id = l.id
returning w.id`

// MarkQueuesDeleted implements store.Executor.
func (s *Store) MarkQueuesDeleted(ctx context.Context, ws []store.WorkerKey) ([]bool, error) {
	marked := make([]bool, len(ws))
	var workers, incarnations []int64
	slots := make(map[int64]int, len(ws))
	for i, w := range ws {
		slots[int64(w.ID)] = i
		workers, incarnations = append(workers, int64(w.ID)), append(incarnations, int64(w.Incarnation))
	}
	var id int64
	err := s.query(ctx, "marking workers whose queues are deleted", scanInto(func() { marked[slots[id]] = true }, &id), markQueuesDeleted, workers, incarnations)
	return marked, err
}

const setCordon = `
update worker w
   set cordoned_at = case when $3 then coalesce(w.cordoned_at, $1::timestamptz, clock_timestamp()) end,
       cordon_reason = case when $3 then $4 else '' end, cordon_changed_by = $5::text
 where w.id = $2
returning w.incarnation`

// requestDrain is a separate statement, after the worker is locked: a single statement that had to wait for a
// registration would not see the new incarnation.
const requestDrain = `update worker_incarnation set drain_requested = true where incarnation = $1`

// SetCordon implements store.Client.
func (s *Store) SetCordon(ctx context.Context, c store.Cordon) (bool, error) {
	found := false
	err := s.runTransaction(ctx, "cordoning a worker", func(tx pgx.Tx) error {
		found = false
		var incarnation int64
		err := tx.QueryRow(ctx, setCordon, s.clockOverride(), int64(c.Worker), c.On, c.Reason, orNull(c.Actor)).Scan(&incarnation)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		if err != nil {
			return err
		}
		if found = true; !c.Drain {
			return nil
		}
		_, err = tx.Exec(ctx, requestDrain, incarnation)
		return err
	})
	return found && err == nil, err
}

// heartbeatArgs returns a heartbeat's figures as arguments of its statement.
func heartbeatArgs(b *store.Beat) []any {
	var lastFailure, fullAgo *time.Duration
	if b.WasFull {
		fullAgo = &b.FullAgo
	}
	if b.Figures.Failed+b.Figures.Consecutive > 0 {
		lastFailure = &b.Figures.LastFailure
	}
	return []any{
		b.Health.String(), b.Figures.Total, b.Figures.Failed, b.Figures.Consecutive, lastFailure, float64(b.Figures.Average.Microseconds()) / 1000,
		fullAgo,
	}
}
