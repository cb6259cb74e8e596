package executor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"handoff/core/config"
	"handoff/core/execution"
	"handoff/core/host"
	"handoff/core/store"
	"handoff/core/telemetry"
)

// ledger is a database that records observations, and refuses every reclaim.
type ledger struct {
	*table
	t        *testing.T
	seen     map[execution.Key]bool
	workers  []store.WorkerRow
	outages  map[execution.Incarnation]bool
	recorded []store.ProbedWorker
}

func (l *ledger) Reclaim(_ context.Context, rs []store.Reclaim) ([]store.Outcome, error) {
	l.t.Errorf("%d reclaims were sent", len(rs))
	return make([]store.Outcome, len(rs)), nil
}

func (l *ledger) ObserveReclaims(_ context.Context, rs []store.Reclaim) ([]store.Observed, error) {
	seen := make([]store.Observed, len(rs))
	for i, r := range rs {
		if l.bad[r.Key.ID] != nil {
			return nil, l.bad[r.Key.ID]
		}
		if !l.seen[r.Key] {
			l.seen[r.Key], seen[i] = true, store.Observed{New: true, Would: execution.Requested}
		}
	}
	return seen, nil
}

func (l *ledger) Workers(context.Context, []store.WorkerRow) ([]store.WorkerRow, error) {
	return l.workers, nil
}

func (l *ledger) ObserveWorkers(_ context.Context, ws []store.ProbedWorker) ([]bool, error) {
	changed := make([]bool, len(ws))
	for i, w := range ws {
		l.recorded = append(l.recorded, w)
		changed[i] = l.outages[w.Incarnation] == w.Ready
		l.outages[w.Incarnation] = !w.Ready
	}
	return changed, nil
}

// serialHost runs each task to its end before Go returns.
type serialHost struct{ tasklessHost }

func (serialHost) Go(_ string, run func()) host.Task {
	run()
	return endedTask{}
}

type endedTask struct{}

func (endedTask) Wait(context.Context) error { return nil }

// countingRecorder counts additions to a metric, by its labels.
type countingRecorder struct {
	telemetry.Discard
	of map[string]int64
}

func (c countingRecorder) Add(f telemetry.Figure, n int64, l telemetry.Labels) {
	if f == telemetry.Observed {
		c.of[l[0]+" "+l[1]] += n
	}
}

// answers maps endpoints to their answers.
type answers map[string]error

func (a answers) Probe(_ context.Context, url string) error { return a[url] }

func observing(t *testing.T, rows int, prober Prober) (*Service, *ledger, *bytes.Buffer, countingRecorder) {
	_, db := sweeping(rows)
	l := &ledger{table: db, t: t, seen: make(map[execution.Key]bool), outages: make(map[execution.Incarnation]bool)}
	c := config.Default(config.Hardened)
	c.Executor.BatchSize, c.Executor.TimeoutMonitor, c.Executor.HealthProbes = batch, config.Observe, config.Observe
	log, figures := new(bytes.Buffer), countingRecorder{of: make(map[string]int64)}
	s := New(Options{Host: serialHost{}, Store: l, Config: c, Log: slog.New(slog.NewTextHandler(log, nil)), Recorder: figures, Prober: prober})
	return s, l, log, figures
}

func TestObservingMonitorReportsOnceAndReclaimsNothing(t *testing.T) {
	s, l, log, figures := observing(t, 2*batch+3, nil)
	s.owners.surveyOwners([]store.WorkerRow{{WorkerKey: store.WorkerKey{ID: 1, Incarnation: 1}, Name: "shell-1"}})
	find := store.Finding{Cause: store.Unclaimed, Age: 5 * time.Minute}
	reclaim := func(row *execution.Execution) store.Reclaim {
		return s.unclaimedReclaim(row, execution.TimeoutMonitor, execution.DispatchTimeout, textNotPickedUp)
	}
	for range 3 {
		if err := s.timeoutSweep()(t.Context(), find, reclaim); err != nil {
			t.Fatal(err)
		}
	}
	const line = `msg="execution has been scheduled too long, would dispatch it again (observe only)" executor="" execution=7 epoch=1 worker=1 name=shell-1 age=5m0s reason=dispatch_timeout`
	if n := strings.Count(log.String(), "\n"); n != len(l.rows) || !strings.Contains(log.String(), line) {
		t.Errorf("%d lines about %d dispatches, one of them should be %s:\n%s", n, len(l.rows), line, log)
	}
	if got := fmt.Sprint(figures.of); got != "map[execution_timeout_monitor requested:23]" {
		t.Errorf("counted %s", got)
	}
	l.bad[3] = errAway
	if err := s.timeoutSweep()(t.Context(), find, reclaim); !store.Retriable(err) {
		t.Errorf("with the database away the pass ends with %v", err)
	}
}

func TestObservingProberReportsWithoutAffectingSelection(t *testing.T) {
	notReady := errors.New("answered 503 Service Unavailable")
	prober := answers{"b": notReady, "c": fmt.Errorf("probing: %w", ErrElsewhere)}
	s, l, log, figures := observing(t, 0, prober)
	for i, url := range []string{"a", "b", "c"} {
		l.workers = append(l.workers, store.WorkerRow{
			WorkerKey: store.WorkerKey{ID: execution.WorkerID(i + 1), Incarnation: execution.Incarnation(i + 1)}, Lifecycle: execution.Active, Name: "worker-" + url, HealthURL: url,
		})
	}
	pass := func(times int) {
		t.Helper()
		for range times {
			if err := s.probeWorkers(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	pass(unreachableAfter - 1)
	if log.Len() > 0 || len(l.recorded) != 1 || !l.recorded[0].Ready {
		t.Errorf("after too few probes to say anything: %v\n%s", l.recorded, log)
	}
	pass(3)
	if want := (store.ProbedWorker{WorkerKey: store.WorkerKey{ID: 2, Incarnation: 2}, Reason: notReady.Error()}); len(l.recorded) != 2 || l.recorded[1] != want {
		t.Errorf("the database recorded %+v, want %+v once", l.recorded, want)
	}
	const line = `msg="a worker's health endpoint changed, observe only" executor="" worker=worker-b url=b reachable=false would_avoid=true error="answered 503 Service Unavailable"`
	if !strings.Contains(log.String(), line) {
		t.Errorf("the log lacks %s:\n%s", line, log)
	}
	if s.probes.isAvoided(2) || !s.probes.isUnreachable(2) || s.probes.isUnreachable(3) {
		t.Error("a worker is avoided by probes that only observe, or not known to be unreachable; or one that only its own machine reaches is")
	}
	delete(prober, "b")
	pass(3)
	if n := strings.Count(log.String(), "\n"); n != 2 || !strings.Contains(log.String(), "reachable=true would_avoid=false") {
		t.Errorf("%d lines about an outage that began and ended:\n%s", n, log)
	}
	if got := fmt.Sprint(figures.of); got != "map[health_prober reachable:1 health_prober unreachable:1]" {
		t.Errorf("counted %s", got)
	}
	if kept := slices.ContainsFunc(l.recorded, func(w store.ProbedWorker) bool { return w.ID == 3 }); kept {
		t.Error("something was recorded of a worker that nobody here can ask")
	}
}

// Failed probes affect selection only in mode enforce.
func TestProbesAffectSelectionOnlyWhenEnforced(t *testing.T) {
	failed := map[execution.Incarnation]int{1: unreachableAfter}
	for observing, want := range map[bool]bool{false: true, true: false} {
		if p := (&probes{observing: observing, failed: failed}); p.isAvoided(1) != want {
			t.Errorf("observing %v: a worker that three probes did not reach is avoided: %v", observing, p.isAvoided(1))
		}
	}
}
