package simstore

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"handoff/core/execution"
	"handoff/core/store"
)

// lane identifies the rows that wait for the same workers: those of one runtime, pinned to one
// worker or (0) to none.
type lane struct {
	runtime string
	pinned  execution.WorkerID
}

// queue holds the requested rows of one lane. The rows of each action with a concurrency limit have
// their own heap, so that rows that wait for a slot block no others.
type queue struct {
	lane
	unlimited requests
	limited   []*limitedRequests
}

// limitedRequests holds the requested rows of one action with a concurrency limit.
type limitedRequests struct {
	action string
	requests
}

// enqueueRow adds a requested row to its lane, ordered by when it is due.
func (da *Database) enqueueRow(r *row, now time.Time) {
	r.due = r.NotBefore
	if r.due.IsZero() {
		r.due = now
	}
	of := lane{r.Action.Runtime, r.Pinned}
	q := da.requests[of]
	if q == nil {
		q = &queue{lane: of}
		da.requests[of] = q
		i, _ := slices.BinarySearchFunc(da.lanes, of, func(q *queue, of lane) int {
			return cmp.Or(strings.Compare(q.runtime, of.runtime), cmp.Compare(q.pinned, of.pinned))
		})
		da.lanes = slices.Insert(da.lanes, i, q)
	}
	to := &q.unlimited
	if r.Action.Concurrency > 0 {
		to = &q.limitedQueue(r.Action.Ref).requests
	}
	to.push(request{r.due, r.ID, r.Epoch})
}

// dequeueRow removes a requested row from its lane.
func (da *Database) dequeueRow(r *row) {
	q := da.requests[lane{r.Action.Runtime, r.Pinned}]
	from := &q.unlimited
	if r.Action.Concurrency > 0 {
		from = &q.limitedQueue(r.Action.Ref).requests
	}
	var kept requests
	for _, other := range *from {
		if other.id != r.ID {
			kept.push(other)
		}
	}
	*from = kept
}

// limitedQueue returns the heap of an action.
func (q *queue) limitedQueue(action string) *limitedRequests {
	for _, l := range q.limited {
		if l.action == action {
			return l
		}
	}
	l := &limitedRequests{action: action}
	q.limited = append(q.limited, l)
	return l
}

// claimScratch is the scratch space of ClaimForScheduling, reused by the next call.
type claimScratch struct {
	wants   []laneDemand
	named   map[lane]int // indexes into wants, plus 1
	workers map[execution.WorkerID]share
	pools   []share
	found   []candidate
}

// laneDemand is the merged demand for one lane.
type laneDemand struct {
	lane
	limit, pool int
}

// share is the room for rows at a worker or in a pool, and the number of rows that have asked for it.
type share struct{ room, asked int }

// reserveOne takes room for one more row, and reports whether there was any.
func (s *share) reserveOne() bool {
	s.asked++
	return s.asked <= s.room
}

// candidate is a row that was removed from its heap and may be returned to it.
type candidate struct {
	request
	from *requests
	// slots are the concurrency slots of its action, or nil if it needs none. free is the number of them that
	// were free.
	slots *slots
	free  int
	want  *laneDemand
}

// mergeDemands adds up the demands for each lane.
func (c *claimScratch) mergeDemands(claim *store.SchedulingClaim) {
	if c.named == nil {
		c.named, c.workers = make(map[lane]int), make(map[execution.WorkerID]share)
	}
	clear(c.named)
	clear(c.workers)
	c.wants, c.pools = c.wants[:0], c.pools[:0]
	for _, room := range claim.Pools {
		c.pools = append(c.pools, share{room: room})
	}
	for _, d := range claim.Demands {
		of := lane{d.Runtime, d.Pinned}
		at := c.named[of]
		if at == 0 {
			c.wants = append(c.wants, laneDemand{lane: of, pool: d.Pool})
			at = len(c.wants)
			c.named[of] = at
		}
		w := &c.wants[at-1]
		w.limit += max(0, d.Limit)
		if d.Pinned != 0 && w.limit > c.workers[d.Pinned].room {
			c.workers[d.Pinned] = share{room: w.limit}
		}
	}
}

// takeDueRows removes the oldest due rows from a queue: at most limit rows of actions without a concurrency
// limit, and at most limit rows of each action with one. Of the latter it takes no more than there are free
// slots.
func (c *claimScratch) takeDueRows(db *Database, q *queue, limit int, now time.Time, w *laneDemand) {
	take := func(from *requests, slots *slots, free int) {
		for range min(limit, free) {
			r := from.dueHead(db, now)
			if r == nil {
				return
			}
			c.found = append(c.found, candidate{(*from)[0], from, slots, free, w})
			from.pop()
		}
	}
	take(&q.unlimited, nil, limit)
	for _, l := range q.limited {
		of := db.slots[l.action]
		of.asked = 0
		if of.limit == 0 {
			take(&l.requests, nil, limit)
		} else if len(l.requests) > 0 {
			take(&l.requests, of, of.vacantCount())
		}
	}
}

// sortOldestFirst sorts the candidates from an index on in the order in which they are served.
func (c *claimScratch) sortOldestFirst(from int) {
	slices.SortFunc(c.found[from:], func(a, b candidate) int { return cmp.Or(a.due.Compare(b.due), cmp.Compare(a.id, b.id)) })
}

// putBack returns a row that is not claimed to its heap.
func (c *candidate) putBack() { c.from.push(c.request) }

// reserveSlot counts a row that needs a slot of the action, and reports whether a slot is left for it.
func (c *candidate) reserveSlot() bool {
	if c.slots == nil {
		return true
	}
	c.slots.asked++
	return c.slots.asked <= c.free
}

// reserveRoom takes, in the same order as the real database, a slot, room at the worker that the row is
// pinned to, and room in its pool. It returns whether it got all.
func (c *claimScratch) reserveRoom(x *candidate) bool {
	if !x.reserveSlot() {
		return false
	}
	if x.want.pinned != 0 {
		worker := c.workers[x.want.pinned]
		fits := worker.reserveOne()
		c.workers[x.want.pinned] = worker
		if !fits {
			return false
		}
	}
	return x.want.pool < 0 || x.want.pool >= len(c.pools) || c.pools[x.want.pool].reserveOne()
}

// dueHead returns the row at the head if it is due, and otherwise nil. It drops entries whose rows are no
// longer requested at that epoch (cancelled, set by force, or gone).
func (re *requests) dueHead(db *Database, now time.Time) *row {
	for len(*re) > 0 && !(*re)[0].due.After(now) {
		head := (*re)[0]
		// WriteForeign restores the entry of an unreadable row.
		if r := db.row(head.id); r != nil && r.Status == execution.Requested && r.Epoch == head.epoch && db.foreign[head.id] == "" {
			return r
		}
		re.pop()
	}
	return nil
}

// request is the heap entry of a row that waits to be scheduled.
type request struct {
	due   time.Time
	id    execution.ID
	epoch execution.Epoch
}

// requests is a binary heap by (due, id).
type requests []request

func (re requests) less(a, b int) bool { return comesBefore(re[a].due, re[a].id, re[b].due, re[b].id) }

func (re *requests) push(r request) {
	*re = append(*re, r)
	rows := *re
	for i := len(rows) - 1; i > 0; {
		up := (i - 1) / 2
		if !rows.less(i, up) {
			break
		}
		rows[i], rows[up] = rows[up], rows[i]
		i = up
	}
}

// pop removes the entry at the head.
func (re *requests) pop() {
	rows := *re
	last := len(rows) - 1
	rows[0] = rows[last]
	rows = rows[:last]
	*re = rows
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
