package executor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"testing"
	"time"

	"handoff/core/broker"
	"handoff/core/config"
	"handoff/core/execution"
	"handoff/core/store"
	"handoff/core/telemetry"
)

// timedHost is a host with a settable time of day, whose sleeps return at once.
type timedHost struct {
	manualHost
	day time.Time
}

// Now implements host.Host.
func (t *timedHost) Now() time.Time { return t.day }

// Uint64N implements host.Host.
func (*timedHost) Uint64N(uint64) uint64 { return 0 }

// Sleep implements host.Host.
func (t *timedHost) Sleep(_ context.Context, d time.Duration) error {
	t.now += d
	return nil
}

// WithTimeout implements host.Host.
func (*timedHost) WithTimeout(ctx context.Context, _ time.Duration) (context.Context, context.CancelFunc) {
	return ctx, func() {}
}

// awayStore is a database that is away for the first few attempts to store a dead letter.
type awayStore struct {
	store.Executor
	attempts int
}

// StoreDeadLetters implements store.Executor.
func (a *awayStore) StoreDeadLetters(context.Context, ...store.DeadLetter) error {
	if a.attempts--; a.attempts >= 0 {
		return store.ErrUnavailable
	}
	return nil
}

type latencies struct {
	telemetry.Discard
	of []time.Duration
}

func (l *latencies) Observe(f telemetry.Figure, d time.Duration, _ telemetry.Labels) {
	if f == telemetry.DeadLetterSeconds {
		l.of = append(l.of, d)
	}
}

func TestDeadLetterLatencyCountsFromDeath(t *testing.T) {
	noon := time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)
	died := func(at time.Time) []broker.Death { return []broker.Death{{Queue: "worker.1.executions", Time: at}} }
	for _, c := range []struct {
		name        string
		deaths      []broker.Death
		attempts    int
		least, most time.Duration
	}{
		{"at once", died(noon), 0, 0, 0},
		{"after it lay in the queue", died(noon.Add(-time.Minute)), 0, time.Minute, time.Minute},
		{"after it lay in the queue and the database was away", died(noon.Add(-time.Minute)), 4, time.Minute + time.Second, time.Hour},
		{"by a broker whose clock is ahead", died(noon.Add(time.Minute)), 4, time.Second, time.Minute},
		{"at an unknown moment, while the database was away", nil, 4, time.Second, time.Minute},
	} {
		h := &timedHost{manualHost: manualHost{now: time.Hour}, day: noon}
		var seen latencies
		cfg := config.Default(config.Hardened)
		s := &Service{host: h, store: &awayStore{attempts: c.attempts}, log: slog.New(slog.DiscardHandler), limited: slog.New(slog.DiscardHandler), recorder: &seen, config: cfg, outage: newOutage(cfg, h.now)}
		d := broker.Delivery{Deaths: c.deaths}
		at := s.deathTime(&d)
		letters := lettersOf(&d)
		s.keepTrying(t.Context(), func() error { return s.handleOrKeep(letters, at, h.now) }, func() {})
		if len(seen.of) != 1 || seen.of[0] < c.least || seen.of[0] > c.most {
			t.Errorf("%s: %v, not within %v and %v", c.name, seen.of, c.least, c.most)
		}
	}
}

// archive is a database with one execution, which stores dead letters.
type archive struct {
	store.Executor
	row  execution.Execution
	kept []store.DeadLetter
}

// Executions implements store.Reader.
func (a *archive) Executions(_ context.Context, ids []execution.ID) ([]execution.Execution, error) {
	if slices.Contains(ids, a.row.ID) {
		return []execution.Execution{a.row}, nil
	}
	return nil, nil
}

// StoreDeadLetters implements store.Executor.
func (a *archive) StoreDeadLetters(_ context.Context, ds ...store.DeadLetter) error {
	a.kept = append(a.kept, ds...)
	return nil
}

type deaths struct {
	telemetry.Discard
	of []telemetry.Labels
}

func (d *deaths) Add(f telemetry.Figure, _ int64, l telemetry.Labels) {
	if f == telemetry.DeadLettered {
		d.of = append(d.of, l)
	}
}

func TestDeadDispatchMetricNeedsExistingExecution(t *testing.T) {
	row := execution.Execution{ID: 7, Epoch: 5, Status: execution.Running, Action: execution.Action{Ref: "core.echo"}}
	dispatch := func(id execution.ID) broker.Envelope {
		// The message names a different action from the row's, as only a forged message would.
		return broker.Envelope{Type: broker.ExecutionScheduled, Dispatches: []broker.Dispatch{{
			Key: execution.Key{ID: id, Epoch: 3}, Worker: 4, Action: execution.Action{Ref: "forged"},
		}}}
	}
	for _, c := range []struct {
		name     string
		envelope broker.Envelope
		queue    string
		counted  []telemetry.Labels
		kept     store.DeadLetter
	}{
		{
			"of an execution that has gone on", dispatch(7), "worker.4.executions",
			[]telemetry.Labels{{"expired", "core.echo", "4"}},
			store.DeadLetter{Key: execution.Key{ID: 7, Epoch: 3}, ActionRef: "core.echo", Worker: 4, Outcome: "another epoch"},
		},
		{
			"of an execution that does not exist", dispatch(8), "worker.4.executions", nil,
			store.DeadLetter{Key: execution.Key{ID: 8, Epoch: 3}, Outcome: "unknown execution"},
		},
		{"in a queue of no worker", dispatch(7), "elsewhere", nil, store.DeadLetter{Outcome: "not a dispatch", Open: true}},
	} {
		db, seen, cfg := &archive{row: row}, &deaths{}, config.Default(config.Hardened)
		h := &timedHost{manualHost: manualHost{now: time.Hour}, day: time.Unix(2e9, 0)}
		s := &Service{host: h, store: db, log: slog.New(slog.DiscardHandler), limited: slog.New(slog.DiscardHandler), recorder: seen, config: cfg, outage: newOutage(cfg, h.now)}
		d := broker.Delivery{Envelope: c.envelope, Deaths: []broker.Death{{Queue: c.queue, Reason: broker.DeathExpired}}}
		if err := s.handleOrKeep(lettersOf(&d), h.now, h.now); err != nil || !slices.Equal(seen.of, c.counted) {
			t.Errorf("%s: %v, counted %v", c.name, err, seen.of)
		}
		c.kept.Queue, c.kept.Reason, c.kept.XDeath = c.queue, "expired", broker.EncodeDeaths(d.Deaths)
		if len(db.kept) != 1 || !reflect.DeepEqual(db.kept[0], c.kept) {
			t.Errorf("%s: kept %+v", c.name, db.kept)
		}
	}
}

// newerArchive is a database whose execution a newer program wrote.
type newerArchive struct{ archive }

// Executions implements store.Reader.
func (*newerArchive) Executions(context.Context, []execution.ID) ([]execution.Execution, error) {
	return nil, store.ErrUnreadable
}

// If this program can't read an execution, it doesn't know whether the execution still waits, so an operator
// must decide.
func TestDeadLetterOfUnreadableExecutionStaysOpen(t *testing.T) {
	db, cfg := new(newerArchive), config.Default(config.Hardened)
	h := &timedHost{manualHost: manualHost{now: time.Hour}, day: time.Unix(2e9, 0)}
	s := &Service{host: h, store: db, log: slog.New(slog.DiscardHandler), limited: slog.New(slog.DiscardHandler), recorder: telemetry.Discard{}, config: cfg, outage: newOutage(cfg, h.now)}
	e := broker.Envelope{Type: broker.ExecutionScheduled, Dispatches: []broker.Dispatch{{Key: execution.Key{ID: 1, Epoch: 3}}, {Key: execution.Key{ID: 2, Epoch: 3}}}}
	d := broker.Delivery{Envelope: e, Deaths: []broker.Death{{Queue: "worker.4.executions", Reason: broker.DeathExpired}}}
	err := s.handleOrKeep(lettersOf(&d), h.now, h.now+time.Minute)
	if err != nil || len(db.kept) != 2 {
		t.Fatalf("%v, kept %+v", err, db.kept)
	}
	for i, kept := range db.kept {
		if kept.Key != e.Dispatches[i].Key || !kept.Open || kept.Outcome != "unreadable execution" {
			t.Errorf("kept %+v", kept)
		}
	}
}

func TestQueueLimitsBlameNoWorker(t *testing.T) {
	for death, want := range map[broker.DeathReason]string{broker.DeathMaxLength: textQueueFull, broker.DeathDeliveryLimit: textDeliveryLimit} {
		if reason, text, counts := causeOfDeath(death); reason != execution.WorkerUnavailable || text != want || counts {
			t.Errorf("%v is read as %v, %q, and counts: %t", death, reason, text, counts)
		}
	}
}

// refusingStore is a database of waiting executions. It refuses to reclaim one of them, and every call that contains
// it.
type refusingStore struct {
	archive
	refuses execution.ID
	// away is the number of the call that finds the database away, counted from 1; 0 for none.
	away     int
	reclaims []int
}

// Executions implements store.Reader.
func (re *refusingStore) Executions(_ context.Context, ids []execution.ID) (rows []execution.Execution, err error) {
	for _, id := range ids {
		rows = append(rows, execution.Execution{ID: id, Epoch: 3, Status: execution.Scheduled, Action: execution.Action{Ref: "core.echo"}})
	}
	return rows, nil
}

// Reclaim implements store.Executor.
func (re *refusingStore) Reclaim(_ context.Context, rs []store.Reclaim) ([]store.Outcome, error) {
	if re.reclaims = append(re.reclaims, len(rs)); len(re.reclaims) == re.away {
		return nil, store.ErrUnavailable
	}
	if slices.ContainsFunc(rs, func(r store.Reclaim) bool { return r.Key.ID == re.refuses }) {
		return nil, errors.New("internal error (XX000)")
	}
	return make([]store.Outcome, len(rs)), nil
}

// A dead message of several dispatches is handled in one call. If the database refuses that, each dispatch is
// handled alone, once, and a dispatch that is refused even alone is retried for a while. If the database
// becomes unavailable meanwhile, no more calls are made until the next attempt.
func TestDeadBlockHandlesEachDispatchOnce(t *testing.T) {
	e := broker.Envelope{
		Type: broker.ExecutionScheduled, Version: broker.VersionBlock,
		Unread: []broker.UnreadDispatch{{Why: "no epoch", Body: []byte(`{"execution_id":9}`)}},
	}
	for id := execution.ID(1); id <= 3; id++ {
		e.Dispatches = append(e.Dispatches, broker.Dispatch{Key: execution.Key{ID: id, Epoch: 3}, Worker: 4})
	}
	d := broker.Delivery{Envelope: e, Deaths: []broker.Death{{Queue: "worker.4.executions", Reason: broker.DeathMaxLength}}}
	for _, c := range []struct {
		refuses  execution.ID
		away     int
		reclaims []int
		outcomes string
	}{
		{0, 0, []int{3}, "1 claimed or taken meanwhile; 2 claimed or taken meanwhile; 3 claimed or taken meanwhile; 0 malformed; "},
		{2, 0, []int{3, 1, 1, 1, 1, 1}, "1 claimed or taken meanwhile; 3 claimed or taken meanwhile; 0 malformed; 0 unhandled: internal error (XX000); "},
		{2, 3, []int{3, 1, 1, 2, 1, 1, 1}, "1 claimed or taken meanwhile; 3 claimed or taken meanwhile; 0 malformed; 0 unhandled: internal error (XX000); "},
	} {
		db, seen, cfg := &refusingStore{refuses: c.refuses, away: c.away}, &deaths{}, config.Default(config.Hardened)
		h := &timedHost{manualHost: manualHost{now: time.Hour}, day: time.Unix(2e9, 0)}
		s := &Service{host: h, store: db, log: slog.New(slog.DiscardHandler), limited: slog.New(slog.DiscardHandler), recorder: seen, config: cfg, outage: newOutage(cfg, h.now)}
		letters, settled := lettersOf(&d), 0
		s.keepTrying(t.Context(), func() error { return s.handleOrKeep(letters, h.now, time.Hour+300*time.Millisecond) }, func() { settled++ })
		var outcomes string
		for _, letter := range db.kept {
			outcomes += fmt.Sprintf("%d %s; ", letter.Key.ID, letter.Outcome)
		}
		if settled != 1 || outcomes != c.outcomes || !slices.Equal(db.reclaims, c.reclaims) || len(seen.of) != 3 {
			t.Errorf("refusing %d: asked for %v, kept %s, counted %v, settled %d times", c.refuses, db.reclaims, outcomes, seen.of, settled)
		}
	}
}
