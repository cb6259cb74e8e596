package sim

import (
	"runtime"
	"slices"
	"testing"
	"time"

	"handoff/chaos/invariant"
	"handoff/chaos/scenario"
	"handoff/core/config"
	"handoff/sim/simstore"
)

// These are the bytes that a finished execution may occupy for the rest of a run: the memory of a sweep
// over long scenarios must not grow with finished work.
const (
	checkerBytes = 32
	storeBytes   = 1024
)

func steadyRun(tb testing.TB, executions int) *Result {
	tb.Helper()
	s, err := scenario.Parse("steady-load.yaml", []byte(steadyLoad(executions)))
	if err != nil {
		tb.Fatal(err)
	}
	r := Run(s, config.Hardened, Options{Seed: 1})
	if len(r.Violations) > 0 || r.Panic != "" || r.GaveUp != "" {
		tb.Fatalf("%v %s %s", r.Violations, r.Panic, r.GaveUp)
	}
	return r
}

func heap() int64 {
	runtime.GC()
	runtime.GC() // the second run collects objects that finalizers released during the first
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestMemoryOfFinishedExecutions compares two runs, one of which has twice as many executions.
// Memory that is kept only for a while is the same in both.
func TestMemoryOfFinishedExecutions(t *testing.T) {
	const executions = 8_000
	checkers, rows := kept(t, 2*executions)
	fewer, fewerRows := kept(t, executions)
	checkers, rows = (checkers-fewer)/executions, (rows-fewerRows)/executions
	if checkers > checkerBytes {
		t.Errorf("checkers keep %d bytes for a finished execution, at most %d are allowed", checkers, checkerBytes)
	}
	if rows > storeBytes {
		t.Errorf("the store model keeps %d bytes a row, at most %d are allowed", rows, storeBytes)
	}
	if rows < 100 {
		t.Errorf("the store model keeps %d bytes a row: nothing was measured", rows)
	}
	t.Logf("%d executions: checkers keep %d bytes each, the store model %d", executions, checkers, rows)
}

// kept returns the memory that the checkers and the store model use after a number of executions.
func kept(t *testing.T, executions int) (checkers, rows int64) {
	t.Helper()
	r := steadyRun(t, executions)
	before := heap()
	*r.world.judges.Suite = invariant.Suite{}
	checkers = before - heap()
	before = heap()
	*r.world.db = simstore.Database{}
	rows = before - heap()
	runtime.KeepAlive(r)
	return checkers, rows
}

// BenchmarkGrowth reports how much the cost of one execution grows from 10,000 to 100,000 executions.
func BenchmarkGrowth(b *testing.B) {
	var ratios []float64
	for b.Loop() {
		few := timeOf(b, 10_000)
		many := timeOf(b, 100_000)
		ratios = append(ratios, many/few)
	}
	slices.Sort(ratios)
	b.ReportMetric(ratios[len(ratios)/2], "x/execution")
	b.ReportMetric(0, "ns/op")
}

func timeOf(b *testing.B, executions int) (perExecution float64) {
	began := time.Now()
	steadyRun(b, executions)
	return time.Since(began).Seconds() / float64(executions)
}
