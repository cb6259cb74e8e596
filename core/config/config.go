// Package config is the configuration of executor and worker: the keys and defaults of the two
// profiles, and the rules by which settings make sense together.
//
// The same structs configure the daemons and, in a scenario's `config:`, the simulated ones. How
// long anything may take to be detected is computed from them and from nothing else.
package config

import "time"

// Profile names a set of defaults and policies.
type Profile string

// The two profiles. Documented keeps the constants and policies of the source documents: work that
// was never claimed fails. Hardened, the default, dispatches it again. Both keep every invariant.
const (
	Documented Profile = "documented"
	Hardened   Profile = "hardened"
)

// Profiles lists both, the default first.
func Profiles() []Profile { return []Profile{Hardened, Documented} }

// Unclaimed says what a reclaim does to work that no worker ever claimed.
type Unclaimed string

// The two policies of executor.unclaimed.
const (
	Fail       Unclaimed = "fail"
	Reschedule Unclaimed = "reschedule"
)

// Mode says whether a part of the executor acts on what it finds.
type Mode string

// The modes of executor.timeout_monitor and executor.health_probes. A part that observes looks as often as one that
// acts, says what it would do in a log line, in the figure handoff_observed_total and in the table observation, and
// changes nothing else. Off, which only the probes know, does not even look.
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
}

// Executor configures the executor's parts.
type Executor struct {
	// DispatchTimeout is the deadline of a claim: from then on a claim of this epoch is refused.
	DispatchTimeout time.Duration `yaml:"dispatch_timeout"`
	// ScheduledTimeout is when the timeout monitor, the backstop, takes back what stayed unclaimed.
	ScheduledTimeout time.Duration `yaml:"scheduled_timeout"`
	// TimeoutCheckInterval is the period of the timeout monitor.
	TimeoutCheckInterval time.Duration `yaml:"timeout_check_interval"`
	// TimeoutMonitor is the monitor's mode: act, or observe for a rollout in which its deadlines are tuned before it
	// may take anything back. While it observes, the dead letter handler alone takes unclaimed work back, which needs
	// dead lettering, and nobody ends a run that a live worker fails to end.
	TimeoutMonitor Mode `yaml:"timeout_monitor"`
	// UnschedulableGrace is how long an execution may wait for any fitting worker before it fails.
	UnschedulableGrace time.Duration `yaml:"unschedulable_grace"`
	// Unclaimed is the policy for work that was never claimed.
	Unclaimed Unclaimed `yaml:"unclaimed"`
	// MaxDispatches is how many dispatches may stay unclaimed at workers that stayed active.
	MaxDispatches int `yaml:"max_dispatches"`
	// ReconcileInterval is the period of every reconciler loop.
	ReconcileInterval time.Duration `yaml:"reconcile_interval"`
	// DispatchAhead is how much more than its capacity a worker may hold.
	DispatchAhead int `yaml:"dispatch_ahead"`
	// DispatchesPerMessage is how many dispatches of one pass for one worker may share a message, and how many rows a worker
	// is given in one go while more wait than one pass takes. 1 gives every dispatch a message of its own.
	DispatchesPerMessage int `yaml:"dispatches_per_message"`
	// DirectDispatch claims and dispatches in one statement what needs no slot, is not pinned and avoids no worker. Without it
	// every execution is claimed first and then dispatched.
	DirectDispatch bool `yaml:"direct_dispatch"`
	// ClaimExpiry ends the scheduling claim of an executor that died.
	ClaimExpiry time.Duration `yaml:"claim_expiry"`
	// ReapGrace is added to a lease, and to a run deadline, before the work is taken away.
	ReapGrace time.Duration `yaml:"reap_grace"`
	// BrakeFraction of the workers, and no fewer than BrakeMinWorkers alive, have to be over at once for
	// the lease monitor to hold back: what looks like many deaths is more often one fault of its own.
	BrakeFraction   float64 `yaml:"brake_fraction"`
	BrakeMinWorkers int     `yaml:"brake_min_workers"`
	// ConfirmTimeout is how long an unpublished dispatch waits before it is published again.
	ConfirmTimeout time.Duration `yaml:"confirm_timeout"`
	// QueueRetention is for how long a worker has to be gone until its queues are deleted, if they are empty and nobody
	// uses them (defect D28). A worker that comes back later declares them anew.
	QueueRetention time.Duration `yaml:"queue_retention"`
	// StatementTimeout bounds every database call of the executor.
	StatementTimeout time.Duration `yaml:"statement_timeout"`
	// HealthCheckInterval is the period of the probes of workers, and how long an unhealthy worker is
	// left alone after a failure before one execution may try whether it has recovered.
	HealthCheckInterval time.Duration `yaml:"health_check_interval"`
	// HealthProbes is the mode of the probes of workers' health endpoints: act, which makes a worker that does not
	// answer three probes in a row, or answers that it is not ready, the last choice among the healthy ones; observe,
	// which only says so; or off. Without health.enabled nothing is probed.
	HealthProbes Mode `yaml:"health_probes"`
	// FiguresInterval is how often the gauges are set that only the database knows. Alert rules count samples
	// that are telemetry.SampleInterval apart, so a longer one shows them the same figure more than once.
	FiguresInterval time.Duration `yaml:"figures_interval"`
	// BatchSize bounds the rows of one statement; batches far above 100 make the planner switch.
	BatchSize int `yaml:"batch_size"`
}

// Brakes says whether so many workers of those that were alive a lease ago are over that the lease
// monitor holds back: more than the fraction, where at least the minimum was alive (defect D47).
func (e Executor) Brakes(alive, over int) bool {
	return alive >= e.BrakeMinWorkers && int64(over)*whole > millionths(e.BrakeFraction)*int64(alive)
}

// Worker configures the worker.
type Worker struct {
	// HeartbeatInterval is the period of the lease's renewal.
	HeartbeatInterval time.Duration `yaml:"heartbeat_interval"`
	// HeartbeatStalenessMultiplier times the interval is the lease.
	HeartbeatStalenessMultiplier int `yaml:"heartbeat_staleness_multiplier"`
	// Concurrency is how many actions run at a time: the capacity, and the prefetch.
	Concurrency int `yaml:"concurrency"`
	// ShutdownTimeout is how long a graceful stop waits for running actions.
	ShutdownTimeout time.Duration `yaml:"shutdown_timeout"`
	// FenceMargin is how long before the end of its lease a worker ends its actions. It has room for the kill grace, the drift
	// of clocks, a ResultWindow and the statement after that.
	FenceMargin time.Duration `yaml:"fence_margin"`
	// KillGrace is the time between SIGTERM and SIGKILL.
	KillGrace time.Duration `yaml:"kill_grace"`
	// StatementTimeout bounds every database call of the worker but a heartbeat, which may take a third of what is left
	// of the lease if that is more, and a registration, which may take longer each time, up to half a lease.
	StatementTimeout time.Duration `yaml:"statement_timeout"`
}

// ResultWindow is how long the result of a run may wait for others, to be written together with them. A result that finds the
// worker idle does not wait.
const ResultWindow = 2 * time.Millisecond

// Lease is how long one heartbeat keeps a worker alive.
func (w Worker) Lease() time.Duration {
	return w.HeartbeatInterval * time.Duration(w.HeartbeatStalenessMultiplier)
}

// MessageQueue configures the broker; the level exists because the source documents have it.
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
	// Heartbeat is the AMQP heartbeat; a silent peer is dead after about three of them.
	Heartbeat time.Duration `yaml:"heartbeat"`
	// ReconnectMin and ReconnectMax bound the backoff between two attempts to connect.
	ReconnectMin time.Duration `yaml:"reconnect_min"`
	ReconnectMax time.Duration `yaml:"reconnect_max"`
}

// WorkerQueueTTL is WorkerQueueTTLMS as a duration.
func (r RabbitMQ) WorkerQueueTTL() time.Duration {
	return time.Duration(r.WorkerQueueTTLMS) * time.Millisecond
}

// DeadLetter configures the dead letter path. Disabled, worker queues have neither TTL nor dead
// letter exchange, and the timeout monitor is the only detection (defect D28).
type DeadLetter struct {
	// Enabled turns TTL and dead letter exchange of the worker queues on, both together.
	Enabled bool `yaml:"enabled"`
	// Exchange is the dead letter exchange; the queue behind it has its name with .queue.
	Exchange string `yaml:"exchange"`
	// TTLMS is how long a stored dead letter is kept in the table dead_letter, in milliseconds; and an observation (see Mode).
	// The dead letter queue of the broker has no TTL: its messages are those that no executor has stored yet, and one that
	// expired there would be gone without a trace, because a dead letter queue has no dead letter exchange of its own.
	TTLMS int64 `yaml:"ttl_ms"`
}

// Kept is TTLMS as a duration.
func (d DeadLetter) Kept() time.Duration { return time.Duration(d.TTLMS) * time.Millisecond }

// Retry configures the backoff of retries and of take-backs.
type Retry struct {
	// Enabled turns retries off where it is false; take-backs wait their backoff all the same.
	Enabled bool `yaml:"enabled"`
	// BaseBackoffSecs is the first delay, MaxBackoffSecs the longest, in seconds.
	BaseBackoffSecs int64 `yaml:"base_backoff_secs"`
	MaxBackoffSecs  int64 `yaml:"max_backoff_secs"`
	// BackoffMultiplier is how much longer each delay is than the one before it.
	BackoffMultiplier float64 `yaml:"backoff_multiplier"`
	// JitterFactor is the share of a delay by which it is drawn shorter or longer.
	JitterFactor float64 `yaml:"jitter_factor"`
}

// Database configures the connections to the database. Each process has pools of its own.
type Database struct {
	// Connections is how many the parts of an executor share, and those of a worker but its heartbeats.
	Connections int `yaml:"connections"`
	// HeartbeatConnections is how many a worker's heartbeats have for themselves, so that no other call keeps a lease from
	// being renewed. 0 sends them over the others.
	HeartbeatConnections int `yaml:"heartbeat_connections"`
	// APIConnections is how many the requests of an executor's API have for themselves, so that nobody who reads keeps the
	// executor from working.
	APIConnections int `yaml:"api_connections"`
	// PingTimeout is how long an idle connection may take to answer before a new one is tried beside it. If that one is
	// there first, every connection from before is thrown away: its server is gone, and nobody said so. 0 waits for as
	// long as the call may take.
	PingTimeout time.Duration `yaml:"ping_timeout"`
}

// LeastAPIConnections is the least of database.api_connections: lists may hold four, and everything else needs some too.
const LeastAPIConnections = 6

// LongestPing is the most of database.ping_timeout: a heartbeat has to find out and still be answered in time.
const LongestPing = 500 * time.Millisecond

// Default returns the defaults of a profile; of Hardened for any other name.
func Default(p Profile) Config {
	c := Config{
		Profile: Hardened,
		Executor: Executor{
			DispatchTimeout:      120 * time.Second,
			ScheduledTimeout:     300 * time.Second,
			TimeoutCheckInterval: 10 * time.Second,
			UnschedulableGrace:   60 * time.Second,
			Unclaimed:            Reschedule,
			MaxDispatches:        3,
			ReconcileInterval:    5 * time.Second,
			DispatchAhead:        2,
			DispatchesPerMessage: 100,
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
			BatchSize:            100,
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
		Retry:  Retry{Enabled: true, BaseBackoffSecs: 1, MaxBackoffSecs: 300, BackoffMultiplier: 2, JitterFactor: 0.2},
		Health: defaultHealth(),
		Database: Database{
			Connections:          16,
			HeartbeatConnections: 2,
			APIConnections:       8,
			PingTimeout:          LongestPing,
		},
	}
	if p == Documented {
		c.Profile = Documented
		c.Executor.DispatchTimeout = 300 * time.Second
		c.Executor.TimeoutCheckInterval = 60 * time.Second
		c.Executor.UnschedulableGrace = 0
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
