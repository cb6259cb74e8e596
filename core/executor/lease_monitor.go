package executor

import (
	"context"
	"log/slog"
	"time"

	"handoff/core/execution"
	"handoff/core/store"
	"handoff/core/telemetry"
)

// leaseMonitor marks workers lost. A lease is over when two clocks agree: the database's says that
// it has expired, and this executor has seen one and the same heartbeat number for a full lease on
// its own monotonic clock. So a step of the database's clock kills nobody, and neither does an
// executor, or a database, that was away for longer than a lease (flaws D35, D47).
type leaseMonitor struct {
	*Service
	// watched is written by one task only.
	watched map[execution.WorkerID]watch
}

type watch struct {
	incarnation execution.Incarnation
	beat        uint64
	since       time.Duration
}

func newLeaseMonitor(s *Service) *leaseMonitor {
	return &leaseMonitor{Service: s, watched: make(map[execution.WorkerID]watch)}
}

func (m *leaseMonitor) pass() error {
	var workers []store.WorkerRow
	if err := m.db(func(ctx context.Context) (err error) {
		workers, err = m.store.Workers(ctx)
		return err
	}); err != nil {
		// A monitor that could not look has not seen a beat stand still: it watches anew, and workers
		// that were cut off by the same outage have a full lease to come back (flaw D47).
		clear(m.watched)
		return err
	}
	now := m.host.Monotonic()
	var reaps []store.Reap
	for i := range workers {
		w := &workers[i]
		if w.Lifecycle.Gone() {
			delete(m.watched, w.ID)
			continue
		}
		seen, known := m.watched[w.ID]
		if !known || seen.incarnation != w.Incarnation || seen.beat != w.Beat {
			m.watched[w.ID] = watch{w.Incarnation, w.Beat, now}
			continue
		}
		if !w.LeaseValid() && now-seen.since >= m.config.Worker.Lease() {
			reaps = append(reaps, store.Reap{WorkerKey: w.WorkerKey, Beat: w.Beat})
		}
	}
	if len(reaps) == 0 {
		return nil
	}
	var marked []bool
	if err := m.db(func(ctx context.Context) (err error) {
		marked, err = m.store.Reap(ctx, reaps)
		return err
	}); err != nil {
		return err
	}
	for i, ok := range marked {
		if ok {
			m.recorder.Add(telemetry.WorkersReaped, 1)
			m.log.LogAttrs(context.Background(), slog.LevelWarn, "worker marked lost",
				slog.Int64("worker", int64(reaps[i].ID)), slog.Int64("incarnation", int64(reaps[i].Incarnation)))
		}
	}
	return m.reconcileOwners()
}
