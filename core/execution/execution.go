package execution

import (
	"encoding/json"
	"time"
)

// ID identifies one row. A row is one attempt of a retry chain.
type ID int64

// WorkerID identifies a worker by its name. It survives restarts; the Incarnation does not.
type WorkerID int64

// Incarnation identifies one registration of one worker. It grows with every registration of any
// worker: the larger of two is the newer, and no two processes ever share one (defect D14).
type Incarnation int64

// Epoch is the fencing token of an execution: 0 at creation, incremented by each dispatch and each take-back.
type Epoch int64

// Key names one epoch of one execution: the subject of a message, a claim or a result.
type Key struct {
	ID    ID
	Epoch Epoch
}

// Action is something that can be run.
type Action struct {
	Ref        string
	Runtime    string
	Entrypoint string
	// Timeout ends a run; 0 means DefaultTimeout.
	Timeout time.Duration
	// DispatchTimeout is how long a dispatch may wait for its claim; 0 means the configuration's.
	DispatchTimeout time.Duration
	// MaxRetries bounds the retries that may follow a claimed run that failed for a retriable reason.
	// Each retry is a new row.
	MaxRetries int
	// RetriedExitCodes are exit codes that the action's author declares to be temporary failures. Their
	// reason is Transient, whatever they mean in other programs.
	RetriedExitCodes ExitCodes
	// Concurrency bounds the number of the action's executions in flight, each from its scheduling until its
	// end was handled; 0 for no limit.
	Concurrency int
	// PutBy is the name of the API token that stored the action. It is empty if there are no tokens, for
	// action files, and in the copy that an execution holds.
	PutBy string
}

// DefaultTimeout is the run timeout of an action that does not set one.
const DefaultTimeout = 5 * time.Minute

// RunTimeout returns Timeout, or the default if the action has none.
func (a Action) RunTimeout() time.Duration {
	if a.Timeout > 0 {
		return a.Timeout
	}
	return DefaultTimeout
}

// Result is the outcome that a terminal execution keeps.
type Result struct {
	// Error is the short text of a failure, empty for success; Message is its detail.
	Error   string `json:"error,omitempty"`
	Message string `json:"message,omitempty"`
	// FailedBy is the part that decided the failure.
	FailedBy Part `json:"-"`
	// Output is the JSON value that the action returned.
	Output json.RawMessage `json:"output,omitempty"`
}

// Execution is one row. A zero time is null in the database. Every step has its own timestamp: a
// timestamp that several writes share would restart every timeout measured on it (defect D55). All
// timestamps are from the database's clock.
type Execution struct {
	ID ID
	// Action is the action that applies to this execution: its definition at creation, with Limits applied.
	Action     Action
	Limits     Limits
	Parameters json.RawMessage

	// The small fields are side by side, so that a row, which is copied a lot, takes 768 bytes. That is one
	// of the allocator's block sizes; the next larger one is 896.
	Status        Status
	FailureReason Reason
	RetryReason   Reason
	// AwaitsParent reports whether the row is requested and becomes due when its parent's chain completes.
	AwaitsParent bool

	// Worker and Incarnation identify the owner from the dispatch on. They are zero before it and after a
	// take-back.
	Worker      WorkerID
	Incarnation Incarnation
	Epoch       Epoch

	// Dispatches counts the dispatches that were not claimed by their deadline although their worker stayed
	// active. Only these dispatches count against max_dispatches.
	Dispatches int
	// Avoid is the worker on which this execution or its predecessor last failed. The scheduler prefers any
	// other worker that fits.
	Avoid WorkerID
	// Pinned is the only worker that may run the execution and its retries; 0 if any worker may.
	Pinned WorkerID

	DispatchDeadline time.Time
	RunDeadline      time.Time

	Result Result

	// Original is the first row of the retry chain, zero for the first row itself.
	Original   ID
	RetryCount int
	// NotBefore is the time at which a requested row is due; zero for at once. It holds the backoff of a
	// retry (`retry_at`) or of a take-back.
	NotBefore time.Time

	// Parent is the first row of the parent's chain if this is a workflow child, else 0.
	Parent ID

	// CancelRequestedAt is the time at which the cancellation of the chain was requested. Only the chain's
	// first row has it, because a cancellation applies to the whole chain (defect D54).
	CancelRequestedAt time.Time
	// CancelRequestedBy and SubmittedBy are the names of the API tokens that requested the cancellation and
	// the execution; empty without tokens. Retries have the SubmittedBy of the first row.
	CancelRequestedBy string
	SubmittedBy       string

	IdempotencyKey string

	Created             time.Time
	UnschedulableSince  time.Time
	SchedulingAt        time.Time
	SchedulingBy        string
	SchedulingExpiresAt time.Time
	ScheduledAt         time.Time
	// PublishedAt is the time from which the current dispatch is known to have reached the broker. It is the
	// time of its claim, or of the mark that a confirmed dispatch gets if it was not claimed by then. Zero
	// means unknown.
	PublishedAt time.Time
	StartedAt   time.Time
	// ClaimBeat is the number of the worker's latest heartbeat when the worker asked for the claim. A later
	// heartbeat that does not list the row proves that the worker does not run it.
	ClaimBeat uint64
	// CancelingAt is the time at which the worker that runs the execution was asked to end it.
	CancelingAt    time.Time
	Ended          time.Time
	OrchestratedAt time.Time
	// SettlingAt is set on the first row of a chain whose end was handled, as long as children may still wait
	// to be started or skipped. It is the time at which some of them were last settled, or else at which the
	// end was handled. Zero means that no child waits.
	SettlingAt time.Time
}

// KeyLifetime is how long an idempotency key belongs to the execution that it created, by the database's
// clock. At an age of exactly KeyLifetime the key is free, even if it was not forgotten yet. The next
// execution created with the key takes it over in the same step. Forgetting old keys only keeps the index of
// keys small.
const KeyLifetime = 24 * time.Hour

// Key returns the execution's ID and current epoch.
func (e *Execution) Key() Key { return Key{e.ID, e.Epoch} }

// Retriable reports whether another row may follow e in its chain: e ended for a reason that may
// pass, and has attempts left. The database's is_execution_retriable decides in the same way. Whether a row
// does follow also depends on retry.enabled, on whether the chain is being cancelled, and on
// retry.free_shutdowns (MayBeFree).
func (e *Execution) Retriable() bool {
	switch e.Status {
	case Failed, Timeout, Abandoned:
		return e.FailureReason.Retriable() && e.RetryCount < e.Action.MaxRetries
	default:
		return false
	}
}

// MayBeFree reports whether a free retry may follow e. That needs one of two reasons. Either its worker was
// stopped, which is nobody's fault, and the action allows retries. Or the worker claimed it but its machine
// could not start the action, so no part of it has run. The configuration bounds the free retries of a chain
// (retry.free_shutdowns).
func (e *Execution) MayBeFree() bool {
	switch e.FailureReason {
	case WorkerShutdown:
		return e.Status == Failed && e.Action.MaxRetries > 0
	case WorkerUnavailable:
		return e.Status == Failed && !e.StartedAt.IsZero()
	default:
		return false
	}
}

// Chain returns the ID of the first row of e's retry chain, which is e's own ID if e is the first.
func (e *Execution) Chain() ID {
	if e.Original != 0 {
		return e.Original
	}
	return e.ID
}
