package execution

import "fmt"

// Reason is the cause for which an execution failed, was reclaimed or is retried. The code that detects the
// failure chooses the reason; nothing derives it from an error text (defect D48).
type Reason uint8

// The reasons of the contract. Those up to Connection can be retried.
const (
	NoReason Reason = iota
	WorkerUnavailable
	NoWorkers
	QueueTimeout
	DispatchTimeout
	Unroutable
	WorkerLost
	WorkerShutdown
	HeartbeatStale
	RunTimeout
	Transient
	Connection
	Validation
	Permission
	ActionNotFound
	InvalidParameters
	Rejected
	CancelRequested
	ParentFailed
	Unknown
)

// Retriable reports whether another attempt may succeed after a failure for this reason.
func (r Reason) Retriable() bool { return r >= WorkerUnavailable && r <= Connection }

var reasonNames = [...]string{ //detlint:ok a constant table, never written
	NoReason:          "",
	WorkerUnavailable: "worker_unavailable",
	NoWorkers:         "no_workers",
	QueueTimeout:      "queue_timeout",
	DispatchTimeout:   "dispatch_timeout",
	Unroutable:        "unroutable",
	WorkerLost:        "worker_lost",
	WorkerShutdown:    "worker_shutdown",
	HeartbeatStale:    "heartbeat_stale",
	RunTimeout:        "run_timeout",
	Transient:         "transient",
	Connection:        "connection",
	Validation:        "validation",
	Permission:        "permission",
	ActionNotFound:    "action_not_found",
	InvalidParameters: "invalid_parameters",
	Rejected:          "rejected",
	CancelRequested:   "cancelled",
	ParentFailed:      "parent_failed",
	Unknown:           "unknown",
}

// String returns the name in the database and in messages; empty for NoReason.
func (r Reason) String() string {
	if int(r) < len(reasonNames) {
		return reasonNames[r]
	}
	return fmt.Sprintf("reason(%d)", uint8(r))
}

// ParseReason returns the reason whose String is name. The empty name is NoReason; an unknown name is an
// error.
func ParseReason(name string) (Reason, error) {
	for i, n := range reasonNames {
		if n == name {
			return Reason(i), nil
		}
	}
	return NoReason, fmt.Errorf("unknown failure reason %q", name)
}

// OfAction reports whether an action may give this reason for its own failure. An action must not give the
// other reasons, which concern its worker, its message or its request.
func (r Reason) OfAction() bool {
	return r >= Transient && r <= Rejected || r == Unknown
}

// Reasons lists the names of all reasons in their order, for schemas and error texts.
func Reasons() []string { return append([]string(nil), reasonNames[1:]...) }
