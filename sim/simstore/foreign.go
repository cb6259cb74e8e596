package simstore

import (
	"fmt"

	"handoff/chaos/history"
	"handoff/chaos/oracle"
	"handoff/core/execution"
	"handoff/core/store"
)

// ForeignValue is the failure reason that WriteForeign writes, as a newer program might.
const ForeignValue = "of_a_newer_release"

// WriteForeign gives a row a value that this program can't read, as a newer program might. The value is in
// retry_reason while the row waits, and in failure_reason when it has ended. Without write it restores the
// former value.
func (da *Database) WriteForeign(id execution.ID, write bool) {
	if !write {
		if da.foreign[id] != "" {
			delete(da.foreign, id)
			if r := da.row(id); r != nil && waitsForWorker(r) {
				da.enqueueRow(r, r.due)
			}
		}
		return
	}
	r := da.row(id)
	if r == nil {
		return
	}
	if waitsForWorker(r) {
		da.dequeueRow(r)
	}
	column := "retry_reason"
	if oracle.Terminal(r.Status) {
		column = "failure_reason"
	}
	_, err := execution.ParseReason(ForeignValue)
	if da.foreign == nil {
		da.foreign = make(map[execution.ID]string)
	}
	da.foreign[id] = fmt.Sprintf("%v: %s of execution %d: %v", store.ErrUnreadable, column, id, err)
}

// waitsForWorker reports whether a row waits for a worker.
func waitsForWorker(r *row) bool { return r.Status == execution.Requested && !r.AwaitsParent }

// HideRows writes a value that this program can't read into at most `most` rows that wait for a
// worker, the oldest first, for the fault of that name. show restores the rows.
func (da *Database) HideRows(fault string, most int) (hidden int, show func()) {
	var ids []execution.ID
	for i := range da.rows.n {
		if r := da.rows.rowAt(int32(i)); len(ids) < most && waitsForWorker(r) && da.foreign[r.ID] == "" {
			ids = append(ids, r.ID)
		}
	}
	write := func(says bool, count int64) {
		for _, id := range ids {
			da.WriteForeign(id, says)
			da.emit(&history.Event{Kind: history.RowUnreadable, Process: Server, Execution: id, Count: count, Fault: fault})
		}
	}
	write(true, 1)
	return len(ids), func() { write(false, 0) }
}

// unreadableError returns the reason why a row can't be read, or nil if it can.
func (da *Database) unreadableError(id execution.ID) error {
	why := da.foreign[id]
	if why == "" {
		return nil
	}
	return foreignError(why)
}

// foreignError is a store.ErrUnreadable.
type foreignError string

// Error names the row and the reason.
func (f foreignError) Error() string { return string(f) }

// Unwrap returns store.ErrUnreadable.
func (foreignError) Unwrap() error { return store.ErrUnreadable }

// surveyUnreadable adds a row to a survey if it can't be read.
func (da *Database) surveyUnreadable(survey *store.Survey, r *row) {
	why := da.foreign[r.ID]
	if why == "" || oracle.Terminal(r.Status) && !r.OrchestratedAt.IsZero() {
		return
	}
	survey.UnreadableCount++
	if len(survey.Unreadable) < store.MostUnreadable {
		survey.Unreadable = append(survey.Unreadable, store.UnreadableRow{ID: r.ID, Why: why})
	}
}
