package executor

import (
	"testing"
	"time"

	"handoff/core/execution"
	"handoff/core/store"
)

func TestAbsenceRestartsAfterLongPause(t *testing.T) {
	a := absences{patience: 20 * time.Second}
	shell := execution.Execution{Action: execution.Action{Runtime: "shell"}}
	pinned := execution.Execution{Action: execution.Action{Runtime: "shell"}, Pinned: 7}
	nobody := &roster{}
	somebody := &roster{workers: []store.WorkerRow{{
		WorkerKey: store.WorkerKey{ID: 3, Incarnation: 1}, Lifecycle: execution.Active, ConsumerAlive: true, Runtimes: []string{"shell"},
	}}}
	step := func(at time.Duration, f *roster, row *execution.Execution, least, most time.Duration) {
		t.Helper()
		a.noteRoster(at*time.Second, f)
		if row == nil {
			return
		}
		if l, m := a.absenceBounds(row); l != least*time.Second || m != most*time.Second {
			t.Errorf("at %d s nobody has come for %v to %v, want %d s to %d s", at, l, m, least, most)
		}
	}
	step(100, nobody, &shell, 0, 0)
	step(110, nobody, nil, 0, 0)
	step(125, nobody, &shell, 25, 0)
	step(125, nobody, &pinned, 25, 0)
	step(140, somebody, &pinned, 40, 0)
	step(150, nobody, &shell, 0, 10)
	step(150, nobody, &pinned, 50, 0)
	step(160, nobody, &shell, 10, 20)
	step(165, somebody, nil, 0, 0)
	step(166, nobody, &shell, 0, 1)
	step(186, nobody, &shell, 20, 21)
	avoiding := shell
	avoiding.Avoid = 3
	step(186, nobody, &avoiding, 20, 21) // the same requirement, so its absence is as long
	step(207, nobody, &shell, 0, 0)      // the pause was longer than patience
	step(207, nobody, &pinned, 0, 0)
}
