package run

import (
	"time"

	"handoff/chaos/fault"
)

// Clock is the time of a world: the kernel's virtual time, or real time. Triggers, faults, workload
// and alerts of both worlds use it.
type Clock interface {
	// Now returns the time since the scenario began. It begins when the cluster is up.
	Now() time.Duration
	// After calls f once, d from now, unless the run is over by then. It returns at once. If d is
	// zero or negative, f is called soon, but never before After has returned.
	After(d time.Duration, f func())
}

// Draws is an independent source of random numbers: draws from other sources don't change what it returns.
// The run's seed and the source's label determine its numbers.
type Draws = fault.Draws
