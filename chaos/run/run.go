// Package run is the runner: the parts of a run that don't depend on the world. It submits the workload,
// injects the faults, takes samples for the alerts, detects when nothing is left to do, and turns the
// history into a verdict.
//
// A world provides the time (Clock), random numbers (Draws), tasks (host.Host), the system under test
// (Client), the remaining work (State), the interfaces of faults (package fault) and the evidence. The
// simulator's clock is the kernel's, so this package starts no goroutines and never waits by itself, and a
// mutex is never held while a task waits.
package run

import (
	"time"

	"handoff/chaos/fault"
	"handoff/chaos/invariant"
	"handoff/chaos/scenario"
	"handoff/core/config"
)

// Horizon returns the latest end of a run: the last moment at which something new can happen, plus the time
// that the configuration allows for finishing the open work.
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
			// A trigger occurs while there is work: at the end of the workload at the latest.
			begin = s.LastSubmission() + settle/2 + f.When.Plus
		}
		last = max(last, begin+longestEffect(s, f, c))
	}
	return last + settle + Linger
}

// longestEffect returns an upper bound on the time from a fault's beginning to its last effect.
func longestEffect(s *scenario.Scenario, f *scenario.Fault, c config.Config) time.Duration {
	_, targets := s.Cluster.Names().Select(f.Spec.Strikes().Target)
	return f.Kind.Lasts(f.Spec, fault.Bounds{
		For: f.For, RestartAfter: f.RestartAfter, Targets: targets, Stop: c.Worker.ShutdownTimeout + invariant.BoundsOf(c).Slack,
	})
}

// AtLeast returns the shortest possible duration of a run of a scenario whose faults strike at their expected
// times.
func AtLeast(s *scenario.Scenario) time.Duration {
	last := s.LastSubmission()
	for i := range s.Faults {
		f := &s.Faults[i]
		_, targets := s.Cluster.Names().Select(f.Spec.Strikes().Target)
		last = max(last, f.When.Max+f.Kind.Lasts(f.Spec, fault.Bounds{For: f.For, RestartAfter: f.RestartAfter, Targets: targets}))
	}
	return last
}
