package api

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"time"

	"handoff/core/execution"
	"handoff/core/store"
)

// executionView is an execution in responses, with the field names of the contract. Unset fields are null, so
// that a reader sees every field that exists.
type executionView struct {
	listedView
	Parameters json.RawMessage `json:"parameters"`
	Result     *resultView     `json:"result"`
}

// listedView is an execution in lists: without the fields that may be large.
type listedView struct {
	ID        execution.ID `json:"id"`
	ActionRef string       `json:"action_ref"`
	Runtime   string       `json:"runtime"`
	Status    string       `json:"status"`

	Worker *int64 `json:"worker"`
	// WorkerName and PinnedWorkerName are null without a worker, and for a few seconds after a worker's first
	// registration, until this executor has read its name.
	WorkerName  *string `json:"worker_name"`
	Incarnation *int64  `json:"incarnation"`
	Epoch       int64   `json:"epoch"`
	Dispatches  int     `json:"dispatches"`
	// TimeoutSeconds and DispatchTimeoutSeconds are the values that apply to this execution, null for the
	// defaults. OwnLimits names the limits, including max_retries, that the request set; the others come from
	// the action.
	TimeoutSeconds         *int64   `json:"timeout_seconds"`
	DispatchTimeoutSeconds *int64   `json:"dispatch_timeout_seconds"`
	OwnLimits              []string `json:"own_limits"`
	// PinnedWorker is the only worker that may run the execution.
	PinnedWorker     *int64  `json:"pinned_worker"`
	PinnedWorkerName *string `json:"pinned_worker_name"`

	FailureReason *string `json:"failure_reason"`

	// Parent is the first row of the parent's chain if this is a workflow child. While
	// awaits_parent is true, the child waits for the end of that chain.
	Parent       *int64 `json:"parent"`
	AwaitsParent bool   `json:"awaits_parent"`
	// Concurrency is the maximum number of the action's executions in flight.
	Concurrency *int64 `json:"concurrency"`

	OriginalExecution *int64  `json:"original_execution"`
	RetryCount        int     `json:"retry_count"`
	MaxRetries        int     `json:"max_retries"`
	RetryReason       *string `json:"retry_reason"`
	RetryAt           *string `json:"retry_at"`
	IdempotencyKey    *string `json:"idempotency_key"`
	SubmittedBy       *string `json:"submitted_by"`

	Created *string `json:"created"`
	// NoWorkerSince is when the executors first found no fitting worker for a waiting execution; otherwise
	// null.
	NoWorkerSince       *string `json:"no_worker_since"`
	SchedulingAt        *string `json:"scheduling_at"`
	SchedulingBy        *string `json:"scheduling_by"`
	SchedulingExpiresAt *string `json:"scheduling_expires_at"`
	ScheduledAt         *string `json:"scheduled_at"`
	DispatchDeadline    *string `json:"dispatch_deadline"`
	PublishedAt         *string `json:"published_at"`
	StartedAt           *string `json:"started_at"`
	RunDeadline         *string `json:"run_deadline"`
	CancelRequestedAt   *string `json:"cancel_requested_at"`
	CancelRequestedBy   *string `json:"cancel_requested_by"`
	CancelingAt         *string `json:"canceling_at"`
	Ended               *string `json:"ended"`
	OrchestratedAt      *string `json:"orchestrated_at"`
}

// resultView is a result in responses: error, message and failed_by of a failure, or the output of a success.
type resultView struct {
	Error    string          `json:"error,omitempty"`
	Message  string          `json:"message,omitempty"`
	FailedBy string          `json:"failed_by,omitempty"`
	Output   json.RawMessage `json:"output,omitempty"`
}

// nameOf returns a worker's name, nil without a worker or if the name is not known.
func (s *Server) nameOf(worker execution.WorkerID) *string {
	if worker == 0 || s.WorkerName == nil {
		return nil
	}
	return textOrNil(s.WorkerName(worker))
}

func (s *Server) viewSmall(e *execution.Execution) listedView {
	return listedView{
		ID: e.ID, ActionRef: e.Action.Ref, Runtime: e.Action.Runtime, Status: e.Status.String(),
		Worker: numberOrNil(int64(e.Worker)), WorkerName: s.nameOf(e.Worker), Incarnation: numberOrNil(int64(e.Incarnation)), Epoch: int64(e.Epoch), Dispatches: e.Dispatches,
		PinnedWorker: numberOrNil(int64(e.Pinned)), PinnedWorkerName: s.nameOf(e.Pinned), OwnLimits: e.Limits.Names(),
		TimeoutSeconds: numberOrNil(int64(e.Action.Timeout / time.Second)), DispatchTimeoutSeconds: numberOrNil(int64(e.Action.DispatchTimeout / time.Second)),
		Parent: numberOrNil(int64(e.Parent)), AwaitsParent: e.AwaitsParent, Concurrency: numberOrNil(int64(e.Action.Concurrency)),
		FailureReason:     textOrNil(e.FailureReason.String()),
		OriginalExecution: numberOrNil(int64(e.Original)), RetryCount: e.RetryCount, MaxRetries: e.Action.MaxRetries,
		RetryReason: textOrNil(e.RetryReason.String()), RetryAt: timeOrNil(e.NotBefore), IdempotencyKey: textOrNil(clientKey(e.IdempotencyKey)),
		SubmittedBy: textOrNil(e.SubmittedBy), CancelRequestedBy: textOrNil(e.CancelRequestedBy),
		Created: timeOrNil(e.Created), NoWorkerSince: timeOrNil(e.UnschedulableSince), SchedulingAt: timeOrNil(e.SchedulingAt), SchedulingBy: textOrNil(e.SchedulingBy), SchedulingExpiresAt: timeOrNil(e.SchedulingExpiresAt),
		ScheduledAt: timeOrNil(e.ScheduledAt), DispatchDeadline: timeOrNil(e.DispatchDeadline), PublishedAt: timeOrNil(e.PublishedAt),
		StartedAt: timeOrNil(e.StartedAt), RunDeadline: timeOrNil(e.RunDeadline), CancelRequestedAt: timeOrNil(e.CancelRequestedAt),
		CancelingAt: timeOrNil(e.CancelingAt), Ended: timeOrNil(e.Ended), OrchestratedAt: timeOrNil(e.OrchestratedAt),
	}
}

// unreadableView replaces a row of a list that can't be read.
type unreadableView struct {
	ID         int64  `json:"id"`
	Unreadable string `json:"unreadable"`
}

// viewListed returns the view of a list's rows. It logs a row that can't be read and shows it as unreadable.
func (s *Server) viewListed(r *http.Request) func(*store.Listed) any {
	return func(row *store.Listed) any {
		if row.Unreadable != "" {
			s.Log.LogAttrs(r.Context(), slog.LevelWarn, "a row can't be read", slog.Int64("execution", int64(row.ID)), slog.String("why", row.Unreadable))
			return unreadableView{int64(row.ID), row.Unreadable}
		}
		return s.viewSmall(&row.Execution)
	}
}

func (s *Server) viewExecution(e *execution.Execution) executionView {
	v := executionView{listedView: s.viewSmall(e), Parameters: e.Parameters}
	if len(v.Parameters) == 0 {
		v.Parameters = json.RawMessage("{}")
	}
	if e.Status.Terminal() {
		v.Result = &resultView{Error: e.Result.Error, Message: e.Result.Message, Output: e.Result.Output}
		if e.Result.FailedBy != execution.NoPart {
			v.Result.FailedBy = e.Result.FailedBy.String()
		}
	}
	return v
}

// numberOrNil, textOrNil and timeOrNil return nil for values that are not set.
func numberOrNil(n int64) *int64 {
	if n == 0 {
		return nil
	}
	return &n
}

func textOrNil(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func timeOrNil(t time.Time) *string {
	if t.IsZero() {
		return nil
	}
	s := t.UTC().Format(time.RFC3339Nano)
	return &s
}
