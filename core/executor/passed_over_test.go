package executor

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"handoff/core/execution"
	"handoff/core/store"
)

func TestStaleWorkerIsLoggedOncePerOutage(t *testing.T) {
	var said strings.Builder
	s := &scheduler{Service: &Service{log: slog.New(slog.NewTextHandler(&said, nil))}, warned: newGivenWarnings()}
	workers := []store.WorkerRow{
		{WorkerKey: store.WorkerKey{ID: 1, Incarnation: 1}, Lifecycle: execution.Active, LeaseOverFor: time.Second, Beat: 7},
		{WorkerKey: store.WorkerKey{ID: 2, Incarnation: 2}, Lifecycle: execution.Lost, LeaseOverFor: time.Hour},
		{WorkerKey: store.WorkerKey{ID: 3, Incarnation: 3}, Lifecycle: execution.Active},
	}
	expect := func(when string, lines int) {
		t.Helper()
		said.Reset()
		s.warnOfStale(workers)
		if got := strings.Count(said.String(), "passed over"); got != lines || lines == 1 && !strings.Contains(said.String(), "level=WARN") {
			t.Errorf("%s: %d lines, want %d:\n%s", when, got, lines, &said)
		}
	}
	expect("at first", 1)
	expect("in the next pass", 0)
	workers[0].LeaseOverFor, workers[0].Beat = 0, 8
	expect("back", 0)
	workers[0].LeaseOverFor = time.Second
	expect("stale again", 1)
	workers[0].Incarnation = 9
	expect("another incarnation", 1)
	if n := testing.AllocsPerRun(100, func() { s.warnOfStale(workers) }); n != 0 {
		t.Errorf("a pass over workers that were warned of allocates %v times", n)
	}
}

func TestMissingWorkerIsLoggedOncePerNeed(t *testing.T) {
	var said strings.Builder
	s := &scheduler{Service: &Service{log: slog.New(slog.NewTextHandler(&said, nil))}, warned: newGivenWarnings()}
	row := &execution.Execution{ID: 5, Action: execution.Action{Runtime: "shell"}}
	pinned := &execution.Execution{ID: 6, Action: execution.Action{Runtime: "shell"}, Pinned: 3}
	expect := func(when string, r *execution.Execution, since time.Duration, why, message string) {
		t.Helper()
		said.Reset()
		s.warnOfAbsence(r, since, why)
		if message == "" && said.Len() > 0 || !strings.Contains(said.String(), message) {
			t.Errorf("%s: %q, want %q", when, said.String(), message)
		}
	}
	expect("at first", row, time.Second, "of 0 workers", `msg="No workers available"`)
	expect("another row, later", row, time.Second, "of 0 workers", "")
	expect("a pinned one", pinned, time.Second, textNoFreshHeartbeats+": of 1", `msg="No workers with fresh heartbeats available"`)
	expect("after one fitted meanwhile", row, time.Minute, "of 0 workers", `msg="No workers available"`)
}
