package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"handoff/core/execution"
	"handoff/core/store"
)

// A retry that exists already, or that another transaction inserts at this moment, is not inserted
// again: the unique index on (original, count) decides. Its id is read afterwards.
const orchestrate = `
with asked as materialized (
    select * from unnest($2::bigint[], $3::int[], $4::text[], $5::interval[])
        with ordinality as a(ask_id, ask_count, ask_reason, ask_delay, n)
),
locked as materialized (
    select a.*, e.* from asked a join execution e on e.id = a.ask_id order by e.id for no key update of e
),
clock as materialized (select coalesce($1::timestamptz, clock_timestamp()) as now from (select count(*) from locked) l),
judged as materialized (
    select l.*, c.now, coalesce(l.original_execution, l.id) as chain
      from locked l cross join clock c
     where l.status >= 'completed' and l.orchestrated_at is null
),
marked as (
    update execution e set orchestrated_at = j.now from judged j where e.id = j.id
    returning e.id
),
inserted as (
    insert into execution (
        action, action_ref, runtime, entrypoint, timeout_seconds, dispatch_timeout_seconds, max_retries, parameters,
        original_execution, retry_count, retry_reason, retry_at, due_at, avoid_worker, created, written_by
    )
    select j.action, j.action_ref, j.runtime, j.entrypoint, j.timeout_seconds, j.dispatch_timeout_seconds, j.max_retries, j.parameters,
           j.chain, j.ask_count, j.ask_reason::failure_reason, j.now + j.ask_delay, j.now + j.ask_delay, j.worker, j.now, 'retry_manager'
      from judged j
     where j.ask_count is not null
     order by j.chain, j.ask_count
    on conflict (original_execution, retry_count) where original_execution is not null do nothing
    returning id, original_execution, retry_count
)
select j.n, j.chain, 0, 0 from judged j
union all
select 0, i.original_execution, i.retry_count, i.id from inserted i`

const selectRetries = `
select e.original_execution, e.retry_count, e.id
  from unnest($1::bigint[], $2::int[]) as a(chain, count)
  join execution e on e.original_execution = a.chain and e.retry_count = a.count`

// attempt names a row of a chain.
type attempt struct {
	chain int64
	count int
}

// Orchestrate implements store.Executor.
func (s *Store) Orchestrate(ctx context.Context, os []store.Orchestration) ([]store.Orchestrated, error) {
	return step[store.Orchestration, store.Orchestrated]{
		op:  "orchestrating",
		row: func(o *store.Orchestration) any { return o.ID },
		run: s.orchestrate,
	}.all(ctx, os)
}

func (s *Store) orchestrate(ctx context.Context, os []store.Orchestration, results []store.Orchestrated) error {
	var ids []int64
	var counts []*int32
	var reasons []*string
	var delays []time.Duration
	for i := range os {
		var count *int32
		var retry store.Retry
		if os[i].Retry != nil {
			retry = *os[i].Retry
			c := int32(retry.Count)
			count = &c
		}
		ids, counts = append(ids, int64(os[i].ID)), append(counts, count)
		reasons, delays = append(reasons, reasonOrNull(retry.Reason)), append(delays, retry.Delay)
	}
	retries := make(map[attempt]int64)
	wanted := make(map[int]attempt)
	const op = "orchestrating"
	err := s.query(ctx, op, func(rows pgx.Rows) error {
		var n, count int
		var chain, id int64
		if err := rows.Scan(&n, &chain, &count, &id); err != nil {
			return err
		}
		switch {
		case n == 0:
			retries[attempt{chain, count}] = id
		case counts[n-1] != nil:
			wanted[n-1] = attempt{chain, int(*counts[n-1])}
			results[n-1].Applied = true
		default:
			results[n-1].Applied = true
		}
		return nil
	}, orchestrate, s.now(), ids, counts, reasons, delays)
	if err != nil {
		return err
	}
	if err := s.existing(ctx, wanted, retries); err != nil {
		return err
	}
	for n, a := range wanted {
		results[n].Retry = execution.ID(retries[a])
	}
	return nil
}

// existing completes retries by those wanted ones that had been there before.
func (s *Store) existing(ctx context.Context, wanted map[int]attempt, retries map[attempt]int64) error {
	var chains []int64
	var counts []int32
	for _, a := range wanted {
		if retries[a] == 0 {
			chains, counts = append(chains, a.chain), append(counts, int32(a.count))
		}
	}
	if len(chains) == 0 {
		return nil
	}
	const op = "orchestrating: reading retries that exist"
	err := s.query(ctx, op, func(rows pgx.Rows) error {
		var a attempt
		var id int64
		if err := rows.Scan(&a.chain, &a.count, &id); err != nil {
			return err
		}
		retries[a] = id
		return nil
	}, selectRetries, chains, counts)
	if err != nil {
		return unknown(op, err)
	}
	return nil
}
