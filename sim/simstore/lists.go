package simstore

import (
	"slices"
	"time"

	"handoff/core/execution"
)

// listName names a list of rows that some query asks for.
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
	case s.Claimed():
		return listRunning
	case s.Terminal() && !orchestrated:
		return listUnorchestrated
	}
	return listNone
}

// list is a doubly linked list through the rows, ordered by the moment that makes a row urgent and
// then by id, as the partial index is that it stands for.
type list struct {
	first, last int32 // indices + 1
	n           int
}

// urgent is the moment by which a row stands in its list.
func (r *row) urgent() time.Time {
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

func (db *Database) push(name listName, i int32) {
	r := db.rows.at(i)
	r.in = name
	if name == listNone {
		return
	}
	l := &db.lists[name]
	// Nearly always the last, because time goes on.
	before := l.last
	for before != 0 && sooner(r.urgent(), r.ID, db.rows.at(before-1).urgent(), db.rows.at(before-1).ID) {
		before = db.rows.at(before - 1).prev
	}
	after := &l.first
	if before != 0 {
		after = &db.rows.at(before - 1).next
	}
	r.prev, r.next = before, *after
	*after = i + 1
	if r.next != 0 {
		db.rows.at(r.next - 1).prev = i + 1
	} else {
		l.last = i + 1
	}
	l.n++
}

// sooner is the order of everything that is served oldest first.
func sooner(a time.Time, id execution.ID, b time.Time, other execution.ID) bool {
	if !a.Equal(b) {
		return a.Before(b)
	}
	return id < other
}

func (db *Database) unlink(i int32) {
	r := db.rows.at(i)
	if r.in == listNone {
		return
	}
	l := &db.lists[r.in]
	if r.prev != 0 {
		db.rows.at(r.prev - 1).next = r.next
	} else {
		l.first = r.next
	}
	if r.next != 0 {
		db.rows.at(r.next - 1).prev = r.prev
	} else {
		l.last = r.prev
	}
	l.n--
	r.prev, r.next, r.in = 0, 0, listNone
}

// each calls f for every row of a list, oldest first, until f returns false. f must not move rows.
func (db *Database) each(name listName, f func(*row) bool) {
	for i := db.lists[name].first; i != 0; i = db.rows.at(i - 1).next {
		if !f(db.rows.at(i - 1)) {
			return
		}
	}
}

// queue is the requested rows of one runtime: those without a limit of concurrency, and beside them those of
// each action with one, so that rows that wait for a slot are in nobody's way.
type queue struct {
	unlimited requests
	limited   []*limited
}

// limited is the requested rows of one action with a limit of concurrency.
type limited struct {
	action string
	requests
}

// request files a requested row under its runtime, by when it is due.
func (db *Database) request(r *row, now time.Time) {
	r.due = r.NotBefore
	if r.due.IsZero() {
		r.due = now
	}
	q := db.requests[r.Action.Runtime]
	if q == nil {
		q = new(queue)
		db.requests[r.Action.Runtime] = q
		i, _ := slices.BinarySearch(db.runtimes, r.Action.Runtime)
		db.runtimes = slices.Insert(db.runtimes, i, r.Action.Runtime)
	}
	to := &q.unlimited
	if r.Action.Concurrency > 0 {
		to = &q.of(r.Action.Ref).requests
	}
	to.push(request{r.due, r.ID, r.Epoch})
}

// of is the part of an action.
func (q *queue) of(action string) *limited {
	for _, l := range q.limited {
		if l.action == action {
			return l
		}
	}
	l := &limited{action: action}
	q.limited = append(q.limited, l)
	return l
}

// next takes the oldest row out that can be claimed now, nil for none.
func (q *queue) next(db *Database, now time.Time) *row {
	best := &q.unlimited
	oldest := best.first(db, now)
	for _, l := range q.limited {
		if !db.slots[l.action].room() {
			continue
		}
		if r := l.first(db, now); r != nil && (oldest == nil || sooner(r.due, r.ID, oldest.due, oldest.ID)) {
			best, oldest = &l.requests, r
		}
	}
	if oldest != nil {
		best.pop()
	}
	return oldest
}

// first is the row at the head if it is due, nil otherwise. Those whose rows have left otherwise (cancelled, or
// a status set by force) are dropped.
func (h *requests) first(db *Database, now time.Time) *row {
	for len(*h) > 0 && !(*h)[0].due.After(now) {
		head := (*h)[0]
		if r := db.row(head.id); r.Status == execution.Requested && r.Epoch == head.epoch {
			return r
		}
		h.pop()
	}
	return nil
}

// request is a row that waits to be scheduled.
type request struct {
	due   time.Time
	id    execution.ID
	epoch execution.Epoch
}

// requests is a binary heap by (due, id).
type requests []request

func (h requests) less(a, b int) bool { return sooner(h[a].due, h[a].id, h[b].due, h[b].id) }

func (h *requests) push(r request) {
	*h = append(*h, r)
	rows := *h
	for i := len(rows) - 1; i > 0; {
		up := (i - 1) / 2
		if !rows.less(i, up) {
			break
		}
		rows[i], rows[up] = rows[up], rows[i]
		i = up
	}
}

// pop removes the row at the head.
func (h *requests) pop() {
	rows := *h
	last := len(rows) - 1
	rows[0] = rows[last]
	rows = rows[:last]
	*h = rows
	for i := 0; ; {
		least := i
		for c := 2*i + 1; c <= 2*i+2 && c < last; c++ {
			if rows.less(c, least) {
				least = c
			}
		}
		if least == i {
			return
		}
		rows[i], rows[least] = rows[least], rows[i]
		i = least
	}
}
