package execution

import (
	"fmt"
	"time"
)

// Health is a worker's health, derived from its own failures and its queue. It is computed wherever it is
// needed and never changes a lifecycle: an unhealthy worker is alive and keeps its executions.
type Health uint8

// The states of source document 003. The scheduler prefers a healthy worker to a degraded one. An
// unhealthy worker gets only a half-open probe: one execution at a time.
const (
	Healthy Health = iota
	Degraded
	Unhealthy
)

// String returns the name in `capabilities.health` and in the API.
func (h Health) String() string {
	switch h {
	case Healthy:
		return "healthy"
	case Degraded:
		return "degraded"
	case Unhealthy:
		return "unhealthy"
	}
	return fmt.Sprintf("health(%d)", uint8(h))
}

// BlamesWorker reports whether a failure for this reason is the worker's fault and not the action's. An
// action that fails everywhere must not make every worker unhealthy (defect D44). So the list contains no
// reason that an action can report itself, or cause by running too long.
func (r Reason) BlamesWorker() bool {
	switch r {
	case WorkerUnavailable, QueueTimeout, WorkerLost, HeartbeatStale:
		return true
	default:
		return false
	}
}

// Figures are the evidence for a worker's health: how the runs of one incarnation ended within the
// sliding window. The worker reports them with its heartbeats.
type Figures struct {
	// Total counts the runs that ended within the window. Failed counts those whose failure blames the
	// worker.
	Total, Failed int
	// Consecutive counts the latest runs in a row whose failures blame the worker, however old they are.
	Consecutive int
	// LastFailure is the time since the latest failure that blames the worker; meaningless if there was none.
	LastFailure time.Duration
	// Average is the average duration of the runs within the window.
	Average time.Duration
}
