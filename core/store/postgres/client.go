package postgres

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"

	"handoff/core/execution"
	"handoff/core/store"
)

// Work is looked up in a separate subselect, so that a kept plan has only one way to execute it.
var selectExecutions = expandColumns(`
select {any} from execution_record r
  left join lateral (select * from execution_work w where w.id = r.id offset 0) w on true
 where r.id = any($1::bigint[])`)

// Executions implements store.Reader.
func (s *Store) Executions(ctx context.Context, ids []execution.ID) ([]execution.Execution, error) {
	ids = slices.Clone(ids)
	slices.Sort(ids)
	ids = slices.Compact(ids)
	rows, err := s.executions.submitItems(ctx, "reading executions", ids)
	var found []execution.Execution
	for _, row := range rows {
		if row != nil {
			found = append(found, *row)
		}
	}
	return found, err
}

// readExecutions reads the rows of many calls at once. nil stands for a row that does not exist.
func (s *Store) readExecutions(ctx context.Context, ids []execution.ID) ([]*execution.Execution, []error) {
	results, errs := make([]*execution.Execution, len(ids)), make([]error, len(ids))
	found, unreadable := make(map[execution.ID]*execution.Execution, len(ids)), map[execution.ID]error{}
	wanted := slices.Clone(ids)
	slices.Sort(wanted)
	scan := scanExecutions(func(e execution.Execution, err error) error {
		// An unreadable row is an error only of the calls that ask for it.
		if unreadable[e.ID] = err; err == nil {
			found[e.ID] = &e
		}
		return nil
	})
	err := s.keptPlanQuery(keptLooped)(ctx, "reading executions", scan, selectExecutions, asInt64s(slices.Compact(wanted)))
	for i, id := range ids {
		results[i], errs[i] = found[id], cmp.Or(err, unreadable[id])
	}
	return results, errs
}

// refuseEnded answers for those rows of a step for which its statement found no work. If such a row has
// ended, it refuses the step and answers with the row. An end is final, so it can be read afterwards.
// Otherwise the row did not exist when the step was made.
func (s *Store) refuseEnded(ctx context.Context, op string, ids []int64, answered func(n int) bool, refuse func(n int, o outcome)) error {
	var left []int64
	place := make(map[execution.ID]int)
	for n, id := range ids {
		if !answered(n) {
			left = append(left, id)
			place[execution.ID(id)] = n
		}
	}
	if len(left) == 0 {
		return nil
	}
	var found []execution.Execution
	if err := s.query(ctx, op+": reading what has ended", collectLeniently(&found), selectEnded, left); err != nil {
		return unknownOutcomeError(op, err)
	}
	for i := range found {
		refuse(place[found[i].ID], outcome{From: found[i].Status, Row: found[i]})
	}
	return nil
}

// outcomesOfEnded is refuseEnded for a step whose answers are outcomes. err is the step's error.
func (s *Store) outcomesOfEnded(ctx context.Context, op string, ids []int64, results []outcome, err error) error {
	if err != nil {
		return err
	}
	return s.refuseEnded(ctx, op, ids, func(n int) bool { return results[n].Row.ID != 0 }, func(n int, o outcome) { results[n] = o })
}

var selectEnded = expandColumns(`select {kept} from execution_record r where r.id = any($1::bigint[]) and r.ended is not null`)

// asInt64s turns ids into the type that the driver writes as bigint[].
func asInt64s[T ~int64](ids []T) []int64 {
	all := make([]int64, len(ids))
	for i, id := range ids {
		all[i] = int64(id)
	}
	return all
}

const putActions = `
with put as (
    insert into action (ref, runtime, entrypoint, timeout_seconds, dispatch_timeout_seconds, max_retries, concurrency, put_by, retried_exit_codes)
    select a.ref, a.runtime, a.entrypoint, a.timeout, a.dispatch_timeout, a.retries, a.concurrency, a.actor, a.codes::smallint[]
      from unnest($1::text[], $2::text[], $3::text[], $4::float8[], $5::float8[], $6::int[], $7::int[], $8::text[], $9::text[])
           as a(ref, runtime, entrypoint, timeout, dispatch_timeout, retries, concurrency, actor, codes)
     order by a.ref
    on conflict (ref) do update set
        runtime = excluded.runtime, entrypoint = excluded.entrypoint, timeout_seconds = excluded.timeout_seconds,
        dispatch_timeout_seconds = excluded.dispatch_timeout_seconds, max_retries = excluded.max_retries,
        concurrency = excluded.concurrency, put_by = excluded.put_by, retried_exit_codes = excluded.retried_exit_codes
    returning id, concurrency
)
insert into concurrency_slot (action, number)
select p.id, n from put p cross join lateral generate_series(1, p.concurrency) n
 order by p.id, n
on conflict do nothing`

// PutActions implements store.Client.
func (s *Store) PutActions(ctx context.Context, actions []execution.Action) error {
	put := step[execution.Action, struct{}]{
		op:  "putting actions",
		row: func(a *execution.Action) any { return a.Ref },
		run: func(ctx context.Context, actions []execution.Action, _ []struct{}) error {
			var refs, runtimes, entrypoints []string
			var timeouts, dispatchTimeouts []*float64
			var retries []int32
			var concurrency []*int32
			var actors, codes []*string
			for i := range actions {
				a := &actions[i]
				refs, runtimes, entrypoints = append(refs, a.Ref), append(runtimes, a.Runtime), append(entrypoints, a.Entrypoint)
				timeouts, dispatchTimeouts = append(timeouts, secondsOrNull(a.Timeout)), append(dispatchTimeouts, secondsOrNull(a.DispatchTimeout))
				retries = append(retries, int32(a.MaxRetries))
				concurrency = append(concurrency, countOrNull(a.Concurrency))
				actors, codes = append(actors, orNull(a.PutBy)), append(codes, orNull(arrayOf(a.RetriedExitCodes)))
			}
			return s.query(ctx, "putting actions", ignoreRow, putActions, refs, runtimes, entrypoints, timeouts, dispatchTimeouts, retries, concurrency, actors, codes)
		},
	}
	_, err := put.runAll(ctx, actions)
	return err
}

// arrayOf writes exit codes as the text of an array, because an array of arrays must be rectangular; empty if
// there are none.
func arrayOf(codes execution.ExitCodes) string {
	var list []string
	for _, code := range codes.List() {
		list = append(list, strconv.Itoa(int(code)))
	}
	if len(list) == 0 {
		return ""
	}
	return "{" + strings.Join(list, ",") + "}"
}

// ignoreRow is the scan function of a statement whose rows are ignored.
func ignoreRow(pgx.Rows) error { return nil }

// Rows with a key are inserted in the order of their keys, so that two batches with common keys wait for each
// other in one direction only. If another transaction has inserted a key meanwhile, this statement's snapshot
// does not see it and the statement does not insert it. The caller looks it up afterwards.
//
// If a key has expired ($8, execution.KeyLifetime), the statement takes it from its old row before it inserts
// the new one. If two statements do so at the same moment, the second waits for the first, finds that the new
// row has the key, and inserts nothing. The old rows are locked in the order of their ids.
//
// Without keys (see insertPlain) nothing is looked up and no key is taken.
//
// The name of the sequence is a subselect, because the function reads a catalogue, and would do so
// for each row.
const insertExecutions = `
with asked as materialized (
    select * from unnest($2::text[], $3::text[], $4::text[], $5::bigint[], $6::boolean[], $7::bigint[],
        $9::float8[], $10::float8[], $11::int[], $12::text[])
        with ordinality as a(ref, parameters, key, parent, waits, pinned, own_timeout, own_dispatch_timeout, own_retries, actor, n)
),
clock as materialized (select coalesce($1::timestamptz, clock_timestamp()) as now, $8::interval as lifetime),
seen as materialized (
    select a.n, a.parameters, a.key, a.parent, a.waits, a.pinned, a.own_timeout, a.own_dispatch_timeout, a.own_retries, a.actor,
           ` + keysSeen + `,
           a.pinned is not null and t.id is not null and not exists (select from worker w where w.id = a.pinned) as lost, t.*
      from asked a
      left join action t on t.ref = a.ref` + keysJoined + `
     order by a.n
),
fresh as materialized (
    select nextval((select pg_get_serial_sequence('execution_record', 'id')::regclass)) as new_id, s.*
      from seen s where s.existing is null and s.id is not null and not s.lost
),` + keysReleased + `
inserted as (
    insert into execution_record (
        id, action, action_ref, runtime, entrypoint, timeout_seconds, dispatch_timeout_seconds, max_retries, retried_exit_codes, concurrency,
        own_limits, parent, parameters, idempotency_key, pinned_worker, created, due_at, written_by, submitted_by
    )
    select f.new_id, f.id, f.ref, f.runtime, f.entrypoint, coalesce(f.own_timeout, f.timeout_seconds),
           coalesce(f.own_dispatch_timeout, f.dispatch_timeout_seconds), coalesce(f.own_retries, f.max_retries), f.retried_exit_codes, f.concurrency,
           nullif(array_remove(array[case when f.own_timeout is not null then 'timeout_seconds' end,
               case when f.own_dispatch_timeout is not null then 'dispatch_timeout_seconds' end,
               case when f.own_retries is not null then 'max_retries' end], null), '{}'),
           f.parent, f.parameters::json, f.key, f.pinned, (select now from clock), case when f.waits then timestamptz 'infinity' end, 'api', f.actor
      from fresh f` + keysFirst + `
     order by f.key nulls first, f.n` + keysKept + `
    returning ` + ofInserted + `
),` + newWork + `
select s.n, s.existing as id, s.existing is not null as existed, false as is_new, s.lost
  from seen s where s.existing is not null or s.id is null or s.lost
union all
select f.n, f.new_id, false, true, false from fresh f
union all
select 0, i.id, false, true, false from inserted i`

// ofInserted are the columns of a new record that newWork reads. newWork is the list of a statement
// that makes the row of work for each record of its list inserted. If a row begins to wait at
// another moment than its creation, its record has that moment.
const (
	ofInserted = `id, action, concurrency, pinned_worker, runtime, due_at, retry_at, avoid_worker, retry_reason, parent, created, written_by, submitted_by,
           original_execution, retry_count`
	newWork = `
begun as (
    insert into execution_work (id, lane_action, lane_worker, runtime, due_at, retry_at, avoid_worker, retry_reason, parent, written_by, written_actor)
    select i.id, case when i.concurrency is null then 0 else i.action end, coalesce(i.pinned_worker, 0), i.runtime, coalesce(i.due_at, i.created),
           i.retry_at, i.avoid_worker, i.retry_reason, i.parent, i.written_by, case when i.written_by = 'api' then i.submitted_by end
      from inserted i
)`
)

// The parts of insertExecutions that concern keys.
const (
	keysSeen = `case when old.created > (select now - lifetime from clock) then old.id end as existing,
           case when old.created <= (select now - lifetime from clock) then old.id end as outdated`
	keysJoined = `
      left join execution_record old on old.idempotency_key = a.key`
	keysReleased = `
outdated as materialized (
    select e.id from fresh f join execution_record e on e.id = f.outdated and e.idempotency_key = f.key
     order by e.id for no key update of e
),
released as (
    update execution_record e set idempotency_key = null from outdated o where e.id = o.id
    returning e.id
),`
	keysKept = `
    on conflict (idempotency_key) where idempotency_key is not null do nothing`
	keysFirst = `
     where (select count(*) from released) >= 0`
)

// insertPlain is insertExecutions for executions without keys. Its plan is kept. The plan of insertExecutions
// is not: the index of keys by age can answer every question that the index of keys can. So a plan made while
// the table seems tiny may read the whole index by age.
//
// Rows without keys can't conflict, and an "on conflict" clause would cost 48 bytes of WAL for each row.
var insertPlain = strings.NewReplacer(
	"on t.ref = a.ref", "on t.ref = a.ref and t.ref = any($2::text[])",
	keysSeen, "null::bigint as existing", keysJoined, "", keysReleased, "", keysFirst, "", keysKept, "",
).Replace(insertExecutions)

// Create implements store.Client.
func (s *Store) Create(ctx context.Context, items []store.NewExecution) ([]store.Created, error) {
	if !slices.ContainsFunc(items, func(i store.NewExecution) bool { return i.Parent != 0 }) {
		return s.creates.submitItems(ctx, "creating executions", items)
	}
	return s.createChildren(ctx, items)
}

func (s *Store) createEach(ctx context.Context, items []store.NewExecution) ([]store.Created, []error) {
	create := step[indexedItem, store.Created]{
		op:  "creating executions",
		row: (*indexedItem).rowKey,
		run: func(ctx context.Context, items []indexedItem, results []store.Created) error {
			all := make([]store.NewExecution, len(items))
			for i := range items {
				all[i] = items[i].NewExecution
			}
			return s.insertBatch(ctx, s.query, s.keptPlanQuery(keptHashed), all, make([]parentLink, len(all)), results)
		},
	}
	all := make([]indexedItem, len(items))
	for i := range items {
		all[i] = indexedItem{items[i], i}
	}
	return create.runEach(ctx, all)
}

// parentLink describes how an execution depends on its parent.
type parentLink struct {
	// parent is the first row of the parent's chain, 0 for none.
	parent int64
	// waits reports whether the execution is not due yet.
	waits bool
}

// queryFunc executes one statement: on its own connection, or in a transaction.
type queryFunc func(ctx context.Context, op string, scan func(pgx.Rows) error, sql string, args ...any) error

// insertBatch inserts executions: it uses plain, which allows hash joins, for insertPlain, and query for all
// other statements.
func (s *Store) insertBatch(ctx context.Context, query, plain queryFunc, items []store.NewExecution, families []parentLink, results []store.Created) error {
	var refs []string
	var parameters, keys, actors []*string
	var parents, pinned []*int64
	var waits []bool
	var timeouts, dispatchTimeouts []*float64
	var retries []*int32
	for i := range items {
		limits := &items[i].Limits
		timeouts, dispatchTimeouts = append(timeouts, secondsOrNull(limits.Timeout)), append(dispatchTimeouts, secondsOrNull(limits.DispatchTimeout))
		retries = append(retries, ownRetries(limits))
		pinned = append(pinned, idOrNull(int64(items[i].Pinned)))
		refs = append(refs, items[i].ActionRef)
		parameters = append(parameters, jsonOrNull(items[i].Parameters))
		keys, actors = append(keys, orNull(items[i].IdempotencyKey)), append(actors, orNull(items[i].Actor))
		parents, waits = append(parents, idOrNull(families[i].parent)), append(waits, families[i].waits)
	}
	const op = "creating executions"
	inserted := make(map[int64]bool, len(items))
	fresh := make(map[int]int64, len(items))
	var n int
	var id *int64
	var existed, isNew, lost bool
	scan := scanInto(func() {
		switch {
		case n == 0:
			inserted[*id] = true
		case isNew:
			fresh[n-1] = *id
		case existed:
			delete(fresh, n-1)
			results[n-1] = store.Created{ID: execution.ID(*id), Existed: true}
		default:
			delete(fresh, n-1)
			results[n-1] = store.Created{UnknownAction: !lost, UnknownWorker: lost}
		}
	}, &n, &id, &existed, &isNew, &lost)
	create, sql := plain, insertPlain
	if slices.ContainsFunc(items, func(i store.NewExecution) bool { return i.IdempotencyKey != "" }) {
		create, sql = query, insertExecutions
	}
	err := create(ctx, op, scan, sql, s.clockOverride(), refs, parameters, keys, parents, waits, pinned, execution.KeyLifetime,
		timeouts, dispatchTimeouts, retries, actors)
	if err != nil {
		return err
	}
	var overtaken []int
	for n, id := range fresh {
		if inserted[id] {
			results[n] = store.Created{ID: execution.ID(id)}
		} else {
			overtaken = append(overtaken, n)
		}
	}
	slices.Sort(overtaken)
	return s.lookUpKeys(ctx, query, items, overtaken, len(inserted) > 0, results)
}

// ownRetries returns the maximum of retries that a request sets; null if it sets none.
func ownRetries(l *execution.Limits) *int32 {
	if !l.OwnRetries {
		return nil
	}
	n := int32(l.MaxRetries)
	return &n
}

// lookUpKeys finds the rows of keys that another transaction inserted while our statement waited for it.
func (s *Store) lookUpKeys(ctx context.Context, query queryFunc, items []store.NewExecution, places []int, applied bool, results []store.Created) error {
	if len(places) == 0 {
		return nil
	}
	byKey := make(map[string]int, len(places))
	var keys []string
	for _, n := range places {
		byKey[items[n].IdempotencyKey] = n
		keys = append(keys, items[n].IdempotencyKey)
	}
	const op = "creating executions: reading what exists"
	var key string
	var id execution.ID
	err := query(ctx, op, scanInto(func() { results[byKey[key]] = store.Created{ID: id, Existed: true} }, &key, &id), `select idempotency_key, id from execution_record where idempotency_key = any($1::text[])`, keys)
	if err != nil && applied {
		return unknownOutcomeError(op, err)
	}
	return err
}
