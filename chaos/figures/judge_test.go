package figures

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"handoff/chaos/history"
	"handoff/core/broker"
	"handoff/core/config"
	"handoff/core/execution"
	"handoff/core/store"
	"handoff/core/telemetry"
)

// database is a store that returns the answers set by the test.
type database struct {
	store.Store
	survey   store.Survey
	workers  []store.WorkerRow
	refusal  error
	dispatch error
}

func (d *database) Survey(context.Context) (store.Survey, error) { return d.survey, d.refusal }

func (d *database) Workers(context.Context, []store.WorkerRow) ([]store.WorkerRow, error) {
	return d.workers, d.refusal
}

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
	// shownUnreadable is the number of unreadable executions that runSampler shows.
	shownUnreadable int64
}

func newFixture() *fixture {
	f := new(fixture)
	f.Judge = New(config.Default(config.Hardened), func() time.Duration { return f.now })
	w := f.Process("executor-1", true)
	f.store, f.recorder = w.Store(&f.db), w.Recorder(telemetry.Discard{})
	return f
}

// runSampler queries the database as an executor's sampler does. If both queries are answered, it sets the
// gauges to these values.
func (f *fixture) runSampler(executions, load int64) {
	_, err := f.store.Survey(context.Background())
	if _, e := f.store.Workers(context.Background(), nil); err != nil || e != nil {
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
	set(telemetry.UnreadableRows, f.shownUnreadable, "execution")
	set(telemetry.UnreadableRows, 0, "worker")
	for _, figure := range []telemetry.Figure{telemetry.OrchestrationLag, telemetry.UnclaimedAge, telemetry.UnfitAge, telemetry.DeadLettersOpen, telemetry.LeaseOverdue} {
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

// setAnswers makes the database return this number of requested executions, and a worker with this load.
func (f *fixture) setAnswers(executions, load int) {
	f.db.survey = store.Survey{Waiting: []store.Waiting{{Status: execution.Requested, Count: executions}}}
	f.db.workers = []store.WorkerRow{{WorkerKey: store.WorkerKey{ID: 7}, Lifecycle: execution.Active, ConsumerAlive: true, Load: load, Queued: 1}}
}

func (f *fixture) expectWrong(t *testing.T, what, want string) {
	t.Helper()
	_, _ = f.store.Survey(context.Background())
	wrong, judged := f.End()
	if judged == 0 || want == "" && wrong != "" || !strings.Contains(wrong, want) {
		t.Errorf("%s: %q after %d comparisons, want %q", what, wrong, judged, want)
	}
}

func TestUnreadableRowGaugeMustMatchDatabase(t *testing.T) {
	for shown, want := range map[int64]string{2: "", 0: "handoff_unreadable_rows{kind=execution} is 0, and the database said 2"} {
		f := newFixture()
		f.setAnswers(3, 2)
		f.db.survey.UnreadableCount, f.shownUnreadable = 2, shown
		f.runSampler(3, 2)
		f.expectWrong(t, "shown as "+strconv.FormatInt(shown, 10), want)
	}
}

// statedHealth is the readiness of an executor that reports this text about unreadable rows.
type statedHealth string

func (statedHealth) DeadLetterPath() error { return nil }
func (statedHealth) Connected() bool       { return false }
func (s statedHealth) Unreadable() string  { return string(s) }

func TestUnreadableReportMustMatchDatabase(t *testing.T) {
	for _, c := range []struct {
		rows int
		said string
		want string
	}{
		{2, "2 executions and 0 workers are left alone", ""},
		{2, "", `it says "", and the database named 2 executions and 0 workers`},
		{2, "1 executions and 0 workers are left alone", "the database named 2 executions and 0 workers"},
		{0, "", ""},
		{0, "2 executions and 0 workers are left alone", "the database named 0 executions and 0 workers"},
	} {
		f := newFixture()
		f.Ask("executor-1", statedHealth(c.said))
		f.setAnswers(3, 2)
		f.recorder.Set(telemetry.DeadLetterPathBroken, 0, telemetry.Labels{})
		f.db.survey.UnreadableCount, f.shownUnreadable = c.rows, int64(c.rows)
		f.runSampler(3, 2)
		f.expectWrong(t, fmt.Sprintf("%d rows and %q", c.rows, c.said), c.want)
	}
}

func TestGaugeMustMatchDatabase(t *testing.T) {
	for what, c := range map[string]struct {
		shownExecutions, shownLoad int64
		want                       string
	}{
		"as answered":       {3, 2, ""},
		"another load":      {3, 1, "handoff_worker_load{worker=7} is 1, and the database said 2"},
		"one execution off": {2, 2, "handoff_executions{status=requested} is 2, and the database said 3"},
	} {
		f := newFixture()
		f.setAnswers(3, 2)
		f.runSampler(c.shownExecutions, c.shownLoad)
		f.expectWrong(t, what, c.want)
	}
}

func TestStaleGaugeIsWrongOnlyAfterAnswer(t *testing.T) {
	f := newFixture()
	f.setAnswers(3, 2)
	f.runSampler(3, 2)
	f.setAnswers(4, 2)
	_, _ = f.store.Survey(context.Background())
	_, _ = f.store.Workers(context.Background(), nil)
	f.expectWrong(t, "not shown", "is 3, and the database said 4")

	f = newFixture()
	f.setAnswers(3, 2)
	f.runSampler(3, 2)
	f.db.refusal = store.ErrUnavailable
	f.runSampler(9, 9)
	f.expectWrong(t, "not answered", "")
}

func TestExecutorMustSampleUnlessPaused(t *testing.T) {
	f := newFixture()
	f.now = 2 * time.Minute
	f.expectWrong(t, "asleep", "it has not asked for its figures for 2m0s")

	f = newFixture()
	f.Observe(&history.Event{Kind: history.ProcessPaused, Process: "executor-1"})
	f.now = 2 * time.Minute
	f.Observe(&history.Event{Kind: history.ProcessResumed, Process: "executor-1", At: f.now})
	f.expectWrong(t, "paused", "")
}

func TestCounterMustMatchHistory(t *testing.T) {
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
	f.expectWrong(t, "counted", "")

	f = newFixture()
	f.Observe(&scheduled)
	f.expectWrong(t, "not counted", "executor-1 has counted 0 of handoff_transitions_total")

	f = newFixture()
	f.db.dispatch = store.ErrUnknownOutcome
	_, _ = f.store.Dispatch(context.Background(), "executor-1", nil)
	f.Observe(&scheduled)
	f.expectWrong(t, "of unknown outcome", "")
	count(f)
	count(f)
	f.expectWrong(t, "counted twice", "has counted 2 of")
}

func TestCrashExcusesMissingCounts(t *testing.T) {
	f := newFixture()
	f.expectCount("executor-1", telemetry.Canaries)
	f.expectWrong(t, "alive", "has counted 0 of handoff_dead_letter_canaries_total")
	f = newFixture()
	f.expectCount("executor-1", telemetry.Canaries)
	f.Observe(&history.Event{Kind: history.ProcessCrashed, Process: "executor-1"})
	if wrong, _ := f.End(); wrong != "" {
		t.Error(wrong)
	}
}

// stillClock is a machine whose clocks show the fixture's time.
type stillClock struct{ f *fixture }

func (s stillClock) Now() time.Time           { return time.Unix(1000, 0).Add(s.f.now) }
func (s stillClock) Monotonic() time.Duration { return s.f.now }

func TestDeadLetterTimeIsMeasuredFromDeath(t *testing.T) {
	for what, c := range map[string]struct {
		reported time.Duration
		want     string
	}{
		"as it was":        {8 * time.Second, ""},
		"until another":    {30 * time.Second, "handled 30s after its death, which was 8s ago"},
		"from its arrival": {3 * time.Second, "handled 3s after its death, which was 8s ago"},
	} {
		f := newFixture()
		f.currentWatch().Clock(stillClock{f})
		d := broker.Delivery{Deaths: []broker.Death{{Reason: broker.DeathExpired, Time: time.Unix(1000, 0)}}}
		f.now = 5 * time.Second
		f.currentWatch().beginLetter(&d)
		f.now = 8 * time.Second
		f.recorder.Add(telemetry.DeadLetters, 1, telemetry.Labels{"expired", "reclaimed"})
		f.recorder.Observe(telemetry.DeadLetterSeconds, c.reported, telemetry.Labels{})
		f.currentWatch().finishLetter(&d)
		f.expectWrong(t, what, c.want)
	}
}

func TestUnhandledLetterCountsOnceWithReason(t *testing.T) {
	for what, c := range map[string]struct {
		reason string
		times  int
		want   string
	}{
		"once":             {"expired", 1, ""},
		"twice":            {"expired", 2, "has counted 2 of handoff_dead_letters_total"},
		"without a reason": {"", 1, "has counted 1 of handoff_dead_letters_total"},
	} {
		f := newFixture()
		d := broker.Delivery{Deaths: []broker.Death{{Reason: broker.DeathExpired}}}
		f.currentWatch().beginLetter(&d)
		for range c.times {
			f.recorder.Add(telemetry.DeadLetters, 1, telemetry.Labels{c.reason, "unhandled"})
		}
		f.currentWatch().finishLetter(&d)
		f.expectWrong(t, what, c.want)
	}
}

func TestLoopReportsLagFromSecondPass(t *testing.T) {
	for what, c := range map[string]struct {
		first, second bool
		late          time.Duration
		want          string
	}{
		"in order":     {false, true, time.Second, ""},
		"at its start": {true, true, time.Second, "is reported for its first pass, which can't be late"},
		"never":        {false, false, 0, "and 0 lags are reported"},
		"too late":     {false, true, time.Minute, "is 1m0s, and the pass before began 10s ago"},
	} {
		f := newFixture()
		loop := telemetry.Labels{"scheduler"}
		pass := func(reportsLag bool) {
			if reportsLag {
				f.recorder.Observe(telemetry.LoopLag, c.late, loop)
			}
			f.recorder.Observe(telemetry.LoopSeconds, 0, loop)
			f.recorder.Add(telemetry.LoopRuns, 1, telemetry.Labels{"scheduler", "ok"})
		}
		pass(c.first)
		f.now += 10 * time.Second
		pass(c.second)
		f.expectWrong(t, what, c.want)
	}
}

func TestNewDeadLettersRequirePromptCanary(t *testing.T) {
	for what, c := range map[string]struct {
		tested bool
		want   string
	}{"tested": {true, ""}, "not tested": {false, "the dead letter path has not been tested since"}} {
		f := newFixture()
		f.currentWatch().session = openSession{}
		f.recorder.Set(telemetry.DeadLetterPathBroken, 0, telemetry.Labels{})
		f.now = 10 * time.Second
		f.currentWatch().judgeSuspicion(2)
		if c.tested {
			f.currentWatch().suspicious = -1
		}
		for range 5 {
			f.now += 15 * time.Second
			f.currentWatch().judgeSuspicion(2)
		}
		if wrong := f.wrong; c.want == "" && strings.Contains(wrong, "tested") || !strings.Contains(wrong, c.want) {
			t.Errorf("%s: %q, want %q", what, wrong, c.want)
		}
	}
}

// openSession is a session that is always open and never blocked.
type openSession struct{ broker.Session }

func (openSession) Closed() bool  { return false }
func (openSession) Blocked() bool { return false }

func (f *fixture) currentWatch() *Watch { return f.processes["executor-1"].current }
