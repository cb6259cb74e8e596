package executor

import (
	"testing"
	"time"

	"handoff/core/execution"
	"handoff/core/store"
)

func TestAbsenceLastsWhileNobodyComesAndSomebodyLooks(t *testing.T) {
	a := absences{patience: 20 * time.Second}
	shell := execution.Execution{Action: execution.Action{Runtime: "shell"}}
	pinned := execution.Execution{Action: execution.Action{Runtime: "shell"}, Pinned: 7}
	nobody := &roster{}
	somebody := &roster{workers: []store.WorkerRow{{
		WorkerKey: store.WorkerKey{ID: 3, Incarnation: 1}, Lifecycle: execution.Active, ConsumerAlive: true, Runtimes: []string{"shell"},
	}}}
	step := func(at time.Duration, f *roster, row *execution.Execution, want time.Duration) {
		t.Helper()
		a.look(at*time.Second, f)
		if row == nil {
			return
		}
		if got := a.of(row); got != want*time.Second {
			t.Errorf("at %d s nobody has come for %v, want %d s", at, got, want)
		}
	}
	step(100, nobody, &shell, 0)
	step(110, nobody, nil, 0)
	step(125, nobody, &shell, 25)
	step(125, nobody, &pinned, 0)
	step(140, somebody, &pinned, 15)
	step(150, nobody, &shell, 0)
	step(150, nobody, &pinned, 25)
	step(171, nobody, &pinned, 0)
}
