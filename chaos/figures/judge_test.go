package figures

import (
	"context"
	"strings"
	"testing"
	"time"

	"handoff/chaos/history"
	"handoff/core/config"
	"handoff/core/execution"
	"handoff/core/store"
	"handoff/core/telemetry"
)

// database answers what it is told to.
type database struct {
	store.Store
	survey   store.Survey
	workers  []store.WorkerRow
	refusal  error
	dispatch error
}

func (d *database) Survey(context.Context) (store.Survey, error) { return d.survey, d.refusal }

func (d *database) Workers(context.Context) ([]store.WorkerRow, error) { return d.workers, d.refusal }

func (d *database) Dispatch(context.Context, string, []store.Dispatch) ([]store.DispatchResult, error) {
	return nil, d.dispatch
}

// fixture is a judge with one executor.
type fixture struct {
	*Judge
	db       database
	now      time.Duration
	store    store.Store
	recorder telemetry.Recorder
}

func newFixture() *fixture {
	f := new(fixture)
	f.Judge = New(config.Default(config.Hardened), func() time.Duration { return f.now })
	w := f.Process("executor-1", true)
	f.store, f.recorder = w.Store(&f.db), w.Recorder(telemetry.Discard{})
	return f
}

// sample asks as a sampler does, and shows what it is told to.
func (f *fixture) sample(executions, load int64) {
	_, err := f.store.Survey(context.Background())
	if _, e := f.store.Workers(context.Background()); err != nil || e != nil {
		return
	}
	set := func(figure telemetry.Figure, v int64, labels ...string) {
		var l telemetry.Labels
		copy(l[:], labels)
		f.recorder.Set(figure, v, l)
	}
	for status := execution.Requested; status <= execution.Canceling; status++ {
		set(telemetry.Executions, 0, status.String())
		set(telemetry.OldestExecution, 0, status.String())
	}
	set(telemetry.Executions, executions, execution.Requested.String())
	for _, figure := range []telemetry.Figure{telemetry.OrchestrationLag, telemetry.DeadLettersOpen, telemetry.LeaseOverdue} {
		set(figure, 0)
	}
	set(telemetry.WorkerLoad, load, "7")
	set(telemetry.WorkerLoadMean, load)
	set(telemetry.QueueDepth, 1, "7")
	set(telemetry.QueueDepthMean, 1)
	for lifecycle := execution.Starting; lifecycle <= execution.Lost; lifecycle++ {
		set(telemetry.HeartbeatAge, 0, lifecycle.String())
		for _, condition := range []string{"live", "stale", "deaf"} {
			for health := execution.Healthy; health <= execution.Unhealthy; health++ {
				set(telemetry.Workers, 0, lifecycle.String(), condition, health.String())
			}
		}
	}
	set(telemetry.Workers, 1, execution.Active.String(), "live", execution.Healthy.String())
}

// answers has the database answer with executions that are requested, and one worker of that load.
func (f *fixture) answers(executions, load int) {
	f.db.survey = store.Survey{Waiting: []store.Waiting{{Status: execution.Requested, Count: executions}}}
	f.db.workers = []store.WorkerRow{{WorkerKey: store.WorkerKey{ID: 7}, Lifecycle: execution.Active, ConsumerAlive: true, Load: load, Queued: 1}}
}

func (f *fixture) expect(t *testing.T, what, want string) {
	t.Helper()
	wrong, judged := f.End()
	if judged == 0 || want == "" && wrong != "" || !strings.Contains(wrong, want) {
		t.Errorf("%s: %q after %d comparisons, want %q", what, wrong, judged, want)
	}
}

func TestAGaugeIsWhatTheDatabaseAnswered(t *testing.T) {
	for what, c := range map[string]struct {
		shownExecutions, shownLoad int64
		want                       string
	}{
		"as answered":       {3, 2, ""},
		"another load":      {3, 1, "handoff_worker_load{worker=7} is 1, and the database said 2"},
		"one execution off": {2, 2, "handoff_executions{status=requested} is 2, and the database said 3"},
	} {
		f := newFixture()
		f.answers(3, 2)
		f.sample(c.shownExecutions, c.shownLoad)
		f.expect(t, what, c.want)
	}
}

func TestAnAnswerThatNobodyShowsIsMissedAndOneThatDidNotComeIsNot(t *testing.T) {
	f := newFixture()
	f.answers(3, 2)
	f.sample(3, 2)
	f.answers(4, 2)
	_, _ = f.store.Survey(context.Background())
	_, _ = f.store.Workers(context.Background())
	f.expect(t, "not shown", "is 3, and the database said 4")

	f = newFixture()
	f.answers(3, 2)
	f.sample(3, 2)
	f.db.refusal = store.ErrUnavailable
	f.sample(9, 9)
	f.expect(t, "not answered", "")
}

func TestAnExecutorThatDoesNotAskIsMissedUnlessItStandsStill(t *testing.T) {
	f := newFixture()
	f.now = 2 * time.Minute
	f.expect(t, "asleep", "it has not asked for its figures for 2m0s")

	f = newFixture()
	f.Observe(&history.Event{Kind: history.ProcessPaused, Process: "executor-1"})
	f.now = 2 * time.Minute
	f.Observe(&history.Event{Kind: history.ProcessResumed, Process: "executor-1", At: f.now})
	f.expect(t, "paused", "")
}

func TestACounterIsWhatHappenedAndNeverMore(t *testing.T) {
	scheduled := history.Event{
		Kind: history.Transition, Process: "executor-1", Execution: 1, From: execution.Scheduling, To: execution.Scheduled, By: execution.Scheduler,
	}
	count := func(f *fixture) {
		f.recorder.Add(telemetry.Transitions, 1, telemetry.Labels{
			execution.Scheduling.String(), execution.Scheduled.String(), execution.Scheduler.String(), execution.NoReason.String(),
		})
		f.recorder.Add(telemetry.Assignments, 1, telemetry.Labels{"healthy"})
	}
	f := newFixture()
	f.Observe(&scheduled)
	count(f)
	f.expect(t, "counted", "")

	f = newFixture()
	f.Observe(&scheduled)
	f.expect(t, "not counted", "executor-1 has counted 0 of handoff_transitions_total")

	f = newFixture()
	f.db.dispatch = store.ErrUnknownOutcome
	_, _ = f.store.Dispatch(context.Background(), "executor-1", nil)
	f.Observe(&scheduled)
	f.expect(t, "of unknown outcome", "")
	count(f)
	count(f)
	f.expect(t, "counted twice", "has counted 2 of")
}

func TestACrashTakesWithItWhatWasAboutToBeCounted(t *testing.T) {
	f := newFixture()
	f.happens("executor-1", telemetry.Canaries)
	f.expect(t, "alive", "has counted 0 of handoff_dead_letter_canaries_total")
	f = newFixture()
	f.happens("executor-1", telemetry.Canaries)
	f.Observe(&history.Event{Kind: history.ProcessCrashed, Process: "executor-1"})
	if wrong, _ := f.End(); wrong != "" {
		t.Error(wrong)
	}
}
