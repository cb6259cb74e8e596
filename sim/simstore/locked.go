package simstore

import (
	"fmt"

	"handoff/chaos/history"
	"handoff/chaos/oracle"
	"handoff/core/execution"
	"handoff/core/store"
	"handoff/sim/simnet"
)

// A session of somebody else may lock a row. A statement about several rows waits for the lock until its
// time to wait is over, and is then repeated row by row: the others are done, and the locked row gives an
// error after which the caller tries again. The model answers at once, so how long the first statement
// waited is not modelled.

// LockRows locks rows of executions that were dispatched or run, the oldest first, at most `most`, for the
// fault of that name. free lets them go.
func (db *Database) LockRows(fault string, most int) (locked int, free func()) {
	var ids []execution.ID
	for i := range db.rows.n {
		r := db.rows.at(int32(i))
		if len(ids) < most && db.locks[r.ID] == "" && (r.Status == execution.Scheduled || oracle.Claimed(r.Status)) {
			ids = append(ids, r.ID)
		}
	}
	if db.locks == nil {
		db.locks = make(map[execution.ID]string)
	}
	for _, id := range ids {
		db.locks[id] = fault
		db.emit(&history.Event{Kind: history.RowLocked, Process: Server, Execution: id, Count: 1, Fault: fault})
	}
	return len(ids), func() {
		for _, id := range ids {
			delete(db.locks, id)
			db.emit(&history.Event{Kind: history.RowLocked, Process: Server, Execution: id, Fault: fault})
		}
	}
}

// locked says that a stranger has locked a row, so that nothing can be done about it, and notes it.
func (s *step) locked(id execution.ID) bool {
	if !s.foreignLock(id) {
		return false
	}
	s.waits = append(s.waits, fmt.Errorf("%w: canceling statement due to lock timeout (55P03): execution %d is locked by another session", store.ErrUnavailable, id))
	return true
}

// foreignLock says that a stranger has locked a row, for a statement that skips such rows.
func (s *step) foreignLock(id execution.ID) bool {
	fault := s.db.locks[id]
	if fault != "" {
		s.db.net.Touch(simnet.Touched{Fault: fault, Process: s.process})
	}
	return fault != ""
}
