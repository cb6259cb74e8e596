package store

import (
	"time"

	"handoff/core/execution"
)

// The parts of the executor that can be set to observe only, and the action that the prober would take. The
// timeout monitor has the same name in transitions.
const (
	PartMonitor = "execution_timeout_monitor"
	PartProber  = "health_prober"
	// WouldAvoid is the action that an observing prober would take: treat the worker as unreachable, and
	// choose it last.
	WouldAvoid = "unreachable"
)

// Observed is the result of ObserveReclaims for one reclaim.
type Observed struct {
	// New reports whether this call recorded the reclaim: it would have been applied, and was not recorded
	// earlier.
	New bool
	// Would is the status that the reclaim would have given the row, None unless New.
	Would execution.Status
}

// ProbedWorker is an observing prober's finding about one worker.
type ProbedWorker struct {
	WorkerKey
	// Ready reports whether the worker's endpoint answers that it is ready. If not, Reason is the cause.
	Ready  bool
	Reason string
}

// Observation is one action that a part would have taken if it had not been set to observe only.
type Observation struct {
	ID   int64
	Part string
	// Key is the dispatch concerned; zero for a worker's outage.
	Key    execution.Key
	Worker WorkerKey
	// Would is the name of a status, or WouldAvoid.
	Would  string
	Reason string
	At     time.Time
	// EndedAt is the time at which the worker's endpoint answered again; zero while the outage lasts, and for
	// dispatches.
	EndedAt time.Time
}

// ObservationQuery selects a page of observations, newest first. A zero filter selects all.
type ObservationQuery struct {
	Part      string
	Execution execution.ID
	Worker    execution.WorkerID
	// The page has only ids below Before; 0 begins with the newest.
	Before int64
	Limit  int
}

// Matches reports whether an observation passes the filters.
func (oq *ObservationQuery) Matches(o *Observation) bool {
	return (oq.Part == "" || o.Part == oq.Part) && (oq.Execution == 0 || o.Key.ID == oq.Execution) &&
		(oq.Worker == 0 || o.Worker.ID == oq.Worker) && (oq.Before == 0 || o.ID < oq.Before)
}
