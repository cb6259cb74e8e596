package postgres

import (
	"context"
	"time"

	"handoff/core/execution"
	"handoff/core/store"
)

// workLists are the conditions of the indexes that contain work of a status. The index of held work
// is short, however many rows wait.
var workLists = map[execution.Status]string{
	execution.Requested: "w.waits", execution.Scheduling: "w.incarnation is null and w.scheduling_expires_at is not null",
	execution.Scheduled: "w.incarnation is not null", execution.Running: "w.incarnation is not null", execution.Canceling: "w.incarnation is not null",
}

// A page is a walk down the primary key of the records or, for rows that have not ended, of the work. It
// stops when the page is full. So no index has to be maintained for lists alone. With a narrow filter the
// walk is long; $2 bounds it, and the next page continues behind it.
//
// selectIDs are the same pages with nothing but the ids.
var selectPages, selectIDs = func() (pages, ids [execution.Statuses]string) {
	for status := range pages {
		from, condition := "execution_record r left join execution_work w on w.id = r.id", ""
		id, worker, columns := "r.id", "coalesce(w.worker, r.worker)", "{any, small}"
		switch name := execution.Status(status); {
		case name.Terminal():
			from, condition = "execution_record r", "r.status = '"+name.String()+"' and "
			worker, columns = "r.worker", "{kept, small}"
		case name != execution.None:
			from, condition = "execution_work w join execution_record r on r.id = w.id", "w.status = '"+name.String()+"' and "+workLists[name]+" and "
			id, worker, columns = "w.id", "w.worker", "{open, small}"
		}
		rest := ` from ` + from + `
 where ` + condition + `($1::bigint = 0 or ` + id + ` < $1) and ` + id + ` > $2
   and ($3::text is null or r.action_ref = $3)
   and ($4::bigint = 0 or ` + worker + ` = $4)
   and ($5::bigint = 0 or r.parent = $5)
   and ($6::failure_reason is null or r.failure_reason = $6)
   and ($7::timestamptz is null or r.created >= $7) and ($8::timestamptz is null or r.created < $8)
   and ($9::timestamptz is null or r.ended >= $9) and ($10::timestamptz is null or r.ended < $10)
 order by ` + id + ` desc
 limit $11`
		pages[status], ids[status] = expandColumns("\nselect "+columns+rest), expandColumns("\nselect "+id+rest)
	}
	return pages, ids
}()

var selectListed = expandColumns(`
select case when $2 then sha256(convert_to(e.parameters::text, 'UTF8')) end, case when $2 then coalesce(octet_length(e.parameters::text), 0) else 0 end,
       case when $3 then e.parameters end, {e, small}
  from execution e where e.id = any($1::bigint[])
 order by e.id desc`)

// listNamed reads the rows that a query names by their ids.
func (s *Store) listNamed(ctx context.Context, q store.ExecutionQuery) ([]store.Listed, error) {
	var found []store.Listed
	var digest, parameters []byte
	var size int
	var r record
	err := s.query(ctx, "reading executions by their ids", scanInto(func() {
		row := r.toListed()
		row.Size = size
		copy(row.Digest[:], digest)
		if row.Unreadable == "" {
			row.Parameters = parameters
		}
		found = append(found, row)
	}, r.scanTargets(&digest, &size, &parameters)...), selectListed, asInt64s(q.IDs), q.Digests, q.WithParameters)
	return found, err
}

// List implements store.Client.
func (s *Store) List(ctx context.Context, q store.ExecutionQuery) ([]store.Listed, error) {
	if q.IDs != nil {
		return s.listNamed(ctx, q)
	}
	if int(q.Status) >= execution.Statuses {
		return nil, nil
	}
	var page []store.Listed
	scan, sql := collectListed(&page), selectPages[q.Status]
	if q.OnlyIDs {
		var row store.Listed
		scan, sql = scanInto(func() { page = append(page, row) }, &row.ID), selectIDs[q.Status]
	}
	err := s.query(ctx, "listing executions", scan, sql,
		int64(q.Before), int64(q.After), orNull(q.ActionRef), int64(q.Worker), int64(q.Parent), reasonOrNull(q.Reason),
		momentOrNull(q.Created.From), momentOrNull(q.Created.To), momentOrNull(q.Ended.From), momentOrNull(q.Ended.To), max(0, q.Limit))
	return page, err
}

// The order is by bytes, as the contract demands, whatever the collation of the database. Actions are few, so
// it is cheap to sort all of them for each page.
const selectActions = `
select a.ref, a.runtime, a.entrypoint, coalesce(a.timeout_seconds, 0), coalesce(a.dispatch_timeout_seconds, 0), a.max_retries, coalesce(a.concurrency, 0), coalesce(a.put_by, ''),
       a.retried_exit_codes
  from action a
 where a.ref collate "C" > $1 and ($2::text is null or a.ref = $2)
 order by a.ref collate "C"
 limit $3`

// Actions implements store.Client.
func (s *Store) Actions(ctx context.Context, q store.ActionQuery) ([]execution.Action, error) {
	var page []execution.Action
	var a execution.Action
	var timeout, dispatchTimeout float64
	var retried []int16
	err := s.query(ctx, "listing actions", scanInto(func() {
		a.Timeout, a.DispatchTimeout = time.Duration(timeout*float64(time.Second)), time.Duration(dispatchTimeout*float64(time.Second))
		a.RetriedExitCodes = execution.NewExitCodes(retried...)
		page = append(page, a)
	}, &a.Ref, &a.Runtime, &a.Entrypoint, &timeout, &dispatchTimeout, &a.MaxRetries, &a.Concurrency, &a.PutBy, &retried),
		selectActions, q.After, orNull(q.Ref), max(0, q.Limit))
	return page, err
}

var selectChain = expandColumns(`
with chain as materialized (select coalesce(x.original_execution, x.id) as first from execution_record x where x.id = $1),
     member as materialized (
    select c.first as id from chain c
    union all
    select x.id from chain c join execution_record x on x.original_execution = c.first
)
select {e, small} from member m join execution e on e.id = m.id
 order by e.retry_count limit $2`)

// Chain implements store.Client.
func (s *Store) Chain(ctx context.Context, id execution.ID) ([]store.Listed, error) {
	var chain []store.Listed
	err := s.query(ctx, "reading a chain", collectListed(&chain), selectChain, int64(id), store.MaxChain)
	return chain, err
}
