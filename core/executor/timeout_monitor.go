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

// The texts of the contract.
const (
	textNotPickedUp   = "Execution timeout: worker did not pick up task within timeout"
	textTTLExpired    = "Worker queue TTL expired"
	textQueueFull     = "Worker queue was full"
	textDeliveryLimit = "Worker queue delivered the task too often"
	textRunTimeout    = "Execution timeout: run deadline passed"
)

// monitorTimeouts is the backstop behind the dead letter handler and the workers' own timeouts. It
// finds by the age of one step's own timestamp, and its writes repeat the cause in their guard, so
// a claim that comes between is never overwritten (defect D1). After this executor's start and after
// an outage of the database it waits for a lease: what workers could not write meanwhile comes first
// (defect D58).
//
// Nothing runs while a row is unclaimed, and a dispatch that is made a second time is fenced. A run that is
// ended has to be over, so its deadline and the grace after it must have passed on two clocks.
func (s *Service) monitorTimeouts(ctx context.Context) error {
	c := s.config.Executor
	if err := s.readDatabaseClock(); err != nil {
		return err
	}
	if s.outage.recent(s.host.Monotonic(), s.config.Worker.Lease()) {
		return nil
	}
	sweep := s.timeoutSweep()
	err := sweep(ctx, store.Finding{Cause: store.Unclaimed, Age: c.ScheduledTimeout}, func(row *execution.Execution) store.Reclaim {
		r := s.unclaimed(row, execution.TimeoutMonitor, execution.DispatchTimeout, textNotPickedUp)
		r.Counts = true
		if row.PublishedAt.IsZero() || !s.lay(row, c.ScheduledTimeout) {
			// No worker could claim a dispatch that may never have been sent, or that only the database's clock
			// made late. Neither is a reason to fail.
			r.Policy, r.Counts = config.Reschedule, false
		}
		return r
	})
	return errors.Join(err, sweep(ctx, store.Finding{Cause: store.Overrun, Age: c.ReapGrace}, func(row *execution.Execution) store.Reclaim {
		if !s.overrun(row, c.ReapGrace) {
			return store.Reclaim{}
		}
		return store.Reclaim{
			Key: row.Key(), By: execution.TimeoutMonitor, Reason: execution.RunTimeout, To: execution.Timeout,
			Result: execution.Result{Error: textRunTimeout, FailedBy: execution.TimeoutMonitor},
		}
	}))
}

// announceTimeout logs that the monitor has taken a row back, with the worker that had it before. A warning: a worker did
// not do in time what it was given, and the faster parts did not find that out.
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
		slog.Int64("execution", int64(r.Key.ID)), slog.Int64("epoch", int64(r.Key.Epoch)), slog.Int64("worker", int64(worker)))
}
