package run

import (
	"time"

	"handoff/chaos/fault"
)

// Clock is how time passes in a world: the kernel's virtual time, or the real one. Both worlds run the same triggers,
// faults, workload and alerts over it.
type Clock interface {
	// Now is the time since the scenario began: its moment 0 is when the cluster was up.
	Now() time.Duration
	// After calls f once, d from now, unless the run is over by then. It does not wait. A d of zero or less stands for
	// soon: f is never called before After has returned.
	After(d time.Duration, f func())
}

// Draws is a source of random numbers of its own, so that whatever else draws does not shift it. A run's seed and the
// source's label decide what it draws.
type Draws = fault.Draws
