package postgres_test

import (
	"testing"

	"handoff/core/store/storetest"
)

// The contract that the model of the simulated world keeps too. All cases share a database, emptied
// before each.
func TestContract(t *testing.T) {
	b := setup(t)
	storetest.Run(t, func(_ *testing.T, body func(storetest.Subject)) {
		b.exec(`truncate action, worker, worker_incarnation, execution, dead_letter, refused_result, execution_transition restart identity`)
		body(storetest.Subject{Store: b.Store, Advance: b.sleep})
	})
}
