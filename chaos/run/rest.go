package run

import "time"

// Linger is how long everything must stay quiet before a run ends. It is longer than any backoff of
// a writer that only the writer itself knows of.
const Linger = 15 * time.Second

// State tells what is left to do, as far as only the world knows it. One task asks often, the cheap
// questions first. A world that can't find out says that something is left.
type State interface {
	// Faults says that a fault has not ended, or that its effect still holds something back.
	Faults() bool
	// Messages says that a message is somewhere, if the world knows that at every moment. A world
	// that has to ask a server says no here and answers in Drained.
	Messages() bool
	// Actions says that an action runs.
	Actions() bool
	// Unfinished says that an execution has not ended, or that its end was not handled.
	Unfinished() bool
	// Drained says that no message is anywhere. It is asked when everything else has been quiet for
	// Linger.
	Drained() bool
}

// Rest knows when a run is over: when nothing has been left to do for Linger. All fields are
// required, but Alerts is nil if the scenario expects nothing of alerts. It is for one task.
type Rest struct {
	Clock Clock
	// Linger is the constant of that name, scaled like the scenario.
	Linger   time.Duration
	Workload *Workload
	Alerts   *Alerts
	State    State

	quiet bool
	since time.Duration
}

// Stirs says that something is left to do. A world calls it for changes too short for Over to
// notice.
func (r *Rest) Stirs() {
	r.Alerts.Awake()
	r.quiet = false
}

// Over says that the run has come to rest and can end.
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
