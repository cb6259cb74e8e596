package executor

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"testing"
	"time"

	"handoff/core/config"
	"handoff/core/execution"
	"handoff/core/store"
	"handoff/core/telemetry"
)

// markStore is a database in which only the marks of confirmed dispatches work.
type markStore struct {
	store.Executor
	// marked counts the marks of each row. held holds the locked rows. largest is the number of rows in the
	// largest call.
	marked  map[execution.ID]int
	held    map[execution.ID]bool
	away    bool
	largest int
	calls   int
}

func (m *markStore) MarkPublished(_ context.Context, keys []execution.Key) (left []execution.Key, err error) {
	m.calls++
	m.largest = max(m.largest, len(keys))
	if m.away {
		return nil, errAway
	}
	for _, k := range keys {
		if m.held[k.ID] {
			left = append(left, k)
		} else {
			m.marked[k.ID]++
		}
	}
	return left, nil
}

// confirmedUpTo returns the keys of the rows `from` to `to`.
func confirmedUpTo(from, to int) (keys []execution.Key) {
	for id := from; id <= to; id++ {
		keys = append(keys, execution.Key{ID: execution.ID(id), Epoch: 1})
	}
	return keys
}

func newMarking() (*marker, *markStore) {
	db := &markStore{marked: make(map[execution.ID]int), held: make(map[execution.ID]bool)}
	c := config.Default(config.Hardened)
	c.Executor.BatchSize = batch
	return New(Options{Host: tasklessHost{}, Store: db, Config: c, Log: slog.New(slog.DiscardHandler), Recorder: telemetry.Discard{}}).marker, db
}

// expect fails the test unless each of rows 1 to `rows` was marked once.
func (m *markStore) expect(t *testing.T, what string, rows int) {
	t.Helper()
	for id := 1; id <= rows; id++ {
		if n := m.marked[execution.ID(id)]; n != 1 {
			t.Errorf("%s: row %d of %d was marked %d times", what, id, rows, n)
			return
		}
	}
	if len(m.marked) != rows {
		t.Errorf("%s: %d rows were marked, want %d", what, len(m.marked), rows)
	}
}

func TestMarkerMarksConfirmedDispatchesNextPass(t *testing.T) {
	m, db := newMarking()
	if err := m.keepConfirmed(confirmedUpTo(1, 2*batch+3)); err != nil || db.calls != 0 {
		t.Fatalf("%v, %d calls; nothing is marked before the period is over", err, db.calls)
	}
	if err := m.markCollected(t.Context()); err != nil {
		t.Fatal(err)
	}
	db.expect(t, "after a pass", 2*batch+3)
	if db.calls != 3 || db.largest != batch {
		t.Errorf("%d calls, of at most %d rows", db.calls, db.largest)
	}
	if err := m.markCollected(t.Context()); err != nil || db.calls != 3 {
		t.Errorf("%v, %d calls: a pass with nothing to mark makes none", err, db.calls)
	}
}

// Dispatches for which a full marker has no room are marked at once, and none is forgotten.
func TestFullMarkerForgetsNoDispatch(t *testing.T) {
	m, db := newMarking()
	most := passBatches * batch
	if err := m.keepConfirmed(confirmedUpTo(1, most-1)); err != nil {
		t.Fatal(err)
	}
	if err := m.keepConfirmed(confirmedUpTo(most, most+batch+2)); err != nil {
		t.Fatal(err)
	}
	if len(db.marked) != batch+2 || len(m.confirmed) != most {
		t.Errorf("%d are marked at once and %d are held, want %d and %d", len(db.marked), len(m.confirmed), batch+2, most)
	}
	db.held[execution.ID(most+batch+3)] = true
	if err := m.keepConfirmed(confirmedUpTo(most+batch+3, most+batch+3)); err != nil || len(m.confirmed) != most {
		t.Errorf("%v, %d are held: there is no room for what is locked", err, len(m.confirmed))
	}
	if err := m.markCollected(t.Context()); err != nil {
		t.Fatal(err)
	}
	db.expect(t, "after a pass", most+batch+2)
	db.away = true
	if err := m.keepConfirmed(confirmedUpTo(1, most+1)); !errors.Is(err, errAway) {
		t.Errorf("%v: the caller of a full marker gets no error although the database is away", err)
	}
}

func TestMarkerRetriesUnmarkedDispatches(t *testing.T) {
	m, db := newMarking()
	_ = m.keepConfirmed(confirmedUpTo(1, 3*batch))
	db.away = true
	if err := m.markCollected(t.Context()); !errors.Is(err, errAway) || db.calls != 1 {
		t.Fatalf("%v, %d calls: a pass ends with the first failure", err, db.calls)
	}
	db.away, db.held[2] = false, true
	if err := m.markCollected(t.Context()); err != nil || len(db.marked) != 3*batch-1 {
		t.Fatalf("%v, %d marked", err, len(db.marked))
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	calls := db.calls
	if err := m.markCollected(ended); err != nil || db.calls != calls {
		t.Errorf("%v, %d calls: a stop ends a pass between two batches", err, db.calls-calls)
	}
	if want := []execution.Key{{ID: 2, Epoch: 1}}; !slices.Equal(m.confirmed, want) {
		t.Fatalf("%v are held, want %v", m.confirmed, want)
	}
	delete(db.held, 2)
	m.markRemaining()
	db.expect(t, "after the stop", 3*batch)
}

func TestMarkPrecedesEveryTimeout(t *testing.T) {
	for _, x := range []struct{ confirm, scheduled, want time.Duration }{
		{10 * time.Second, 5 * time.Minute, time.Second},
		{time.Second, 5 * time.Minute, 250 * time.Millisecond},
		{10 * time.Second, 2 * time.Second, 500 * time.Millisecond},
	} {
		c := config.Default(config.Hardened)
		c.Executor.ConfirmTimeout, c.Executor.ScheduledTimeout = x.confirm, x.scheduled
		s := New(Options{Host: tasklessHost{}, Config: c, Log: slog.New(slog.DiscardHandler), Recorder: telemetry.Discard{}})
		if s.marker.period != x.want {
			t.Errorf("confirm_timeout %v, scheduled_timeout %v: a period of %v, want %v", x.confirm, x.scheduled, s.marker.period, x.want)
		}
	}
}
