package oracle

import (
	"math/big"
	"time"

	"handoff/core/config"
	"handoff/core/execution"
)

// Evidence holds what an executor knows about a worker's failures within the window (`health.window`).
type Evidence struct {
	// Total counts the runs that the worker reported. Failed counts the runs that failed for a reason that
	// blames the worker. Consecutive counts the failures of this kind since its last other run.
	Total, Failed, Consecutive int
	// Unclaimed counts the dispatches that the worker left unclaimed. Each counts as a failure, even if the
	// worker has run other executions since.
	Unclaimed int
	// Queued counts the dispatches that wait at the worker.
	Queued int
}

// Thresholds determines workers' health from the evidence, as in "Health of a worker" in docs/retries.md.
type Thresholds struct {
	health              *config.Health
	degraded, unhealthy *big.Rat
}

// NewThresholds returns the thresholds of a configuration. The configuration must not change afterwards.
func NewThresholds(h *config.Health) *Thresholds {
	return &Thresholds{h, exactDecimal(h.FailureRateDegraded), exactDecimal(h.FailureRateUnhealthy)}
}

// Health returns a worker's health. If any number reaches a threshold, the worse state applies.
func (t *Thresholds) Health(e Evidence) execution.Health {
	h := t.health
	switch {
	case !h.Enabled:
		return execution.Healthy
	case t.Failing(e) || e.Queued >= h.QueueDepthUnhealthy:
		return execution.Unhealthy
	case e.Consecutive+e.Unclaimed >= h.DegradedThreshold || t.failsAtRate(e, t.degraded) || e.Queued >= h.QueueDepthDegraded:
		return execution.Degraded
	}
	return execution.Healthy
}

// Failing reports whether the worker's failures alone make it unhealthy.
func (t *Thresholds) Failing(e Evidence) bool {
	return t.health.Enabled && (e.Consecutive+e.Unclaimed >= t.health.UnhealthyThreshold || t.failsAtRate(e, t.unhealthy))
}

// failsAtRate reports whether there were enough runs and at least this share of them failed.
func (t *Thresholds) failsAtRate(e Evidence, share *big.Rat) bool {
	total, failed := e.Total+e.Unclaimed, e.Failed+e.Unclaimed
	if total < t.health.MinSamples {
		return false
	}
	// failed / total ≥ share, without a division. The counts are far too small to overflow here.
	if share.Num().IsInt64() && share.Denom().IsInt64() && share.Denom().Int64() <= 1_000_000_000 && max(total, failed) <= 1_000_000_000 {
		return int64(failed)*share.Denom().Int64() >= share.Num().Int64()*int64(total)
	}
	return big.NewRat(int64(failed), int64(total)).Cmp(share) >= 0
}

// HalfOpen reports whether an unhealthy worker may get one execution as a half-open probe: its failures made
// it unhealthy, and the last failure was at least `executor.health_check_interval` ago.
func (t *Thresholds) HalfOpen(e Evidence, x *config.Executor, sinceFailure time.Duration) bool {
	return t.Failing(e) && e.Queued < t.health.QueueDepthUnhealthy && sinceFailure >= x.HealthCheckInterval
}
