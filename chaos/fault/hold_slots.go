package fault

import (
	"time"

	"handoff/core/config/yamlfile"
)

func init() {
	Register(Kind{
		Name: "hold_slots", Ends: ByItself, Edits: true,
		About:   "somebody edits the database by hand, and concurrency slots stay with executions that have ended",
		Example: "hold_slots: {count: 5}",
		Keys:    []yamlfile.Key{yamlfile.Required("count", "how many", yamlfile.IntegerSchema(1, mostHeld))},
	}, (*holdSlots).inject)
}

const (
	// mostHeld is the largest number of slots that one fault can take. heldWithin limits the wait for
	// executions that have ended.
	mostHeld   = 1000
	heldWithin = 2 * time.Minute
	// freedWithin is how long the fault counts as lasting if nothing frees its slots.
	freedWithin = 10 * time.Minute
)

type holdSlots struct {
	databaseFault
	Count int
}

// Read implements Fault.
func (h *holdSlots) Read(r *Reader) {
	if n := r.At("count"); n != nil {
		count, _ := r.Integer(n, "count", 1, mostHeld)
		h.Count = int(count)
	}
}

// Describe implements Describer.
func (*holdSlots) Describe() string { return "edit slots" }

func (h *holdSlots) inject(x *Injection, w SlotEdits) (func(), error) {
	left := h.Count
	var next func(within time.Duration)
	next = func(within time.Duration) {
		held := w.HoldSlots(x, left)
		if held > 0 {
			x.Touch(Touched{Process: Database})
		}
		if left -= held; left == 0 || within <= 0 {
			x.endWhenFreed(w, freedWithin)
			return
		}
		x.After(time.Second, func() { next(within - time.Second) })
	}
	next(heldWithin)
	return nil, nil
}

// endWhenFreed ends the fault when every slot that it took is free, or after within.
func (i *Injection) endWhenFreed(w SlotEdits, within time.Duration) {
	if w.HeldSlots() == 0 || within <= 0 {
		i.End()
		return
	}
	i.After(time.Second, func() { i.endWhenFreed(w, within-time.Second) })
}
