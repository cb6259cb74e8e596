package store

import (
	"time"

	"handoff/core/execution"
)

// The parts of the executor that can be told to observe only, and what the prober would do: the name of the
// monitor's part is that of its transitions.
const (
	PartMonitor = "execution_timeout_monitor"
	PartProber  = "health_prober"
	// WouldAvoid is what an observing prober would do: take the worker for unreachable, and choose it last.
	WouldAvoid = "unreachable"
)

// Observed is the answer of ObserveReclaims for one reclaim.
type Observed struct {
	// New says that this call recorded it: nobody had before, and the reclaim would have been applied.
	New bool
	// Would is the status that the reclaim would have given the row; None where it is not new.
	Would execution.Status
}

// ProbedWorker is what an observing prober has found out about one worker.
type ProbedWorker struct {
	WorkerKey
	// Ready says that the worker's endpoint answers that it is ready; Reason why not, otherwise.
	Ready  bool
	Reason string
}

// Observation is one thing that a part would have done if it had not been told to observe only.
type Observation struct {
	ID   int64
	Part string
	// Key is the dispatch that it is about; zero for a worker's outage.
	Key    execution.Key
	Worker WorkerKey
	// Would is the name of a status, or WouldAvoid.
	Would  string
	Reason string
	At     time.Time
	// EndedAt is when the worker's endpoint answered again; zero while the outage lasts, and for dispatches.
	EndedAt time.Time
}

// ObservationQuery asks for a page of observations, newest first. A filter that is zero lets all pass.
type ObservationQuery struct {
	Part      string
	Execution execution.ID
	Worker    execution.WorkerID
	// Before is the id under which the page begins; 0 for the newest.
	Before int64
	Limit  int
}

// Matches says that an observation passes the filters.
func (q *ObservationQuery) Matches(o *Observation) bool {
	return (q.Part == "" || o.Part == q.Part) && (q.Execution == 0 || o.Key.ID == q.Execution) &&
		(q.Worker == 0 || o.Worker.ID == q.Worker) && (q.Before == 0 || o.ID < q.Before)
}
