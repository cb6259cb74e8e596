package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"handoff/core/execution"
	"handoff/core/store"
)

// The first rows of the chains are locked together with the rows themselves, because they record whether the
// chain was cancelled, and whether it has children. The statement reads both from the locked rows, so it sees
// their state at the lock and not in its snapshot. So it sees a child that was created while it waited. It
// does not change the children; see settleChildren.
//
// A retry that already exists, or that another transaction inserts at the same time, is not inserted twice:
// the unique index on (original, count) decides. Its id is read afterwards. Retries are numbered in the order
// of the request, as the contract demands. That order can't cause deadlocks, because the first row of each
// chain is already locked.
var handleEnds = `
with asked as materialized (
    select a.*, coalesce(e.original_execution, e.id) as chain
      from unnest($2::bigint[], $3::int[], $4::text[], $5::interval[], $6::int[])
           with ordinality as a(ask_id, ask_count, ask_reason, ask_delay, ask_free, n)
      join execution_record e on e.id = a.ask_id
     where e.id = any($2::bigint[])
),
-- Each row once, whether it is requested, or the first of a chain, or both. No row is requested twice in one statement.
named as materialized (
    select t.ask_id, max(t.ask_count) as ask_count, max(t.ask_reason) as ask_reason, max(t.ask_delay) as ask_delay, max(t.ask_free) as ask_free,
           max(t.n) as n
      from (select ask_id, ask_count, ask_reason, ask_delay, ask_free, n from asked
            union all
            select chain, null, null, null, null, null from asked) t
     group by t.ask_id
),
locked as materialized (
    select t.*, e.* from named t join execution_record e on e.id = t.ask_id
     where e.id = any(array(select ask_id from named))
     order by e.id for no key update of e
),
clock as materialized (select coalesce($1::timestamptz, clock_timestamp()) as now from (select count(*) from locked) l),
-- Sorting brings the columns of the first row to the others: a join would compare each row with each.
chained as materialized (
    select l.*, coalesce(l.original_execution, l.id) as chain,
           bool_or(l.has_children) filter (where l.original_execution is null) over c as family,
           bool_or(l.cancel_requested_at is not null) filter (where l.original_execution is null) over c as called_off,
           -- Each free retry has raised the limit of the row that it created, and the first row has the limit of its request.
           (max(l.max_retries) filter (where l.original_execution is null) over c > 0 or l.failure_reason = 'worker_unavailable')
           and l.max_retries - max(l.max_retries) filter (where l.original_execution is null) over c < l.ask_free as free
      from locked l
    window c as (partition by coalesce(l.original_execution, l.id))
),
judged as materialized (
    select l.*, (select now from clock) as now, l.ask_count is not null and not l.called_off
           and (l.ask_free = 0 or l.free or l.retry_count < l.max_retries) as goes_on
      from chained l
     where l.n is not null and l.family is not null and l.status >= 'completed' and l.orchestrated_at is null
),
-- A row may be handled itself and also be the first row of another one's chain, and a statement changes a row only once.
marks as materialized (
    select m.id, m.now, bool_or(m.handled) as handled, bool_or(m.settling) as settling
      from (select j.id, j.now, true as handled, false as settling from judged j
            union all
            select j.chain, j.now, false, true from judged j where j.family and not j.goes_on) m
     group by m.id, m.now
),
marked as (
    update execution_record e
       set orchestrated_at = case when m.handled then m.now else e.orchestrated_at end,
           settling_at = case when m.settling then m.now else e.settling_at end
      from marks m
     where e.id = m.id and e.id = any(array(select id from marks))
),
handled as (
    delete from execution_unhandled u using judged j
     where u.ended = j.ended and u.id = j.id and u.ended = any(array(select ended from judged))
),
freed as (
    update concurrency_slot s set execution = null, taken_at = null
      from judged j
     where s.execution = j.id and s.execution = any(array(select id from judged where concurrency is not null)) and j.concurrency is not null
),
inserted as (
    insert into execution_record (
        action, action_ref, runtime, entrypoint, timeout_seconds, dispatch_timeout_seconds, max_retries, retried_exit_codes, concurrency, own_limits, parameters, parent,
        original_execution, retry_count, retry_reason, retry_at, due_at, avoid_worker, pinned_worker, created, written_by, submitted_by
    )
    select j.action, j.action_ref, j.runtime, j.entrypoint, j.timeout_seconds, j.dispatch_timeout_seconds, j.max_retries + j.free::int, j.retried_exit_codes, j.concurrency,
           j.own_limits, j.parameters, j.parent, j.chain, j.ask_count, j.ask_reason::failure_reason, j.now + j.ask_delay, j.now + j.ask_delay, j.worker,
           j.pinned_worker, j.now, 'retry_manager', j.submitted_by
      from judged j
     where j.goes_on
     order by j.n
    on conflict (original_execution, retry_count) where original_execution is not null do nothing
    returning ` + ofInserted + `
),` + newWork + `
select case when j.goes_on then 'goes on' when j.family then 'children' else 'ended' end, j.n, j.chain, 0, 0 from judged j
union all
select 'retry', 0, i.original_execution, i.retry_count, i.id from inserted i`

const selectRetries = `
select e.original_execution, e.retry_count, e.id
  from unnest($1::bigint[], $2::int[]) as a(chain, count)
  join execution_record e on e.original_execution = a.chain and e.retry_count = a.count`

// retryKey identifies a retry by its chain and number.
type retryKey struct {
	chain int64
	count int
}

// Orchestrate implements store.Executor.
func (s *Store) Orchestrate(ctx context.Context, os []store.Orchestration) ([]store.Orchestrated, error) {
	return step[store.Orchestration, store.Orchestrated]{
		op:  "orchestrating",
		row: func(o *store.Orchestration) any { return o.ID },
		run: s.orchestrateRows,
	}.runAll(ctx, os)
}

func (s *Store) orchestrateRows(ctx context.Context, os []store.Orchestration, results []store.Orchestrated) error {
	const op = "orchestrating"
	var ids []int64
	var counts []*int32
	var frees []int32
	var reasons []*string
	var delays []time.Duration
	for i := range os {
		var count *int32
		var retry store.Retry
		if os[i].Retry != nil {
			if retry = *os[i].Retry; retry.Count <= 0 {
				// The table does not check this reliably: whether it looks at the number depends on
				// the rest of the request.
				return fmt.Errorf("postgres: %s: the retry of execution %d has the number %d", op, os[i].ID, retry.Count)
			}
			c := int32(retry.Count)
			count = &c
		}
		ids, counts = append(ids, int64(os[i].ID)), append(counts, count)
		reasons, delays = append(reasons, reasonOrNull(retry.Reason)), append(delays, retry.Delay)
		frees = append(frees, int32(retry.Free))
	}
	a := orchestrationAnswers{results: results, retries: make(map[retryKey]int64), wanted: make(map[int]retryKey)}
	if err := s.keptPlanQuery(keptHashed)(ctx, op, a.rowScanner(counts), handleEnds, s.clockOverride(), ids, counts, reasons, delays, frees); err != nil {
		return err
	}
	if err := s.addExistingRetries(ctx, a.wanted, a.retries); err != nil {
		return err
	}
	for n, at := range a.wanted {
		results[n].Retry = execution.ID(a.retries[at])
	}
	return nil
}

// orchestrationAnswers collects the answers of handleEnds.
type orchestrationAnswers struct {
	results []store.Orchestrated
	// retries are the inserted rows. wanted are the requested ones, by the index of their item.
	retries map[retryKey]int64
	wanted  map[int]retryKey
}

func (o *orchestrationAnswers) rowScanner(counts []*int32) func(pgx.Rows) error {
	var what string
	var n, count int
	var chain, id int64
	return scanInto(func() {
		switch what {
		case "retry":
			o.retries[retryKey{chain, count}] = id
		case "goes on":
			o.results[n-1].Applied = true
			o.wanted[n-1] = retryKey{chain, int(*counts[n-1])}
		default:
			o.results[n-1] = store.Orchestrated{Applied: true, Children: what == "children"}
		}
	}, &what, &n, &chain, &count, &id)
}

// addExistingRetries adds the wanted retries that already existed to retries.
func (s *Store) addExistingRetries(ctx context.Context, wanted map[int]retryKey, retries map[retryKey]int64) error {
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
	var a retryKey
	var id int64
	err := s.query(ctx, op, scanInto(func() { retries[a] = id }, &a.chain, &a.count, &id), selectRetries, chains, counts)
	if err != nil {
		return unknownOutcomeError(op, err)
	}
	return nil
}
