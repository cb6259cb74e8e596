package executor

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"handoff/core/config"
	"handoff/core/execution"
	"handoff/core/store"
	"handoff/core/telemetry"
)

// The reconciler finds whatever a lost message or a dead executor left behind, one loop a kind. It
// is what makes messages hints: each loop's question is about rows, and its answer is a guarded
// write that is safe on every replica. Requested rows that are due are the scheduler's own poll.

// reconcileClaims takes back what an executor claimed for scheduling and then died (flaw D8).
func (s *Service) reconcileClaims() error {
	return s.sweep(store.Finding{Ground: store.ClaimExpired}, func(row *execution.Execution) store.Reclaim {
		return store.Reclaim{
			Key: row.Key(), By: execution.Reconciler, Reason: execution.Transient, Policy: config.Reschedule,
		}
	})
}

// reconcileOwners takes back what is scheduled at, or runs on, an incarnation that is gone.
func (s *Service) reconcileOwners() error {
	return s.sweep(store.Finding{Ground: store.OwnerGone, Age: s.config.Executor.ReapGrace}, func(row *execution.Execution) store.Reclaim {
		if !s.owners.over(row) {
			return store.Reclaim{}
		}
		return s.lost(row, execution.Reconciler)
	})
}

// reconcileUnpublished publishes again, at the same epoch, what the broker never confirmed: the
// executor died between commit and publish, or the confirm was lost (flaws D7, D9). What is past
// half of its own dispatch timeout is dispatched anew instead, and never failed for a message that nobody
// sent: its worker would refuse what comes after the deadline, and that would count as left lying.
func (s *Service) reconcileUnpublished() error {
	c := s.config.Executor
	err := s.sweep(store.Finding{Ground: store.UnpublishedLate, Age: c.ConfirmTimeout}, func(row *execution.Execution) store.Reclaim {
		r := s.unclaimed(row, execution.Reconciler, execution.Transient, "")
		r.Policy = config.Reschedule
		return r
	})
	if err != nil || !s.client.Ready() {
		return err
	}
	var rows []execution.Execution
	if err := s.db(func(ctx context.Context) (err error) {
		rows, err = s.store.Find(ctx, store.Finding{Ground: store.Unpublished, Age: c.ConfirmTimeout, Limit: c.BatchSize})
		return err
	}); err != nil {
		return err
	}
	rows = slices.DeleteFunc(rows, func(row execution.Execution) bool {
		// Late since a moment ago: the next pass takes it back.
		return row.DispatchDeadline.Sub(row.ScheduledAt)/2 <= c.ConfirmTimeout
	})
	s.recorder.Add(telemetry.Dispatches, int64(len(rows)), telemetry.Labels{"republished"})
	return s.publish(rows)
}

// reconcileTerminal finds terminal executions that nobody has handled, because no message came.
func (s *Service) reconcileTerminal() error {
	c := s.config.Executor
	for {
		var rows []execution.Execution
		if err := s.db(func(ctx context.Context) (err error) {
			rows, err = s.store.Find(ctx, store.Finding{Ground: store.Unorchestrated, Age: c.ReconcileInterval, Limit: c.BatchSize})
			return err
		}); err != nil || len(rows) == 0 {
			return err
		}
		s.log.LogAttrs(context.Background(), slog.LevelInfo, "terminal executions found without a message", slog.Int("executions", len(rows)))
		done, err := s.completion.orchestrate(rows)
		if err != nil || done == 0 || len(rows) < c.BatchSize {
			return err
		}
	}
}

// reconcileCancellations hints again at cancellations that no worker has answered. The heartbeat's reply
// says the same; this is for a worker whose heartbeats take long.
func (s *Service) reconcileCancellations() error {
	c := s.config.Executor
	var rows []execution.Execution
	if err := s.db(func(ctx context.Context) (err error) {
		rows, err = s.store.Find(ctx, store.Finding{Ground: store.Unanswered, Age: c.ConfirmTimeout, Limit: c.BatchSize})
		return err
	}); err != nil {
		return err
	}
	for i := range rows {
		s.notifier.Cancel(rows[i].Worker, rows[i].Key())
	}
	return nil
}

// slotSweep is how often slots are looked for that nobody may hold: nothing in this program leaves one.
// keySweep is how often old idempotency keys are forgotten, and keptKeys how long they are kept.
const (
	slotSweep = time.Minute
	keySweep  = time.Minute
	keptKeys  = 24 * time.Hour
)

// reconcileSlots gives back slots that are held by what may hold none, and wakes what waits for them.
func (s *Service) reconcileSlots() error {
	var freed []execution.ID
	if err := s.db(func(ctx context.Context) (err error) {
		freed, err = s.store.FreeSlots(ctx, s.config.Executor.BatchSize)
		return err
	}); err != nil || len(freed) == 0 {
		return err
	}
	s.log.LogAttrs(context.Background(), slog.LevelWarn, "concurrency slots freed that nobody may hold", slog.Any("executions", freed))
	s.scheduler.wakeIn(0)
	return nil
}

// reconcileKeys forgets idempotency keys whose time is over: from then on they can be used again.
func (s *Service) reconcileKeys() error {
	return s.db(func(ctx context.Context) error {
		_, err := s.store.ForgetKeys(ctx, keptKeys, s.config.Executor.BatchSize)
		return err
	})
}
