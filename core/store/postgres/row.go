package postgres

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"handoff/core/execution"
	"handoff/core/store"
)

// rowColumns are the columns of the view execution for an execution.Execution, in the order of record.
var rowColumns = strings.Fields(`
	id action_ref runtime entrypoint timeout_seconds dispatch_timeout_seconds max_retries concurrency parameters status
	worker incarnation epoch dispatches avoid_worker pinned_worker dispatch_deadline run_deadline result failure_reason
	original_execution retry_count retry_reason retry_at parent awaits_parent cancel_requested_at idempotency_key
	created unschedulable_since scheduling_at scheduling_by scheduling_expires_at scheduled_at published_at started_at claim_beat
	canceling_at ended orchestrated_at settling_at own_limits submitted_by cancel_requested_by retried_exit_codes`)

// workColumns are the columns that are in execution_work until the execution has ended. Then its end
// copies them to execution_record, except awaits_parent, which only matters while a row waits.
var workColumns = strings.Fields(`
	status worker incarnation epoch dispatches avoid_worker dispatch_deadline run_deadline retry_at awaits_parent unschedulable_since
	scheduling_at scheduling_by scheduling_expires_at scheduled_at published_at started_at claim_beat canceling_at`)

// expandColumns completes a statement: it replaces names in braces by lists of columns. {e}, {m} and {j} are
// the columns of a row of the view or list of that name. The other names are for a row that is combined from
// two tables. {open} are the columns of work w and record r, and {judged} those of work in the list j and
// record r. {kept} are those of a record r that has ended, and {any} those of a record r whose work w may
// exist or not. With "small", as in {e, small}, the columns that may be large are empty, so that the server
// does not read them.
func expandColumns(sql string) string {
	of := func(list string) func(column string) string {
		return func(column string) string { return list + "." + column }
	}
	for name, of := range map[string]func(column string) string{
		"e": of("e"), "m": of("m"), "j": of("j"), "judged": ofRefused, "kept": ofEnded, "any": ofAny,
		"open": func(column string) string { return fromWork(column, "w."+column) },
	} {
		columns, small := make([]string, len(rowColumns)), make([]string, len(rowColumns))
		for i, column := range rowColumns {
			columns[i], small[i] = of(column), of(column)
			switch column {
			case "parameters", "result":
				small[i] = "null::json"
			case "entrypoint":
				small[i] = "''"
			}
		}
		sql = strings.ReplaceAll(sql, "{"+name+"}", strings.Join(columns, ", "))
		sql = strings.ReplaceAll(sql, "{"+name+", small}", strings.Join(small, ", "))
	}
	return sql
}

// ofRefused returns a column of a refused row: work in the list j, and record r. The record is from the
// statement's snapshot, but the statement may have waited for the work. Meanwhile a request to cancel may
// have written to the record, together with the status. So these columns are reread: like held_by, the
// functions see the commits since.
func ofRefused(column string) string {
	switch column {
	case "cancel_requested_at":
		return "case when j.status = 'canceling' then cancel_requested_at(j.id) else r.cancel_requested_at end as cancel_requested_at"
	case "cancel_requested_by":
		return "case when j.status = 'canceling' then cancel_requested_by(j.id) else r.cancel_requested_by end as cancel_requested_by"
	}
	return fromWork(column, "j."+column)
}

// ofEnded returns a column of record r of an execution that has ended. ofAny is one of record r, whose work w
// may exist or not.
func ofEnded(column string) string {
	if column == "awaits_parent" {
		return "false as awaits_parent"
	}
	return "r." + column
}

func ofAny(column string) string {
	switch {
	case column == "awaits_parent":
		return "coalesce(w.awaits_parent, false) as awaits_parent"
	case slices.Contains(workColumns, column):
		return "case when w.id is null then r." + column + " else w." + column + " end as " + column
	}
	return "r." + column
}

// fromWork returns a column of record r, or the expression if it is a column of work.
func fromWork(column, expression string) string {
	if slices.Contains(workColumns, column) {
		return expression
	}
	return "r." + column
}

// copyWorkColumns returns the part of an update of execution_record r that copies from the list j of work the
// columns that the end does not change.
func copyWorkColumns(changed ...string) string {
	assignments := []string{"due_at = j.due_at"}
	for _, column := range workColumns {
		if column != "status" && column != "awaits_parent" && !slices.Contains(changed, column) {
			assignments = append(assignments, column+" = j."+column)
		}
	}
	return strings.Join(assignments, ", ")
}

// record is a row as the driver reads it.
type record struct {
	id                              int64
	ref, runtime, entrypoint        string
	timeout, dispatchTimeout        pgtype.Float8
	maxRetries                      int
	concurrency                     pgtype.Int4
	parent                          pgtype.Int8
	awaits                          bool
	cancelRequested, canceling      pgtype.Timestamptz
	parameters, result              []byte
	status                          string
	worker, incarnation             pgtype.Int8
	avoid, pinned                   pgtype.Int8
	epoch                           int64
	dispatches, retryCount          int
	reason, retryReason             pgtype.Text
	original, claimBeat             pgtype.Int8
	key, schedulingBy               pgtype.Text
	dispatchDeadline, runDeadline   pgtype.Timestamptz
	retryAt, created, unschedulable pgtype.Timestamptz
	schedulingAt, schedulingExpires pgtype.Timestamptz
	scheduled, published, started   pgtype.Timestamptz
	ended, orchestrated, settling   pgtype.Timestamptz
	ownLimits                       []string
	submittedBy, cancelRequestedBy  pgtype.Text
	retriedExitCodes                pgtype.FlatArray[int16]
}

// scanTargets returns where to scan a row: first the caller's targets, then the record's.
func (r *record) scanTargets(before ...any) []any {
	return append(before,
		&r.id, &r.ref, &r.runtime, &r.entrypoint, &r.timeout, &r.dispatchTimeout, &r.maxRetries, &r.concurrency, &r.parameters, &r.status,
		&r.worker, &r.incarnation, &r.epoch, &r.dispatches, &r.avoid, &r.pinned, &r.dispatchDeadline, &r.runDeadline, &r.result, &r.reason,
		&r.original, &r.retryCount, &r.retryReason, &r.retryAt, &r.parent, &r.awaits, &r.cancelRequested, &r.key,
		&r.created, &r.unschedulable, &r.schedulingAt, &r.schedulingBy, &r.schedulingExpires, &r.scheduled, &r.published, &r.started,
		&r.claimBeat, &r.canceling, &r.ended, &r.orchestrated, &r.settling, &r.ownLimits,
		&r.submittedBy, &r.cancelRequestedBy, &r.retriedExitCodes,
	)
}

// toExecution turns the record into an execution.Execution. If it can't read a column, the error names the
// first such column, and the result has the readable ones. An unknown reason is execution.Unknown there; any
// other unreadable value is left out.
func (r *record) toExecution() (execution.Execution, error) {
	var unreadable error
	note := func(column string, err error) {
		if err != nil && unreadable == nil {
			unreadable = fmt.Errorf("%w: %s of execution %d: %w", store.ErrUnreadable, column, r.id, err)
		}
	}
	status, err := execution.ParseStatus(r.status)
	note("status", err)
	reason, err := execution.ParseReason(r.reason.String)
	if note("failure_reason", err); err != nil {
		reason = execution.Unknown
	}
	retryReason, err := execution.ParseReason(r.retryReason.String)
	if note("retry_reason", err); err != nil {
		retryReason = execution.Unknown
	}
	result, err := decodeResult(r.result)
	note("result", err)
	action := execution.Action{
		Ref: r.ref, Runtime: r.runtime, Entrypoint: r.entrypoint,
		Timeout: fromSeconds(r.timeout), DispatchTimeout: fromSeconds(r.dispatchTimeout), MaxRetries: r.maxRetries,
		RetriedExitCodes: execution.NewExitCodes(r.retriedExitCodes...), Concurrency: int(r.concurrency.Int32),
	}
	return execution.Execution{
		ID: execution.ID(r.id), Action: action, Limits: execution.LimitsNamed(r.ownLimits, action),
		Parameters: r.parameters, Status: status,
		Worker: execution.WorkerID(r.worker.Int64), Incarnation: execution.Incarnation(r.incarnation.Int64), Epoch: execution.Epoch(r.epoch),
		Dispatches: r.dispatches, Avoid: execution.WorkerID(r.avoid.Int64), Pinned: execution.WorkerID(r.pinned.Int64),
		DispatchDeadline: timeOrZero(r.dispatchDeadline), RunDeadline: timeOrZero(r.runDeadline),
		Result: result, FailureReason: reason,
		Original: execution.ID(r.original.Int64), RetryCount: r.retryCount, RetryReason: retryReason, NotBefore: timeOrZero(r.retryAt),
		Parent: execution.ID(r.parent.Int64), AwaitsParent: r.awaits, CancelRequestedAt: timeOrZero(r.cancelRequested), CancelRequestedBy: r.cancelRequestedBy.String, CancelingAt: timeOrZero(r.canceling),
		SubmittedBy: r.submittedBy.String, IdempotencyKey: r.key.String,
		Created: timeOrZero(r.created), UnschedulableSince: timeOrZero(r.unschedulable),
		SchedulingAt: timeOrZero(r.schedulingAt), SchedulingBy: r.schedulingBy.String, SchedulingExpiresAt: timeOrZero(r.schedulingExpires),
		ScheduledAt: timeOrZero(r.scheduled), PublishedAt: timeOrZero(r.published), StartedAt: timeOrZero(r.started),
		ClaimBeat: uint64(r.claimBeat.Int64), Ended: timeOrZero(r.ended), OrchestratedAt: timeOrZero(r.orchestrated),
		SettlingAt: timeOrZero(r.settling),
	}, unreadable
}

// scanInto returns a scan that reads each row into the targets and then calls use.
func scanInto(use func(), targets ...any) func(pgx.Rows) error {
	return func(rows pgx.Rows) error {
		if err := rows.Scan(targets...); err != nil {
			return err
		}
		use()
		return nil
	}
}

// collectListed returns a scan that collects the rows of a list.
func collectListed(found *[]store.Listed) func(pgx.Rows) error {
	var r record
	return scanInto(func() { *found = append(*found, r.toListed()) }, r.scanTargets()...)
}

// toListed converts the record for a list; one that can't be read is marked.
func (r *record) toListed() store.Listed {
	e, err := r.toExecution()
	if err != nil {
		return store.Listed{Execution: execution.Execution{ID: execution.ID(r.id)}, Unreadable: err.Error()}
	}
	return store.Listed{Execution: e}
}

// collectRows returns a scan that collects rows. An unreadable row fails the whole call: it is for calls
// about one chain, about which nothing may be decided then.
func collectRows(found *[]execution.Execution) func(pgx.Rows) error {
	return scanExecutions(func(e execution.Execution, err error) error {
		if err == nil {
			*found = append(*found, e)
		}
		return err
	})
}

// collectReadable returns a scan that collects the readable rows, and the ids of the others.
func collectReadable(found *[]execution.Execution, unreadable *[]int64) func(pgx.Rows) error {
	return scanExecutions(func(e execution.Execution, err error) error {
		if err != nil {
			*unreadable = append(*unreadable, int64(e.ID))
			return nil
		}
		*found = append(*found, e)
		return nil
	})
}

// collectLeniently returns a scan that collects rows, including the readable columns of unreadable rows.
func collectLeniently(found *[]execution.Execution) func(pgx.Rows) error {
	return scanExecutions(func(e execution.Execution, _ error) error {
		*found = append(*found, e)
		return nil
	})
}

// scanExecutions returns a scan that passes each row to each, with an error if it is unreadable.
func scanExecutions(each func(e execution.Execution, err error) error) func(pgx.Rows) error {
	var r record
	targets := r.scanTargets()
	return func(rows pgx.Rows) error {
		if err := rows.Scan(targets...); err != nil {
			return err
		}
		return each(r.toExecution())
	}
}

// verdict is one line of a guarded statement's answer.
type verdict struct {
	// n is the number of the item in the request, from 1.
	n       int
	applied bool
	// remark is a second boolean of some statements' answers.
	remark bool
	// from is the status before the statement.
	from execution.Status
	row  execution.Execution
}

func (v *verdict) toOutcome() outcome { return outcome{Applied: v.applied, From: v.from, Row: v.row} }

// scanVerdicts returns a scan that passes each verdict to each. An unreadable row comes with its readable
// columns: the statement has judged it, and has changed it or not, whatever the other columns contain. An
// error would hide the answers for all other rows, and callers would assume that they had lost rows that they
// still own.
func scanVerdicts(each func(v *verdict)) func(pgx.Rows) error {
	var r record
	var v verdict
	var from string
	return scanInto(func() {
		v.from, _ = execution.ParseStatus(from) // None for an unknown status
		v.row, _ = r.toExecution()
		each(&v)
	}, r.scanTargets(&v.n, &v.applied, &v.remark, &from)...)
}

// collectOutcomes returns a scan that stores each outcome at its item's index.
func collectOutcomes(results []outcome) func(pgx.Rows) error {
	return scanVerdicts(func(v *verdict) { results[v.n-1] = v.toOutcome() })
}

// timeOrZero converts a time of the database; null is the zero time.
func timeOrZero(t pgtype.Timestamptz) time.Time {
	if !t.Valid {
		return time.Time{}
	}
	return t.Time.UTC()
}

// Durations of an action are seconds in the database, under the contract's names, exact to a
// microsecond. Null means none.
func secondsOrNull(d time.Duration) *float64 {
	if d == 0 {
		return nil
	}
	s := d.Seconds()
	return &s
}

func fromSeconds(s pgtype.Float8) time.Duration {
	return time.Duration(math.Round(s.Float64*1e6)) * time.Microsecond
}

// encodeResult returns a Result as the database stores it. The object is assembled manually, because
// encoding/json would rewrite the output of the action.
func encodeResult(r *execution.Result) *string {
	if r.Error == "" && r.Message == "" && r.FailedBy == execution.NoPart && len(r.Output) == 0 {
		return nil
	}
	var b bytes.Buffer
	field := func(name string, value []byte) {
		b.WriteByte("{,"[min(b.Len(), 1)])
		fmt.Fprintf(&b, "%q:%s", name, value)
	}
	quoted := func(name, value string) {
		if value != "" {
			text, _ := json.Marshal(value) // encoding a string can't fail
			field(name, text)
		}
	}
	quoted("error", r.Error)
	quoted("message", r.Message)
	if r.FailedBy != execution.NoPart {
		quoted("failed_by", r.FailedBy.String())
	}
	if len(r.Output) > 0 {
		field("output", r.Output)
	}
	b.WriteByte('}')
	s := b.String()
	return &s
}

func decodeResult(text []byte) (execution.Result, error) {
	if len(text) == 0 {
		return execution.Result{}, nil
	}
	var r struct {
		execution.Result
		FailedBy string `json:"failed_by"`
	}
	if err := json.Unmarshal(text, &r); err != nil {
		return execution.Result{}, errors.New("must be an object with error, message, failed_by and output")
	}
	r.Result.FailedBy = partNamed(r.FailedBy)
	return r.Result, nil
}

func partNamed(name string) execution.Part {
	for p := execution.NoPart; int(p) < execution.Parts; p++ {
		if p.String() == name {
			return p
		}
	}
	return execution.NoPart
}

// idsAndEpochs returns the keys as two columns.
func idsAndEpochs(keys []execution.Key) (ids, epochs []int64) {
	ids, epochs = make([]int64, len(keys)), make([]int64, len(keys))
	for i, key := range keys {
		ids[i], epochs[i] = int64(key.ID), int64(key.Epoch)
	}
	return ids, epochs
}

// The following functions convert the zero value to null.

func orNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func idOrNull(id int64) *int64 {
	if id == 0 {
		return nil
	}
	return &id
}

func jsonOrNull(raw json.RawMessage) *string {
	if len(raw) == 0 {
		return nil
	}
	s := string(raw)
	return &s
}

func reasonOrNull(r execution.Reason) *string { return orNull(r.String()) }

// momentOrNull returns null for the zero time.
func momentOrNull(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// countOrNull relies on the table to refuse a negative number.
func countOrNull(n int) *int32 {
	if n == 0 {
		return nil
	}
	p := int32(n)
	return &p
}
