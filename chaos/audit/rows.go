//go:build !simulator

package audit

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"handoff/chaos/history"
	"handoff/core/execution"
)

// This file converts rows of the audit to events.

// readHistory streams the history to the judge in order, with times since the first event. It returns the
// present on that scale.
//
// A change has the time at which its trigger fires, slightly after the statement's own time. If one statement
// writes an end and handles it, the handling gets the change's time and follows it.
func readHistory(ctx context.Context, tx pgx.Tx, j *judge) (now time.Duration, err error) {
	var since *time.Time
	if !j.r.Since.IsZero() {
		since = &j.r.Since
	}
	rows, err := tx.Query(ctx, `
		select t.at, 0 as rank, t.id, t.execution, coalesce(e.original_execution, e.id), coalesce(t."from"::text, ''), t."to"::text,
		       t.epoch, t.old_epoch, t.named_epoch, coalesce(t.worker, 0), coalesce(t.incarnation, 0), t.writer::text,
		       coalesce(t.writer_incarnation, 0), coalesce(t.reason::text, ''), e.retry_count, e.max_retries,
		       case when t.reason = 'parent_failed' then coalesce(e.parent, 0) else 0 end, coalesce(e.created <= $1, false)
		  from execution_transition t join execution e on e.id = t.execution
		union all
		select case when e.orchestrated_at > e.ended then e.orchestrated_at
		            else greatest(e.orchestrated_at, l.at) end,
		       1, e.id, e.id, coalesce(e.original_execution, e.id), e.status::text, e.status::text,
		       e.epoch, e.epoch, e.epoch, 0, 0, '', 0, coalesce(e.failure_reason::text, ''), e.retry_count, e.max_retries,
		       coalesce((select n.id from execution n where n.original_execution = coalesce(e.original_execution, e.id) and n.retry_count = e.retry_count + 1), 0),
		       coalesce(e.created <= $1, false)
		  from execution e
		  left join (select t.execution, max(t.at) as at from execution_transition t group by t.execution) l on l.execution = e.id
		 where e.orchestrated_at is not null
		union all
		select e.cancel_requested_at, -1, e.id, e.id, coalesce(e.original_execution, e.id), '', e.status::text, e.epoch, e.epoch, e.epoch, 0, 0, '', 0, '', 0, 0, 0, coalesce(e.created <= $1, false)
		  from execution e where e.cancel_requested_at is not null
		union all
		select w.registered_at, -2, w.incarnation, 0, 0, '', '', 0, 0, 0, w.worker, w.incarnation, '', 0, '', w.capacity, 0, 0, false
		  from worker_incarnation w
		 order by 1, 2, 3`, since)
	if err != nil {
		return 0, fmt.Errorf("reading the audit: %w", err)
	}
	var first time.Time
	var r record
	n := uint64(0)
	_, err = pgx.ForEachRow(rows, r.scanTargets(), func() error {
		if first.IsZero() {
			first = r.at
		}
		e, err := r.historyEvent(r.at.Sub(first))
		e.Step = n
		n++
		if r.truncated {
			j.setAsideTruncated(&e)
			return nil
		}
		if err != nil {
			j.setAside(&e, &history.UnknownWord{Err: fmt.Errorf("%s: %w", r.rowName(), err)})
			return nil
		}
		j.observeEvent(&e)
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("reading the audit: %w", err)
	}
	var present time.Time
	if err := tx.QueryRow(ctx, "select clock_timestamp()").Scan(&present); err != nil {
		return 0, err
	}
	if first.IsZero() {
		first = present
	}
	return present.Sub(first), nil
}

// The ranks order rows with the same time: causes before consequences. Only a transition has a writer.
const (
	rankRegistered = -2
	rankCancelled  = -1
	rankTransition = 0
	rankHandled    = 1
)

// record is one row of the reading query.
type record struct {
	at                     time.Time
	rank                   int
	id, execution, chain   int64
	from, to               string
	epoch, oldEpoch, named int64
	worker, incarnation    int64
	writer                 string
	writerIncarnation      int64
	reason                 string
	// For a registration, retryCount is the capacity. next is the retry of a handled execution, or
	// the parent of a skipped one.
	retryCount, maxRetries, next int64
	// truncated reports whether retention has deleted the execution's first audit lines.
	truncated bool
}

func (r *record) scanTargets() []any {
	return []any{
		&r.at, &r.rank, &r.id, &r.execution, &r.chain, &r.from, &r.to, &r.epoch, &r.oldEpoch, &r.named, &r.worker, &r.incarnation,
		&r.writer, &r.writerIncarnation, &r.reason, &r.retryCount, &r.maxRetries, &r.next, &r.truncated,
	}
}

func (r *record) historyEvent(at time.Duration) (history.Event, error) {
	e := history.Event{
		At: at, Kind: history.Transition, Execution: execution.ID(r.execution), Chain: execution.ID(r.chain),
		Epoch: execution.Epoch(r.epoch), OldEpoch: execution.Epoch(r.oldEpoch), Named: execution.Epoch(r.named),
		Worker: execution.WorkerID(r.worker), Incarnation: execution.Incarnation(r.incarnation), Writer: execution.Incarnation(r.writerIncarnation),
		Process: r.writer,
	}
	if r.rank == rankRegistered {
		e.Kind, e.Limit = history.WorkerRegistered, r.retryCount
		return e, nil
	}
	var errs [4]error
	e.To, errs[0] = execution.ParseStatus(r.to)
	e.Reason, errs[1] = execution.ParseReason(r.reason)
	if r.rank == rankTransition {
		e.By, errs[2] = execution.ParsePart(r.writer)
	}
	switch {
	case r.rank == rankCancelled:
		// The row holds the current status, not the status at the time of the request.
		e.Kind, e.To, errs[0] = history.CancelRequested, execution.None, nil
	case r.rank == rankHandled:
		e.Kind, e.From, e.Related = history.Orchestrated, e.To, execution.ID(r.next)
	case r.from == "":
		e.Kind, e.Count, e.Limit = history.Created, r.retryCount, r.maxRetries
	default:
		e.From, errs[3] = execution.ParseStatus(r.from)
		e.Related = execution.ID(r.next)
	}
	return e, cmp.Or(errs[0], errs[1], errs[2], errs[3])
}

// rowName returns the row's table and id, for errors.
func (r *record) rowName() string {
	if r.rank == rankHandled || r.rank == rankCancelled {
		return fmt.Sprintf("execution %d", r.id)
	}
	return fmt.Sprintf("execution_transition %d, of execution %d", r.id, r.execution)
}
