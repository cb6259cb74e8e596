// Package metered reports what goes through a store to telemetry: every change of a status by who made
// it and why, and how long executions stay in a stage. It counts what a call was answered with; a step
// whose outcome stayed unknown is counted by whoever finds it done.
package metered

import (
	"context"
	"time"

	"handoff/core/execution"
	"handoff/core/store"
	"handoff/core/telemetry"
)

// Executor wraps what an executor uses. With nobody listening it returns the store itself.
func Executor(s store.Executor, r telemetry.Recorder) store.Executor {
	if !r.Listens() {
		return s
	}
	return &executor{s, meter{r}}
}

// Worker wraps what a worker uses. With nobody listening it returns the store itself.
func Worker(s store.Worker, r telemetry.Recorder) store.Worker {
	if !r.Listens() {
		return s
	}
	return &worker{s, meter{r}}
}

type meter struct{ recorder telemetry.Recorder }

// moved counts one change, and how long the stage lasted that it ended.
func (m meter) moved(from execution.Status, row *execution.Execution, by execution.Part, reason execution.Reason) {
	m.recorder.Add(telemetry.Transitions, 1, telemetry.Labels{from.String(), row.Status.String(), by.String(), reason.String()})
	due := row.Created
	if row.NotBefore.After(due) {
		due = row.NotBefore
	}
	switch {
	case row.Status == execution.Scheduling:
		m.stage("requested", due, row.SchedulingAt)
	case row.Status == execution.Scheduled:
		m.stage("scheduling", row.SchedulingAt, row.ScheduledAt)
	case row.Status == execution.Running:
		m.stage("scheduled", row.ScheduledAt, row.StartedAt)
		m.stage("requested_to_running", due, row.StartedAt)
	case row.Status.Terminal():
		if from.Claimed() {
			m.stage("running", row.StartedAt, row.Ended)
		}
		m.stage("requested_to_end", due, row.Ended)
		if row.RetryCount > 0 {
			m.recorder.Add(telemetry.RetriesEnded, 1, telemetry.Labels{row.RetryReason.String(), row.Status.String()})
		}
	}
}

func (m meter) stage(name string, from, to time.Time) {
	if !from.IsZero() && !to.IsZero() {
		m.recorder.Observe(telemetry.StageSeconds, max(0, to.Sub(from)), telemetry.Labels{name})
	}
}

type executor struct {
	store.Executor
	meter meter
}

// ClaimForScheduling implements store.Executor.
func (s *executor) ClaimForScheduling(ctx context.Context, c store.SchedulingClaim) ([]execution.Execution, error) {
	rows, err := s.Executor.ClaimForScheduling(ctx, c)
	for i := range rows {
		s.meter.moved(execution.Requested, &rows[i], execution.Scheduler, execution.NoReason)
	}
	return rows, err
}

// Dispatch implements store.Executor.
func (s *executor) Dispatch(ctx context.Context, by string, ds []store.Dispatch) ([]store.DispatchResult, error) {
	results, err := s.Executor.Dispatch(ctx, by, ds)
	for i := range results {
		if results[i].Applied {
			s.meter.moved(execution.Scheduling, &results[i].Row, execution.Scheduler, execution.NoReason)
		}
	}
	return results, err
}

// Park implements store.Executor.
func (s *executor) Park(ctx context.Context, by string, ps []store.Park) ([]store.Outcome, error) {
	outcomes, err := s.Executor.Park(ctx, by, ps)
	for i := range outcomes {
		if o := &outcomes[i]; o.Applied {
			s.meter.moved(execution.Scheduling, &o.Row, execution.Scheduler, o.Row.FailureReason)
		}
	}
	return outcomes, err
}

// Reclaim implements store.Executor.
func (s *executor) Reclaim(ctx context.Context, rs []store.Reclaim) ([]store.Outcome, error) {
	outcomes, err := s.Executor.Reclaim(ctx, rs)
	for i := range outcomes {
		if !outcomes[i].Applied {
			continue
		}
		from := execution.Scheduled
		switch {
		case rs[i].Ground == store.ClaimExpired:
			from = execution.Scheduling
		case rs[i].To != execution.None:
			from = execution.Running
		}
		s.meter.moved(from, &outcomes[i].Row, rs[i].By, rs[i].Reason)
	}
	return outcomes, err
}

type worker struct {
	store.Worker
	meter meter
}

// Claim implements store.Worker.
func (s *worker) Claim(ctx context.Context, w store.WorkerKey, cs []store.Claim) ([]store.ClaimResult, error) {
	results, err := s.Worker.Claim(ctx, w, cs)
	for i := range results {
		if results[i].Applied {
			s.meter.moved(execution.Scheduled, &results[i].Row, execution.Worker, execution.NoReason)
		}
	}
	return results, err
}

// Finish implements store.Worker.
func (s *worker) Finish(ctx context.Context, w store.WorkerKey, fs []store.Finish) ([]store.Outcome, error) {
	outcomes, err := s.Worker.Finish(ctx, w, fs)
	for i := range outcomes {
		if o := &outcomes[i]; o.Applied {
			s.meter.moved(execution.Running, &o.Row, execution.Worker, o.Row.FailureReason)
		}
	}
	return outcomes, err
}
