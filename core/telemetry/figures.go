package telemetry

import "time"

// SampleInterval is the interval at which figures should be scraped; the windows of rules count samples at
// this interval. By default an executor sets its gauges at the same interval (executor.figures_interval).
const SampleInterval = 15 * time.Second

// Figure is a quantity that the core counts or measures.
type Figure uint8

// The figures. Table has their names, meanings and labels.
const (
	Transitions Figure = iota
	StaleWrites
	RefusedResults
	Dispatches
	Assignments
	DeadLetters
	Canaries
	DeadLettered
	Retries
	RetriesEnded
	LeasesExpired
	LeasesFenced
	LoopRuns
	Observed
	UnreadableMessages
	LogLinesSuppressed
	Purged

	StageSeconds
	LoopSeconds
	LoopLag
	WorkerDowntime
	DeadLetterSeconds

	ReaperBrake
	UnreadableRows
	Executions
	OldestExecution
	OrchestrationLag
	Workers
	LeaseOverdue
	HeartbeatAge
	WorkerLoad
	WorkerLoadMean
	QueueDepth
	QueueDepthMean
	SlotsInUse
	DeadLettersOpen
	DeadLetterQueueMessages
	DeadLetterQueueConsumers
	DeadLetterPathBroken
	SampleAge
	BrokerBlocked
	LoopFailing
	StreamHeld
	UnclaimedAge
	UnfitAge
)

// The sources of an executor's gauges, as labels of SampleAge.
const (
	SourceDatabase = "database"
	SourceBroker   = "broker"
)

// StageHandoff is the stage of StageSeconds from dispatch to claim, for executions that did not wait for a
// slot.
const StageHandoff = "handoff"

// Kind is the Prometheus type of a figure.
type Kind uint8

// The kinds.
const (
	Counter Kind = iota
	Gauge
	Histogram
)

// Info describes a figure.
type Info struct {
	// Name follows Prometheus' conventions: base units, _total for counters.
	Name string
	Help string
	Kind Kind
	// Seconds reports whether the values are durations.
	Seconds bool
	Labels  []string
}

// Table describes every figure, indexed by it.
func Table() []Info {
	return []Info{
		Transitions:        {"handoff_transitions_total", "Changes of an execution's status.", Counter, false, []string{"from", "to", "writer", "reason"}},
		StaleWrites:        {"handoff_stale_writes_total", "Guarded writes that matched no row.", Counter, false, []string{"writer"}},
		RefusedResults:     {"handoff_refused_results_total", "Results of workers that had lost the execution.", Counter, false, nil},
		Dispatches:         {"handoff_dispatches_total", "Dispatches by the result of their publish: confirmed, returned, refused, unknown; republished counts second attempts.", Counter, false, []string{"result"}},
		Assignments:        {"handoff_assignments_total", "Executions assigned to a worker, by the health of the chosen worker.", Counter, false, []string{"health"}},
		DeadLetters:        {"handoff_dead_letters_total", "Dead letters by why the message died and what became of it.", Counter, false, []string{"reason", "outcome"}},
		Canaries:           {"handoff_dead_letter_canaries_total", "Test messages of the executors that reached the dead letter handler; they are no dead letters.", Counter, false, nil},
		DeadLettered:       {"handoff_dead_lettered_total", "Dispatches that died, by why the message died, the action, and the worker in whose queue it died.", Counter, false, []string{"reason", "action", "worker"}},
		Retries:            {"handoff_retries_total", "Retries created, by the failure that they follow.", Counter, false, []string{"reason"}},
		RetriesEnded:       {"handoff_retries_ended_total", "Retries that have ended, by the failure that they followed and the status in which they ended.", Counter, false, []string{"reason", "status"}},
		LeasesExpired:      {"handoff_leases_expired_total", "Workers marked lost because their lease was over.", Counter, false, nil},
		LeasesFenced:       {"handoff_leases_fenced_total", "How often a worker ended its actions because it could not renew its lease.", Counter, false, nil},
		LoopRuns:           {"handoff_loop_runs_total", "Passes of the periodic loops, by result: ok or failed.", Counter, false, []string{"loop", "result"}},
		Observed:           {"handoff_observed_total", "What parts that only observe would have done, once for each dispatch or outage of a worker's health endpoint.", Counter, false, []string{"part", "would"}},
		UnreadableMessages: {"handoff_unreadable_messages_total", "Messages that could not be read, by the last word of their queue's name; each is stored as a dead letter.", Counter, false, []string{"queue_kind"}},
		LogLinesSuppressed: {"handoff_log_lines_suppressed_total", "Log lines that were not written because ten of the same text were within a minute; only lines that messages or connections from outside cause are limited.", Counter, false, []string{"line"}},
		Purged:             {"handoff_purged_total", "Rows that were deleted because their retention was over, by kind: executions, transitions, refused_results, expiries, incarnations, workers.", Counter, false, []string{"kind"}},

		StageSeconds:      {"handoff_stage_duration_seconds", "How long executions stay in a stage: requested, scheduling, scheduled and running are statuses; requested_to_running and requested_to_end are sums; handoff is the part of scheduled in which the worker had a free slot all the time.", Histogram, true, []string{"stage"}},
		LoopSeconds:       {"handoff_loop_duration_seconds", "How long a pass of a periodic loop takes.", Histogram, true, []string{"loop"}},
		LoopLag:           {"handoff_loop_lag_seconds", "How much later than its interval after the last one a pass of a periodic loop began.", Histogram, true, []string{"loop"}},
		WorkerDowntime:    {"handoff_worker_downtime_seconds", "From a worker's last heartbeat to its being marked lost.", Histogram, true, nil},
		DeadLetterSeconds: {"handoff_dead_letter_handling_seconds", "From the death of a message to its being handled as a dead letter.", Histogram, true, nil},

		ReaperBrake:      {"handoff_reaper_brake", "1 while the lease monitor holds back because too many workers lost their leases at once.", Gauge, false, nil},
		UnreadableRows:   {"handoff_unreadable_rows", "Rows of the database that this executor can't read, because a newer program wrote them or somebody edited them by hand: executions that have not ended or whose end is not handled, and workers. It leaves them alone.", Gauge, false, []string{"kind"}},
		Executions:       {"handoff_executions", "Executions that have not ended, by status.", Gauge, false, []string{"status"}},
		OldestExecution:  {"handoff_oldest_execution_age_seconds", "Age, in its status, of the execution that has been in it for longest.", Gauge, true, []string{"status"}},
		OrchestrationLag: {"handoff_orchestration_lag_seconds", "How long ago the oldest execution ended whose end is not handled.", Gauge, true, nil},
		Workers:          {"handoff_workers", "Workers by lifecycle, condition (live, stale: lease over, or deaf: does not consume) and health; who is stale or deaf is unhealthy whatever its runs say. Workers whose queues were deleted are not counted.", Gauge, false, []string{"lifecycle", "condition", "health"}},
		LeaseOverdue:     {"handoff_lease_overdue_seconds", "How long ago the oldest lease of a worker that is not gone ended; 0 while all are valid.", Gauge, true, nil},
		HeartbeatAge:     {"handoff_heartbeat_age_seconds", "How long ago the worker beat whose last heartbeat is the oldest, by lifecycle; those that are gone left out.", Gauge, true, []string{"lifecycle"}},
		WorkerLoad:       {"handoff_worker_load", "Executions that are scheduled at a worker or run on it.", Gauge, false, []string{"worker"}},
		WorkerLoadMean:   {"handoff_worker_load_mean", "Mean of handoff_worker_load over the workers that are not gone, rounded down.", Gauge, false, nil},
		QueueDepth:       {"handoff_worker_queue_depth", "Executions that are scheduled at a worker, which has not claimed them.", Gauge, false, []string{"worker"}},
		QueueDepthMean:   {"handoff_worker_queue_depth_mean", "Mean of handoff_worker_queue_depth over the workers that are not gone, rounded down.", Gauge, false, nil},
		SlotsInUse:       {"handoff_concurrency_slots_in_use", "Concurrency slots that executions hold, by action.", Gauge, false, []string{"action"}},
		DeadLettersOpen:  {"handoff_dead_letters_open", "Stored dead letters that nobody has dealt with.", Gauge, false, nil},

		DeadLetterQueueMessages:  {"handoff_dead_letter_queue_messages", "Messages that are ready in the broker's dead letter queue; those that a handler holds unacknowledged, at most 50 for each executor, are not among them. 0 where the queue does not exist.", Gauge, false, nil},
		DeadLetterQueueConsumers: {"handoff_dead_letter_queue_consumers", "Consumers of the broker's dead letter queue: one for each executor whose handler is subscribed.", Gauge, false, nil},
		DeadLetterPathBroken:     {"handoff_dead_letter_path_broken", "1 while an executor's test message does not come round by way of the dead letter exchange, or the dead letter queue is not bound to it.", Gauge, false, nil},

		SampleAge:     {"handoff_sample_age_seconds", "How old the values are that an executor shows of a source: database or broker. After two reads in a row that failed it shows none of them until the next one succeeds.", Gauge, true, []string{"source"}},
		BrokerBlocked: {"handoff_broker_blocked", "1 while the broker holds back what an executor publishes, because it is short of memory or disk space.", Gauge, false, nil},
		LoopFailing:   {"handoff_loop_failing_seconds", "How long every pass of a periodic loop has failed, from the first that failed to the last; 0 after one that succeeded.", Gauge, true, []string{"loop"}},
		UnclaimedAge:  {"handoff_unclaimed_dispatch_age_seconds", "How long the oldest dispatch has lain at a worker that had a free slot all that time, by its heartbeats.", Gauge, true, nil},
		UnfitAge:      {"handoff_no_fitting_worker_seconds", "How long the oldest execution that waits has found no worker that fits it; workers that are only full fit.", Gauge, true, nil},
		StreamHeld:    {"handoff_change_stream_held_seconds", "How long one transaction that is open somewhere on the database server has held back the stream of changes, as far as this executor saw; 0 while none does for longer than an interval.", Gauge, true, nil},
	}
}
