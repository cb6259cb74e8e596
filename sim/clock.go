package sim

import (
	"time"

	"handoff/chaos/run"
	"handoff/sim/kernel"
)

// clock adapts virtual time to run.Clock. The cluster is up at once, so the scenario begins with the run.
type clock struct{ k *kernel.Kernel }

var _ run.Clock = clock{}

// Now implements run.Clock.
func (c clock) Now() time.Duration { return c.k.Now() }

// After implements run.Clock.
func (c clock) After(d time.Duration, f func()) { c.k.After(d, f) }
