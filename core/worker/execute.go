package worker

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"handoff/core/broker"
	"handoff/core/execution"
	"handoff/core/store"
	"handoff/core/telemetry"
)

// runAction runs a claimed execution's action and returns the result to write. The action's time counts from
// sent, when the claim was sent. The database's run deadline counts from the claim's effect, which is later.
// So the execution is not reclaimed while its action still has time.
func (s *session) runAction(e *entry, row *execution.Execution, sent time.Duration) store.Finish {
	f := store.Finish{Key: e.key, To: execution.Failed, Result: execution.Result{FailedBy: execution.Worker}}
	if s.lease.checkFence() || !s.held.beginAction(e) {
		// The worker lost its right to run between claim and start, so nothing has run.
		if s.held.noteStopped(e) == execution.CancelRequested {
			return cancelledFinish(f)
		}
		f.Reason = execution.HeartbeatStale
		f.Result.Error = "Worker could not renew its lease before the action began"
		return f
	}
	grace := s.config.Worker.KillGrace
	deadline := sent + row.Action.RunTimeout()
	limit := deadline + grace
	_, fence := s.lease.fenceDeadlines()
	if s.host.Monotonic() >= deadline {
		// The worker has stalled since its claim, so no time is left to run.
		s.held.noteStopped(e)
		f.To, f.Reason = execution.Timeout, execution.RunTimeout
		f.Result.Error = "Action could not begin before its run deadline"
		return f
	}
	action, err := s.runner.Start(context.Background(), Spec{
		Key: e.key, Worker: s.key, Action: row.Action, Parameters: row.Parameters, Fence: fence, Limit: limit,
	})
	if err != nil {
		return s.notStarted(f, s.held.noteStopped(e), deadline, err)
	}
	s.starts.restNoMore(s.host.Monotonic())
	if ended, grace := s.held.noteStarted(e, action); ended {
		action.Kill(grace)
	}
	// A renewal may have succeeded while the action was starting.
	_, fence = s.lease.fenceDeadlines()
	action.Extend(fence)

	ctx, cancel := s.host.WithTimeout(context.Background(), max(0, deadline-s.host.Monotonic()))
	exit, err := action.Wait(ctx)
	cancel()
	timedOut := err != nil
	if timedOut {
		action.Kill(grace)
		exit, _ = action.Wait(context.Background())
	}
	why := s.held.noteStopped(e)
	timedOut = timedOut || why == execution.NoReason && s.host.Monotonic() >= limit
	return s.exitVerdict(f, row, exit, why, timedOut)
}

// notStarted returns the result of a run whose action was not started. The machine is at fault only if time
// was left: a stalled worker may have reached the fence or the run deadline, after which nothing is started
// (see Runner.Start). A machine's fault counts against its worker's health.
func (s *session) notStarted(f store.Finish, why execution.Reason, deadline time.Duration, err error) store.Finish {
	f.Result.Message = err.Error()
	switch {
	case why == execution.CancelRequested:
		return cancelledFinish(f)
	case s.lease.checkFence():
		f.Reason = execution.HeartbeatStale
		f.Result.Error = "Action could not begin before the worker's fence"
	case s.host.Monotonic() >= deadline:
		f.To, f.Reason = execution.Timeout, execution.RunTimeout
		f.Result.Error = "Action could not begin before its run deadline"
	default:
		// No action can report this reason, so the machine is to blame.
		f.Reason = execution.WorkerUnavailable
		s.restAfter(err)
		f.Result.Error = "Action could not be started"
	}
	return f
}

// exitVerdict turns an exit into a terminal status. If an action ended by itself, its exit counts, even if
// the worker was ending it.
func (s *session) exitVerdict(f store.Finish, row *execution.Execution, exit Exit, why execution.Reason, timedOut bool) store.Finish {
	switch {
	case !exit.Killed && exit.Reason == execution.NoReason:
		return store.Finish{Key: f.Key, To: execution.Completed, Result: execution.Result{Output: exit.Output}}
	case !exit.Killed:
		f.Reason = exit.Reason
		f.Result.Error, f.Result.Message, f.Result.Output = "Action failed", exit.Message, exit.Output
		if exit.Reason == execution.WorkerShutdown {
			f.Result.Error = "worker shutting down"
		}
		if why != execution.CancelRequested {
			f.Result.Message = withoutRetry(row, exit)
		}
	case why == execution.CancelRequested:
		return cancelledFinish(f)
	case why == execution.WorkerShutdown:
		f.Reason = why
		f.Result.Error = "worker shutting down"
	case timedOut:
		f.To, f.Reason = execution.Timeout, execution.RunTimeout
		f.Result.Error = "Action exceeded its timeout and was killed"
	case why != execution.NoReason:
		f.Reason = why
		f.Result.Error = "Action was ended: " + why.String()
	default:
		// The shim killed the action at the last fence that it had received.
		f.Reason = execution.HeartbeatStale
		f.Result.Error = "Action was ended at the worker's fence"
	}
	return f
}

// withoutRetry returns the message of an action's own failure. If retries are left but none follows, the
// message's last line explains why, because max_retries suggests a retry.
func withoutRetry(row *execution.Execution, exit Exit) string {
	left := row.Action.MaxRetries - row.RetryCount
	if left <= 0 || exit.Reason.Retriable() {
		return exit.Message
	}
	why := fmt.Sprintf("the reason is %s, which is never retried", exit.Reason)
	switch {
	case exit.Code != 0:
		code := strconv.Itoa(exit.Code)
		why = "exit code " + code + " is not retried. If a later attempt may succeed, declare retried_exit_codes: [" + code + "] in the action"
	case exit.Reason == execution.Unknown:
		why = "the reason is unknown, and only what an action reports as a failure for now is retried, for example exit code 75"
	}
	note := fmt.Sprintf("Not retried, with %d of %d retries left, because %s (docs/actions.md, What is retried).", left, row.Action.MaxRetries, why)
	if exit.Message == "" {
		return note
	}
	return exit.Message + "\n" + note
}

func cancelledFinish(f store.Finish) store.Finish {
	f.To, f.Reason = execution.Cancelled, execution.CancelRequested
	f.Result.Error = "Execution cancelled"
	return f
}

// storableFinish turns a result that the database permanently refuses into one that it accepts: the status
// stays, and the refusal replaces the action's output. Otherwise the run would be lost and repeated because
// of its output.
func storableFinish(f store.Finish, refusal error) store.Finish {
	f.Result = execution.Result{
		Error: strings.ToValidUTF8(f.Result.Error, "?"), FailedBy: f.Result.FailedBy,
		Message: "the database refused the action's output: " + strings.ToValidUTF8(refusal.Error(), "?"),
	}
	return f
}

// keepRefused stores the result of a lost execution for later inspection. It makes only a few attempts.
func (s *session) keepRefused(f store.Finish, row *execution.Execution) {
	s.recorder.Add(telemetry.RefusedResults, 1, telemetry.Labels{})
	s.log.LogAttrs(context.Background(), slog.LevelWarn, "stale write rejected: result of a lost execution",
		slog.Int64("execution", int64(f.Key.ID)), slog.Int64("epoch", int64(f.Key.Epoch)), slog.String("result", f.To.String()),
		slog.String("now", row.Status.String()), slog.Int64("at", int64(row.Epoch)))
	backoff := broker.NewBackoff(s.host, 200*time.Millisecond, 2*time.Second)
	for range 3 {
		err := s.db(func(ctx context.Context) error { return s.store.KeepRefusedResult(ctx, s.key, f) })
		if err == nil {
			return
		}
		s.limited.LogAttrs(context.Background(), slog.LevelWarn, "result of a lost execution could not be kept", slog.Int64("execution", int64(f.Key.ID)), slog.Any("error", err))
		if !store.Retriable(err) || backoff.Wait(s.closing) != nil {
			return
		}
	}
}
