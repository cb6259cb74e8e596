package executor

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"handoff/core/config"
	"handoff/core/execution"
	"handoff/core/store"
	"handoff/core/telemetry"
)

// The reconciler finds everything that a lost message or a dead executor left behind, with one loop for each
// kind. This is why messages can be mere hints. Each loop finds rows and makes guarded writes, which is safe
// on every replica. The scheduler's own poll finds requested rows that are due.

// reconcileClaims reclaims the rows that an executor claimed for scheduling before it died (defect D8).
func (s *Service) reconcileClaims(ctx context.Context) error {
	return s.sweepFinding(ctx, store.Finding{Cause: store.ClaimExpired}, func(row *execution.Execution) store.Reclaim {
		return store.Reclaim{
			Key: row.Key(), By: execution.Reconciler, Reason: execution.Transient, Policy: config.Reschedule,
		}
	})
}

// reconcileOwners reclaims rows that are dispatched to, or run on, an incarnation that is gone.
func (s *Service) reconcileOwners(ctx context.Context) error {
	return s.sweepFinding(ctx, store.Finding{Cause: store.OwnerGone, Age: s.config.Executor.ReapGrace}, func(row *execution.Execution) store.Reclaim {
		if !s.owners.actionsEnded(row) {
			return store.Reclaim{}
		}
		return s.lostReclaim(row, execution.Reconciler)
	})
}

// reconcileUnpublished republishes, at the same epoch, dispatches that the broker never confirmed: the
// executor died between commit and publish, or the confirm was lost (defects D7, D9). A dispatch older than
// half of its dispatch timeout is reclaimed and dispatched again instead. After its deadline the worker would
// refuse it, and it would count as unclaimed. So no execution fails because its message was not sent.
func (s *Service) reconcileUnpublished(ctx context.Context) error {
	c := s.config.Executor
	err := s.sweepFinding(ctx, store.Finding{Cause: store.UnpublishedLate, Age: c.ConfirmTimeout}, func(row *execution.Execution) store.Reclaim {
		r := s.unclaimedReclaim(row, execution.Reconciler, execution.Transient, "")
		r.Policy = config.Reschedule
		return r
	})
	if err != nil || !s.client.Ready() {
		return err
	}
	return s.drainFinding(ctx, store.Finding{Cause: store.Unpublished, Age: c.ConfirmTimeout}, func(rows []execution.Execution) ([]execution.ID, error) {
		if !s.client.Ready() {
			return nil, errDisconnected
		}
		left := idsOf(rows)
		rows = slices.DeleteFunc(rows, func(row execution.Execution) bool {
			// The next pass reclaims such a row, because half of its dispatch timeout has just passed.
			return row.DispatchDeadline.Sub(row.ScheduledAt)/2 <= c.ConfirmTimeout
		})
		s.recorder.Add(telemetry.Dispatches, int64(len(rows)), telemetry.Labels{"republished"})
		return left, s.publishDispatches(rows, nil)
	})
}

// errDisconnected ends a republishing pass.
var errDisconnected = errors.New("the connection to the broker has ended or is blocked")

// reconcileTerminal handles terminal executions whose hints were lost.
func (s *Service) reconcileTerminal(ctx context.Context) error {
	f := store.Finding{Cause: store.Unorchestrated, Age: s.config.Executor.ReconcileInterval}
	return s.drainFinding(ctx, f, func(rows []execution.Execution) ([]execution.ID, error) {
		s.log.LogAttrs(ctx, slog.LevelInfo, "terminal executions found without a message", slog.Int("executions", len(rows)))
		return s.completion.orchestrateEnded(rows)
	})
}

// reconcileCancellations repeats the hint of cancellations that no worker has answered. The reply to a
// heartbeat carries them too; this helps a worker whose heartbeats are slow.
func (s *Service) reconcileCancellations(ctx context.Context) error {
	f := store.Finding{Cause: store.Unanswered, Age: s.config.Executor.ConfirmTimeout}
	return s.drainFinding(ctx, f, func(rows []execution.Execution) ([]execution.ID, error) {
		for i := range rows {
			s.notifier.Cancel(rows[i].Worker, rows[i].Key())
		}
		return idsOf(rows), nil
	})
}

// The intervals of reconcileSlots, reconcileKeys and the purges. No code path lets an ended execution keep
// its slot, but a manual edit can.
const (
	slotSweep     = time.Minute
	keySweep      = time.Minute
	purgeInterval = time.Minute
)

// reconcileSlots frees the slots of executions that must not hold one, and wakes the scheduler for executions
// that wait for a slot.
func (s *Service) reconcileSlots(ctx context.Context) error {
	var freed []execution.ID
	err := s.repeatBatches(ctx, func(ctx context.Context, limit int) (int, error) {
		ids, err := s.store.FreeSlots(ctx, limit)
		freed = append(freed, ids...)
		return len(ids), err
	})
	if len(freed) > 0 {
		s.log.LogAttrs(ctx, slog.LevelWarn, "freed the concurrency slots of executions that may hold none", slog.Any("executions", freed))
		s.scheduler.wakeIn(0)
	}
	return err
}

// reconcileKeys deletes expired idempotency keys, up to 20,000 a minute with the default batch size. An
// expired key is free even before it is deleted; deleting only keeps the index of keys small.
func (s *Service) reconcileKeys(ctx context.Context) error {
	return s.repeatBatches(ctx, func(ctx context.Context, limit int) (int, error) {
		return s.store.ForgetKeys(ctx, execution.KeyLifetime, limit)
	})
}

// purgeDeadLetters deletes dead letters that are older than dead_letter.ttl_ms.
func (s *Service) purgeDeadLetters(ctx context.Context) error {
	age := s.config.MessageQueue.RabbitMQ.DeadLetter.Kept()
	return s.repeatBatches(ctx, func(ctx context.Context, limit int) (int, error) {
		return s.store.PurgeDeadLetters(ctx, age, limit)
	})
}
