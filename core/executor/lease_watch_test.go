package executor

import (
	"testing"
	"time"

	"handoff/core/execution"
	"handoff/core/store"
)

// If a worker's lease is over by the database's clock alone, an execution waits for it. The wait ends one
// lease, on this executor's clock, after the last new heartbeat.
func TestLeaseWatchWaitsFullExecutorLease(t *testing.T) {
	const lease, second = 30 * time.Second, time.Second
	shell := execution.Execution{Action: execution.Action{Runtime: "shell"}}
	pinned, elsewhere, python := shell, shell, shell
	pinned.Pinned, elsewhere.Pinned, python.Action.Runtime = 1, 2, "python"
	over := func(change func(*store.WorkerRow)) []store.WorkerRow {
		return []store.WorkerRow{fit(1, func(w *store.WorkerRow) {
			if w.LeaseOverFor = 1; change != nil {
				change(w)
			}
		})}
	}
	for _, c := range []struct {
		name    string
		workers []store.WorkerRow
		row     execution.Execution
		after   time.Duration
		want    bool
	}{
		{"at once", over(nil), shell, 0, true},
		{"just before the lease is over", over(nil), shell, lease - 1, true},
		{"when it is over", over(nil), shell, lease, false},
		{"what is pinned to it", over(nil), pinned, lease - 1, true},
		{"what is pinned to another one", over(nil), elsewhere, second, false},
		{"another runtime", over(nil), python, second, false},
		{"one that does not consume", over(func(w *store.WorkerRow) { w.ConsumerAlive = false }), shell, second, false},
		{"a cordoned one", over(func(w *store.WorkerRow) { w.Cordoned = true }), shell, second, false},
		{"one whose lease is valid", over(func(w *store.WorkerRow) { w.LeaseOverFor = 0 }), shell, second, false},
		{"after another heartbeat", over(func(w *store.WorkerRow) { w.Beat++ }), shell, second + lease - 1, true},
		{"long after another heartbeat", over(func(w *store.WorkerRow) { w.Beat++ }), shell, second + lease, false},
		{"after another start", over(func(w *store.WorkerRow) { w.Incarnation++ }), shell, second + lease - 1, true},
	} {
		l := leaseWatch{lease: lease}
		l.noteBeats(time.Hour, over(nil))
		l.noteBeats(time.Hour+min(second, c.after), c.workers)
		l.noteBeats(time.Hour+c.after, c.workers)
		if got := l.expectsWorker(time.Hour+c.after, c.workers, &c.row); got != c.want {
			t.Errorf("%s: expected is %v, want %v", c.name, got, c.want)
		}
	}
}
