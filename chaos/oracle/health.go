package oracle

import (
	"math/big"
	"time"

	"handoff/core/config"
	"handoff/core/execution"
)

// Evidence is what is known of a worker's failures within the window (`health.window`).
type Evidence struct {
	// Total and Failed count the runs that it has reported, and those of them that failed for a reason that blames it;
	// Consecutive its failures since the last run that was none of them.
	Total, Failed, Consecutive int
	// Unclaimed counts the dispatches that it left unclaimed: each is a failure, whatever it ran since.
	Unclaimed int
	// Queued counts the dispatches that wait at it.
	Queued int
}

// Thresholds judges workers by their evidence: "Health of a worker" in docs/quickref-retries-and-health.md.
type Thresholds struct {
	health              *config.Health
	degraded, unhealthy *big.Rat
}

// NewThresholds prepares the judgement of a configuration, which must not change.
func NewThresholds(h *config.Health) *Thresholds {
	return &Thresholds{h, decimal(h.FailureRateDegraded), decimal(h.FailureRateUnhealthy)}
}

// Health is the state of a worker: from a threshold of any figure on the worse one applies.
func (t *Thresholds) Health(e Evidence) execution.Health {
	h := t.health
	switch {
	case !h.Enabled:
		return execution.Healthy
	case t.Failing(e) || e.Queued >= h.QueueDepthUnhealthy:
		return execution.Unhealthy
	case e.Consecutive+e.Unclaimed >= h.DegradedThreshold || t.rate(e, t.degraded) || e.Queued >= h.QueueDepthDegraded:
		return execution.Degraded
	}
	return execution.Healthy
}

// Failing says that its failures alone make the worker unhealthy.
func (t *Thresholds) Failing(e Evidence) bool {
	return t.health.Enabled && (e.Consecutive+e.Unclaimed >= t.health.UnhealthyThreshold || t.rate(e, t.unhealthy))
}

// rate says that at least a share of the runs failed, and that there were enough of them.
func (t *Thresholds) rate(e Evidence, share *big.Rat) bool {
	total, failed := e.Total+e.Unclaimed, e.Failed+e.Unclaimed
	if total < t.health.MinSamples {
		return false
	}
	// failed / total ≥ share, without a division: the counts are far below what overflows here.
	if share.Num().IsInt64() && share.Denom().IsInt64() && share.Denom().Int64() <= 1_000_000_000 && max(total, failed) <= 1_000_000_000 {
		return int64(failed)*share.Denom().Int64() >= share.Num().Int64()*int64(total)
	}
	return big.NewRat(int64(failed), int64(total)).Cmp(share) >= 0
}

// HalfOpen says that an unhealthy worker may get one execution, to try whether it has recovered: its failures made it so,
// and the last of them was at least `executor.health_check_interval` ago.
func (t *Thresholds) HalfOpen(e Evidence, x *config.Executor, sinceFailure time.Duration) bool {
	return t.Failing(e) && e.Queued < t.health.QueueDepthUnhealthy && sinceFailure >= x.HealthCheckInterval
}
