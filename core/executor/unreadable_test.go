package executor

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"handoff/core/config"
	"handoff/core/execution"
	"handoff/core/store"
	"handoff/core/telemetry"
)

// An unreadable worker gets no work, and its executions wait for a program that can read it. While it exists,
// nothing fails for lack of a worker.
func TestUnreadableWorkerGetsNoWorkButCounts(t *testing.T) {
	row := execution.Execution{Action: execution.Action{Runtime: "shell"}}
	strange := fit(1, func(w *store.WorkerRow) { w.Unreadable = "capabilities is a JSON string, must be an object" })
	unknown := fit(1, func(w *store.WorkerRow) {
		w.Lifecycle, w.Unreadable = execution.NoLifecycle, `unknown lifecycle "hibernating"`
	})
	for _, w := range []store.WorkerRow{strange, unknown} {
		workers := []store.WorkerRow{w}
		f := newRoster(workers, config.Default(config.Hardened), &probes{}, func(uint64) uint64 { return 0 })
		if demands, _ := f.buildDemands(100); len(demands) != 0 {
			t.Errorf("%s: it is asked for: %+v", w.Unreadable, demands)
		}
		leases := leaseWatch{lease: time.Minute}
		leases.noteBeats(time.Hour, workers)
		if !leases.expectsWorker(time.Hour+time.Second, workers, &row) {
			t.Errorf("%s: it counts as missing", w.Unreadable)
		}
		other := execution.Execution{Action: execution.Action{Runtime: "python"}}
		if leases.expectsWorker(time.Hour+time.Second, workers, &other) {
			t.Errorf("%s: it counts for a runtime that it lacks", w.Unreadable)
		}
	}
}

// If only a newer program knows a worker's lifecycle, this program can't tell whether its lease matters.
func TestWorkerOfUnknownLifecycleIsNotReaped(t *testing.T) {
	c := config.Default(config.Hardened)
	m := &leaseMonitor{Service: &Service{config: c, host: &manualHost{}}, watched: make(map[execution.WorkerID]beatWatch), brake: *newBrake()}
	over := func(lifecycle execution.Lifecycle) int {
		workers := []store.WorkerRow{fit(1, func(w *store.WorkerRow) { w.Lifecycle, w.LeaseOverFor, w.Unreadable = lifecycle, time.Hour, "x" })}
		m.host = &manualHost{now: time.Hour}
		m.surveyWorkers(workers)
		m.host = &manualHost{now: time.Hour + 2*c.Worker.Lease()}
		found, _ := m.surveyWorkers(workers)
		return len(found)
	}
	if n := over(execution.NoLifecycle); n != 0 {
		t.Errorf("%d were over", n)
	}
	if n := over(execution.Active); n != 1 {
		t.Errorf("%d were over of one that is active, whatever else of it can't be read", n)
	}
}

// strangers counts the unreadable rows, by kind.
type strangers struct {
	telemetry.Discard
	of map[string]int64
}

func (s *strangers) Set(f telemetry.Figure, n int64, l telemetry.Labels) {
	if f == telemetry.UnreadableRows {
		s.of[l[0]] = n
	}
}

// All unreadable workers are counted, and up to store.MostUnreadable are logged. One of them becomes the
// example, unless an execution is unreadable too.
func TestUnreadableWorkersAreCountedAndNamed(t *testing.T) {
	var log bytes.Buffer
	seen := &strangers{of: make(map[string]int64)}
	s := &Service{limited: slog.New(slog.NewTextHandler(&log, nil)), recorder: seen}
	workers := []store.WorkerRow{fit(1, nil)}
	look := func(survey store.Survey, executions, strange int64, want string) {
		t.Helper()
		log.Reset()
		s.reportUnreadable(&survey, workers)
		got := s.Unreadable()
		if !strings.Contains(got, want) || (got == "") != (want == "") {
			t.Errorf("it says %q, want %q in it", got, want)
		}
		if seen.of["execution"] != executions || seen.of["worker"] != strange {
			t.Errorf("it counts %v, want %d executions and %d workers", seen.of, executions, strange)
		}
		if lines, most := int64(strings.Count(log.String(), "a worker can't be read")), min(strange, store.MostUnreadable); lines != most {
			t.Errorf("%d workers are named in the log, want %d", lines, most)
		}
	}
	look(store.Survey{}, 0, 0, "")
	for id := range execution.WorkerID(store.MostUnreadable + 1) {
		workers = append(workers, fit(id+2, func(w *store.WorkerRow) { w.Unreadable = "capabilities is a string" }))
	}
	all := workers
	workers = all[:3]
	look(store.Survey{}, 0, 2, "0 executions and 2 workers are left alone because this executor can't read them, such as: worker 3: capabilities is a string. ")
	if !strings.Contains(log.String(), "name=b") || strings.Contains(log.String(), "name=a") {
		t.Errorf("the log names others: %s", log.String())
	}
	workers = all
	look(store.Survey{}, 0, store.MostUnreadable+1, "0 executions and ")
	look(store.Survey{UnreadableCount: 1, Unreadable: []store.UnreadableRow{{ID: 7, Why: "retry_reason of execution 7"}}}, 1, store.MostUnreadable+1, "such as: retry_reason of execution 7. ")
	workers = all[:1]
	look(store.Survey{}, 0, 0, "")
}
