package executor

import (
	"handoff/core/config"
	"handoff/core/execution"
	"handoff/core/store"
)

// assessment is an executor's judgement of a worker's evidence at one moment. Every pass derives it
// anew, and nothing stores it.
type assessment struct {
	health execution.Health
	// halfOpen says that an unhealthy worker has been left alone for long enough: one execution may
	// test whether it has recovered. This is the way out of quarantine (defect D43). Without it,
	// quarantine would never end, because a worker without work can't show that it is well.
	halfOpen bool
}

// assessWorker derives a worker's assessment. unreachable says that the last probes failed. That alone
// makes no worker unhealthy, because work reaches it through the broker and not over the probe's
// path.
func assessWorker(w *store.WorkerRow, c *config.Config, unreachable bool) assessment {
	f := w.Evidence(c.Health.Window)
	s := assessment{health: c.Health.Of(f, w.Queued)}
	s.halfOpen = c.Health.Failing(f) && f.LastFailure >= c.Executor.HealthCheckInterval && w.Queued < c.Health.QueueDepthUnhealthy
	if c.Health.Enabled && unreachable && s.health == execution.Healthy {
		s.health = execution.Degraded
	}
	return s
}
