package executor

import (
	"context"
	"log/slog"
	"time"

	"handoff/core/execution"
	"handoff/core/store"
	"handoff/core/telemetry"
)

// leaseMonitor marks workers lost. A lease is over when two clocks agree: it has expired by the database's
// clock, and the heartbeat number has not changed for a full lease on this executor's monotonic clock. So no
// worker is marked lost because the database's clock was set, or because an executor or the database was away
// (defects D35, D47). When too many leases are over at once, the brake limits the monitor.
type leaseMonitor struct {
	*Service
	// Only one task uses the following fields.
	watched map[execution.WorkerID]beatWatch
	brake   brake
	// outageEnded is the end of the outage after which the watch began.
	outageEnded time.Duration
}

type beatWatch struct {
	incarnation execution.Incarnation
	beat        uint64
	since       time.Duration
}

func newLeaseMonitor(s *Service) *leaseMonitor {
	return &leaseMonitor{
		Service: s, watched: make(map[execution.WorkerID]beatWatch),
		brake: brake{config: s.config, departed: make(map[execution.WorkerID]departure)},
	}
}

// run makes a pass every reconcile interval until ctx ends, and one every second while the brake
// lets one worker through at a time.
func (l *leaseMonitor) run(ctx context.Context) {
	l.recorder.Set(telemetry.ReaperBrake, 0, telemetry.Labels{})
	l.repeatPass(ctx, "lease monitor", l.checkLeases, func() time.Duration {
		if l.brake.trickles {
			return min(l.config.Executor.ReconcileInterval, brakeStep)
		}
		return l.config.Executor.ReconcileInterval
	})
}

func (l *leaseMonitor) checkLeases(ctx context.Context) error {
	workers, err := askStore(l.db, l.store.Workers, nil)
	if err != nil {
		// The monitor could not observe heartbeats meanwhile. So it restarts its watch, and workers that the
		// same outage cut off have a full lease to recover (defect D47).
		clear(l.watched)
		return err
	}
	if ended := l.outage.lastEnd(); ended != l.outageEnded {
		l.outageEnded = ended
		clear(l.watched)
	}
	l.owners.surveyOwners(workers)
	over, alive := l.surveyWorkers(workers)
	reaps := l.applyBrake(ctx, over, alive)
	if len(reaps) == 0 {
		return nil
	}
	marked, err := askStore(l.db, l.store.Reap, reaps)
	if err != nil {
		return err
	}
	for i, ok := range marked {
		if ok {
			l.owners.noteReaped(reaps[i].Incarnation)
			l.recorder.Add(telemetry.LeasesExpired, 1, telemetry.Labels{})
			l.recorder.Observe(telemetry.WorkerDowntime, sinceBeat(workers, reaps[i].Incarnation), telemetry.Labels{})
			l.log.LogAttrs(ctx, slog.LevelWarn, "worker marked lost",
				slog.Int64("worker", int64(reaps[i].ID)), slog.String("name", l.owners.workerName(reaps[i].ID)), slog.Int64("incarnation", int64(reaps[i].Incarnation)))
		}
	}
	return l.reconcileOwners(ctx)
}

// sinceBeat returns how long ago an incarnation sent its last heartbeat.
func sinceBeat(workers []store.WorkerRow, incarnation execution.Incarnation) time.Duration {
	for i := range workers {
		if workers[i].Incarnation == incarnation {
			return workers[i].SinceBeat
		}
	}
	return 0
}

// surveyWorkers updates the watch, and reports departed workers to the brake. It returns the workers whose
// lease is over, and the number of workers that are not gone.
func (l *leaseMonitor) surveyWorkers(workers []store.WorkerRow) (over []store.Reap, alive int) {
	now := l.host.Monotonic()
	for i := range workers {
		w := &workers[i]
		seen, known := l.watched[w.ID]
		if w.Lifecycle.Gone() {
			if known {
				l.brake.departed[w.ID] = departure{now, w.Lifecycle == execution.Lost}
			}
			delete(l.watched, w.ID)
			continue
		}
		alive++
		delete(l.brake.departed, w.ID)
		if w.Lifecycle == execution.NoLifecycle {
			// Only a newer program knows this lifecycle, so this one can't tell whether the lease matters.
			delete(l.watched, w.ID)
			continue
		}
		if !known || seen.incarnation != w.Incarnation || seen.beat != w.Beat {
			l.watched[w.ID] = beatWatch{w.Incarnation, w.Beat, now}
			continue
		}
		if !w.LeaseValid() && now-seen.since >= l.config.Worker.Lease() {
			over = append(over, store.Reap{WorkerKey: w.WorkerKey, Beat: w.Beat})
		}
	}
	return over, alive
}

// applyBrake returns the workers of over that the brake lets the monitor reap now. It logs and records when
// the brake engages or releases.
func (l *leaseMonitor) applyBrake(ctx context.Context, over []store.Reap, alive int) []store.Reap {
	was := l.brake.engaged
	reaps := l.brake.admitReaps(l.host.Monotonic(), over, alive)
	switch {
	case l.brake.engaged && !was:
		l.recorder.Set(telemetry.ReaperBrake, 1, telemetry.Labels{})
		l.log.LogAttrs(ctx, slog.LevelError, "reaper brake engaged: more workers lost their leases at once than executor.brake_fraction allows, "+
			"so this executor marks none of them lost for up to two leases; check the database, the network and the machines",
			slog.Int("over", len(over)), slog.Int("lost", l.brake.lostCount()), slog.Int("alive_a_lease_ago", alive+len(l.brake.departed)), slog.Duration("holds", l.brake.holdTime()))
	case was && !l.brake.engaged:
		l.recorder.Set(telemetry.ReaperBrake, 0, telemetry.Labels{})
		l.log.LogAttrs(ctx, slog.LevelWarn, "reaper brake released", slog.Int("over", len(over)), slog.Int("alive", alive))
	}
	return reaps
}
