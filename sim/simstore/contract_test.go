package simstore

import (
	"testing"
	"time"

	"handoff/chaos/conformance/storetest"
)

// The model keeps the contract that PostgreSQL keeps.
func TestContract(t *testing.T) { storetest.Run(t, model) }

func model(t *testing.T, body func(s storetest.Subject)) {
	within(t, func(b *fixture) {
		body(storetest.Subject{Store: b.c, Advance: func(d time.Duration) {
			if d > 0 {
				b.sleep(d)
			} else {
				b.db.StepClock(d)
			}
		}})
	})
}
