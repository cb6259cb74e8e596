package executor

import (
	"context"
	"errors"
	"log/slog"
	"slices"

	"handoff/core/config"
	"handoff/core/execution"
	"handoff/core/store"
)

// The error texts that the contract prescribes.
const (
	textNotPickedUp   = "Execution timeout: worker did not pick up task within timeout"
	textTTLExpired    = "Worker queue TTL expired"
	textQueueFull     = "Worker queue was full"
	textDeliveryLimit = "Worker queue delivered the task too often"
	textRunTimeout    = "Execution timeout: run deadline passed"
)

// monitorTimeouts is the backstop behind the dead letter handler and the workers' own timeouts. It finds rows
// by the age of one step's own timestamp. Its writes repeat that condition in their guard, so a concurrent
// claim is never overwritten (defect D1). After a start of this executor and after an outage of the database
// it waits for a lease, so that workers first write their pending results (defect D58).
//
// An unclaimed row does not run, and its epoch fences a second dispatch. A claimed run must be over before it
// is marked as ended, so its deadline and grace must have passed on two clocks.
func (s *Service) monitorTimeouts(ctx context.Context) error {
	c := s.config.Executor
	if err := s.readDatabaseClock(); err != nil {
		return err
	}
	if s.outage.isRecent(s.host.Monotonic(), s.config.Worker.Lease()) {
		return nil
	}
	sweep := s.timeoutSweep()
	err := sweep(ctx, store.Finding{Cause: store.Unclaimed, Age: c.ScheduledTimeout}, func(row *execution.Execution) store.Reclaim {
		r := s.unclaimedReclaim(row, execution.TimeoutMonitor, execution.DispatchTimeout, textNotPickedUp)
		r.Counts = true
		if row.PublishedAt.IsZero() || !s.waitedUnclaimed(row, c.ScheduledTimeout) {
			// Perhaps the dispatch was never sent, or only the database's clock made it late. Then its worker
			// is not to blame, and the execution must not fail.
			r.Policy, r.Counts = config.Reschedule, false
		}
		return r
	})
	return errors.Join(err, sweep(ctx, store.Finding{Cause: store.Overrun, Age: c.ReapGrace}, func(row *execution.Execution) store.Reclaim {
		if !s.isOverrun(row, c.ReapGrace) {
			return store.Reclaim{}
		}
		return store.Reclaim{
			Key: row.Key(), By: execution.TimeoutMonitor, Reason: execution.RunTimeout, To: execution.Timeout,
			Result: execution.Result{Error: textRunTimeout, FailedBy: execution.TimeoutMonitor},
		}
	}))
}

// announceTimeout logs that the monitor has reclaimed a row, and names its former worker. It logs a warning,
// because a worker was late and the faster parts did not detect it.
func (s *Service) announceTimeout(rows []execution.Execution, r *store.Reclaim, o *store.Outcome) {
	message := "execution has been scheduled too long, marking failed"
	switch {
	case r.Cause == store.Overrun && o.Row.Status == execution.Cancelled:
		message = "execution has run past its deadline, marking cancelled"
	case r.Cause == store.Overrun:
		message = "execution has run past its deadline, marking timeout"
	case o.Row.Status == execution.Requested:
		message = "execution has been scheduled too long, dispatching again"
	}
	var worker execution.WorkerID
	if i := slices.IndexFunc(rows, func(row execution.Execution) bool { return row.ID == r.Key.ID }); i >= 0 {
		worker = rows[i].Worker
	}
	s.log.LogAttrs(context.Background(), slog.LevelWarn, message,
		slog.Int64("execution", int64(r.Key.ID)), slog.Int64("epoch", int64(r.Key.Epoch)), slog.Int64("worker", int64(worker)),
		slog.String("name", s.owners.workerName(worker)))
}
