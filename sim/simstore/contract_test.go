package simstore

import (
	"testing"
	"time"

	"handoff/chaos/selftest/conformance/storetest"
	"handoff/core/execution"
)

// The model satisfies the same contract as PostgreSQL.
func TestContract(t *testing.T) { storetest.Run(t, model) }

func model(t *testing.T, body func(s storetest.Subject)) {
	within(t, func(b *fixture) {
		edited := func(edit func(tx *Tx, id execution.ID)) func(id execution.ID) {
			return func(id execution.ID) {
				if err := b.db.Detached().Step(t.Context(), func(tx *Tx) { edit(tx, id) }); err != nil {
					t.Error(err)
				}
			}
		}
		body(storetest.Subject{
			Store: b.c, Advance: func(d time.Duration) {
				if d > 0 {
					b.sleep(d)
				} else {
					b.db.StepClock(d)
				}
			},
			Foreign:   b.db.WriteForeign,
			LeaveSlot: edited(func(tx *Tx, id execution.ID) { tx.HandleKeepingSlot(id, nil) }), TakeSlot: edited((*Tx).TakeSlot),
		})
	})
}
