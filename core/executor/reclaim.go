package executor

import (
	"context"
	"errors"
	"log/slog"
	"slices"

	"handoff/core/broker"
	"handoff/core/config"
	"handoff/core/execution"
	"handoff/core/store"
	"handoff/core/telemetry"
)

// reclaimRows reclaims rows, announces the changes, and returns the number of reclaimed rows.
func (s *Service) reclaimRows(rs []store.Reclaim) (taken int, err error) {
	ids, err := s.reclaimRowsFunc(rs, nil)
	return len(ids), err
}

// reclaimRowsFunc reclaims rows and returns the ids of the reclaimed ones. It calls onTaken for each of them,
// unless onTaken is nil.
func (s *Service) reclaimRowsFunc(rs []store.Reclaim, onTaken func(*store.Reclaim, *store.Outcome)) (taken []execution.ID, err error) {
	taken, err = s.reclaimBatch(rs, onTaken)
	if err != nil && len(rs) > 1 && !store.Retriable(err) {
		return s.reclaimOneByOne(rs, err, onTaken)
	}
	return taken, err
}

// reclaimBatch is reclaimRowsFunc for callers that find a refused row themselves: it returns the error of the
// batch. After a retriable error, the rows that were answered alongside the error are reclaimed.
func (s *Service) reclaimBatch(rs []store.Reclaim, onTaken func(*store.Reclaim, *store.Outcome)) (taken []execution.ID, err error) {
	if len(rs) == 0 {
		return nil, nil
	}
	outcomes, err := askStore(s.db, s.store.Reclaim, rs)
	if err != nil && !store.Retriable(err) {
		return nil, err
	}
	var changes []broker.Change
	for i := range outcomes {
		o := &outcomes[i]
		if err != nil && o.Row.ID != rs[i].Key.ID {
			continue // not answered, such as a locked row
		}
		if !o.Applied {
			s.recorder.Add(telemetry.StaleWrites, 1, telemetry.Labels{rs[i].By.String()})
			s.log.LogAttrs(context.Background(), slog.LevelInfo, "stale write rejected", slog.Int64("execution", int64(rs[i].Key.ID)),
				slog.Int64("epoch", int64(rs[i].Key.Epoch)), slog.String("now", o.Row.Status.String()), slog.Int64("at", int64(o.Row.Epoch)))
			continue
		}
		taken = append(taken, rs[i].Key.ID)
		if onTaken != nil {
			onTaken(&rs[i], o)
		}
		if o.Row.Status == execution.Requested {
			s.scheduler.wakeIn(rs[i].Delay)
			continue
		}
		changes = append(changes, broker.Change{Key: o.Row.Key(), From: o.From, To: o.Row.Status})
	}
	s.notifier.Changed(changes...)
	return taken, err
}

// reclaimOneByOne reclaims rows after the database has refused their batch: one bad row must not stop the
// others. It returns the error of the batch only if no row could be reclaimed.
func (s *Service) reclaimOneByOne(rs []store.Reclaim, refusal error, onTaken func(*store.Reclaim, *store.Outcome)) (taken []execution.ID, err error) {
	for i := range rs {
		ids, err := s.reclaimRowsFunc(rs[i:i+1], onTaken)
		if err != nil {
			s.log.LogAttrs(context.Background(), slog.LevelError, "execution can't be taken back", slog.Int64("execution", int64(rs[i].Key.ID)), slog.Any("error", err))
			continue
		}
		taken = append(taken, ids...)
	}
	if len(taken) == 0 {
		return nil, refusal
	}
	return taken, nil
}

// sweepFinding reclaims the rows of a finding, batch by batch, until a batch is not full or ctx ends. decide
// skips a row by returning the zero Reclaim. Rows that can't be reclaimed do not stop the others: the pass
// continues and returns their errors at its end.
func (s *Service) sweepFinding(ctx context.Context, cause store.Finding, decide func(*execution.Execution) store.Reclaim) error {
	var refused error
	err := s.drainFinding(ctx, cause, func(rows []execution.Execution) (left []execution.ID, err error) {
		rs, _ := reclaimsOf(rows, cause, decide)
		taken, err := s.reclaimRowsFunc(rs, func(r *store.Reclaim, o *store.Outcome) {
			if r.By == execution.TimeoutMonitor {
				s.announceTimeout(rows, r, o)
			}
		})
		if store.Retriable(err) && len(taken) == 0 {
			return nil, err
		}
		refused = errors.Join(refused, err)
		gone := make(map[execution.ID]bool, len(taken))
		for _, id := range taken {
			gone[id] = true
		}
		return slices.DeleteFunc(idsOf(rows), func(id execution.ID) bool { return gone[id] }), nil
	})
	return errors.Join(err, refused)
}

// reclaimsOf returns the reclaims of a finding's rows, without those that decide skips, and their rows.
func reclaimsOf(rows []execution.Execution, f store.Finding, decide func(*execution.Execution) store.Reclaim) (rs []store.Reclaim, of []*execution.Execution) {
	for i := range rows {
		if r := decide(&rows[i]); r.Key.ID != 0 {
			r.Cause, r.Age = f.Cause, f.Age
			rs, of = append(rs, r), append(of, &rows[i])
		}
	}
	return rs, of
}

// unclaimedReclaim returns the reclaim of a row that no worker has claimed: the row fails or is dispatched
// again, as configured.
func (s *Service) unclaimedReclaim(row *execution.Execution, by execution.Part, reason execution.Reason, text string) store.Reclaim {
	return store.Reclaim{
		Key: row.Key(), By: by, Reason: reason,
		Result:        execution.Result{Error: text, FailedBy: by},
		Policy:        s.config.Executor.Unclaimed,
		MaxDispatches: s.config.Executor.MaxDispatches,
		Delay:         s.config.Retry.Backoff(reclaimCount(row), s.host.Uint64N),
	}
}

// reclaimCount returns how often a row was reclaimed before: each dispatch and each reclaim has raised the
// epoch. It includes reclaims that do not count towards max_dispatches, because an undeliverable row would
// otherwise be dispatched every second.
func reclaimCount(row *execution.Execution) int {
	return max(row.Dispatches, min(int(row.Epoch-1)/2, mostDoublings))
}

// mostDoublings bounds the backoff from reclaims that do not count: when their cause is gone, the row should
// not wait for minutes.
const mostDoublings = 5

// undeliverableReclaim returns the reclaim of a row whose message the broker returned or refused.
func (s *Service) undeliverableReclaim(row *execution.Execution, reason execution.Reason) store.Reclaim {
	r := s.unclaimedReclaim(row, execution.Scheduler, reason, "Dispatch could not be delivered to the worker's queue")
	r.Cause = store.Undeliverable
	return r
}

// lostReclaim returns the reclaim of a row whose worker is gone.
func (s *Service) lostReclaim(row *execution.Execution, by execution.Part) store.Reclaim {
	if row.Status == execution.Scheduled {
		return s.unclaimedReclaim(row, by, execution.WorkerUnavailable, "Worker became unavailable before it picked up the task")
	}
	to := execution.Abandoned
	if s.config.Profile == config.Documented {
		to = execution.Failed
	}
	return store.Reclaim{
		Key: row.Key(), By: by, Reason: execution.WorkerLost, To: to,
		Result: execution.Result{Error: "Worker lost", Message: "the worker's lease ended while it ran the execution", FailedBy: by},
	}
}
