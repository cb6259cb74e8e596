package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"handoff/core/execution"
	"handoff/core/store"
)

// Ages are microseconds: the database's own unit.
const selectWorkers = `
with clock as materialized (select coalesce($1::timestamptz, clock_timestamp()) as now)
select w.id, w.incarnation, w.name, i.lifecycle::text, i.runtimes, i.capacity, i.consumer_alive, i.beat,
       i.last_heartbeat, (extract(epoch from c.now - coalesce(i.last_heartbeat, i.registered_at)) * 1000000)::bigint,
       (extract(epoch from c.now - i.lease_expires_at) * 1000000)::bigint,
       coalesce(held.load, 0), coalesce(held.queued, 0),
       case when held.load - held.queued >= i.capacity then (extract(epoch from c.now - held.latest) * 1000000)::bigint end, w.cordoned_at is not null, w.cordon_reason, coalesce(w.cordon_changed_by, ''), i.health_url,
       coalesce((i.capabilities #>> '{health,total_executions}')::bigint, 0),
       coalesce((i.capabilities #>> '{health,failed_executions}')::bigint, 0),
       coalesce((i.capabilities #>> '{health,consecutive_failures}')::bigint, 0),
       coalesce((extract(epoch from c.now - (i.capabilities #>> '{health,last_failure}')::timestamptz) * 1000000)::bigint, 0),
       coalesce(((i.capabilities #>> '{health,average_execution_time_ms}')::numeric * 1000)::bigint, 0),
       array(select (extract(epoch from c.now - x.at) * 1000000)::bigint from worker_expiry x
              where x.incarnation = w.incarnation order by x.at desc limit 100)
  from clock c, worker w
  join worker_incarnation i on i.incarnation = w.incarnation
 cross join lateral (
    select count(*) as load, count(*) filter (where e.status = 'scheduled') as queued, max(e.started_at) as latest from execution e
     where e.incarnation = w.incarnation and e.status in ('scheduled', 'running', 'canceling')
 ) held
 order by w.id`

// Workers implements store.Executor and store.Client.
func (s *Store) Workers(ctx context.Context) ([]store.WorkerRow, error) {
	var found []store.WorkerRow
	err := s.query(ctx, "reading workers", func(rows pgx.Rows) error {
		var w store.WorkerRow
		var lifecycle string
		var lastBeat pgtype.Timestamptz
		var sinceBeat, overFor, lastFailure, average int64
		var fullFor *int64
		var expired []int64
		if err := rows.Scan(&w.ID, &w.Incarnation, &w.Name, &lifecycle, &w.Runtimes, &w.Capacity, &w.ConsumerAlive, &w.Beat,
			&lastBeat, &sinceBeat, &overFor, &w.Load, &w.Queued, &fullFor, &w.Cordoned, &w.CordonReason, &w.CordonChangedBy, &w.HealthURL,
			&w.Figures.Total, &w.Figures.Failed, &w.Figures.Consecutive, &lastFailure, &average, &expired); err != nil {
			return err
		}
		w.Lifecycle = lifecycleNamed(lifecycle)
		w.LastBeat = moment(lastBeat)
		w.SinceBeat, w.LeaseOverFor = microseconds(sinceBeat), microseconds(overFor)
		if fullFor != nil {
			w.FullFor = microseconds(*fullFor)
		}
		w.Figures.LastFailure, w.Figures.Average = microseconds(lastFailure), microseconds(average)
		for _, ago := range expired {
			w.Expired = append(w.Expired, microseconds(ago))
		}
		found = append(found, w)
		return nil
	}, selectWorkers, s.now())
	if err != nil {
		return nil, err
	}
	return found, nil
}

func microseconds(n int64) time.Duration { return time.Duration(n) * time.Microsecond }

const setCordon = `
with named as (
    update worker w
       set cordoned_at = case when $3 then coalesce(w.cordoned_at, $1::timestamptz, clock_timestamp()) end,
           cordon_reason = case when $3 then $4 else '' end, cordon_changed_by = $6::text
     where w.id = $2
    returning w.id, w.incarnation
),
drained as (
    update worker_incarnation i set drain_requested = true from named n where $5 and i.incarnation = n.incarnation
)
select n.id from named n`

// SetCordon implements store.Client.
func (s *Store) SetCordon(ctx context.Context, c store.Cordon) (bool, error) {
	found := false
	err := s.query(ctx, "cordoning a worker", func(rows pgx.Rows) error {
		var id execution.WorkerID
		found = true
		return rows.Scan(&id)
	}, setCordon, s.now(), int64(c.Worker), c.On, c.Reason, c.Drain, orNull(c.Actor))
	return found && err == nil, err
}

// renewed are the figures of a heartbeat as its statement takes them.
func renewed(b *store.Beat) []any {
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
