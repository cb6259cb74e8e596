package config

import (
	"math"
	"time"

	"handoff/core/execution"
)

// Health sets the thresholds at which a worker's figures make it degraded or unhealthy. They come from source
// document 003, without its heartbeat_max_age_secs: only the lease determines freshness (defect D33).
type Health struct {
	// Enabled turns on quarantine. Without it, every worker counts as healthy.
	Enabled bool `yaml:"enabled"`
	// DegradedThreshold and UnhealthyThreshold are numbers of consecutive failures that are the worker's
	// fault.
	DegradedThreshold  int `yaml:"degraded_threshold"`
	UnhealthyThreshold int `yaml:"unhealthy_threshold"`
	// QueueDepthDegraded and QueueDepthUnhealthy are numbers of dispatches that are waiting at the worker.
	QueueDepthDegraded  int `yaml:"queue_depth_degraded"`
	QueueDepthUnhealthy int `yaml:"queue_depth_unhealthy"`
	// FailureRateDegraded and FailureRateUnhealthy are shares, from 0 to 1, of the runs within Window. They
	// apply from MinSamples runs on, because one failed run proves nothing (defect D43).
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

// Of derives a worker's health from its figures and its number of waiting dispatches. A value equal to a
// threshold gives the worse state.
func (h Health) Of(f execution.Figures, queued int) execution.Health {
	switch {
	case !h.Enabled:
		return execution.Healthy
	case h.Failing(f), queued >= h.QueueDepthUnhealthy:
		return execution.Unhealthy
	case f.Consecutive >= h.DegradedThreshold, queued >= h.QueueDepthDegraded, h.reachesFailureRate(f, h.FailureRateDegraded):
		return execution.Degraded
	}
	return execution.Healthy
}

// Failing reports whether the worker's failures alone make it unhealthy.
func (h Health) Failing(f execution.Figures) bool {
	return h.Enabled && (f.Consecutive >= h.UnhealthyThreshold || h.reachesFailureRate(f, h.FailureRateUnhealthy))
}

func (h Health) reachesFailureRate(f execution.Figures, share float64) bool {
	return f.Total >= h.MinSamples && int64(f.Failed)*whole >= toMillionths(share)*int64(f.Total)
}

// whole is a share of 1 in integers. Integers give the same result on every machine, and are exact at the
// threshold: 29 of 100 reach 0.29, but no float64 is exactly 0.29.
const whole = 1_000_000

// toMillionths rounds a configured share to millionths.
func toMillionths(share float64) int64 { return int64(math.Round(share * whole)) }

func (v *validation) checkHealth(h Health) {
	v.checkThresholds("health.degraded_threshold", "health.unhealthy_threshold", h.DegradedThreshold, h.UnhealthyThreshold)
	v.checkThresholds("health.queue_depth_degraded", "health.queue_depth_unhealthy", h.QueueDepthDegraded, h.QueueDepthUnhealthy)
	for _, r := range []struct {
		key   string
		share float64
	}{{"health.failure_rate_degraded", h.FailureRateDegraded}, {"health.failure_rate_unhealthy", h.FailureRateUnhealthy}} {
		if !(r.share > 0 && r.share <= 1) {
			v.addProblem(r.key, "is %v, must be more than 0 and at most 1: a share of the runs", r.share)
		}
	}
	if h.FailureRateUnhealthy < h.FailureRateDegraded {
		v.addProblem("health.failure_rate_unhealthy", "is %v, must not be less than failure_rate_degraded (%v)", h.FailureRateUnhealthy, h.FailureRateDegraded)
	}
	v.requirePositive("health.window", h.Window)
	v.requireAtLeastOne("health.min_samples", h.MinSamples)
}

// checkThresholds refuses thresholds that are not positive, and an unhealthy threshold below the degraded
// one.
func (v *validation) checkThresholds(degraded, unhealthy string, a, b int) {
	v.requireAtLeastOne(degraded, a)
	if b < a {
		v.addProblem(unhealthy, "is %d, must not be less than %s (%d)", b, degraded, a)
	}
}
