package simstore

import (
	"slices"
	"time"

	"handoff/chaos/oracle"
	"handoff/core/execution"
	"handoff/core/store"
)

// Tx is raw access to the rows within one atomic step, without any guard. It exists for planted
// mutants: a statement without its guard is another statement, and the model runs it through a Tx.
type Tx struct{ s step }

// Locked reports whether another session has locked the row.
func (t *Tx) Locked(id execution.ID) bool { return t.s.isLocked(id) }

// LockedTable reports whether another session has locked a table, in any mode.
func (t *Tx) LockedTable(name string) bool {
	return slices.ContainsFunc(t.s.db.tables, func(l lockedTable) bool { return l.table == name })
}

// Named records the epoch that the mutated statement's caller named, and the incarnation that writes.
func (t *Tx) Named(key execution.Key, writer execution.Incarnation) {
	t.s.noteNamedEpoch(key)
	t.s.writer = writer
}

// Row returns the row for reading, or nil if there is none.
func (t *Tx) Row(id execution.ID) *execution.Execution {
	if r := t.s.db.row(id); r != nil {
		return &r.Execution
	}
	return nil
}

// Move changes a row's status without any guard.
func (t *Tx) Move(id execution.ID, to execution.Status, by execution.Part, reason execution.Reason, change func(*execution.Execution)) {
	r := t.s.db.row(id)
	if r == nil {
		return
	}
	t.s.changeStatus(r, to, by, reason, func(r *row) {
		if change != nil {
			change(&r.Execution)
		}
	})
}

// MoveTold is like Move, but the audit attributes the change to the row told, or to no row if told is 0.
func (t *Tx) MoveTold(id, told execution.ID, to execution.Status, by execution.Part, reason execution.Reason, change func(*execution.Execution)) {
	t.s.auditsOther, t.s.auditedID = true, told
	t.Move(id, to, by, reason, change)
	t.s.auditsOther = false
}

// Rewait changes how a requested row waits: its lane, and when it is due. It removes the row from all lanes
// if change is nil.
func (t *Tx) Rewait(id execution.ID, change func(*execution.Execution)) {
	r := t.s.db.row(id)
	if r == nil || r.Status != execution.Requested || r.AwaitsParent {
		return
	}
	t.s.db.dequeueRow(r)
	if change != nil {
		change(&r.Execution)
		t.s.db.enqueueRow(r, t.s.now)
	}
}

// Unlist removes an execution from the list of unhandled ends.
func (t *Tx) Unlist(id execution.ID) {
	if r := t.s.db.row(id); r != nil && oracle.Terminal(r.Status) {
		t.s.db.unlinkRow(int32(id - 1))
	}
}

// MarkPublished marks a row's dispatch as published, whatever the row's state.
func (t *Tx) MarkPublished(id execution.ID) {
	if r := t.s.db.row(id); r != nil {
		t.s.markPublished(r)
	}
}

// Now returns the time of the database's clock.
func (t *Tx) Now() time.Time { return t.s.now }

// Rows returns the number of rows; their ids are 1 to Rows.
func (t *Tx) Rows() int { return t.s.db.rows.n }

// HandleTerminal commits terminal handling without checking whether it was done before.
func (t *Tx) HandleTerminal(id execution.ID, retry *store.Retry) execution.ID {
	r := t.s.db.row(id)
	if r == nil || !oracle.Terminal(r.Status) {
		return 0
	}
	if retry != nil {
		delete(t.s.db.retries, retryKey{r.Chain(), retry.Count})
	}
	return t.s.handleTerminal(r, retry).Retry
}

// HandleKeepingSlot commits terminal handling that does not free the row's concurrency slot.
func (t *Tx) HandleKeepingSlot(id execution.ID, retry *store.Retry) execution.ID {
	r := t.s.db.row(id)
	if r == nil {
		return 0
	}
	slot := r.slot
	r.slot = 0
	next := t.HandleTerminal(id, retry)
	t.s.db.row(id).slot = slot
	return next
}

// HandleChildless commits terminal handling as if the row's chain had no children.
func (t *Tx) HandleChildless(id execution.ID) {
	r := t.s.db.row(id)
	if r == nil {
		return
	}
	first := t.s.db.row(r.Chain())
	had := first.hasChildren
	first.hasChildren = false
	t.HandleTerminal(id, nil)
	first.hasChildren = had
}

// TakeSlot gives a concurrency slot of its action to a row that has none.
func (t *Tx) TakeSlot(id execution.ID) {
	if r := t.s.db.row(id); r != nil && r.slot == 0 && t.s.db.slots[r.Action.Ref] != nil {
		t.s.takeSlot(r)
	}
}

// SettleChildren starts or skips the children of a row's chain depending on how that row has ended,
// whether or not the chain continues.
func (t *Tx) SettleChildren(id execution.ID) {
	if r := t.s.db.row(id); r != nil {
		t.s.settleChildren(r.Chain(), r.Status, len(t.s.db.children[r.Chain()]))
	}
}

// Children returns the number of children that wait for a row's chain.
func (t *Tx) Children(id execution.ID) (waiting int) {
	if r := t.s.db.row(id); r != nil {
		for _, child := range t.s.db.children[r.Chain()] {
			if r := t.s.db.row(child); r != nil && r.AwaitsParent {
				waiting++
			}
		}
	}
	return waiting
}

// RequestCancel only records the request to cancel a row's chain.
func (t *Tx) RequestCancel(id execution.ID) {
	if r := t.s.db.row(id); r != nil {
		t.s.requestCancel(t.s.db.row(r.Chain()), r, "")
	}
}

// FreeSlot frees a row's concurrency slot, whatever the row's state.
func (t *Tx) FreeSlot(id execution.ID) {
	if r := t.s.db.row(id); r != nil {
		t.s.freeSlot(r)
	}
}

// FreeAnySlot frees the first held slot of an action, whoever holds it, like decrementing a counter. It
// returns the holder, 0 if there was none.
func (t *Tx) FreeAnySlot(action string) (holder execution.ID) {
	of := t.s.db.slots[action]
	if of == nil {
		return 0
	}
	for _, holder := range of.holders {
		if holder != 0 {
			t.FreeSlot(holder)
			return holder
		}
	}
	return 0
}

// Create inserts an execution without checking its key or the state of its parent's chain: a child
// may then wait for an end that was already handled.
func (t *Tx) Create(item store.NewExecution) store.Created {
	db := t.s.db
	action, known := db.actions[item.ActionRef]
	if !known {
		return store.Created{UnknownAction: true}
	}
	e := execution.Execution{
		Action: oracle.Limited(action, item.Limits), Limits: item.Limits, Parameters: item.Parameters, IdempotencyKey: item.IdempotencyKey, Pinned: item.Pinned,
	}
	if parent := db.row(item.Parent); parent != nil {
		e.Parent, e.AwaitsParent = parent.Chain(), true
	}
	id := t.s.insertRow(e, execution.API)
	if e.AwaitsParent {
		db.children[e.Parent] = append(db.children[e.Parent], id)
		db.row(e.Parent).hasChildren = true
	}
	if item.IdempotencyKey != "" {
		db.byKey[item.IdempotencyKey] = id
	}
	return store.Created{ID: id}
}

// Keyed returns the execution created under an idempotency key, or 0 if there is none.
func (t *Tx) Keyed(key string) execution.ID { return t.s.db.byKey[key] }

// Purge deletes the ended chain that begins with a row, even if it is still needed.
func (t *Tx) Purge(first execution.ID) { t.s.removeChain(first, 0) }
