// Package run is the runner: what a run of a scenario does that does not depend on the world in which it happens. It
// submits the workload, injects the faults, takes samples for the alerts, knows when nothing is left to be done, and makes
// a verdict of the history.
//
// A world provides the time (Clock), random numbers (Draws), tasks (host.Host), the system under test (Client), what is left
// to be done (State), what faults need (package fault) and the evidence. The simulator's clock is the kernel's, so this package
// starts no goroutine and waits for nothing itself; a mutex is never held while a task waits.
package run

import (
	"time"

	"handoff/chaos/fault"
	"handoff/chaos/invariant"
	"handoff/chaos/scenario"
	"handoff/core/config"
)

// Horizon is when a run ends at the latest: the last moment at which something new can happen, and
// the time that the configuration implies for what is then still open.
func Horizon(s *scenario.Scenario, c config.Config) time.Duration {
	last := s.LastSubmission()
	longest, retries := time.Duration(0), 0
	for _, a := range s.Actions {
		longest = max(longest, a.TakesMax)
		retries = max(retries, a.MaxRetries)
	}
	for i := range s.Workload {
		retries = max(retries, s.Workload[i].Limits.MaxRetries)
	}
	settle := s.Settle
	if settle == 0 {
		settle = time.Duration(s.Generations()) * invariant.Settle(c, longest, retries)
	}
	for i := range s.Faults {
		f := &s.Faults[i]
		begin := f.When.Max
		if f.When.After != "" {
			// A trigger comes while there is work, at the latest when the workload is over.
			begin = s.LastSubmission() + settle/2 + f.When.Plus
		}
		last = max(last, begin+lasts(s, f, c))
	}
	return last + settle + Linger
}

// lasts bounds how long after its beginning a fault can still change something.
func lasts(s *scenario.Scenario, f *scenario.Fault, c config.Config) time.Duration {
	_, targets := s.Cluster.Names().Select(f.Spec.Strikes().Target)
	return f.Kind.Lasts(f.Spec, fault.Bounds{
		For: f.For, RestartAfter: f.RestartAfter, Targets: targets, Stop: c.Worker.ShutdownTimeout + invariant.BoundsOf(c).Slack,
	})
}

// AtLeast is how long a run of a scenario takes at least, if its faults strike when they are expected to.
func AtLeast(s *scenario.Scenario) time.Duration {
	last := s.LastSubmission()
	for i := range s.Faults {
		f := &s.Faults[i]
		_, targets := s.Cluster.Names().Select(f.Spec.Strikes().Target)
		last = max(last, f.When.Max+f.Kind.Lasts(f.Spec, fault.Bounds{For: f.For, RestartAfter: f.RestartAfter, Targets: targets}))
	}
	return last
}
