package executor

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"handoff/core/config"
	"handoff/core/execution"
	"handoff/core/store"
)

// A row goes to the least loaded worker that fits and has room. It goes to the worker that it avoids only if
// there is no other. Every demanded row can be placed.
func TestSelectionRoutesToFittingWorker(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		runtimes := []string{"shell", "python"}
		workers := make([]store.WorkerRow, rapid.IntRange(0, 5).Draw(t, "workers"))
		for i := range workers {
			workers[i] = store.WorkerRow{
				WorkerKey: store.WorkerKey{ID: execution.WorkerID(i + 1), Incarnation: execution.Incarnation(i + 1)},
				Lifecycle: rapid.SampledFrom([]execution.Lifecycle{execution.Active, execution.Draining, execution.Lost}).Draw(t, "lifecycle"),
				Runtimes:  rapid.SliceOfNDistinct(rapid.SampledFrom(runtimes), 1, 2, rapid.ID[string]).Draw(t, "runtimes"),
				Capacity:  rapid.IntRange(1, 3).Draw(t, "capacity"), Load: rapid.IntRange(0, 4).Draw(t, "load"),
				ConsumerAlive: rapid.Bool().Draw(t, "consumer"), LeaseOverFor: time.Duration(rapid.IntRange(-1, 1).Draw(t, "lease")),
			}
		}
		ahead := rapid.IntRange(0, 2).Draw(t, "ahead")
		c := config.Default(config.Hardened)
		c.Executor.DispatchAhead = ahead
		f := newRoster(workers, c, &probes{}, func(n uint64) uint64 { return rapid.Uint64Range(0, n-1).Draw(t, "lot") })
		row := &execution.Execution{Action: execution.Action{Runtime: rapid.SampledFrom(runtimes).Draw(t, "runtime")}, Avoid: execution.WorkerID(rapid.IntRange(0, 5).Draw(t, "avoid"))}
		before := make([]int, len(workers))
		for i := range workers {
			before[i] = workers[i].Load
		}
		demanded := 0
		demands, _ := f.buildDemands(100)
		for _, d := range demands {
			if d.Runtime == row.Action.Runtime && d.Pinned == 0 {
				demanded = d.Limit
			}
		}
		at, _ := f.chooseWorker(row)
		if (at >= 0) != (demanded > 0) {
			t.Fatalf("%d rows are demanded, and the choice is %d", demanded, at)
		}
		if at < 0 {
			return
		}
		w := &workers[at]
		load := before[w.ID-1]
		if !w.Fits(row.Action.Runtime) || load >= w.Capacity+ahead || w.Load != load+1 {
			t.Fatalf("chosen is %+v, which had a load of %d", w, load)
		}
		for i := range workers {
			other := &workers[i]
			if other.ID == w.ID || !other.Fits(row.Action.Runtime) || before[i] >= other.Capacity+ahead {
				continue
			}
			if w.ID == row.Avoid || other.ID != row.Avoid && before[i] < load {
				t.Fatalf("worker %d (load %d) was chosen over worker %d (load %d); %d is to be avoided", w.ID, load, other.ID, before[i], row.Avoid)
			}
		}
	})
}
