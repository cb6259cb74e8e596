package executor

import (
	"testing"
	"time"

	"handoff/core/config"
	"handoff/core/execution"
	"handoff/core/store"
)

// A worker that can't be read gets no work, and its executions wait for a program that can read it:
// while the worker exists, nothing fails for lack of a worker.
func TestAWorkerThatCantBeReadGetsNoWorkAndIsNotMissing(t *testing.T) {
	row := execution.Execution{Action: execution.Action{Runtime: "shell"}}
	strange := fit(1, func(w *store.WorkerRow) { w.Unreadable = "capabilities is a JSON string, must be an object" })
	unknown := fit(1, func(w *store.WorkerRow) {
		w.Lifecycle, w.Unreadable = execution.NoLifecycle, `unknown lifecycle "hibernating"`
	})
	for _, w := range []store.WorkerRow{strange, unknown} {
		workers := []store.WorkerRow{w}
		f := newRoster(workers, config.Default(config.Hardened), &probes{}, func(uint64) uint64 { return 0 })
		if demands, _ := f.demands(100); len(demands) != 0 {
			t.Errorf("%s: it is asked for: %+v", w.Unreadable, demands)
		}
		leases := leaseWatch{lease: time.Minute}
		leases.look(time.Hour, workers)
		if !leases.expected(time.Hour+time.Second, workers, &row) {
			t.Errorf("%s: it counts as missing", w.Unreadable)
		}
		other := execution.Execution{Action: execution.Action{Runtime: "python"}}
		if leases.expected(time.Hour+time.Second, workers, &other) {
			t.Errorf("%s: it counts for a runtime that it lacks", w.Unreadable)
		}
	}
}

// If a worker's lifecycle is a newer program's value, this program does not know whether its lease
// counts.
func TestAWorkerOfAnUnknownLifecycleIsNotReaped(t *testing.T) {
	c := config.Default(config.Hardened)
	m := &leaseMonitor{Service: &Service{config: c, host: &still{}}, watched: make(map[execution.WorkerID]watch), brake: *newBrake()}
	over := func(lifecycle execution.Lifecycle) int {
		workers := []store.WorkerRow{fit(1, func(w *store.WorkerRow) { w.Lifecycle, w.LeaseOverFor, w.Unreadable = lifecycle, time.Hour, "x" })}
		m.host = &still{now: time.Hour}
		m.survey(workers)
		m.host = &still{now: time.Hour + 2*c.Worker.Lease()}
		found, _ := m.survey(workers)
		return len(found)
	}
	if n := over(execution.NoLifecycle); n != 0 {
		t.Errorf("%d were over", n)
	}
	if n := over(execution.Active); n != 1 {
		t.Errorf("%d were over of one that is active, whatever else of it can't be read", n)
	}
}
