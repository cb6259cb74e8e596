package postgres

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"handoff/core/execution"
	"handoff/core/store"
)

// transitionColumns are the columns of an audit row t for a store.Transition.
const transitionColumns = `t.id, coalesce(t."from"::text, ''), t."to"::text, t.epoch, t.writer::text, coalesce(t.writer_incarnation, 0), coalesce(t.worker, 0),
       coalesce(t.incarnation, 0), coalesce(t.reason::text, ''), coalesce(t.actor, ''), t.at`

// transitionRow is an audit row as the driver reads it.
type transitionRow struct {
	store.Transition
	from, to, by, reason string
	at                   time.Time
}

func (tr *transitionRow) scanTargets() []any {
	return []any{&tr.Line, &tr.from, &tr.to, &tr.Epoch, &tr.by, &tr.Writer, &tr.Worker, &tr.Incarnation, &tr.reason, &tr.Actor, &tr.at}
}

// toTransition turns the row into a line. The audit is only displayed, so a value that a newer program wrote
// is reported in Unknown and left out. An error would hide every other line, and would stop a stream of
// changes at this line permanently.
func (tr *transitionRow) toTransition() store.Transition {
	t := tr.Transition
	var unknown []error
	var err error
	if tr.from != "" {
		t.From, err = execution.ParseStatus(tr.from)
		unknown = append(unknown, err)
	}
	t.To, err = execution.ParseStatus(tr.to)
	unknown = append(unknown, err)
	t.Reason, err = execution.ParseReason(tr.reason)
	if err = errors.Join(append(unknown, err)...); err != nil {
		t.Unknown = strings.ReplaceAll(err.Error(), "\n", "; ")
	}
	t.By, t.At = partNamed(tr.by), tr.at
	return t
}

const selectTransitions = `
select ` + transitionColumns + `
  from transitions_of($1) t where t.id > $2
 order by t.id limit $3`

// Transitions implements store.Audit.
func (s *Store) Transitions(ctx context.Context, q store.TransitionQuery) ([]store.Transition, error) {
	var all []store.Transition
	var r transitionRow
	err := s.query(ctx, "reading transitions", scanInto(func() { all = append(all, r.toTransition()) }, r.scanTargets()...),
		selectTransitions, int64(q.Execution), q.After, max(0, q.Limit))
	return all, err
}

// Every later snapshot contains all writes of transactions below a snapshot's xmin, and no new
// transaction gets such a number. So the changes below xmin, in the order of transaction and id,
// are a prefix of the stream that never changes. Ids alone would not suffice: an id is drawn before
// its transaction commits, so it may become visible after a larger one.
//
// A group has at most 64 changes, and at least one. So only a group less than 64 below the position may have
// changes on both sides of it. Reading 64 groups more than the limit is enough to find as many changes as the
// limit allows.
const selectReach = `
with horizon as materialized (
    select pg_snapshot_xmin(s) as xmin, pg_snapshot_xmin(s) < pg_snapshot_xmax(s) as held from pg_current_snapshot() s
),
page as materialized (
    select g.transaction, g.id, bit_count(g.members::bit(64)) as size,
           case when g.transaction > $1::text::xid8 then 0 else least(bit_count(g.members::bit(64)), greatest(0, $2::bigint + 1 - g.id)) end as seen
      from transition_group g
     where (g.transaction, g.id) > ($1::text::xid8, $2::bigint - 64) and g.transaction < (select xmin from horizon)
     order by g.transaction, g.id limit $3::bigint + 64
),
summed as (select p.*, sum(p.size - p.seen) over (order by p.transaction, p.id) as total from page p)
select h.xmin::text, h.held, coalesce(l.transaction::text, '0'), coalesce(l.last, 0)
  from horizon h
  left join lateral (
    select s.transaction, s.id + s.size - 1 - (s.total - $3)::bigint as last from summed s
     where s.total >= $3 order by s.transaction, s.id limit 1
) l on true`

// selectGone is executed last, so that it includes everything that a purge has deleted before or during the
// other statements.
const selectGone = `select g.transaction::text, g.id, g.at from execution_transition_gone g where g.id > 0`

// The statement looks up the execution of each change, and "offset 0" keeps the planner to that.
// For an action with very few executions the planner would otherwise begin with the executions, and
// read all of them to find those few.
const selectChanges = `
select t.transaction::text, t.id, t.execution, coalesce(e.action_ref, ''), ` + transitionColumns + `
  from (
    select g.transaction, g.id + m.place as id, g.base + m.distance as execution, g."from", g."to", g.epoch, g.writer, g.writer_incarnation,
           g.worker, g.incarnation, g.reason, g.actor, g.at
      from transition_group g cross join lateral members_of(g.members) m
     where (g.transaction, g.id) > ($1::text::xid8, $2::bigint - 64) and (g.transaction, g.id) <= ($3::text::xid8, $4::bigint)
  ) t
  left join lateral (select x.action_ref from execution_record x where x.id = t.execution offset 0) e on true
 where (t.transaction, t.id) > ($1::text::xid8, $2::bigint) and (t.transaction, t.id) <= ($3::text::xid8, $4::bigint)
   and ($5::bigint = 0 or t.execution = $5)
   and ($6::text is null or e.action_ref = $6)
   and ($7::text is null or t."to" = $7::execution_status)
 order by t.transaction, t.id`

// Changes implements store.Audit.
func (s *Store) Changes(ctx context.Context, q store.ChangeQuery) (page store.ChangePage, err error) {
	const op = "reading changes"
	after := strconv.FormatUint(q.After.Transaction, 10)
	var last store.Position
	err = s.query(ctx, op, func(rows pgx.Rows) error {
		return rows.Scan((*transactionID)(&page.End.Transaction), &page.Held, (*transactionID)(&last.Transaction), &last.ID)
	}, selectReach, after, q.After.ID, max(1, q.Limit))
	if err != nil {
		return store.ChangePage{}, err
	}
	page.Next, page.More = page.End, last.ID != 0
	if page.More {
		page.Next = last
	}
	if q.Limit <= 0 {
		page.Next = page.End
		return page, s.readGone(ctx, &page)
	}
	if page.Next.Before(q.After) {
		page.Next = q.After
	}
	var c store.Change
	var r transitionRow
	err = s.query(ctx, op, scanInto(func() {
		c.Transition = r.toTransition()
		page.Changes = append(page.Changes, c)
	}, append([]any{(*transactionID)(&c.Position.Transaction), &c.ID, &c.Execution, &c.ActionRef}, r.scanTargets()...)...), selectChanges, after, q.After.ID, strconv.FormatUint(page.Next.Transaction, 10), page.Next.ID, int64(q.Execution), orNull(q.ActionRef), statusOrNull(q.To))
	if err == nil {
		err = s.readGone(ctx, &page)
	}
	if err != nil {
		return store.ChangePage{}, err
	}
	return page, nil
}

// readGone reads the position up to which changes are deleted, if any are.
func (s *Store) readGone(ctx context.Context, page *store.ChangePage) error {
	return s.query(ctx, "reading which changes are deleted", func(rows pgx.Rows) error {
		return rows.Scan((*transactionID)(&page.Gone.Transaction), &page.Gone.ID, &page.GoneAt)
	}, selectGone)
}

// transactionID is the number of a transaction, which the statements select as text.
type transactionID uint64

func (t *transactionID) ScanText(v pgtype.Text) error {
	n, err := strconv.ParseUint(v.String, 10, 64)
	*t = transactionID(n)
	return err
}
