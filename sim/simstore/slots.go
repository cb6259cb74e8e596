package simstore

import (
	"context"
	"time"

	"handoff/chaos/history"
	"handoff/chaos/oracle"
	"handoff/core/execution"
)

// slots are the concurrency slots of one action: the element at index number - 1 is the slot's holder, or 0
// if it is free.
type slots struct {
	limit   int
	holders []execution.ID
	// asked counts the rows that requested a slot during a claim for scheduling.
	asked int
}

// resize applies a new limit. Slots beyond it are removed when they become free.
func (s *slots) resize(limit int) {
	s.limit = limit
	for len(s.holders) < limit {
		s.holders = append(s.holders, 0)
	}
	for n := len(s.holders); n > limit && s.holders[n-1] == 0; n-- {
		s.holders = s.holders[:n-1]
	}
}

// firstFree returns the number of the first free slot, or 0 if there is none.
func (s *slots) firstFree() int {
	for i, holder := range s.holders[:min(s.limit, len(s.holders))] {
		if holder == 0 {
			return i + 1
		}
	}
	return 0
}

// heldCount returns the number of held slots.
func (s *slots) heldCount() (n int) {
	for _, holder := range s.holders {
		if holder != 0 {
			n++
		}
	}
	return n
}

// vacantCount returns the number of free slots.
func (s *slots) vacantCount() (n int) {
	for _, holder := range s.holders[:min(s.limit, len(s.holders))] {
		if holder == 0 {
			n++
		}
	}
	return n
}

// takeSlot gives a row the first free slot of its action, or no slot if the limit was lifted.
func (s *step) takeSlot(r *row) {
	of := s.db.slots[r.Action.Ref]
	if r.slot = of.firstFree(); r.slot == 0 {
		return
	}
	of.holders[r.slot-1] = r.ID
	s.slotEvent(history.SlotTaken, r.ID, r.Action.Ref, r.slot)
}

// freeSlot frees the slot that a row holds, if any.
func (s *step) freeSlot(r *row) {
	if r.slot == 0 {
		return
	}
	of := s.db.slots[r.Action.Ref]
	of.holders[r.slot-1] = 0
	s.slotEvent(history.SlotFreed, r.ID, r.Action.Ref, r.slot)
	r.slot = 0
	of.resize(of.limit)
}

func (s *step) slotEvent(kind history.Kind, id execution.ID, action string, number int) {
	s.db.emit(&history.Event{Kind: kind, Process: s.process, Execution: id, Action: action, Count: int64(number)})
}

// HoldSlots gives free slots to ended executions, as a manual edit could, for the fault of that name. It
// returns how many.
func (da *Database) HoldSlots(fault string, most int) (held int) {
	for i := range da.rows.n {
		r := da.rows.rowAt(int32(i))
		of := da.slots[r.Action.Ref]
		if held == most || r.slot != 0 || of == nil || r.mayHold() || !oracle.Terminal(r.Status) || of.firstFree() == 0 {
			continue
		}
		r.slot = of.firstFree()
		of.holders[r.slot-1] = r.ID
		held++
		da.emit(&history.Event{Kind: history.SlotTaken, Execution: r.ID, Action: r.Action.Ref, Count: int64(r.slot), Fault: fault})
	}
	return held
}

// HeldSlots returns the number of slots held by executions that must not hold any.
func (da *Database) HeldSlots() (held int) {
	for _, ref := range da.limits {
		for _, id := range da.slots[ref].holders {
			if r := da.row(id); r != nil && !r.mayHold() {
				held++
			}
		}
	}
	return held
}

// mayHold reports whether a row is between its scheduling and the handling of its end.
func (r *row) mayHold() bool {
	return r.Status != execution.Requested && r.OrchestratedAt.IsZero()
}

// Clock implements store.Executor.
func (c *Client) Clock(ctx context.Context) (time.Time, error) {
	return readStep(ctx, c, "Clock", func(s *step) time.Time { return s.now })
}

// FreeSlots implements store.Executor.
func (c *Client) FreeSlots(ctx context.Context, limit int) ([]execution.ID, error) {
	return writeStep(ctx, c, "FreeSlots", func(s *step) (freed []execution.ID) {
		for _, ref := range s.db.limits {
			for _, id := range s.db.slots[ref].holders {
				if r := s.db.row(id); r != nil && !r.mayHold() && len(freed) < limit {
					freed = append(freed, id)
					s.freeSlot(r)
				}
			}
		}
		return freed
	})
}
