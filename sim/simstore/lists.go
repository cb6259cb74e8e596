package simstore

import (
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

// list is a doubly linked list through the rows, in the order in which they came to it: the model's
// partial index.
type list struct {
	first, last int32 // indices + 1
	n           int
}

func (db *Database) push(name listName, i int32) {
	r := &db.rows[i]
	r.in = name
	if name == listNone {
		return
	}
	l := &db.lists[name]
	r.prev, r.next = l.last, 0
	if l.last != 0 {
		db.rows[l.last-1].next = i + 1
	} else {
		l.first = i + 1
	}
	l.last = i + 1
	l.n++
}

func (db *Database) unlink(i int32) {
	r := &db.rows[i]
	if r.in == listNone {
		return
	}
	l := &db.lists[r.in]
	if r.prev != 0 {
		db.rows[r.prev-1].next = r.next
	} else {
		l.first = r.next
	}
	if r.next != 0 {
		db.rows[r.next-1].prev = r.prev
	} else {
		l.last = r.prev
	}
	l.n--
	r.prev, r.next, r.in = 0, 0, listNone
}

// each calls f for every row of a list, oldest first, until f returns false. f must not move rows.
func (db *Database) each(name listName, f func(*row) bool) {
	for i := db.lists[name].first; i != 0; i = db.rows[i-1].next {
		if !f(&db.rows[i-1]) {
			return
		}
	}
}

// ready is the queue of due requested rows of one runtime, oldest first. Rows that left it
// otherwise (a status set by force) are dropped when they come up.
type ready struct {
	ids  []execution.ID
	head int
}

func (q *ready) len() int { return len(q.ids) - q.head }

func (q *ready) push(id execution.ID) {
	if q.head > 1024 && q.head*2 > len(q.ids) {
		q.ids = append(q.ids[:0], q.ids[q.head:]...)
		q.head = 0
	}
	q.ids = append(q.ids, id)
}

// request files a requested row: due now, or waiting for its moment.
func (db *Database) request(r *row, now time.Time) {
	if r.NotBefore.After(now) {
		db.waiting.push(waitingRow{r.NotBefore, r.ID, r.Epoch})
		return
	}
	q := db.requests[r.Action.Runtime]
	if q == nil {
		q = new(ready)
		db.requests[r.Action.Runtime] = q
		db.runtimes = append(db.runtimes, r.Action.Runtime)
	}
	q.push(r.ID)
	db.due++
}

// ripen moves rows whose moment has come to their queues.
func (db *Database) ripen(now time.Time) {
	for db.waiting.len() > 0 && !db.waiting.rows[0].at.After(now) {
		w := db.waiting.pop()
		if r := db.row(w.id); r.Status == execution.Requested && r.Epoch == w.epoch {
			db.request(r, now)
		}
	}
}

// unripen files every requested row anew after the clock went backwards: what was due may not be any more.
func (db *Database) unripen() {
	now := db.now()
	for _, runtime := range db.runtimes {
		q := db.requests[runtime]
		ids := q.ids[q.head:]
		db.due -= len(ids)
		q.ids, q.head = nil, 0
		for _, id := range ids {
			if r := db.row(id); r.Status == execution.Requested {
				db.request(r, now)
			}
		}
	}
}

// waitingRow is a requested row that is due later.
type waitingRow struct {
	at    time.Time
	id    execution.ID
	epoch execution.Epoch
}

// waitingHeap is a binary heap by (at, id).
type waitingHeap struct{ rows []waitingRow }

func (h *waitingHeap) len() int { return len(h.rows) }

func (h *waitingHeap) less(a, b int) bool {
	x, y := h.rows[a], h.rows[b]
	if !x.at.Equal(y.at) {
		return x.at.Before(y.at)
	}
	return x.id < y.id
}

func (h *waitingHeap) push(w waitingRow) {
	h.rows = append(h.rows, w)
	for i := len(h.rows) - 1; i > 0; {
		up := (i - 1) / 2
		if !h.less(i, up) {
			break
		}
		h.rows[i], h.rows[up] = h.rows[up], h.rows[i]
		i = up
	}
}

func (h *waitingHeap) pop() waitingRow {
	top := h.rows[0]
	last := len(h.rows) - 1
	h.rows[0] = h.rows[last]
	h.rows = h.rows[:last]
	for i := 0; ; {
		least := i
		for c := 2*i + 1; c <= 2*i+2 && c < last; c++ {
			if h.less(c, least) {
				least = c
			}
		}
		if least == i {
			return top
		}
		h.rows[i], h.rows[least] = h.rows[least], h.rows[i]
		i = least
	}
}
