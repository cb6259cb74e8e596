package executor

import (
	"handoff/core/config"
	"handoff/core/execution"
	"handoff/core/store"
)

// assessment is an executor's current judgement of a worker. Every pass derives it from the worker's
// evidence; nothing stores it.
type assessment struct {
	health execution.Health
	// halfOpen reports whether an unhealthy worker has rested long enough that one execution may test its
	// recovery (defect D43). Otherwise quarantine would never end, because an idle worker can't prove its
	// health.
	halfOpen bool
}

// assessWorker derives a worker's assessment. unreachable reports whether the last probes failed. That alone
// doesn't make a worker unhealthy, because work reaches it through the broker.
func assessWorker(w *store.WorkerRow, c *config.Config, unreachable bool) assessment {
	f := w.Evidence(c.Health.Window)
	s := assessment{health: c.Health.Of(f, w.Queued)}
	s.halfOpen = c.Health.Failing(f) && f.LastFailure >= c.Executor.HealthCheckInterval && w.Queued < c.Health.QueueDepthUnhealthy
	if c.Health.Enabled && unreachable && s.health == execution.Healthy {
		s.health = execution.Degraded
	}
	return s
}
