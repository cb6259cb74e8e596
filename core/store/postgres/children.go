package postgres

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"handoff/core/execution"
	"handoff/core/store"
)

// lockParents locks the first rows of the chains that the parents $1 belong to, and returns the chain of each
// parent. It locks them in the order of their ids, as every statement that locks several does. It is a
// separate statement, so that the next one sees everything that was committed while it waited. The answer
// comes from the locked rows: a chain that was deleted during the wait is still in the statement's snapshot,
// and in asked.
const lockParents = `
with asked as materialized (
    select e.id, coalesce(e.original_execution, e.id) as chain from execution_record e where e.id = any($1::bigint[])
),
locked as materialized (
    select f.id from execution_record f where f.id in (select chain from asked) order by f.id for no key update of f
)
select a.id, a.chain from locked l join asked a on a.chain = l.id`

// selectEnds returns the final status of chains whose end was handled.
const selectEnds = `
select f.id, coalesce(last.status, f.status)::text
  from execution_record f
  left join lateral (
      select x.id, x.status, x.orchestrated_at from execution_record x where x.original_execution = f.id order by x.retry_count desc limit 1
  ) last on true
 where f.id = any($1::bigint[])
   and case when last.id is null then f.orchestrated_at else last.orchestrated_at end is not null`

// markHasChildren marks chains, under their locks, as having children that wait. The step that handles the
// end of a chain sees in its locked row that there are children to settle.
const markHasChildren = `update execution_record set has_children = true where id = any($1::bigint[]) and not has_children`

var skipNewChildren = `
with judged as materialized (
    select w.*, coalesce($2::timestamptz, clock_timestamp()) as now from execution_work w
     where w.id = any($1::bigint[]) and w.waits and w.awaits_parent
),
over as (
    update execution_record r
       set status = 'cancelled', failure_reason = 'parent_failed', result = $3::text::json, ended = j.now,
           ` + strings.Replace(copyWorkColumns(), "due_at = j.due_at", "due_at = j.now", 1) + `,
           written_by = 'execution_manager', written_incarnation = null, written_epoch = j.epoch, written_reason = 'parent_failed', written_actor = null
      from judged j
     -- By the ids as well: the transaction allows no nested loops, and a join alone reads every record.
     where r.id = j.id and r.id = any($1::bigint[])
    returning r.id, r.ended, r.orchestrated_at
),` + deleteEndedWork("true") + `
select count(*) from over`

// createChildren creates executions, some of which have a parent. It creates those without a parent as usual,
// and the children in transactions of bounded size, each with a constant number of round trips. Each
// transaction commits by itself. If a part of the request was not applied, a repetition under the same keys
// finds the applied parts and completes the rest.
func (s *Store) createChildren(ctx context.Context, items []store.NewExecution) ([]store.Created, error) {
	created, errs := make([]store.Created, len(items)), make([]error, len(items))
	var plain []store.NewExecution
	var children []indexedItem
	var places []int
	for i := range items {
		if items[i].Parent == 0 {
			plain, places = append(plain, items[i]), append(places, i)
			continue
		}
		children = append(children, indexedItem{NewExecution: items[i], n: i})
	}
	var broken error
	for _, round := range (step[indexedItem, store.Created]{row: (*indexedItem).rowKey}).splitRounds(children) {
		for part := range slices.Chunk(round, s.options.BatchRows) {
			batch := make([]indexedItem, len(part))
			for k, at := range part {
				batch[k] = children[at]
			}
			broken = s.createPart(ctx, batch, created, errs, broken)
		}
	}
	if broken == nil {
		made, err := s.creates.submitItems(ctx, "creating executions", plain)
		for n, i := range places {
			if n < len(made) {
				created[i] = made[n]
			}
			errs[i] = err
		}
	} else {
		for _, i := range places {
			errs[i] = unavailableError("creating executions", broken)
		}
	}
	return combineErrors(created, errs)
}

// indexedItem is an item with its index in the call.
type indexedItem struct {
	store.NewExecution
	n int
}

// rowKey returns the value that two items of one statement must not share, or the statement would create one
// key twice. Without a key, two requests are never about the same execution.
func (i *indexedItem) rowKey() any {
	if i.IdempotencyKey == "" {
		return i.n
	}
	return i.IdempotencyKey
}

// createPart creates some children in one transaction. If one of them is invalid, it tries each half
// separately, so that a few invalid items among many cost few transactions. It returns the error after which
// nothing more should be sent; broken is such an error of an earlier part.
func (s *Store) createPart(ctx context.Context, items []indexedItem, created []store.Created, errs []error, broken error) error {
	const op = "creating children"
	if broken != nil {
		for i := range items {
			errs[items[i].n] = unavailableError(op, broken)
		}
		return broken
	}
	var results []store.Created
	err := s.runTransaction(ctx, op, func(tx pgx.Tx) (err error) {
		results, err = s.createUnderLock(ctx, tx, items)
		return err
	})
	switch {
	case err == nil:
		for i := range items {
			created[items[i].n] = results[i]
		}
		return nil
	case !store.Retriable(err) && len(items) > 1:
		half := len(items) / 2
		broken = s.createPart(ctx, items[:half], created, errs, nil)
		return s.createPart(ctx, items[half:], created, errs, broken)
	}
	for i := range items {
		errs[items[i].n] = err
	}
	if store.Retriable(err) {
		return err
	}
	return nil
}

// createUnderLock creates children under the locks of their parents' chains.
func (s *Store) createUnderLock(ctx context.Context, tx pgx.Tx, items []indexedItem) ([]store.Created, error) {
	results := make([]store.Created, len(items))
	chains, err := s.lockParents(ctx, tx, items)
	if err != nil {
		return nil, err
	}
	ended, err := readEnds(ctx, tx, chains)
	if err != nil {
		return nil, err
	}
	var known []store.NewExecution
	var families []parentLink
	var places []int
	for i := range items {
		chain, exists := chains[items[i].Parent]
		if !exists {
			results[i] = store.Created{UnknownParent: true}
			continue
		}
		known, places = append(known, items[i].NewExecution), append(places, i)
		families = append(families, parentLink{parent: chain, waits: ended[chain] != execution.Completed})
	}
	if len(known) == 0 {
		return results, nil
	}
	made := make([]store.Created, len(known))
	within := func(ctx context.Context, _ string, scan func(pgx.Rows) error, sql string, args ...any) error {
		return readRows(ctx, tx, scan, sql, args...)
	}
	// This plan is not kept, because the setting would also keep the plans of the transaction's other
	// statements.
	plain := func(ctx context.Context, _ string, scan func(pgx.Rows) error, sql string, args ...any) error {
		return readWithSettings(ctx, tx, hashed, scan, sql, args...)
	}
	if err := s.insertBatch(ctx, within, plain, known, families, made); err != nil {
		return nil, err
	}
	var adopting, skipping []int64
	for k, i := range places {
		results[i] = made[k]
		if made[k].ID == 0 || made[k].Existed {
			continue
		}
		switch ended[families[k].parent] {
		case execution.None:
			adopting = append(adopting, families[k].parent)
		case execution.Completed:
		default:
			results[i].Skipped = true
			skipping = append(skipping, int64(made[k].ID))
		}
	}
	if len(adopting) > 0 {
		if _, err := tx.Exec(ctx, markHasChildren, adopting); err != nil {
			return nil, err
		}
	}
	if len(skipping) > 0 {
		result := store.SkippedResult()
		_, err = tx.Exec(ctx, skipNewChildren, skipping, s.clockOverride(), encodeResult(&result))
	}
	return results, err
}

// lockParents locks the chains of the items' parents, and returns them by parent.
func (s *Store) lockParents(ctx context.Context, tx pgx.Tx, items []indexedItem) (map[execution.ID]int64, error) {
	parents := make([]int64, len(items))
	for i := range items {
		parents[i] = int64(items[i].Parent)
	}
	slices.Sort(parents)
	chains := make(map[execution.ID]int64)
	var parent, chain int64
	err := readRows(ctx, tx, scanInto(func() { chains[execution.ID(parent)] = chain }, &parent, &chain), lockParents, slices.Compact(parents))
	return chains, err
}

// readEnds returns the final status of those chains whose end was handled. The caller holds their locks.
func readEnds(ctx context.Context, tx pgx.Tx, chains map[execution.ID]int64) (map[int64]execution.Status, error) {
	ended := make(map[int64]execution.Status)
	if len(chains) == 0 {
		return ended, nil
	}
	ids := slices.Sorted(maps.Values(chains))
	err := readRows(ctx, tx, func(rows pgx.Rows) error {
		var chain int64
		var name string
		if err := rows.Scan(&chain, &name); err != nil {
			return err
		}
		status, err := execution.ParseStatus(name)
		ended[chain] = status
		return err
	}, selectEnds, slices.Compact(ids))
	return ended, err
}
