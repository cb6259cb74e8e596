package run

import "time"

// Linger is how long everything has to stay quiet before a run ends: longer than any backoff of a
// writer that nobody but itself knows of.
const Linger = 15 * time.Second

// State is what only the world knows of what is left to be done. The questions are asked often, cheap ones first, by one
// task; a world that can't find out says that something is left.
type State interface {
	// Faults says that a fault has not come to its end, or still holds something back.
	Faults() bool
	// Messages says that a message is somewhere, as far as that is known at any moment. A world that has to ask a server
	// for it says no here, and answers in Drained.
	Messages() bool
	// Actions says that an action runs.
	Actions() bool
	// Unfinished says that an execution has not ended, or that its end is not handled.
	Unfinished() bool
	// Drained says that no message is anywhere. It is asked when all else has been quiet for as long as it must.
	Drained() bool
}

// Rest knows when a run is over: when nothing has been left to be done for Linger. All fields are required, but Alerts is nil
// where nothing is expected of alerts. It is for one task.
type Rest struct {
	Clock Clock
	// Linger is the constant of that name, scaled as the scenario is.
	Linger   time.Duration
	Workload *Workload
	Alerts   *Alerts
	State    State

	quiet bool
	since time.Duration
}

// Stirs is told that something is left to be done, by a world that knows it for less than Over finds it out.
func (r *Rest) Stirs() {
	r.Alerts.Awake()
	r.quiet = false
}

// Over says that the run has come to rest, so that it can end.
func (r *Rest) Over() bool {
	if r.State.Faults() || r.Workload.Submitting() || r.State.Messages() || r.State.Actions() || r.State.Unfinished() {
		r.Stirs()
		return false
	}
	if r.Alerts.Pending() {
		r.quiet = false
		return false
	}
	now := r.Clock.Now()
	if !r.quiet {
		r.quiet, r.since = true, now
	}
	if now-r.since < r.Linger {
		return false
	}
	r.quiet = r.State.Drained()
	return r.quiet
}
