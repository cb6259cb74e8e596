package explore

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"handoff/chaos/invariant"
	"handoff/scenarios"
	"handoff/sim"
)

// historySeeds is how many seeds of each scenario, under each profile, are run and compared; the first is 0.
const historySeeds = 1

// historyRun is one run of the library, as the tests compare it.
type historyRun struct {
	target Target
	seed   uint64
	hash   uint64
	events uint64
	judged []uint64
	// failed says why the run is no basis for a comparison; empty if it is.
	failed string
}

// libraryRuns runs every scenario under every profile and seed once, for all tests that look at the runs.
var libraryRuns = sync.OnceValues(func() ([]historyRun, error) { //nolint:gochecknoglobals // what is run once is shared
	all, err := scenarios.Library()
	if err != nil {
		return nil, err
	}
	var runs []historyRun
	for _, target := range Targets(all) {
		for seed := range uint64(historySeeds) {
			runs = append(runs, historyRun{target: target, seed: seed})
		}
	}
	var next atomic.Int64
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for n := int(next.Add(1)) - 1; n < len(runs); n = int(next.Add(1)) - 1 {
				runs[n].run()
			}
		})
	}
	workers.Wait()
	return runs, nil
})

func (h *historyRun) run() {
	r := once(h.target, sim.Options{Seed: h.seed})
	h.hash, h.events, h.judged = r.Hash, r.Events, r.Judged
	if h.failed = r.Panic; h.failed == "" {
		h.failed = r.GaveUp
	}
}

// A rule that never judges anything in the whole library passes whatever happens.
func TestEveryInvariantJudgesSomethingInTheLibrary(t *testing.T) {
	runs, err := libraryRuns()
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range invariant.All() {
		total, in := uint64(0), 0
		for _, r := range runs {
			if r.seed != 0 || r.failed != "" {
				continue
			}
			if n := r.judged[i.Number-1]; n > 0 {
				total += n
				in++
			}
		}
		if total == 0 {
			t.Errorf("invariant %d (%s) judges nothing in any scenario of the library: either no scenario reaches what it is about, or its checker lost the call of judged where it decides", i.Number, i.Name)
			continue
		}
		t.Logf("invariant %d (%s) judged %d times, in %d of the library's runs", i.Number, i.Name, total, in)
	}
}
