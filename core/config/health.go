package config

import (
	"math"
	"time"

	"handoff/core/execution"
)

// Health configures what a worker's figures say of it. The thresholds are those of source document
// 003; its heartbeat_max_age_secs is not among them, because freshness is the lease and nothing else
// (defect D33).
type Health struct {
	// Enabled turns quarantine off where it is false: every worker is healthy then.
	Enabled bool `yaml:"enabled"`
	// DegradedThreshold and UnhealthyThreshold are consecutive failures of the worker.
	DegradedThreshold  int `yaml:"degraded_threshold"`
	UnhealthyThreshold int `yaml:"unhealthy_threshold"`
	// QueueDepthDegraded and QueueDepthUnhealthy are dispatches that wait at the worker.
	QueueDepthDegraded  int `yaml:"queue_depth_degraded"`
	QueueDepthUnhealthy int `yaml:"queue_depth_unhealthy"`
	// FailureRateDegraded and FailureRateUnhealthy are shares, from 0 to 1, of the runs within Window,
	// judged from MinSamples runs on: one failure of one run says nothing (defect D43).
	FailureRateDegraded  float64       `yaml:"failure_rate_degraded"`
	FailureRateUnhealthy float64       `yaml:"failure_rate_unhealthy"`
	Window               time.Duration `yaml:"window"`
	MinSamples           int           `yaml:"min_samples"`
}

func defaultHealth() Health {
	return Health{
		Enabled: true, DegradedThreshold: 3, UnhealthyThreshold: 10, QueueDepthDegraded: 50, QueueDepthUnhealthy: 100,
		FailureRateDegraded: 0.3, FailureRateUnhealthy: 0.7, Window: 5 * time.Minute, MinSamples: 20,
	}
}

// Of derives a worker's health from its figures and from how many dispatches wait at it. From a
// threshold on the worse state applies.
func (h Health) Of(f execution.Figures, queued int) execution.Health {
	switch {
	case !h.Enabled:
		return execution.Healthy
	case h.Failing(f), queued >= h.QueueDepthUnhealthy:
		return execution.Unhealthy
	case f.Consecutive >= h.DegradedThreshold, queued >= h.QueueDepthDegraded, h.rate(f, h.FailureRateDegraded):
		return execution.Degraded
	}
	return execution.Healthy
}

// Failing says that the worker's failures alone make it unhealthy.
func (h Health) Failing(f execution.Figures) bool {
	return h.Enabled && (f.Consecutive >= h.UnhealthyThreshold || h.rate(f, h.FailureRateUnhealthy))
}

func (h Health) rate(f execution.Figures, share float64) bool {
	return f.Total >= h.MinSamples && int64(f.Failed)*whole >= millionths(share)*int64(f.Total)
}

// whole is what shares are counted in, so that a comparison with one comes out the same on every machine, and right where
// the share is met exactly: 29 of 100 are not more than 0.29, which no float64 is.
const whole = 1_000_000

// millionths are a configured share, rounded once.
func millionths(share float64) int64 { return int64(math.Round(share * whole)) }

func (v *validation) health(h Health) {
	v.order("health.degraded_threshold", "health.unhealthy_threshold", h.DegradedThreshold, h.UnhealthyThreshold)
	v.order("health.queue_depth_degraded", "health.queue_depth_unhealthy", h.QueueDepthDegraded, h.QueueDepthUnhealthy)
	for _, r := range []struct {
		key   string
		share float64
	}{{"health.failure_rate_degraded", h.FailureRateDegraded}, {"health.failure_rate_unhealthy", h.FailureRateUnhealthy}} {
		if !(r.share > 0 && r.share <= 1) {
			v.refuse(r.key, "is %v, must be more than 0 and at most 1: a share of the runs", r.share)
		}
	}
	if h.FailureRateUnhealthy < h.FailureRateDegraded {
		v.refuse("health.failure_rate_unhealthy", "is %v, must not be less than failure_rate_degraded (%v)", h.FailureRateUnhealthy, h.FailureRateDegraded)
	}
	v.positive("health.window", h.Window)
	if h.MinSamples < 1 {
		v.refuse("health.min_samples", "is %d, must be at least 1", h.MinSamples)
	}
}

// order refuses thresholds that are not positive, or of which the worse one comes first.
func (v *validation) order(degraded, unhealthy string, a, b int) {
	if a < 1 {
		v.refuse(degraded, "is %d, must be at least 1", a)
	}
	if b < a {
		v.refuse(unhealthy, "is %d, must not be less than %s (%d)", b, degraded, a)
	}
}
