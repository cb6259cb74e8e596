package executor

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"handoff/core/broker"
	"handoff/core/execution"
	"handoff/core/host"
	"handoff/core/store"
	"handoff/core/telemetry"
)

// scheduler claims due executions, chooses a worker for each, and hands them off.
type scheduler struct {
	*Service
	hints *hints

	mu sync.Mutex
	// due lists the times at which rows are known to become due.
	due dueTimes

	// Only the scheduling task uses the following fields. recent is roughly how many rows the last passes
	// dispatched directly.
	roster roster
	absent absences
	leases leaseWatch
	warned givenWarnings
	recent int
}

func newScheduler(s *Service) *scheduler {
	c := s.config.Executor
	return &scheduler{
		Service: s, hints: newHints(s), roster: roster{draw: s.host.Uint64N},
		absent: absences{patience: 2*c.ReconcileInterval + c.StatementTimeout}, leases: leaseWatch{lease: s.config.Worker.Lease()},
		warned: newGivenWarnings(),
	}
}

// wakeIn requests a pass after d, and one now, so that the loop recomputes its pause. If the process dies
// before that, a poll finds the row.
func (s *scheduler) wakeIn(d time.Duration) {
	if d > 0 {
		at := s.host.Monotonic() + d
		s.mu.Lock()
		s.due.add(at)
		s.mu.Unlock()
	}
	s.hints.wake.Set()
}

// grain is the shortest time between two retry passes: rows released within it are retried together.
const grain = 500 * time.Millisecond

// scheduleRetryPass requests a pass when a row that was just released for d is due again. Without it, a wake
// in between would delay the row by up to a whole interval. Only the scheduling task calls it, so it wakes no
// task.
func (s *scheduler) scheduleRetryPass(d time.Duration) {
	at := s.host.Monotonic() + d + grain - 1
	s.mu.Lock()
	s.due.add(at - at%grain)
	s.mu.Unlock()
}

// passPause returns the pause before the next pass: until the next known due time or the next poll.
func (s *scheduler) passPause() time.Duration {
	now := s.host.Monotonic()
	s.mu.Lock()
	defer s.mu.Unlock()
	d := s.config.Executor.ReconcileInterval
	if next := s.due.next(); next != host.Forever {
		d = max(0, min(d, next-now))
	}
	return d
}

func (s *scheduler) run(ctx context.Context) {
	loop := s.newLoop("scheduler")
	for ctx.Err() == nil {
		held := s.hints.takeHeld()
		err := loop.Pass(func() error { return s.scheduleDue(ctx) })
		loop.Interval(s.config.Executor.ReconcileInterval)
		s.hints.settleHeld(held, err == nil)
		if err != nil {
			s.log.LogAttrs(ctx, slog.LevelWarn, "scheduling pass failed, the next one starts anew", slog.Any("error", err))
			if s.host.Sleep(ctx, s.config.Executor.ReconcileInterval) != nil {
				return
			}
			continue
		}
		if _, err := s.hints.wake.Wait(ctx, s.passPause()); err != nil {
			return
		}
	}
}

// scheduleDue makes passes until no more rows are due. It schedules nothing while the broker is away or
// blocks publishers: a dispatch that can't be published only uses up its deadline.
func (s *scheduler) scheduleDue(ctx context.Context) error {
	now := s.host.Monotonic()
	s.mu.Lock()
	s.due.dropUntil(now)
	s.mu.Unlock()
	for ctx.Err() == nil && s.client.Ready() {
		more, err := s.scheduleBatch()
		if err != nil || !more {
			return err
		}
	}
	return nil
}

// scheduleBatch dispatches one batch of the rows without restrictions. If others are due, it claims one batch
// of all kinds and dispatches or parks each row. It reports whether another pass may find more to do.
func (s *scheduler) scheduleBatch() (more bool, err error) {
	roster := &s.roster
	workers, err := askStore(s.db, s.store.Workers, roster.workers)
	if err != nil {
		return false, err
	}
	roster.setWorkers(workers, &s.config, s.probes)
	s.absent.noteRoster(s.host.Monotonic(), roster)
	s.leases.noteBeats(s.host.Monotonic(), workers)
	others, again, err := s.dispatchDirectly(roster)
	if err != nil {
		return false, err
	}
	if !others {
		return again, nil
	}
	more, err = s.claimAndDispatch(roster)
	return more || again, err
}

// claimAndDispatch claims one batch, and dispatches or parks each row. It reports whether another pass may
// find more to do.
func (s *scheduler) claimAndDispatch(roster *roster) (more bool, err error) {
	c, workers := s.config.Executor, roster.workers
	demands, pools := roster.buildDemands(c.BatchSize)
	rows, err := askStore(s.db, s.store.ClaimForScheduling, store.SchedulingClaim{
		Executor: s.id, Expiry: c.ClaimExpiry, Demands: demands, Pools: pools, Others: c.BatchSize,
	})
	if err != nil || len(rows) == 0 {
		return false, err
	}
	s.warnOfStale(workers)
	var dispatches []assignment
	var parks []store.Park
	// Another pass follows only if this one placed a row, or delayed a whole batch for which no worker fits.
	full, others := checkFilled(demands, pools, rows)
	for i, to := range roster.placeRows(rows, full) {
		row := &rows[i]
		if to.worker < 0 {
			parks = append(parks, s.newPark(row, roster))
			continue
		}
		dispatches = append(dispatches, assignment{s.newDispatch(row, &workers[to.worker], to.limit), roster.assessments[to.worker].health, workers[to.worker].Name})
	}
	placed, err := s.handOff(dispatches, roster.readsBlocks)
	more = placed > 0 && full || others >= c.BatchSize
	return more, errors.Join(err, s.releaseParked(parks))
}

func (s *scheduler) newDispatch(row *execution.Execution, w *store.WorkerRow, limit int) store.Dispatch {
	timeout := s.config.Executor.DispatchTimeout
	if row.Action.DispatchTimeout > 0 {
		timeout = row.Action.DispatchTimeout
	}
	return store.Dispatch{Key: row.Key(), Worker: w.WorkerKey, Timeout: timeout, Limit: limit}
}

// newPark returns the park of a row that no worker can take now. Overload is not a failure: while fitting
// workers are only full, the grace does not run.
func (s *scheduler) newPark(row *execution.Execution, f *roster) store.Park {
	c := s.config.Executor
	p := store.Park{Key: row.Key(), Delay: c.ReconcileInterval}
	if f.fittingCount(row) > 0 || s.leases.expectsWorker(s.host.Monotonic(), f.workers, row) || s.client.ConnectedFor() < s.reunionTime() {
		return p
	}
	p.Unschedulable = true
	p.Grace = c.UnschedulableGrace
	p.Patience = c.ReconcileInterval + c.StatementTimeout
	p.Watched, p.Seen = s.absent.absenceBounds(row)
	p.Result = execution.Result{
		Error: textNoWorkers, Message: f.explainUnfit(row), FailedBy: execution.Scheduler,
	}
	s.warnOfAbsence(row, s.absent.absenceStart(row), p.Result.Message)
	return p
}

// reunionTime returns how long an executor waits for the workers to reconnect after it has reconnected to the
// broker itself. When a broker recovers, no worker has a consumer yet, and the executor must not conclude
// that there are no workers.
func (s *scheduler) reunionTime() time.Duration {
	return s.config.MessageQueue.RabbitMQ.ReconnectMax + 2*s.config.Executor.StatementTimeout
}

func (s *scheduler) releaseParked(parks []store.Park) error {
	if len(parks) == 0 {
		return nil
	}
	var outcomes []store.Outcome
	if err := s.db(func(ctx context.Context) (err error) {
		outcomes, err = s.store.Park(ctx, s.id, parks)
		return err
	}); err != nil {
		return err
	}
	var changes []broker.Change
	for i := range outcomes {
		switch o := &outcomes[i]; {
		case !o.Applied:
		case o.Row.Status.Terminal():
			changes = append(changes, broker.Change{Key: o.Row.Key(), From: execution.Scheduling, To: o.Row.Status})
		default:
			s.scheduleRetryPass(parks[i].Delay)
		}
	}
	s.notifier.Changed(changes...)
	return nil
}

// assignment is a dispatch, and the health and name of its worker.
type assignment struct {
	store.Dispatch
	health execution.Health
	name   string
}

// handOff commits the dispatches and publishes them. blocks reports whether an incarnation reads messages of
// several dispatches.
func (s *scheduler) handOff(chosen []assignment, blocks func(execution.Incarnation) bool) (placed int, err error) {
	if len(chosen) == 0 {
		return 0, nil
	}
	ds := make([]store.Dispatch, len(chosen))
	for i := range chosen {
		ds[i] = chosen[i].Dispatch
	}
	results, err := s.commitDispatches(ds)
	if err != nil {
		return 0, err
	}
	rows := make([]execution.Execution, 0, len(results)) // growing would copy these large values
	var unfit []store.Park
	for i := range results {
		r := &results[i]
		switch {
		case r.Applied:
			rows = append(rows, r.Row)
			s.recorder.Add(telemetry.Assignments, 1, telemetry.Labels{chosen[i].health.String()})
			// Only at level debug: executors dispatch the work of a whole fleet, and the audit keeps it
			// permanently.
			s.log.LogAttrs(context.Background(), slog.LevelDebug, "scheduled execution to worker", slog.Int64("execution", int64(r.Row.ID)),
				slog.Int64("epoch", int64(r.Row.Epoch)), slog.Int64("worker", int64(r.Row.Worker)), slog.String("name", chosen[i].name))
		case r.WorkerUnfit:
			// The worker became unavailable between the survey and the dispatch: retry soon.
			unfit = append(unfit, store.Park{Key: ds[i].Key, Delay: lookAgain})
		default:
			s.recorder.Add(telemetry.StaleWrites, 1, telemetry.Labels{execution.Scheduler.String()})
		}
	}
	return len(rows), errors.Join(s.publishDispatches(rows, blocks), s.releaseParked(unfit))
}

// lookAgain is the delay after a dispatch whose worker was gone: short, but long enough to avoid a hot loop.
const lookAgain = 100 * time.Millisecond

// commitDispatches writes the dispatches. After an unknown outcome it retries, and recognises its own write
// by epoch, incarnation and claim.
func (s *scheduler) commitDispatches(ds []store.Dispatch) ([]store.DispatchResult, error) {
	uncertain := false
	for attempt := 1; ; attempt++ {
		var results []store.DispatchResult
		err := s.db(func(ctx context.Context) (err error) {
			results, err = s.store.Dispatch(ctx, s.id, ds)
			return err
		})
		if err == nil {
			if uncertain {
				for i := range results {
					r := &results[i]
					r.Applied = r.Applied || s.isOurs(&r.Row, ds[i])
				}
			}
			return results, nil
		}
		if !store.Retriable(err) || attempt == 2 {
			return nil, err
		}
		uncertain = true
	}
}

func (s *scheduler) isOurs(row *execution.Execution, d store.Dispatch) bool {
	return row.Status == execution.Scheduled && row.Epoch == d.Key.Epoch+1 &&
		row.Incarnation == d.Worker.Incarnation && row.SchedulingBy == s.id
}

// publishDispatches publishes dispatches and acts on every outcome. Confirmed rows go to the marker; returned
// and refused ones are reclaimed at once. Rows of unknown outcome are republished later at the same epoch;
// the claim of a duplicate is refused (defect D9). blocks reports whether an incarnation can read messages of
// several dispatches; nil means that none can.
func (s *Service) publishDispatches(rows []execution.Execution, blocks func(execution.Incarnation) bool) error {
	if len(rows) == 0 {
		return nil
	}
	outcomes := s.sendDispatches(rows, blocks)
	var confirmed []execution.Key
	var undeliverable []store.Reclaim
	for i, o := range outcomes {
		switch o {
		case broker.Confirmed:
			s.recorder.Add(telemetry.Dispatches, 1, telemetry.Labels{"confirmed"})
			confirmed = append(confirmed, rows[i].Key())
		case broker.Returned:
			s.recorder.Add(telemetry.Dispatches, 1, telemetry.Labels{"returned"})
			undeliverable = append(undeliverable, s.undeliverableReclaim(&rows[i], execution.Unroutable))
		case broker.Nacked:
			s.recorder.Add(telemetry.Dispatches, 1, telemetry.Labels{"refused"})
			undeliverable = append(undeliverable, s.undeliverableReclaim(&rows[i], execution.WorkerUnavailable))
		case broker.Unknown, broker.NotSent:
			s.recorder.Add(telemetry.Dispatches, 1, telemetry.Labels{"unknown"})
		}
	}
	_, err := s.reclaimRows(undeliverable)
	return errors.Join(err, s.marker.keepConfirmed(confirmed))
}
