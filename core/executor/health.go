package executor

import (
	"handoff/core/config"
	"handoff/core/execution"
	"handoff/core/store"
)

// assessment is what an executor makes of a worker's evidence at one moment. It is derived anew at every
// pass and stored nowhere.
type assessment struct {
	health execution.Health
	// halfOpen says that an unhealthy worker has been left alone for long enough: one execution may try
	// whether it has recovered. This is the way back (defect D43); without it a quarantine would feed on
	// itself, because a worker that gets nothing can't show that it is well.
	halfOpen bool
}

// judge derives a worker's assessment. unreachable says that the last probes found nobody: that alone
// makes nobody unhealthy, because work travels by the broker and not by the probe's way.
func judge(w *store.WorkerRow, c config.Config, unreachable bool) assessment {
	f := w.Evidence(c.Health.Window)
	s := assessment{health: c.Health.Of(f, w.Queued)}
	s.halfOpen = c.Health.Failing(f) && f.LastFailure >= c.Executor.HealthCheckInterval && w.Queued < c.Health.QueueDepthUnhealthy
	if c.Health.Enabled && unreachable && s.health == execution.Healthy {
		s.health = execution.Degraded
	}
	return s
}
