package executor

import (
	"fmt"

	"handoff/core/execution"
	"handoff/core/store"
)

// fleet is the workers as the database counted them, less what this pass has placed since.
type fleet struct {
	workers []store.WorkerRow
	ahead   int
	draw    func(uint64) uint64
}

func newFleet(workers []store.WorkerRow, ahead int, draw func(uint64) uint64) *fleet {
	return &fleet{workers: workers, ahead: ahead, draw: draw}
}

func (f *fleet) room(w *store.WorkerRow) int { return max(0, w.Capacity+f.ahead-w.Load) }

// demands asks for as many rows of each runtime as its fitting workers have room for. A runtime
// whose workers are full is named with no demand, so that nothing of it is claimed.
func (f *fleet) demands(most int) []store.Demand {
	var demands []store.Demand
	index := make(map[string]int)
	for i := range f.workers {
		w := &f.workers[i]
		for _, r := range w.Runtimes {
			if !w.Fits(r) {
				continue
			}
			at, known := index[r]
			if !known {
				at = len(demands)
				index[r] = at
				demands = append(demands, store.Demand{Runtime: r})
			}
			demands[at].Limit = min(most, demands[at].Limit+f.room(w))
		}
	}
	return demands
}

// fitting counts the workers that may be given an execution of this runtime, full or not.
func (f *fleet) fitting(runtime string) (n int) {
	for i := range f.workers {
		if f.workers[i].Fits(runtime) {
			n++
		}
	}
	return n
}

// choose takes the fitting worker with the smallest load that has room, one of several by lot, and
// counts the row as placed. The worker that the row should avoid is only taken when no other fits.
// It returns nil when nobody has room.
func (f *fleet) choose(row *execution.Execution) *store.WorkerRow {
	var best *store.WorkerRow
	var ties uint64
	better := func(w *store.WorkerRow) bool {
		if avoid, bestAvoid := w.ID == row.Avoid, best.ID == row.Avoid; avoid != bestAvoid {
			return bestAvoid
		}
		return w.Load < best.Load
	}
	equal := func(w *store.WorkerRow) bool {
		return w.Load == best.Load && (w.ID == row.Avoid) == (best.ID == row.Avoid)
	}
	for i := range f.workers {
		w := &f.workers[i]
		if !w.Fits(row.Action.Runtime) || f.room(w) == 0 {
			continue
		}
		switch {
		case best == nil || better(w):
			best, ties = w, 1
		case equal(w):
			// Each of n equals is kept with probability 1/n.
			if ties++; f.draw(ties) == 0 {
				best = w
			}
		}
	}
	if best != nil {
		best.Load++
	}
	return best
}

// explain says how many workers each filter removed, in the order of the filters.
func (f *fleet) explain(runtime string) string {
	var noRuntime, inactive, stale, deaf int
	for i := range f.workers {
		w := &f.workers[i]
		switch {
		case !w.Runs(runtime):
			noRuntime++
		case w.Lifecycle != execution.Active:
			inactive++
		case !w.LeaseValid():
			stale++
		case !w.ConsumerAlive:
			deaf++
		}
	}
	text := fmt.Sprintf("of %d workers, %d lack the runtime %q, %d are not active, %d have a stale heartbeat, %d do not consume",
		len(f.workers), noRuntime, runtime, inactive, stale, deaf)
	if stale > 0 && deaf == 0 {
		text = "No workers with fresh heartbeats available: " + text
	}
	return text
}
