package executor

import (
	"context"
	"errors"
	"log/slog"

	"handoff/core/config"
	"handoff/core/execution"
	"handoff/core/store"
	"handoff/core/telemetry"
)

// A part in mode observe finds the rows that it would act on, and lets the database check them under the
// guard of the real write. It reports the result in a log line, the metric handoff_observed_total and the
// table observation. It changes nothing else. The database records each dispatch, and each outage of a
// worker, once, so no later pass or other executor repeats the report. If the answer to such a call is lost,
// the observation is in the table but not in the log.

// timeoutSweep returns the timeout monitor's action on its findings: sweepFinding or observeFinding.
func (s *Service) timeoutSweep() func(context.Context, store.Finding, func(*execution.Execution) store.Reclaim) error {
	if s.config.Executor.TimeoutMonitor == config.Observe {
		return s.observeFinding
	}
	return s.sweepFinding
}

// observeFinding is sweepFinding without reclaims: it only records what they would do.
func (s *Service) observeFinding(ctx context.Context, f store.Finding, decide func(*execution.Execution) store.Reclaim) error {
	var refused error
	err := s.drainFinding(ctx, f, func(rows []execution.Execution) (left []execution.ID, err error) {
		rs, of := reclaimsOf(rows, f, decide)
		if len(rs) == 0 {
			return idsOf(rows), nil
		}
		seen, err := askStore(s.db, s.store.ObserveReclaims, rs)
		for i, o := range seen {
			if o.New {
				s.reportObservation(ctx, &rs[i], of[i], o.Would)
			}
		}
		if store.Retriable(err) {
			return nil, err
		}
		refused = errors.Join(refused, err)
		return idsOf(rows), nil
	})
	return errors.Join(err, refused)
}

// reportObservation logs and counts a reclaim that the timeout monitor would make.
func (s *Service) reportObservation(ctx context.Context, r *store.Reclaim, row *execution.Execution, would execution.Status) {
	s.recorder.Add(telemetry.Observed, 1, telemetry.Labels{r.By.String(), would.String()})
	since, what, then := row.ScheduledAt, "execution has been scheduled too long", "mark it "+would.String()
	switch {
	case r.Cause == store.Overrun:
		since, what = row.StartedAt, "execution has run past its deadline"
	case would == execution.Requested:
		then = "dispatch it again"
	}
	age, _ := s.databaseClock.elapsedSince(since)
	s.log.LogAttrs(ctx, slog.LevelWarn, what+", would "+then+" (observe only)",
		slog.Int64("execution", int64(row.ID)), slog.Int64("epoch", int64(row.Epoch)), slog.Int64("worker", int64(row.Worker)),
		slog.String("name", s.owners.workerName(row.Worker)), slog.Duration("age", max(age, r.Age)), slog.String("reason", r.Reason.String()))
}

// purgeObservations deletes observations that are older than dead_letter.ttl_ms, in any mode.
func (s *Service) purgeObservations(ctx context.Context) error {
	return s.repeatBatches(ctx, func(ctx context.Context, limit int) (int, error) {
		return s.store.PurgeObservations(ctx, s.config.MessageQueue.RabbitMQ.DeadLetter.Kept(), limit)
	})
}

// logObservers logs at start which parts only observe, and what therefore remains undone.
func (s *Service) logObservers(ctx context.Context) {
	if s.config.Executor.TimeoutMonitor == config.Observe {
		s.log.LogAttrs(ctx, slog.LevelWarn, "the timeout monitor only observes: a confirmed dispatch stays scheduled if its message is lost or its live worker neither claims nor rejects it, "+
			"and a run past its deadline goes on if its live worker fails to end it",
			slog.Duration("scheduled_timeout", s.config.Executor.ScheduledTimeout))
	}
	if s.prober != nil && s.config.Health.Enabled && s.config.Executor.HealthProbes == config.Observe {
		s.log.LogAttrs(ctx, slog.LevelInfo, "the health probes only observe: no worker is avoided for them")
	}
}
