package executor

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"handoff/core/broker"
	"handoff/core/config"
	"handoff/core/store"
	"handoff/core/telemetry"
)

// dated is a host that knows the time of day, and whose sleeps pass at once.
type dated struct {
	still
	day time.Time
}

// Now implements host.Host.
func (h *dated) Now() time.Time { return h.day }

// Uint64N implements host.Host.
func (*dated) Uint64N(uint64) uint64 { return 0 }

// Sleep implements host.Host.
func (h *dated) Sleep(_ context.Context, d time.Duration) error {
	h.now += d
	return nil
}

// WithTimeout implements host.Host.
func (*dated) WithTimeout(ctx context.Context, _ time.Duration) (context.Context, context.CancelFunc) {
	return ctx, func() {}
}

// awayFor is a database that is away for so many attempts to keep a dead letter.
type awayFor struct {
	store.Executor
	attempts int
}

// StoreDeadLetter implements store.Executor.
func (s *awayFor) StoreDeadLetter(context.Context, store.DeadLetter) error {
	if s.attempts--; s.attempts >= 0 {
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

func TestADeadLettersLatencyCountsFromItsDeath(t *testing.T) {
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
		h := &dated{still: still{now: time.Hour}, day: noon}
		var seen latencies
		cfg := config.Default(config.Hardened)
		s := &Service{host: h, store: &awayFor{attempts: c.attempts}, log: slog.New(slog.DiscardHandler), recorder: &seen, config: cfg, outage: newOutage(cfg, h.now)}
		d := broker.Delivery{Deaths: c.deaths}
		at := s.died(&d)
		s.keepTrying(t.Context(), func() error { return s.handleOrKeep(d, at) }, func() {})
		if len(seen.of) != 1 || seen.of[0] < c.least || seen.of[0] > c.most {
			t.Errorf("%s: %v, not within %v and %v", c.name, seen.of, c.least, c.most)
		}
	}
}
