package executor

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"handoff/core/config"
	"handoff/core/execution"
	"handoff/core/store"
)

func rosterOf(workers ...store.WorkerRow) *roster {
	return newRoster(workers, config.Default(config.Hardened), new(probes), func(uint64) uint64 { return 0 })
}

// A claim demands each worker's room for the rows pinned to it, and the room of all workers for unpinned
// rows. The pool limits the sum of both to the available room.
func TestDemandsNeverExceedWorkersRoom(t *testing.T) {
	cordoned := func(w *store.WorkerRow) { w.Cordoned = true }
	python := func(load int) func(w *store.WorkerRow) {
		return func(w *store.WorkerRow) { w.Runtimes, w.Load = []string{"python"}, load }
	}
	both := func(load int) func(w *store.WorkerRow) {
		return func(w *store.WorkerRow) { w.Runtimes, w.Load = []string{"python", "shell"}, load }
	}
	for _, x := range []struct {
		name    string
		workers []store.WorkerRow
		most    int
		want    string
	}{
		{"nobody", nil, 100, "[] []"},
		{"a full worker is named, and nothing is wanted", []store.WorkerRow{fit(1, loaded(6))}, 100, "[{shell 0 0 0} {shell 1 0 0}] [0]"},
		{"one with room", []store.WorkerRow{fit(1, loaded(4))}, 100, "[{shell 0 2 0} {shell 1 2 0}] [2]"},
		{"a full one beside one with room", []store.WorkerRow{fit(1, loaded(6)), fit(2, loaded(1))}, 100, "[{shell 0 5 0} {shell 1 0 0} {shell 2 5 0}] [5]"},
		{"one that does not fit is not named", []store.WorkerRow{fit(1, cordoned), fit(2, loaded(1))}, 100, "[{shell 0 5 0} {shell 2 5 0}] [5]"},
		{
			"two with nothing in common",
			[]store.WorkerRow{fit(1, loaded(5)), fit(2, python(4))},
			100,
			"[{shell 0 1 0} {python 0 2 1} {shell 1 1 0} {python 2 2 1}] [1 2]",
		},
		{
			"two that a third one joins",
			[]store.WorkerRow{fit(1, loaded(5)), fit(2, python(4)), fit(3, both(3))},
			100,
			"[{shell 0 4 0} {python 0 5 0} {shell 1 1 0} {python 2 2 0} {python 3 3 0} {shell 3 3 0}] [6 0]",
		},
		{"no more than a batch", []store.WorkerRow{fit(1, nil), fit(2, nil)}, 4, "[{shell 0 4 0} {shell 1 4 0} {shell 2 4 0}] [4]"},
		{
			"a quarantined one has room for what is pinned to it",
			[]store.WorkerRow{fit(1, failing(10, 0)), fit(2, loaded(5))},
			100,
			"[{shell 0 1 0} {shell 1 6 1} {shell 2 1 0}] [1 6]",
		},
	} {
		demands, pools := rosterOf(x.workers...).buildDemands(x.most)
		if got := fmt.Sprint(demands, pools); got != x.want {
			t.Errorf("%s: %s, want %s", x.name, got, x.want)
		}
	}
}

// A row that only one worker may run is placed before a row that any worker may run.
func TestPlaceServesScarceRowsFirst(t *testing.T) {
	free := execution.Execution{Action: execution.Action{Runtime: "shell"}}
	pinned := free
	pinned.Pinned = 1
	f := rosterOf(fit(1, loaded(5)), fit(2, loaded(5)))
	f.draw = func(uint64) uint64 { return 0 } // the first worker wins a tie
	placed := f.placeRows([]execution.Execution{free, pinned}, false)
	if placed[0].worker != 1 || placed[1].worker != 0 {
		t.Errorf("placed %+v, want the pinned row at its worker and the other one beside it", placed)
	}
}

// Another pass follows only if a claim reached one of its limits, so that more rows may be due.
func TestCheckFilledReportsReachedLimits(t *testing.T) {
	demands := []store.Demand{{Runtime: "shell", Limit: 3}, {Runtime: "shell", Pinned: 1, Limit: 2}, {Runtime: "python", Pinned: 1, Limit: 2}}
	row := func(runtime string, pinned execution.WorkerID) execution.Execution {
		return execution.Execution{Action: execution.Action{Runtime: runtime}, Pinned: pinned}
	}
	shell, own, python, gone := row("shell", 0), row("shell", 1), row("python", 1), row("shell", 9)
	for _, x := range []struct {
		name   string
		pools  []int
		rows   []execution.Execution
		full   bool
		others int
	}{
		{"nothing", []int{9}, nil, false, 0},
		{"less than was asked", []int{9}, []execution.Execution{shell, shell, own}, false, 0},
		{"a lane", []int{9}, []execution.Execution{shell, shell, shell}, true, 0},
		{"a worker by two runtimes", []int{9}, []execution.Execution{own, python}, true, 0},
		{"a pool", []int{2}, []execution.Execution{shell, own}, true, 0},
		{"rows of lanes that nobody asked for", []int{9}, []execution.Execution{gone, gone, shell}, false, 2},
	} {
		if full, others := checkFilled(demands, x.pools, x.rows); full != x.full || others != x.others {
			t.Errorf("%s: full %v and %d others, want %v and %d", x.name, full, others, x.full, x.others)
		}
	}
}

// If all workers have the same runtimes, every claim within the demands can be placed: no row is
// claimed only to be parked.
func TestEveryDemandedRowCanBePlaced(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		runtimes := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"shell", "python", "node"}), 1, 3, rapid.ID[string]).Draw(t, "runtimes")
		workers := make([]store.WorkerRow, rapid.IntRange(1, 4).Draw(t, "workers"))
		for i := range workers {
			workers[i] = fit(execution.WorkerID(i+1), loaded(rapid.IntRange(2, 7).Draw(t, "load")))
			if rapid.Bool().Draw(t, "quarantined") {
				failing(10, 0)(&workers[i])
			}
			workers[i].Runtimes = runtimes
		}
		f := rosterOf(workers...)
		f.draw = func(n uint64) uint64 { return rapid.Uint64Range(0, n-1).Draw(t, "lot") }
		demands, pools := f.buildDemands(rapid.IntRange(1, 20).Draw(t, "batch"))
		// A claim that the contract allows: within the limits of each lane, each worker and each pool.
		var rows []execution.Execution
		of := make(map[execution.WorkerID]int)
		for _, d := range demands {
			for range rapid.IntRange(0, d.Limit).Draw(t, "claimed") {
				if pools[d.Pool] == 0 || d.Pinned != 0 && of[d.Pinned] == d.Limit {
					break
				}
				pools[d.Pool]--
				of[d.Pinned]++
				rows = append(rows, execution.Execution{
					Action: execution.Action{Runtime: d.Runtime}, Pinned: d.Pinned, Avoid: execution.WorkerID(rapid.IntRange(0, 4).Draw(t, "avoid")),
				})
			}
		}
		for i, to := range f.placeRows(rapid.Permutation(rows).Draw(t, "rows"), rapid.Bool().Draw(t, "load")) {
			if to.worker < 0 {
				t.Fatalf("row %d of %d finds no room: demanded %v, pools %v", i, len(rows), demands, pools)
			}
		}
	})
}
