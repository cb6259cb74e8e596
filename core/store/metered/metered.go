// Package metered exports metrics for every status change that is written through a store, by part and
// reason, and for the time that executions spend in each stage. It counts by the answers of calls, so it
// misses a step whose outcome is unknown.
package metered

import (
	"context"
	"time"

	"handoff/core/execution"
	"handoff/core/store"
	"handoff/core/telemetry"
)

// Executor wraps the store of an executor. If the recorder does not listen, it returns the store itself.
func Executor(s store.Executor, r telemetry.Recorder) store.Executor {
	if !r.Listens() {
		return s
	}
	return &executor{s, meter{r}}
}

// Worker wraps the store of a worker. If the recorder does not listen, it returns the store itself.
func Worker(s store.Worker, r telemetry.Recorder) store.Worker {
	if !r.Listens() {
		return s
	}
	return &worker{s, meter{r}}
}

// Client wraps the store of a client that creates and cancels executions. If the recorder does not
// listen, it returns the store itself.
func Client(s store.Client, r telemetry.Recorder) store.Client {
	if !r.Listens() {
		return s
	}
	return &client{s, meter{r}}
}

// API wraps the store of the API's server.
func API(s store.API, r telemetry.Recorder) store.API { return &server{s, client{s, meter{r}}} }

type meter struct{ recorder telemetry.Recorder }

// countCreated counts a created row of which only the id is known.
func (m meter) countCreated(by execution.Part, reason execution.Reason) {
	m.countChange(execution.None, execution.Requested, by, reason)
}

// countSkipped counts a child that was cancelled because its parent did not complete.
func (m meter) countSkipped() {
	m.countChange(execution.Requested, execution.Cancelled, execution.ExecutionManager, execution.ParentFailed)
}

func (m meter) countChange(from, to execution.Status, by execution.Part, reason execution.Reason) {
	m.recorder.Add(telemetry.Transitions, 1, telemetry.Labels{from.String(), to.String(), by.String(), reason.String()})
}

// countReclaims counts the reclaimed rows.
func (m meter) countReclaims(rs []store.Reclaim, outcomes []store.Outcome) {
	for i := range outcomes {
		if o := &outcomes[i]; o.Applied {
			reason := rs[i].Reason
			if o.Row.Status.Terminal() {
				reason = o.Row.FailureReason
			}
			m.countTransition(o.From, &o.Row, rs[i].By, reason)
		}
	}
}

// countTransition counts one status change, and observes the duration of the stage that it ended.
func (m meter) countTransition(from execution.Status, row *execution.Execution, by execution.Part, reason execution.Reason) {
	m.countChange(from, row.Status, by, reason)
	due := row.Created
	if row.NotBefore.After(due) {
		due = row.NotBefore
	}
	switch {
	case row.Status == execution.Scheduling:
		m.observeStage("requested", due, row.SchedulingAt)
	case row.Status == execution.Scheduled:
		m.observeStage("scheduling", row.SchedulingAt, row.ScheduledAt)
	case row.Status == execution.Running:
		m.observeStage("scheduled", row.ScheduledAt, row.StartedAt)
		m.observeStage("requested_to_running", due, row.StartedAt)
	case row.Status.Terminal():
		if from.Claimed() {
			m.observeStage("running", row.StartedAt, row.Ended)
		}
		m.observeStage("requested_to_end", due, row.Ended)
		if row.RetryCount > 0 {
			m.recorder.Add(telemetry.RetriesEnded, 1, telemetry.Labels{row.RetryReason.String(), row.Status.String()})
		}
	}
}

func (m meter) observeStage(name string, from, to time.Time) {
	if !from.IsZero() && !to.IsZero() {
		m.recorder.Observe(telemetry.StageSeconds, max(0, to.Sub(from)), telemetry.Labels{name})
	}
}

type client struct {
	store.Client
	meter meter
}

func (cl *client) Create(ctx context.Context, items []store.NewExecution) ([]store.Created, error) {
	created, err := cl.Client.Create(ctx, items)
	for i := range created {
		c := &created[i]
		if c.ID == 0 || c.Existed {
			continue
		}
		cl.meter.countCreated(execution.API, execution.NoReason)
		if c.Skipped {
			cl.meter.countSkipped()
		}
	}
	return created, err
}

// Cancel implements store.Client. It does not count a repeated request, which changes nothing.
func (cl *client) Cancel(ctx context.Context, ids []execution.ID, actor string) ([]store.Cancellation, error) {
	answers, err := cl.Client.Cancel(ctx, ids, actor)
	for i := range answers {
		if a := &answers[i]; a.Applied && a.From != a.Row.Status {
			cl.meter.countTransition(a.From, &a.Row, execution.API, execution.CancelRequested)
		}
	}
	return answers, err
}

type server struct {
	store.API
	client client
}

func (s *server) Create(ctx context.Context, items []store.NewExecution) ([]store.Created, error) {
	return s.client.Create(ctx, items)
}

func (s *server) Cancel(ctx context.Context, ids []execution.ID, actor string) ([]store.Cancellation, error) {
	return s.client.Cancel(ctx, ids, actor)
}

// Reclaim implements store.API.
func (s *server) Reclaim(ctx context.Context, rs []store.Reclaim) ([]store.Outcome, error) {
	outcomes, err := s.API.Reclaim(ctx, rs)
	s.client.meter.countReclaims(rs, outcomes)
	return outcomes, err
}

type executor struct {
	store.Executor
	meter meter
}

func (e *executor) ClaimForScheduling(ctx context.Context, c store.SchedulingClaim) ([]execution.Execution, error) {
	rows, err := e.Executor.ClaimForScheduling(ctx, c)
	for i := range rows {
		e.meter.countTransition(execution.Requested, &rows[i], execution.Scheduler, execution.NoReason)
	}
	return rows, err
}

func (e *executor) Dispatch(ctx context.Context, by string, ds []store.Dispatch) ([]store.DispatchResult, error) {
	results, err := e.Executor.Dispatch(ctx, by, ds)
	for i := range results {
		if results[i].Applied {
			e.meter.countTransition(execution.Scheduling, &results[i].Row, execution.Scheduler, execution.NoReason)
		}
	}
	return results, err
}

// DispatchDue implements store.Executor. It counts both changes of a row, with no time in scheduling.
func (e *executor) DispatchDue(ctx context.Context, d store.DueDispatch) (store.DueDispatched, error) {
	answer, err := e.Executor.DispatchDue(ctx, d)
	for i := range answer.Rows {
		claimed := answer.Rows[i]
		claimed.Status = execution.Scheduling
		e.meter.countTransition(execution.Requested, &claimed, execution.Scheduler, execution.NoReason)
		e.meter.countTransition(execution.Scheduling, &answer.Rows[i], execution.Scheduler, execution.NoReason)
	}
	return answer, err
}

func (e *executor) Park(ctx context.Context, by string, ps []store.Park) ([]store.Outcome, error) {
	outcomes, err := e.Executor.Park(ctx, by, ps)
	for i := range outcomes {
		if o := &outcomes[i]; o.Applied {
			e.meter.countTransition(execution.Scheduling, &o.Row, execution.Scheduler, o.Row.FailureReason)
		}
	}
	return outcomes, err
}

func (e *executor) Reclaim(ctx context.Context, rs []store.Reclaim) ([]store.Outcome, error) {
	outcomes, err := e.Executor.Reclaim(ctx, rs)
	e.meter.countReclaims(rs, outcomes)
	return outcomes, err
}

func (e *executor) Orchestrate(ctx context.Context, os []store.Orchestration) ([]store.Orchestrated, error) {
	outcomes, err := e.Executor.Orchestrate(ctx, os)
	for i := range outcomes {
		o := &outcomes[i]
		if o.Retry != 0 {
			e.meter.countCreated(execution.RetryManager, os[i].Retry.Reason)
		}
	}
	return outcomes, err
}

func (e *executor) SettleChildren(ctx context.Context, chains []execution.ID, most int) ([]store.Settled, error) {
	settled, err := e.Executor.SettleChildren(ctx, chains, most)
	for i := range settled {
		for range settled[i].Skipped {
			e.meter.countSkipped()
		}
	}
	return settled, err
}

type worker struct {
	store.Worker
	meter meter
}

func (wo *worker) Heartbeat(ctx context.Context, b store.Beat) (store.BeatReply, error) {
	reply, err := wo.Worker.Heartbeat(ctx, b)
	wo.countEnds(reply.Ended)
	return reply, err
}

func (wo *worker) Claim(ctx context.Context, w store.WorkerKey, cs []store.Claim) ([]store.ClaimResult, error) {
	results, err := wo.Worker.Claim(ctx, w, cs)
	for i := range results {
		if results[i].Applied {
			wo.meter.countTransition(execution.Scheduled, &results[i].Row, execution.Worker, execution.NoReason)
		}
	}
	return results, err
}

func (wo *worker) Finish(ctx context.Context, w store.WorkerKey, fs []store.Finish) ([]store.Outcome, error) {
	outcomes, err := wo.Worker.Finish(ctx, w, fs)
	wo.countEnds(outcomes)
	return outcomes, err
}

func (wo *worker) countEnds(outcomes []store.Outcome) {
	for i := range outcomes {
		if o := &outcomes[i]; o.Applied {
			wo.meter.countTransition(o.From, &o.Row, execution.Worker, o.Row.FailureReason)
		}
	}
}

func (wo *worker) Release(ctx context.Context, w store.WorkerKey) ([]execution.Key, error) {
	released, err := wo.Worker.Release(ctx, w)
	for range released {
		wo.meter.countChange(execution.Scheduled, execution.Requested, execution.Worker, execution.WorkerShutdown)
	}
	return released, err
}
