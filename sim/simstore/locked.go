package simstore

import (
	"fmt"
	"slices"

	"handoff/chaos/history"
	"handoff/chaos/oracle"
	"handoff/core/execution"
	"handoff/core/store"
	"handoff/sim/simnet"
)

// Another program's session may lock a row. The real store then waits for the lock timeout and retries the
// batch row by row: the other rows are changed, and the locked row returns a retriable error. The model
// returns the same answers immediately.

// LockRows locks rows of executions that were dispatched or run, the oldest first, at most `most`, for the
// fault of that name. free unlocks them.
func (da *Database) LockRows(fault string, most int) (locked int, free func()) {
	var ids []execution.ID
	for i := range da.rows.n {
		r := da.rows.rowAt(int32(i))
		if len(ids) < most && da.locks[r.ID] == "" && (r.Status == execution.Scheduled || oracle.Claimed(r.Status)) {
			ids = append(ids, r.ID)
		}
	}
	if da.locks == nil {
		da.locks = make(map[execution.ID]string)
	}
	for _, id := range ids {
		da.locks[id] = fault
		da.emit(&history.Event{Kind: history.RowLocked, Process: Server, Execution: id, Count: 1, Fault: fault})
	}
	return len(ids), func() {
		for _, id := range ids {
			delete(da.locks, id)
			da.emit(&history.Event{Kind: history.RowLocked, Process: Server, Execution: id, Fault: fault})
		}
	}
}

// OpenTransaction opens another program's transaction until end is called. In the model it changes one
// figure: it has no audit to stream, and no dead rows.
func (da *Database) OpenTransaction() (end func()) {
	da.transactions++
	id := da.transactions
	da.open = append(da.open, id)
	return func() { da.open = slices.DeleteFunc(da.open, func(o uint64) bool { return o == id }) }
}

// refuseIfLocked reports whether another session has locked a row, and records the error for the call.
func (s *step) refuseIfLocked(id execution.ID) bool {
	if !s.isLocked(id) {
		return false
	}
	s.lockErrors = append(s.lockErrors, fmt.Errorf("%w: canceling statement due to lock timeout (55P03): execution %d is locked by another session", store.ErrUnavailable, id))
	return true
}

// isLocked reports whether another session has locked a row.
func (s *step) isLocked(id execution.ID) bool {
	fault := s.db.locks[id]
	if fault != "" {
		s.db.net.Touch(simnet.Touched{Fault: fault, Process: s.process})
	}
	return fault != ""
}
