package oracle

import (
	"time"

	"handoff/core/config"
)

// Defaults returns the default settings of a profile: the table "Configuration" of docs/contract.md.
func Defaults(p config.Profile) (c config.Config) {
	c.Profile = p
	documented := p == config.Documented
	x := &c.Executor
	x.DispatchTimeout, x.TimeoutCheckInterval = 2*time.Minute, 10*time.Second
	x.UnschedulableGrace, x.ReconcileInterval = time.Hour, 5*time.Second
	x.Unclaimed, x.MaxDispatches, x.DispatchAhead, x.DispatchesPerMessage = "reschedule", 3, 2, 500
	x.DirectDispatch = !documented
	if documented {
		x.DispatchTimeout, x.TimeoutCheckInterval = 5*time.Minute, time.Minute
		x.UnschedulableGrace, x.ReconcileInterval = 0, 10*time.Second
		x.Unclaimed, x.MaxDispatches, x.DispatchAhead, x.DispatchesPerMessage = "fail", 1, 0, 1
	}
	x.ScheduledTimeout = 5 * time.Minute
	x.TimeoutMonitor, x.HealthProbes = "act", "act"
	x.ClaimExpiry, x.ReapGrace, x.ConfirmTimeout = 15*time.Second, 10*time.Second, 10*time.Second
	x.BrakeFraction, x.BrakeMinWorkers = 0.5, 4
	x.QueueRetention, x.StatementTimeout = 24*time.Hour, 5*time.Second
	x.HealthCheckInterval, x.FiguresInterval, x.BatchSize = 30*time.Second, 15*time.Second, 500

	w := &c.Worker
	w.HeartbeatInterval, w.HeartbeatStalenessMultiplier = 10*time.Second, 3
	w.Concurrency, w.ShutdownTimeout = 10, 30*time.Second
	w.FenceMargin, w.KillGrace, w.StatementTimeout = 5*time.Second, 2*time.Second, 2*time.Second

	q := &c.MessageQueue.RabbitMQ
	q.QueueType, q.WorkerQueueTTLMS = "quorum", 180000
	if documented {
		q.WorkerQueueTTLMS = 300000
	}
	q.Heartbeat, q.ReconnectMin, q.ReconnectMax = 5*time.Second, 250*time.Millisecond, 5*time.Second
	q.DeadLetter.Enabled, q.DeadLetter.Exchange, q.DeadLetter.TTLMS = true, "attune.dlx", 86400000

	r := &c.Retry
	r.Enabled, r.BaseBackoffSecs, r.MaxBackoffSecs = true, 1, 300
	r.BackoffMultiplier, r.JitterFactor = 2, 0.2
	r.FreeShutdowns = 10
	if documented {
		r.FreeShutdowns = 0
	}

	h := &c.Health
	h.Enabled, h.DegradedThreshold, h.UnhealthyThreshold = true, 3, 10
	h.QueueDepthDegraded, h.QueueDepthUnhealthy = 50, 100
	h.FailureRateDegraded, h.FailureRateUnhealthy = 0.3, 0.7
	h.Window, h.MinSamples = 5*time.Minute, 20

	d := &c.Database
	d.Connections, d.HeartbeatConnections, d.APIConnections = 16, 2, 8
	d.PingTimeout = 500 * time.Millisecond

	k := &c.Retention
	k.StepSize, k.Interval = 1000, 10*time.Second
	if !documented {
		k.Executions, k.Transitions, k.RefusedResults = 720*time.Hour, 720*time.Hour, 720*time.Hour
		k.Expiries, k.Incarnations, k.Workers = 720*time.Hour, 720*time.Hour, 720*time.Hour
	}
	return c
}
