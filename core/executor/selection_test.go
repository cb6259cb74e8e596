package executor

import (
	"strings"
	"testing"
	"time"

	"handoff/core/config"
	"handoff/core/execution"
	"handoff/core/store"
)

// fit returns an active worker of capacity 4, changed by change.
func fit(id execution.WorkerID, change func(*store.WorkerRow)) store.WorkerRow {
	w := store.WorkerRow{
		WorkerKey: store.WorkerKey{ID: id, Incarnation: execution.Incarnation(id)}, Name: string(rune('a' + id - 1)),
		Lifecycle: execution.Active, Runtimes: []string{"shell"}, Capacity: 4, ConsumerAlive: true, LeaseOverFor: -time.Second,
	}
	if change != nil {
		change(&w)
	}
	return w
}

func failing(n int, ago time.Duration) func(*store.WorkerRow) {
	return func(w *store.WorkerRow) {
		w.Figures = execution.Figures{Total: n, Failed: n, Consecutive: n, LastFailure: ago}
	}
}

func loaded(n int) func(*store.WorkerRow) { return func(w *store.WorkerRow) { w.Load = n } }

// full returns a change that makes a worker full for the given time.
func full(since time.Duration) func(*store.WorkerRow) {
	return func(w *store.WorkerRow) { w.Load, w.FullFor = w.Capacity, since }
}

// The cases show which worker gets the next execution, and how many it may hold. The first worker wins a tie.
func TestChooseWorkerAppliesEachCriterion(t *testing.T) {
	row := execution.Execution{Action: execution.Action{Runtime: "shell"}}
	pinned, avoiding := row, row
	pinned.Pinned, avoiding.Avoid = 2, 1
	c := config.Default(config.Hardened)
	unreachable := &probes{failed: map[execution.Incarnation]int{1: unreachableAfter}}
	once := &probes{failed: map[execution.Incarnation]int{1: unreachableAfter - 1}}
	observed := &probes{observing: true, failed: unreachable.failed}
	for _, x := range []struct {
		name    string
		workers []store.WorkerRow
		row     execution.Execution
		found   *probes
		want    execution.WorkerID
		limit   int
	}{
		{"the smaller load", []store.WorkerRow{fit(1, loaded(2)), fit(2, loaded(1))}, row, nil, 2, 6},
		{"a healthy one before a degraded one, whatever its load", []store.WorkerRow{fit(1, failing(3, time.Second)), fit(2, loaded(5))}, row, nil, 2, 6},
		{"a degraded one when the healthy are full", []store.WorkerRow{fit(1, failing(9, time.Second)), fit(2, loaded(6))}, row, nil, 1, 6},
		{"no unhealthy one beside a full one", []store.WorkerRow{fit(1, failing(10, time.Second)), fit(2, loaded(6))}, row, nil, 0, 0},
		{"an unhealthy one for a half-open probe", []store.WorkerRow{fit(1, failing(10, 30*time.Second)), fit(2, loaded(1))}, row, nil, 1, 1},
		{"no half-open probe before its time", []store.WorkerRow{fit(1, failing(10, 30*time.Second-1)), fit(2, loaded(1))}, row, nil, 2, 6},
		{"nothing ahead of one that has been full for a quarter of the dispatch timeout", []store.WorkerRow{fit(1, full(30*time.Second))}, row, nil, 0, 0},
		{"dispatched ahead of one that has been full for less", []store.WorkerRow{fit(1, full(30*time.Second-1))}, row, nil, 1, 6},
		{"a half-open probe only when it holds nothing", []store.WorkerRow{
			fit(1, func(w *store.WorkerRow) { failing(10, time.Minute)(w); w.Load = 1 }), fit(2, loaded(6)),
		}, row, nil, 0, 0},
		{"the unhealthy when there is nobody else", []store.WorkerRow{fit(1, failing(10, time.Second)), fit(2, failing(99, 0))}, row, nil, 1, 6},
		{"an unhealthy one for what is pinned to it", []store.WorkerRow{fit(1, nil), fit(2, failing(10, 0))}, pinned, nil, 2, 6},
		{"one that left its dispatches lying counts as failing", []store.WorkerRow{
			fit(1, func(w *store.WorkerRow) { w.Expired = make([]time.Duration, 10) }), fit(2, loaded(5)),
		}, row, nil, 2, 6},
		{"what it left lying is forgotten after the window", []store.WorkerRow{
			fit(1, func(w *store.WorkerRow) { w.Expired = []time.Duration{time.Hour, time.Hour, time.Hour} }), fit(2, loaded(5)),
		}, row, nil, 1, 6},
		{"a reachable one before one that probes don't reach", []store.WorkerRow{fit(1, nil), fit(2, loaded(5))}, row, unreachable, 2, 6},
		{"one lost probe says nothing", []store.WorkerRow{fit(1, nil), fit(2, loaded(5))}, row, once, 1, 6},
		{"probes that only observe say nothing", []store.WorkerRow{fit(1, nil), fit(2, loaded(5))}, row, observed, 1, 6},
		{"an unreachable one when there is nobody else", []store.WorkerRow{fit(1, nil)}, row, unreachable, 1, 6},
		{"another one than the one to avoid", []store.WorkerRow{fit(1, nil), fit(2, loaded(5))}, avoiding, nil, 2, 6},
		{"the one to avoid when there is nobody else", []store.WorkerRow{fit(1, nil)}, avoiding, nil, 1, 6},
		{"nobody else than the pinned one", []store.WorkerRow{fit(1, nil), fit(2, loaded(6))}, pinned, nil, 0, 0},
		{"no cordoned one", []store.WorkerRow{fit(1, func(w *store.WorkerRow) { w.Cordoned = true })}, row, nil, 0, 0},
		{"no deaf one", []store.WorkerRow{fit(1, func(w *store.WorkerRow) { w.ConsumerAlive = false })}, row, nil, 0, 0},
	} {
		found := x.found
		if found == nil {
			found = new(probes)
		}
		f := newRoster(x.workers, c, found, func(uint64) uint64 { return 0 })
		at, limit := f.chooseWorker(&x.row)
		got := execution.WorkerID(0)
		if at >= 0 {
			got = x.workers[at].ID
		}
		if got != x.want || limit != x.limit {
			t.Errorf("%s: worker %d up to %d, want %d up to %d", x.name, got, limit, x.want, x.limit)
		}
	}
}

// The text counts the workers that each filter ruled out, and names stale heartbeats if these ruled out the
// last ones.
func TestExplainUnfitCountsExcludedWorkers(t *testing.T) {
	gone := func(w *store.WorkerRow) { w.Lifecycle = execution.Stopped }
	stale := func(w *store.WorkerRow) { w.LeaseOverFor = time.Second }
	python := func(w *store.WorkerRow) { w.Runtimes = []string{"python"} }
	cordoned := func(w *store.WorkerRow) { w.Cordoned = true }
	row := execution.Execution{Action: execution.Action{Runtime: "shell"}}
	workers := []store.WorkerRow{fit(1, gone), fit(2, stale), fit(3, python)}
	explain := func() string {
		return newRoster(workers, config.Default(config.Hardened), new(probes), nil).explainUnfit(&row)
	}
	want := `No workers with fresh heartbeats available: of 3 workers, 1 lack the runtime "shell", 1 are not active, 1 have a stale heartbeat, 0 are cordoned, 0 do not consume, 0 are unhealthy`
	if got := explain(); got != want {
		t.Errorf("%s", got)
	}
	workers = append(workers, fit(4, cordoned))
	if got := explain(); strings.HasPrefix(got, "No workers with fresh") || !strings.Contains(got, "1 are cordoned") {
		t.Errorf("%s", got)
	}
	row.Pinned = 4
	if got := explain(); !strings.Contains(got, `3 are not "d", to which it is pinned`) {
		t.Errorf("%s", got)
	}
	row.Pinned = 0
	workers = append(workers, fit(5, func(w *store.WorkerRow) { w.Unreadable, w.LeaseOverFor = "capabilities is a string", time.Second }))
	want = `of 5 workers, 1 lack the runtime "shell", 1 are not active, 1 have a stale heartbeat, 1 are cordoned, 0 do not consume, 0 are unhealthy, 1 can't be read by this executor`
	if got := explain(); got != want {
		t.Errorf("%s", got)
	}
}

func TestExplainNamesQuarantinedWorker(t *testing.T) {
	sick := func(w *store.WorkerRow) { w.Figures = execution.Figures{Total: 50, Failed: 50, Consecutive: 50} }
	f := newRoster([]store.WorkerRow{fit(1, sick), fit(2, func(*store.WorkerRow) {})}, config.Default(config.Hardened), new(probes), nil)
	row := execution.Execution{Action: execution.Action{Runtime: "shell"}}
	if got := f.explainUnfit(&row); !strings.Contains(got, "1 are unhealthy") {
		t.Errorf("%s", got)
	}
	if got := f.bestHealth("a runtime that nobody offers"); got != execution.Healthy {
		t.Errorf("of nobody the best is %v", got)
	}
}
