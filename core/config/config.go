// Package config is the configuration of executor and worker: keys, the defaults of the two profiles, and
// rules for consistent settings.
//
// The same structs configure the daemons and, in a scenario's `config:`, the simulated ones. The
// bounds on how long anything may take to be detected are computed from them alone.
package config

import "time"

// Profile names a set of defaults and policies.
type Profile string

// The two profiles. Documented keeps the constants and policies of the source documents: an execution that
// was never claimed fails. Hardened, the default, redispatches it. Both satisfy every invariant.
const (
	Documented Profile = "documented"
	Hardened   Profile = "hardened"
)

// Profiles lists both, the default first.
func Profiles() []Profile { return []Profile{Hardened, Documented} }

// Unclaimed is the policy for reclaiming an execution that no worker has ever claimed.
type Unclaimed string

// The two policies of executor.unclaimed.
const (
	Fail       Unclaimed = "fail"
	Reschedule Unclaimed = "reschedule"
)

// Mode determines whether a part of the executor acts on its findings.
type Mode string

// The modes of executor.timeout_monitor and executor.health_probes. A part in the mode Observe checks as
// often as in the mode Act. It reports what it would do in a log line, in the figure handoff_observed_total
// and in the table observation, and changes nothing else. Off exists only for the probes and disables the
// checks, too.
const (
	Act     Mode = "act"
	Observe Mode = "observe"
	Off     Mode = "off"
)

// Config is the whole configuration.
type Config struct {
	Profile      Profile      `yaml:"profile"`
	Executor     Executor     `yaml:"executor"`
	Worker       Worker       `yaml:"worker"`
	MessageQueue MessageQueue `yaml:"message_queue"`
	Retry        Retry        `yaml:"retry"`
	Health       Health       `yaml:"health"`
	Database     Database     `yaml:"database"`
	Retention    Retention    `yaml:"retention"`
}

// Executor configures the executor's parts.
type Executor struct {
	// DispatchTimeout is the time from dispatch within which a worker must claim; later claims of that epoch
	// are refused.
	DispatchTimeout time.Duration `yaml:"dispatch_timeout"`
	// ScheduledTimeout is how long after its dispatch the timeout monitor, the backstop, reclaims an
	// unclaimed execution.
	ScheduledTimeout time.Duration `yaml:"scheduled_timeout"`
	// TimeoutCheckInterval is the period of the timeout monitor.
	TimeoutCheckInterval time.Duration `yaml:"timeout_check_interval"`
	// TimeoutMonitor is the monitor's mode: act, or observe, for a rollout in which deadlines are tuned
	// before the monitor may reclaim. While it observes, only the dead letter handler reclaims unclaimed
	// executions, so dead lettering is required. Then nothing ends a run that a live worker fails to end.
	TimeoutMonitor Mode `yaml:"timeout_monitor"`
	// UnschedulableGrace is how long an execution may wait for any fitting worker before it fails; 0 fails it
	// at once.
	UnschedulableGrace time.Duration `yaml:"unschedulable_grace"`
	// Unclaimed is the policy for executions that were never claimed.
	Unclaimed Unclaimed `yaml:"unclaimed"`
	// MaxDispatches is how many of an execution's dispatches may time out unclaimed at workers that stay
	// active.
	MaxDispatches int `yaml:"max_dispatches"`
	// ReconcileInterval is the period of every reconciler loop.
	ReconcileInterval time.Duration `yaml:"reconcile_interval"`
	// DispatchAhead is how many executions a worker may hold beyond its capacity.
	DispatchAhead int `yaml:"dispatch_ahead"`
	// DispatchesPerMessage is how many dispatches of one pass for one worker may share a message, and how
	// many consecutive rows a worker gets while more wait than one pass takes. With 1, every dispatch has its
	// own message.
	DispatchesPerMessage int `yaml:"dispatches_per_message"`
	// DirectDispatch claims and dispatches in one statement executions that need no slot, are not pinned and
	// avoid no worker. Without it, every execution is claimed first and then dispatched.
	DirectDispatch bool `yaml:"direct_dispatch"`
	// ClaimExpiry is how long a scheduling claim is valid: it ends the claims of a dead executor.
	ClaimExpiry time.Duration `yaml:"claim_expiry"`
	// ReapGrace is added to a lease, and to a run deadline, before a worker loses an execution.
	ReapGrace time.Duration `yaml:"reap_grace"`
	// The lease monitor pauses when more than BrakeFraction of the workers lose their leases at once, if at
	// least BrakeMinWorkers were alive: many simultaneous deaths are more likely to have one common cause,
	// such as the network.
	BrakeFraction   float64 `yaml:"brake_fraction"`
	BrakeMinWorkers int     `yaml:"brake_min_workers"`
	// ConfirmTimeout is how long an unpublished dispatch waits before it is published again.
	ConfirmTimeout time.Duration `yaml:"confirm_timeout"`
	// QueueRetention is how long after a worker has gone its queues are deleted, if they are empty and unused
	// (defect D28). A worker that restarts later declares them again.
	QueueRetention time.Duration `yaml:"queue_retention"`
	// StatementTimeout bounds every database call of the executor.
	StatementTimeout time.Duration `yaml:"statement_timeout"`
	// HealthCheckInterval is the period of the probes of workers. It is also how long after a failure an
	// unhealthy worker gets no execution; then one execution tests whether the worker has recovered.
	HealthCheckInterval time.Duration `yaml:"health_check_interval"`
	// HealthProbes is the mode of the probes of workers' health endpoints. With act, a worker that fails
	// three consecutive probes, or reports that it is not ready, becomes the last choice among the healthy
	// ones. With observe, the executor only reports it; with off, it does not probe. Without health.enabled
	// nothing is probed.
	HealthProbes Mode `yaml:"health_probes"`
	// FiguresInterval is the period at which the executor sets the gauges that it reads from the database.
	// Alert rules count samples that are telemetry.SampleInterval apart, so with a longer interval they see
	// the same value more than once.
	FiguresInterval time.Duration `yaml:"figures_interval"`
	// BatchSize bounds the rows of one statement. A statement costs PostgreSQL as much as 25 to 40 of
	// its rows (BenchmarkProcessor).
	BatchSize int `yaml:"batch_size"`
}

// Brakes reports whether the lease monitor must pause because too many workers have lost their leases (defect
// D47). alive is how many were alive a lease ago, over how many of these have lost their leases since.
func (e Executor) Brakes(alive, over int) bool {
	return alive >= e.BrakeMinWorkers && int64(over)*whole > toMillionths(e.BrakeFraction)*int64(alive)
}

// Worker configures the worker.
type Worker struct {
	// HeartbeatInterval is the period at which a worker renews its lease.
	HeartbeatInterval time.Duration `yaml:"heartbeat_interval"`
	// HeartbeatStalenessMultiplier × HeartbeatInterval is the lease.
	HeartbeatStalenessMultiplier int `yaml:"heartbeat_staleness_multiplier"`
	// Concurrency is how many actions run at a time: the worker's capacity, and its prefetch.
	Concurrency int `yaml:"concurrency"`
	// ShutdownTimeout is how long a graceful stop waits for running actions.
	ShutdownTimeout time.Duration `yaml:"shutdown_timeout"`
	// FenceMargin is how long before the end of its lease a worker ends its actions. It must cover the kill
	// grace, clock drift, a ResultWindow and a statement.
	FenceMargin time.Duration `yaml:"fence_margin"`
	// KillGrace is the time between SIGTERM and SIGKILL.
	KillGrace time.Duration `yaml:"kill_grace"`
	// StatementTimeout bounds every database call of the worker, with two exceptions. A heartbeat may take a
	// third of the remaining lease if that is longer. A registration may take longer at each attempt, up to
	// half a lease.
	StatementTimeout time.Duration `yaml:"statement_timeout"`
}

// ResultWindow is how long a run's result may wait for further results, so that they are written together. A
// result does not wait if the worker is idle.
const ResultWindow = 2 * time.Millisecond

// Lease returns how long one heartbeat keeps a worker alive.
func (w Worker) Lease() time.Duration {
	return w.HeartbeatInterval * time.Duration(w.HeartbeatStalenessMultiplier)
}

// HeartbeatPause returns how long a worker waits after a failed heartbeat.
func (w Worker) HeartbeatPause() time.Duration {
	return max(w.HeartbeatInterval/10, 100*time.Millisecond)
}

// MessageQueue configures the broker. This level comes from the source documents.
type MessageQueue struct {
	RabbitMQ RabbitMQ `yaml:"rabbitmq"`
}

// RabbitMQ configures the topology and the connections.
type RabbitMQ struct {
	// QueueType is "quorum" or "classic".
	QueueType string `yaml:"queue_type"`
	// WorkerQueueTTLMS is the x-message-ttl of worker queues, in milliseconds.
	WorkerQueueTTLMS int64 `yaml:"worker_queue_ttl_ms"`
	// DeadLetter configures the dead letter path.
	DeadLetter DeadLetter `yaml:"dead_letter"`
	// Heartbeat is the AMQP heartbeat. A silent peer counts as dead after about three intervals.
	Heartbeat time.Duration `yaml:"heartbeat"`
	// ReconnectMin and ReconnectMax bound the backoff between two attempts to connect.
	ReconnectMin time.Duration `yaml:"reconnect_min"`
	ReconnectMax time.Duration `yaml:"reconnect_max"`
}

// WorkerQueueTTL returns WorkerQueueTTLMS as a duration.
func (r RabbitMQ) WorkerQueueTTL() time.Duration {
	return time.Duration(r.WorkerQueueTTLMS) * time.Millisecond
}

// DeadLetter configures the dead letter path. If it is disabled, worker queues have neither TTL nor
// dead letter exchange, and only the timeout monitor detects unclaimed executions (defect D28).
type DeadLetter struct {
	// Enabled turns on both the TTL and the dead letter exchange of the worker queues.
	Enabled bool `yaml:"enabled"`
	// Exchange is the dead letter exchange. Its queue has the exchange's name with .queue appended.
	Exchange string `yaml:"exchange"`
	// TTLMS is how long dead letters in the table dead_letter, and observations (see Mode), are kept, in
	// milliseconds. The broker's dead letter queue has no TTL: it contains messages that no executor has
	// stored yet. A message that expired there would be lost, because that queue has no dead letter exchange.
	TTLMS int64 `yaml:"ttl_ms"`
}

// Kept returns TTLMS as a duration.
func (d DeadLetter) Kept() time.Duration { return time.Duration(d.TTLMS) * time.Millisecond }

// Retry configures the backoff of retries and of reclaims.
type Retry struct {
	// Enabled turns retries on. Without it, reclaimed executions still wait for their backoff.
	Enabled bool `yaml:"enabled"`
	// BaseBackoffSecs is the first delay, MaxBackoffSecs the longest, in seconds.
	BaseBackoffSecs int64 `yaml:"base_backoff_secs"`
	MaxBackoffSecs  int64 `yaml:"max_backoff_secs"`
	// BackoffMultiplier is the ratio of each delay to the previous one.
	BackoffMultiplier float64 `yaml:"backoff_multiplier"`
	// JitterFactor is the fraction by which a delay may randomly be shorter or longer.
	JitterFactor float64 `yaml:"jitter_factor"`
	// FreeShutdowns is how many ends by worker_shutdown do not count as retries of a chain, if its action has
	// any retries: being stopped by a deployment is not a failure. The same holds, even for actions without
	// retries, if a worker's machine could not start the action: nothing has run. Further ends count. With 0,
	// all count.
	FreeShutdowns int `yaml:"free_shutdowns"`
}

// MaxFreeShutdowns is the greatest retry.free_shutdowns: a chain of retries must end.
const MaxFreeShutdowns = 100

// Database configures the connections to the database. Each process has its own pools.
type Database struct {
	// Connections is the size of the pool that all parts of an executor share, or all calls of a
	// worker except its heartbeats.
	Connections int `yaml:"connections"`
	// HeartbeatConnections is the size of the separate pool of a worker's heartbeats, so that no
	// other call keeps a lease from being renewed. With 0, heartbeats use the common pool.
	HeartbeatConnections int `yaml:"heartbeat_connections"`
	// APIConnections is the size of the separate pool of an executor's API, so that no reader keeps
	// the executor from working.
	APIConnections int `yaml:"api_connections"`
	// PingTimeout is how long an idle connection may take to answer before a new one is tried in parallel. If
	// the new one is ready first, all older connections are closed: their server has silently disappeared. 0
	// waits for as long as the call may take.
	PingTimeout time.Duration `yaml:"ping_timeout"`
}

// LeastAPIConnections is the least value of database.api_connections: lists may hold two connections, and
// other requests need some too.
const LeastAPIConnections = 6

// LongestPing is the greatest value of database.ping_timeout: a heartbeat must detect a silent
// connection and still be answered in time.
const LongestPing = 500 * time.Millisecond

// Default returns a profile's defaults; for an unknown name, the defaults of Hardened.
func Default(p Profile) Config {
	c := Config{
		Profile: Hardened,
		Executor: Executor{
			DispatchTimeout:      120 * time.Second,
			ScheduledTimeout:     300 * time.Second,
			TimeoutCheckInterval: 10 * time.Second,
			UnschedulableGrace:   time.Hour,
			Unclaimed:            Reschedule,
			MaxDispatches:        3,
			ReconcileInterval:    5 * time.Second,
			DispatchAhead:        2,
			DispatchesPerMessage: 500,
			DirectDispatch:       true,
			ClaimExpiry:          15 * time.Second,
			ReapGrace:            10 * time.Second,
			BrakeFraction:        0.5,
			BrakeMinWorkers:      4,
			ConfirmTimeout:       10 * time.Second,
			QueueRetention:       24 * time.Hour,
			StatementTimeout:     5 * time.Second,
			TimeoutMonitor:       Act,
			HealthCheckInterval:  30 * time.Second,
			HealthProbes:         Act,
			FiguresInterval:      15 * time.Second,
			BatchSize:            500,
		},
		Worker: Worker{
			HeartbeatInterval:            10 * time.Second,
			HeartbeatStalenessMultiplier: 3,
			Concurrency:                  10,
			ShutdownTimeout:              30 * time.Second,
			FenceMargin:                  5 * time.Second,
			KillGrace:                    2 * time.Second,
			StatementTimeout:             2 * time.Second,
		},
		MessageQueue: MessageQueue{RabbitMQ: RabbitMQ{
			QueueType:        "quorum",
			WorkerQueueTTLMS: 180_000,
			DeadLetter:       DeadLetter{Enabled: true, Exchange: "attune.dlx", TTLMS: 86_400_000},
			Heartbeat:        5 * time.Second,
			ReconnectMin:     250 * time.Millisecond,
			ReconnectMax:     5 * time.Second,
		}},
		Retry:  Retry{Enabled: true, BaseBackoffSecs: 1, MaxBackoffSecs: 300, BackoffMultiplier: 2, JitterFactor: 0.2, FreeShutdowns: 10},
		Health: defaultHealth(),
		Database: Database{
			Connections:          16,
			HeartbeatConnections: 2,
			APIConnections:       8,
			PingTimeout:          LongestPing,
		},
		Retention: defaultRetention(p),
	}
	if p == Documented {
		c.Profile = Documented
		c.Executor.DispatchTimeout = 300 * time.Second
		c.Executor.TimeoutCheckInterval = 60 * time.Second
		c.Executor.UnschedulableGrace = 0
		c.Retry.FreeShutdowns = 0
		c.Executor.Unclaimed = Fail
		c.Executor.MaxDispatches = 1
		c.Executor.ReconcileInterval = 10 * time.Second
		c.Executor.DispatchAhead = 0
		c.Executor.DispatchesPerMessage = 1
		c.Executor.DirectDispatch = false
		c.MessageQueue.RabbitMQ.WorkerQueueTTLMS = 300_000
	}
	return c
}
