package run

import "time"

// Linger is how long everything must stay quiet before a run ends. It is longer than any backoff of a
// process, which a world can't observe.
const Linger = 15 * time.Second

// State reports the remaining work that only the world knows. One task calls it often, the cheap methods
// first. A world that can't determine an answer reports that work is left.
type State interface {
	// Faults reports whether a fault has not ended, or still delays something.
	Faults() bool
	// Messages reports whether a message exists anywhere, in a world that can always tell. A world that must
	// query a server returns false here and answers in Drained.
	Messages() bool
	// Actions reports whether an action runs.
	Actions() bool
	// Unfinished reports whether any execution has not ended, or its end was not handled yet.
	Unfinished() bool
	// Drained reports whether there is no message anywhere. It is called when everything else has been quiet
	// for Linger.
	Drained() bool
}

// Rest detects the end of a run: when nothing has been left to do for Linger. All fields are required, but
// Alerts is nil if the scenario has no expectation about alerts. It is for one task.
type Rest struct {
	Clock Clock
	// Linger is the constant Linger, scaled like the scenario.
	Linger   time.Duration
	Workload *Workload
	Alerts   *Alerts
	State    State

	quiet bool
	since time.Duration
}

// Stirs records that something is left to do. A world calls it for changes that are too short for Over to
// detect.
func (r *Rest) Stirs() {
	r.Alerts.Awake()
	r.quiet = false
}

// Over reports whether the run has come to rest and can end.
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
