package sim

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"handoff/chaos/history"
	"handoff/chaos/selftest/mutant"
	"handoff/core/execution"
	"handoff/core/store"
	"handoff/core/telemetry"
	"handoff/scenarios"
)

// change is a status change, with the labels of telemetry.Transitions.
type change struct {
	from, to execution.Status
	by       execution.Part
	reason   execution.Reason
}

func (c change) labels() telemetry.Labels {
	return telemetry.Labels{c.from.String(), c.to.String(), c.by.String(), c.reason.String()}
}

func (c change) String() string { return fmt.Sprint(c.labels()) }

// steps returns the store's operations that may have made a change.
func (c change) steps() []string {
	switch {
	case c.from == execution.None && c.by == execution.API:
		return []string{"create"}
	case c.by == execution.ExecutionManager:
		return []string{"create", "orchestrate"}
	case c.from == execution.None:
		return []string{"orchestrate"}
	case c.by == execution.API:
		return []string{"cancel"}
	case c.to == execution.Scheduling:
		return []string{"claim for scheduling", "dispatch what is due"}
	case c.to == execution.Scheduled:
		return []string{"dispatch", "dispatch what is due"}
	case c.from == execution.Scheduling && c.by == execution.Scheduler:
		return []string{"park"}
	case c.by != execution.Worker:
		return []string{"reclaim"}
	case c.to == execution.Running:
		return []string{"claim"}
	case c.to == execution.Requested:
		return []string{"release"}
	}
	return []string{"finish", "heartbeat"}
}

// outcomeTracker is a store that counts, for each operation, the answers that did not arrive.
type outcomeTracker struct {
	store.Store
	open map[string]int
}

func trackOutcome[T any](s *outcomeTracker, step string, call func() (T, error)) (T, error) {
	s.open[step]++
	answer, err := call()
	if !errors.Is(err, store.ErrUnknownOutcome) {
		s.open[step]--
	}
	return answer, err
}

func (o *outcomeTracker) Create(ctx context.Context, items []store.NewExecution) ([]store.Created, error) {
	return trackOutcome(o, "create", func() ([]store.Created, error) { return o.Store.Create(ctx, items) })
}

func (o *outcomeTracker) Cancel(ctx context.Context, ids []execution.ID, actor string) ([]store.Cancellation, error) {
	return trackOutcome(o, "cancel", func() ([]store.Cancellation, error) { return o.Store.Cancel(ctx, ids, actor) })
}

func (o *outcomeTracker) ClaimForScheduling(ctx context.Context, c store.SchedulingClaim) ([]execution.Execution, error) {
	return trackOutcome(o, "claim for scheduling", func() ([]execution.Execution, error) { return o.Store.ClaimForScheduling(ctx, c) })
}

func (o *outcomeTracker) DispatchDue(ctx context.Context, d store.DueDispatch) (store.DueDispatched, error) {
	return trackOutcome(o, "dispatch what is due", func() (store.DueDispatched, error) { return o.Store.DispatchDue(ctx, d) })
}

func (o *outcomeTracker) Dispatch(ctx context.Context, by string, ds []store.Dispatch) ([]store.DispatchResult, error) {
	return trackOutcome(o, "dispatch", func() ([]store.DispatchResult, error) { return o.Store.Dispatch(ctx, by, ds) })
}

func (o *outcomeTracker) Park(ctx context.Context, by string, ps []store.Park) ([]store.Outcome, error) {
	return trackOutcome(o, "park", func() ([]store.Outcome, error) { return o.Store.Park(ctx, by, ps) })
}

func (o *outcomeTracker) Reclaim(ctx context.Context, rs []store.Reclaim) ([]store.Outcome, error) {
	return trackOutcome(o, "reclaim", func() ([]store.Outcome, error) { return o.Store.Reclaim(ctx, rs) })
}

func (o *outcomeTracker) Orchestrate(ctx context.Context, os []store.Orchestration) ([]store.Orchestrated, error) {
	return trackOutcome(o, "orchestrate", func() ([]store.Orchestrated, error) { return o.Store.Orchestrate(ctx, os) })
}

func (o *outcomeTracker) Heartbeat(ctx context.Context, b store.Beat) (store.BeatReply, error) {
	return trackOutcome(o, "heartbeat", func() (store.BeatReply, error) { return o.Store.Heartbeat(ctx, b) })
}

func (o *outcomeTracker) Claim(ctx context.Context, w store.WorkerKey, cs []store.Claim) ([]store.ClaimResult, error) {
	return trackOutcome(o, "claim", func() ([]store.ClaimResult, error) { return o.Store.Claim(ctx, w, cs) })
}

func (o *outcomeTracker) Finish(ctx context.Context, w store.WorkerKey, fs []store.Finish) ([]store.Outcome, error) {
	return trackOutcome(o, "finish", func() ([]store.Outcome, error) { return o.Store.Finish(ctx, w, fs) })
}

func (o *outcomeTracker) Release(ctx context.Context, w store.WorkerKey) ([]execution.Key, error) {
	return trackOutcome(o, "release", func() ([]execution.Key, error) { return o.Store.Release(ctx, w) })
}

// listener receives the metrics of a run, the changes in its history, and the operations with an unknown
// outcome.
type listener struct {
	t       *testing.T
	table   []telemetry.Info
	seen    map[telemetry.Figure]bool
	counted map[telemetry.Labels]int64
	made    map[change]int64
	open    map[string]int
}

func listen(t *testing.T) *listener {
	return &listener{
		t: t, table: telemetry.Table(), seen: make(map[telemetry.Figure]bool),
		counted: make(map[telemetry.Labels]int64), made: make(map[change]int64), open: make(map[string]int),
	}
}

// mutant returns a harmless mutant, which only connects the listener to the processes.
func (l *listener) mutant() *mutant.Mutant {
	return &mutant.Mutant{
		Store:    func(_ mutant.Process, c store.Store) store.Store { return &outcomeTracker{c, l.open} },
		Recorder: func(_ mutant.Process, r telemetry.Recorder) telemetry.Recorder { return &teeRecorder{r, l} },
	}
}

// Observe implements history.Sink.
func (l *listener) Observe(e *history.Event) {
	switch e.Kind {
	case history.Created:
		l.made[change{execution.None, execution.Requested, e.By, e.Reason}]++
	case history.Transition:
		l.made[change{e.From, e.To, e.By, e.Reason}]++
	default:
	}
}

// checkLabels checks that a reported metric has the kind and the labels that the table declares.
func (l *listener) checkLabels(f telemetry.Figure, kind telemetry.Kind, labels telemetry.Labels) {
	info := l.table[f]
	if info.Kind != kind {
		l.t.Errorf("%s is not reported as what it is", info.Name)
	}
	for i, value := range labels {
		// The reason label of a transition may be empty.
		if (i < len(info.Labels)) != (value != "") && !(f == telemetry.Transitions && i == 3) {
			l.t.Errorf("%s has the labels %v, and comes with %q", info.Name, info.Labels, labels)
		}
	}
	l.seen[f] = true
}

// teeRecorder passes metrics to the listener and to the original recorder.
type teeRecorder struct {
	telemetry.Recorder
	l *listener
}

func (*teeRecorder) Listens() bool { return true }

func (t *teeRecorder) Add(f telemetry.Figure, n int64, labels telemetry.Labels) {
	t.Recorder.Add(f, n, labels)
	t.l.checkLabels(f, telemetry.Counter, labels)
	if f == telemetry.Transitions {
		t.l.counted[labels] += n
	}
}

func (t *teeRecorder) Set(f telemetry.Figure, v int64, labels telemetry.Labels) {
	t.Recorder.Set(f, v, labels)
	t.l.checkLabels(f, telemetry.Gauge, labels)
}

func (t *teeRecorder) Observe(f telemetry.Figure, d time.Duration, labels telemetry.Labels) {
	t.Recorder.Observe(f, d, labels)
	t.l.checkLabels(f, telemetry.Histogram, labels)
	if d < 0 {
		t.l.t.Errorf("%s of %v", t.l.table[f].Name, d)
	}
}

// compare compares the counts with the history, except for changes that an operation with an unknown outcome
// may have made. It returns the compared changes.
func (l *listener) compare(name string) (compared []change) {
	for c, made := range l.made {
		if slices.ContainsFunc(c.steps(), func(step string) bool { return l.open[step] > 0 }) {
			delete(l.counted, c.labels())
			continue
		}
		if counted := l.counted[c.labels()]; counted != made {
			l.t.Errorf("%s: %v was counted %d times and happened %d times", name, c, counted, made)
		}
		delete(l.counted, c.labels())
		compared = append(compared, c)
	}
	for labels, n := range l.counted {
		l.t.Errorf("%s: %v was counted %d times and never happened", name, labels, n)
	}
	return compared
}

// Every status change is counted once, whichever part makes it, and the runs of the library report every
// metric of the table.
func TestLibraryReportsEveryFigureAndTransition(t *testing.T) {
	if testing.Short() {
		t.Skip("make test has it: it runs the library under one observer after the other")
	}
	library, err := scenarios.Library()
	if err != nil {
		t.Fatal(err)
	}
	seen, compared := make(map[telemetry.Figure]bool), make(map[change]bool)
	missing := mustBeCompared()
	// Only some seeds report some of the metrics.
	for seed := uint64(1); seed <= 8 && len(missing) > 0; seed++ {
		for i := range library {
			for _, profile := range library[i].Profiles {
				l := listen(t)
				Run(library[i], profile, Options{Seed: seed, Mutant: l.mutant(), Record: l})
				for _, c := range l.compare(library[i].Name + " " + string(profile)) {
					compared[c] = true
				}
				maps.Copy(seen, l.seen)
			}
		}
		missing = slices.DeleteFunc(missing, func(c change) bool { return compared[c] })
	}
	for f, info := range telemetry.Table() {
		if !seen[telemetry.Figure(f)] {
			t.Errorf("no run of the library reports %s", info.Name)
		}
	}
	for _, c := range missing {
		t.Errorf("in no run without unknown outcomes happened %v", c)
	}
}

// mustBeCompared lists changes of every kind of operation; without them the comparison proves little.
func mustBeCompared() []change {
	return []change{
		{execution.None, execution.Requested, execution.API, execution.NoReason},
		{execution.None, execution.Requested, execution.RetryManager, execution.WorkerLost},
		{execution.Requested, execution.Scheduling, execution.Scheduler, execution.NoReason},
		{execution.Requested, execution.Cancelled, execution.API, execution.CancelRequested},
		{execution.Requested, execution.Cancelled, execution.ExecutionManager, execution.ParentFailed},
		{execution.Scheduling, execution.Scheduled, execution.Scheduler, execution.NoReason},
		{execution.Scheduling, execution.Requested, execution.Scheduler, execution.NoReason},
		{execution.Scheduling, execution.Failed, execution.Scheduler, execution.NoWorkers},
		{execution.Scheduled, execution.Requested, execution.DeadLetterHandler, execution.QueueTimeout},
		{execution.Scheduled, execution.Failed, execution.TimeoutMonitor, execution.DispatchTimeout},
		{execution.Scheduled, execution.Cancelled, execution.API, execution.CancelRequested},
		{execution.Scheduled, execution.Requested, execution.Worker, execution.WorkerShutdown},
		{execution.Scheduled, execution.Running, execution.Worker, execution.NoReason},
		{execution.Running, execution.Canceling, execution.API, execution.CancelRequested},
		{execution.Running, execution.Completed, execution.Worker, execution.NoReason},
		{execution.Running, execution.Failed, execution.Worker, execution.WorkerLost},
		{execution.Running, execution.Abandoned, execution.Reconciler, execution.WorkerLost},
		{execution.Canceling, execution.Cancelled, execution.Worker, execution.CancelRequested},
		{execution.Canceling, execution.Cancelled, execution.Reconciler, execution.CancelRequested},
	}
}
