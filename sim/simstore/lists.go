package simstore

import (
	"time"

	"handoff/chaos/oracle"
	"handoff/core/execution"
)

// listName identifies a list of rows that some query needs.
type listName uint8

const (
	listNone listName = iota
	listScheduling
	listScheduled
	listRunning
	listUnorchestrated
	listCount
)

func listOf(s execution.Status, orchestrated bool) listName {
	switch {
	case s == execution.Scheduling:
		return listScheduling
	case s == execution.Scheduled:
		return listScheduled
	case oracle.Claimed(s):
		return listRunning
	case oracle.Terminal(s) && !orchestrated:
		return listUnorchestrated
	}
	return listNone
}

// list is a doubly linked list through the rows, ordered by the time at which a row becomes urgent and then
// by id, like the partial index that it models.
type list struct {
	first, last int32 // indices + 1
	n           int
}

// urgentAt returns the time by which a row is ordered in its list.
func (r *row) urgentAt() time.Time {
	switch r.in {
	case listScheduling:
		return r.SchedulingExpiresAt
	case listScheduled:
		return r.ScheduledAt
	case listRunning:
		return r.StartedAt
	default:
		return r.Ended
	}
}

func (da *Database) linkRow(name listName, i int32) {
	r := da.rows.rowAt(i)
	r.in = name
	if name == listNone {
		return
	}
	l := &da.lists[name]
	// A new row nearly always belongs at the end, because time advances.
	before := l.last
	for before != 0 && comesBefore(r.urgentAt(), r.ID, da.rows.rowAt(before-1).urgentAt(), da.rows.rowAt(before-1).ID) {
		before = da.rows.rowAt(before - 1).prev
	}
	after := &l.first
	if before != 0 {
		after = &da.rows.rowAt(before - 1).next
	}
	r.prev, r.next = before, *after
	*after = i + 1
	if r.next != 0 {
		da.rows.rowAt(r.next - 1).prev = i + 1
	} else {
		l.last = i + 1
	}
	l.n++
}

// comesBefore defines the order of everything that is served oldest first.
func comesBefore(a time.Time, id execution.ID, b time.Time, other execution.ID) bool {
	if !a.Equal(b) {
		return a.Before(b)
	}
	return id < other
}

func (da *Database) unlinkRow(i int32) {
	r := da.rows.rowAt(i)
	if r.in == listNone {
		return
	}
	l := &da.lists[r.in]
	if r.prev != 0 {
		da.rows.rowAt(r.prev - 1).next = r.next
	} else {
		l.first = r.next
	}
	if r.next != 0 {
		da.rows.rowAt(r.next - 1).prev = r.prev
	} else {
		l.last = r.prev
	}
	l.n--
	r.prev, r.next, r.in = 0, 0, listNone
}

// forEachRow calls f for every row of a list, oldest first, until f returns false. f must not move rows.
func (da *Database) forEachRow(name listName, f func(*row) bool) {
	for i := da.lists[name].first; i != 0; i = da.rows.rowAt(i - 1).next {
		if !f(da.rows.rowAt(i - 1)) {
			return
		}
	}
}
