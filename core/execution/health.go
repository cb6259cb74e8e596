package execution

import (
	"fmt"
	"time"
)

// Health is what a worker's own failures and its queue say of it. It is derived wherever it is needed
// and never decides a lifecycle: an unhealthy worker is alive, and keeps what it has.
type Health uint8

// The states of source document 003. A healthy worker is chosen before a degraded one; an unhealthy
// one gets nothing but a half-open probe, one execution at a time.
const (
	Healthy Health = iota
	Degraded
	Unhealthy
)

// String is the name in `capabilities.health` and in the API.
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

// BlamesWorker says that a failure for this reason is the worker's and not the action's. An action that
// fails everywhere must not take every worker down with it (defect D44), so a reason that an action can
// give, or earn by running too long, is never among them.
func (r Reason) BlamesWorker() bool {
	switch r {
	case WorkerUnavailable, QueueTimeout, WorkerLost, HeartbeatStale:
		return true
	default:
		return false
	}
}

// Figures are the evidence for a worker's health: how the runs of one incarnation ended within the
// sliding window, as the worker reports them with its heartbeats.
type Figures struct {
	// Total and Failed count the runs that ended within the window, and those of them that failed for
	// a reason that blames the worker.
	Total, Failed int
	// Consecutive counts those failures since the last run that was not one of them, however long ago.
	Consecutive int
	// LastFailure is how long ago the last of them was; meaningless where there is none.
	LastFailure time.Duration
	// Average is how long the runs within the window took.
	Average time.Duration
}
