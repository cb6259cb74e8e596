package executor

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"handoff/core/config"
	"handoff/core/store"
)

// retentionStore is a database in which rows of each kind are to be deleted.
type retentionStore struct {
	*table
	rows   map[store.Kept]int
	asked  map[store.Kept][]store.Purge
	failed map[store.Kept]error
	// archive is the number of rows of each kind that are long overdue.
	archive map[store.Kept]int
	// first is the first row that the steps return.
	first int64
}

func (r *retentionStore) Purge(_ context.Context, p store.Purge) (store.Purged, error) {
	r.asked[p.What] = append(r.asked[p.What], p)
	if err := r.failed[p.What]; err != nil {
		return store.Purged{}, err
	}
	rows := r.rows
	if p.DryRun {
		rows = r.archive
	}
	n := min(p.Limit, rows[p.What])
	if !p.DryRun {
		rows[p.What] -= n
	}
	done := store.Purged{Removed: n, More: n == p.Limit, First: r.first}
	if done.More {
		done.Next = p.After + int64(n)
	}
	return done, nil
}

func keeping(rows map[store.Kept]int) (*retention, *retentionStore) {
	s, t := sweeping(0)
	s.host = &timedHost{day: time.Unix(2e9, 0)}
	a := &retentionStore{table: t, rows: rows, asked: make(map[store.Kept][]store.Purge), failed: make(map[store.Kept]error)}
	s.store = a
	s.config.Retention = config.Retention{Executions: time.Hour, Transitions: 2 * time.Hour, StepSize: batch, Interval: 10 * time.Second}
	return newRetention(s), a
}

func TestRetentionContinuesWhileStepsAreFull(t *testing.T) {
	r, a := keeping(map[store.Kept]int{store.KeptExecutions: 3*batch + 1, store.KeptWorkers: 1})
	if err := r.deleteOverdue(t.Context()); err != nil || a.rows[store.KeptExecutions] != 0 {
		t.Errorf("%v, %d executions are left", err, a.rows[store.KeptExecutions])
	}
	for n, p := range a.asked[store.KeptExecutions] {
		if p.Age != time.Hour || p.Limit != batch || p.After != int64(n*batch) {
			t.Errorf("step %d is %+v", n, p)
		}
	}
	if a.rows[store.KeptWorkers] != 1 || len(a.asked[store.KeptWorkers]) > 0 {
		t.Error("workers, which are kept for ever, were to leave")
	}
	if n := len(a.asked[store.KeptTransitions]); n != 1 {
		t.Errorf("%d steps looked for transitions, of which none is there, want 1", n)
	}
}

// A round begins where the last one found the first execution, and once an hour at the table's beginning.
func TestRetentionRoundStartsAtFirstExecution(t *testing.T) {
	r, a := keeping(map[store.Kept]int{})
	h := &timedHost{day: time.Unix(2e9, 0)}
	r.host = h
	for n, c := range []struct{ first, after int64 }{{0, 0}, {70, 0}, {0, 69}, {90, 69}, {90, 89}} {
		a.first = c.first
		if err := r.deleteOverdue(t.Context()); err != nil {
			t.Fatal(err)
		}
		if p := a.asked[store.KeptExecutions][n]; p.After != c.after {
			t.Errorf("round %d begins after %d, want %d", n, p.After, c.after)
		}
	}
	h.now += firstAgain
	a.failed[store.KeptExecutions] = store.ErrUnavailable
	if err := r.deleteOverdue(t.Context()); err == nil {
		t.Fatal("the step that looks from the beginning takes too long, and the pass has no error")
	}
	a.failed[store.KeptExecutions] = nil
	if err := r.deleteOverdue(t.Context()); err != nil {
		t.Fatal(err)
	}
	for n, after := range []int64{0, 89} {
		if p := a.asked[store.KeptExecutions][5+n]; p.After != after {
			t.Errorf("round %d, after an hour, begins after %d, want %d", n, p.After, after)
		}
	}
}

// A pass spreads its steps over half of the interval, by the number of steps of the previous pass. Its pauses
// are bounded, so that it can always catch up.
func TestRetentionSpreadsItsSteps(t *testing.T) {
	r, a := keeping(map[store.Kept]int{store.KeptExecutions: 100*batch + 1})
	h := &timedHost{day: time.Unix(2e9, 0)}
	r.host, r.config.Retention.Interval = h, 10*time.Second
	const half = 5 * time.Second
	unknown := 50 * longestStepPause // from the 51st step on, the pauses shrink
	for n := 51; n <= 100; n++ {
		unknown += half / time.Duration(n)
	}
	for _, want := range []time.Duration{unknown, half, half} {
		before := h.now
		if err := r.deleteOverdue(t.Context()); err != nil || (h.now-before-want).Abs() > time.Microsecond {
			t.Errorf("%v; a pass of 100 full steps paused for %v in all, want %v", err, h.now-before, want)
		}
		a.rows[store.KeptExecutions] = 100*batch + 1
	}
}

// A pass ends after passBatches steps, so that its loop reports progress. The next one continues where it
// stopped.
func TestRetentionPassResumesWherePreviousStopped(t *testing.T) {
	r, a := keeping(map[store.Kept]int{store.KeptExecutions: passBatches*batch + 5})
	if err := r.deleteOverdue(t.Context()); err != nil || a.rows[store.KeptExecutions] != 5 {
		t.Errorf("%v, %d executions are left, want 5", err, a.rows[store.KeptExecutions])
	}
	if rest := r.passPause(); rest > longestStepPause {
		t.Errorf("rows are left, and the next pass waits %v", rest)
	}
	if err := r.deleteOverdue(t.Context()); err != nil || a.rows[store.KeptExecutions] != 0 {
		t.Errorf("%v, %d executions are left", err, a.rows[store.KeptExecutions])
	}
	if rest := r.passPause(); rest != r.config.Retention.Interval {
		t.Errorf("no rows are left, and the next pass waits %v", rest)
	}
	if p := a.asked[store.KeptExecutions][passBatches]; p.After != passBatches*batch {
		t.Errorf("the second pass begins at %d, want %d", p.After, passBatches*batch)
	}
	if err := r.deleteOverdue(t.Context()); err != nil {
		t.Fatal(err)
	}
	if p := a.asked[store.KeptExecutions][passBatches+1]; p.After != 0 {
		t.Errorf("the pass after the end begins at %d, want 0", p.After)
	}
}

func TestFailingKindDoesNotBlockOtherRetention(t *testing.T) {
	r, a := keeping(map[store.Kept]int{store.KeptTransitions: 1})
	wrong := errors.New("a trigger refuses it")
	a.failed[store.KeptExecutions] = wrong
	if err := r.deleteOverdue(t.Context()); !errors.Is(err, wrong) || a.rows[store.KeptTransitions] != 0 {
		t.Errorf("%v, %d transitions are left", err, a.rows[store.KeptTransitions])
	}
	a.failed[store.KeptExecutions] = store.ErrUnavailable
	a.asked[store.KeptTransitions] = nil
	if err := r.deleteOverdue(t.Context()); !errors.Is(err, store.ErrUnavailable) || len(a.asked[store.KeptTransitions]) > 0 {
		t.Errorf("%v, and %d more calls to a database that is away", err, len(a.asked[store.KeptTransitions]))
	}
}

// A new process that finds long overdue rows logs a warning, and waits a day before it deletes anything by a
// default time.
func TestDefaultRetentionGivesNotice(t *testing.T) {
	r, a := keeping(map[store.Kept]int{store.KeptExecutions: 1, store.KeptTransitions: 1, store.KeptWorkers: 1})
	h := &timedHost{day: time.Unix(2e9, 0)}
	var log bytes.Buffer
	r.host, r.log = h, slog.New(slog.NewTextHandler(&log, nil))
	r.config.Retention.Executions, r.config.Retention.Workers = config.DefaultRetention, config.DefaultRetention
	a.archive = map[store.Kept]int{store.KeptExecutions: 3, store.KeptTransitions: 9}
	pass := func() {
		t.Helper()
		if err := r.deleteOverdue(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	pass()
	if a.rows[store.KeptExecutions] == 0 || a.rows[store.KeptWorkers] == 0 {
		t.Error("rows left by a default time, without notice")
	}
	if a.rows[store.KeptTransitions] != 0 {
		t.Error("a time that is not the default waits for a notice")
	}
	if p := a.asked[store.KeptExecutions][0]; !p.DryRun || p.Age <= config.DefaultRetention+archiveNotice || p.Limit != batch {
		t.Errorf("the look for old executions is %+v", p)
	}
	h.now += archiveNotice - time.Second
	pass()
	if a.rows[store.KeptExecutions] == 0 {
		t.Error("executions left before the notice was over")
	}
	h.now += time.Second
	pass()
	if a.rows[store.KeptExecutions] != 0 || a.rows[store.KeptWorkers] != 0 {
		t.Errorf("rows stay after the notice: %v", a.rows)
	}
	text := log.String()
	if n := strings.Count(text, "level=WARN"); n != 1 || !strings.Contains(text, "key=retention.executions kept=720h0m0s rows=3 there_are_more=false notice=24h0m0s") {
		t.Errorf("%d warnings, want one that names the key and counts the rows:\n%s", n, text)
	}
}

// Where retention has been running, a new process deletes at once. It deletes nothing by a default time
// before it has counted old rows.
func TestDefaultRetentionWithoutArchive(t *testing.T) {
	r, a := keeping(map[store.Kept]int{store.KeptExecutions: 1})
	r.config.Retention.Executions = config.DefaultRetention
	a.failed[store.KeptExecutions] = store.ErrUnavailable
	if err := r.deleteOverdue(t.Context()); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("the look fails, and the pass returns %v", err)
	}
	if n := len(a.asked[store.KeptExecutions]); n != 1 {
		t.Errorf("%d steps although the look failed, want the look alone", n)
	}
	a.failed[store.KeptExecutions] = nil
	if err := r.deleteOverdue(t.Context()); err != nil || a.rows[store.KeptExecutions] != 0 {
		t.Errorf("%v, %d executions are left", err, a.rows[store.KeptExecutions])
	}
}

// If rows can't be counted, they may be an archive, so nothing is deleted by a default time.
func TestDefaultRetentionWaitsUntilCountSucceeds(t *testing.T) {
	r, a := keeping(map[store.Kept]int{store.KeptTransitions: 1})
	r.config.Retention.Transitions = config.DefaultRetention
	r.config.Retention.Executions = config.DefaultRetention
	wrong := errors.New("a trigger refuses it")
	a.failed[store.KeptExecutions] = wrong
	if err := r.deleteOverdue(t.Context()); !errors.Is(err, wrong) || a.rows[store.KeptTransitions] == 0 {
		t.Errorf("%v, %d transitions are left, want 1 during the notice", err, a.rows[store.KeptTransitions])
	}
}
