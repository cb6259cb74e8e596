package scenario

// FaultKind is what a fault does.
type FaultKind string

// The kinds of faults.
const (
	Crash            FaultKind = "crash"
	Pause            FaultKind = "pause"
	Freeze           FaultKind = "freeze"
	Stop             FaultKind = "stop"
	Partition        FaultKind = "partition"
	Latency          FaultKind = "latency"
	Reset            FaultKind = "reset"
	BrokerRestart    FaultKind = "broker_restart"
	BrokerKill       FaultKind = "broker_kill"
	DatabaseRestart  FaultKind = "database_restart"
	DatabaseKill     FaultKind = "database_kill"
	DropMessages     FaultKind = "drop_messages"
	DelayMessages    FaultKind = "delay_messages"
	DuplicateMessage FaultKind = "duplicate_messages"
	CorruptMessages  FaultKind = "corrupt_messages"
	ReorderMessages  FaultKind = "reorder_messages"
	StopCutShort     FaultKind = "stop_cut_short"
	RollingRestart   FaultKind = "rolling_restart"
	Twin             FaultKind = "twin"
	Deaf             FaultKind = "deaf"
	Mute             FaultKind = "mute"
	Sick             FaultKind = "sick"
	Cordon           FaultKind = "cordon"
	Drain            FaultKind = "drain"
	SlowLink         FaultKind = "slow_link"
	BrokerAlarm      FaultKind = "broker_alarm"
	DeleteQueue      FaultKind = "delete_queue"
	CancelConsumers  FaultKind = "cancel_consumers"
	BlockConsumers   FaultKind = "block_consumers"
	UnbindQueue      FaultKind = "unbind_queue"
	DatabaseReadOnly FaultKind = "database_read_only"
	DatabaseSlow     FaultKind = "database_slow"
	Serialization    FaultKind = "serialization_failures"
	ClockOffset      FaultKind = "clock_offset"
	ClockStep        FaultKind = "clock_step"
	ClockDrift       FaultKind = "clock_drift"
	PublishMessages  FaultKind = "publish"
)

// FaultInfo describes a kind for lists, the schema and error texts.
type FaultInfo struct {
	Kind  FaultKind
	About string
	// Example is a line of YAML that uses it.
	Example string
}

// Faults lists every kind of fault.
func Faults() []FaultInfo {
	return []FaultInfo{
		{Crash, "a process dies at once, as by SIGKILL; its actions are ended by their shim", "crash: shell-1, restart_after: 90s"},
		{Pause, "a process stands still, as by SIGSTOP; clocks and actions go on", "pause: shell-1, for: 45s"},
		{Freeze, "a whole machine stands still, its clocks and actions too", "freeze: shell-1, for: 45s"},
		{Stop, "a process is asked to stop gracefully, as by SIGTERM", "stop: shell-1, restart_after: 60s"},
		{Partition, "the link between a process and other ends is cut, one way or both", "partition: {cut: shell-1, from: [broker], direction: both}, for: 45s"},
		{Latency, "messages between a process and other ends take longer", "latency: {of: shell-1, to: [database], adds: [100ms, 2s]}, for: 30s"},
		{Reset, "calls between a process and other ends lose their connection, before or after they took effect", "reset: {of: executor-1, to: [database], rate: 5%}, for: 30s"},
		{BrokerRestart, "the broker stops, and is back after a while", "broker: restart, for: 10s"},
		{BrokerKill, "the broker is killed, and is back after a while", "broker: kill, for: 10s"},
		{DatabaseRestart, "the database stops, and is back after a while", "database: restart, for: 5s"},
		{DatabaseKill, "the database is killed, and is back after a while", "database: kill, for: 5s"},
		{DropMessages, "messages of one type are routed, confirmed and lost", "messages: {drop: execution.completed, rate: 100%}, for: 60s"},
		{DelayMessages, "messages of one type arrive late", "messages: {delay: execution.status_changed, by: [1s, 30s], rate: 50%}, for: 60s"},
		{DuplicateMessage, "messages of one type arrive twice", "messages: {duplicate: execution.scheduled, rate: 20%}, for: 60s"},
		{CorruptMessages, "messages of one type arrive unreadable", "messages: {corrupt: execution.scheduled, rate: 5%}, for: 60s"},
		{ReorderMessages, "messages of one type are overtaken by the next one in their queue", "messages: {reorder: execution.scheduled, by: 10s, rate: 30%}, for: 60s"},
		{StopCutShort, "a process is asked to stop, and killed before it is ready", "stop_cut_short: {of: shell-1, after: 3s}, restart_after: 10s"},
		{RollingRestart, "processes are stopped gracefully and started again, one after the other", "rolling_restart: {of: every worker, down: 2s, every: 40s}"},
		{Deaf, "a worker's consumer hangs and its heartbeats go on: it looks alive and takes nothing", "deaf: shell-1, for: 5m"},
		{Mute, "a worker's heartbeats don't get through and all else does", "mute: shell-1, for: 60s"},
		{Sick, "a worker's machine can't start any action", "sick: shell-1, for: 2m"},
		{Cordon, "an operator cordons a worker, and lifts the cordon at the end", "cordon: shell-1, for: 60s"},
		{Drain, "an operator drains a worker: it stops, and is started and its cordon lifted after a while", "drain: shell-1, restart_after: 60s"},
		{Twin, "a second process is started under a worker's name, and stopped at the end", "twin: shell-1, for: 60s"},
		{SlowLink, "a link carries one message at a time, and takes its time for each", "slow_link: {of: shell-1, to: [broker], takes: [50ms, 500ms]}, for: 30s"},
		{BrokerAlarm, "the broker is short of memory and blocks publishers; consumers go on", "broker: alarm, for: 20s"},
		{DeleteQueue, "a queue is deleted with everything in it", "delete_queue: shell-1"},
		{CancelConsumers, "the broker cancels the consumers of a queue; their connections stay open", "cancel_consumers: shell-1"},
		{BlockConsumers, "the consumers of a queue end, and nobody can consume it until the end; all else of their processes goes on", "block_consumers: dead_letters, for: 3m"},
		{UnbindQueue, "a queue loses its bindings, so that what is sent to it has no route", "unbind_queue: shell-1, for: 20s"},
		{DatabaseReadOnly, "the database answers and refuses every write", "database: read_only, for: 20s"},
		{DatabaseSlow, "every statement takes longer", "database: {slow: [100ms, 3s]}, for: 30s"},
		{Serialization, "a share of the writes is rolled back, as by a serialization failure or a deadlock", "database: {serialization_failures: 30%}, for: 30s"},
		{ClockOffset, "a wall clock is off, and right again at the end", "clock_offset: {of: any worker, by: -45s}, for: 60s"},
		{ClockStep, "a wall clock is set, and stays so", "clock_step: {of: database, by: 40s}"},
		{ClockDrift, "a clock runs too fast or too slow; of a process the monotonic one too", "clock_drift: {of: any worker, by: -1%}, for: 5m"},
		{PublishMessages, "somebody who can reach the broker publishes messages of their own to a queue", "publish: {queue: shell-1, what: garbage, count: 500}"},
	}
}

// TriggerInfo describes an event that a fault can wait for.
type TriggerInfo struct {
	Name  string
	About string
}

// Triggers lists every event that `when: {after: …}` may name.
func Triggers() []TriggerInfo {
	return []TriggerInfo{
		{"heartbeat", "a worker's lease was renewed"},
		{"registered", "a worker has registered"},
		{"scheduled", "an execution was dispatched to a worker (`of` names the worker)"},
		{"delivered", "a dispatch reached a worker"},
		{"claimed", "a worker has claimed an execution"},
		{"action_started", "a worker has started an action"},
		{"action_ended", "an action has ended"},
		{"completed", "an execution has completed"},
		{"expired", "a message's time to live ended in a queue"},
	}
}

// SometimesInfo describes a situation that a sweep should reach.
type SometimesInfo struct {
	Name  string
	About string
}

// Sometimes lists every situation that `sometimes` may name.
func Sometimes() []SometimesInfo {
	return []SometimesInfo{
		{"lost_worker_detected", "the executor marked a worker as lost"},
		{"work_abandoned", "a claimed execution was taken from a worker that lost its right to it"},
		{"unclaimed_rescheduled", "an execution that was never claimed was taken back for another dispatch"},
		{"unclaimed_failed", "an execution that was never claimed was failed"},
		{"retry_scheduled", "a retry was created"},
		{"dead_lettered_by_ttl", "a dispatch expired in a worker's queue and reached the dead letter queue"},
		{"reclaimed_by_dead_letter_handler", "the dead letter handler took an execution back"},
		{"reclaimed_by_timeout_monitor", "the timeout monitor took an unclaimed execution back"},
		{"stale_write_refused", "a guarded write matched no row"},
		{"claim_refused", "a worker's claim was refused"},
		{"late_result_refused", "a result was refused because its worker had lost the execution"},
		{"fenced_itself", "a worker ended an action because it could not renew its lease"},
		{"registered_again", "a worker name was registered a second time"},
		{"redelivered", "a message was delivered a second time"},
		{"republished", "a dispatch was published a second time at the same epoch"},
		{"returned_unroutable", "a dispatch was returned because no queue was bound"},
		{"no_workers_failed", "an execution failed because no worker fitted"},
		{"parked", "an execution waited for a worker to fit"},
		{"released_on_drain", "a draining worker gave unclaimed work back"},
		{"drained_with_running_work", "a stopping worker finished what was running"},
		{"orchestrated_without_message", "terminal handling was done by the reconciler because no message came"},
		{"scheduling_claim_expired", "the claim of a dead executor was taken back"},
		{"duplicate_dispatch_refused", "a second delivery of a dispatch had no effect"},
		{"run_timed_out", "a worker ended an action at its run timeout"},
		{"overrun_ended", "the timeout monitor ended an execution whose worker had not"},
		{"cancelled_before_handoff", "an execution was cancelled before it was dispatched"},
		{"cancelled_after_handoff", "an execution was cancelled that was dispatched and not claimed"},
		{"cancelled_while_running", "a worker ended an execution because it was cancelled"},
		{"cancelled_pending_retry", "the cancellation of a chain ended its waiting retry"},
		{"cancelled_waiting_for_slot", "an execution was cancelled while all slots of its action were held"},
		{"cancel_came_too_late", "an execution ended in another way after its worker was asked to cancel it"},
		{"slot_passed_on", "a concurrency slot went to an execution that had waited for it"},
		{"child_started", "a workflow child began after its parent's chain had completed"},
		{"child_skipped", "a workflow child was skipped because its parent's chain did not complete"},
		{"child_of_the_ended", "a workflow child was created after its parent's chain had completed"},
		{"worker_failed", "a worker reported a failure of its own"},
		{"worker_recovered", "a worker that had reported failures of its own in a row reported none"},
		{"cordoned", "an operator cordoned a worker"},
		{"observed_timeout", "a timeout monitor that only observes recorded that it would take an unclaimed execution back"},
		{"observed_overrun", "a timeout monitor that only observes recorded that it would end a run past its deadline"},
		{"observed_unreachable", "a prober that only observes recorded that it would avoid a worker"},
		{"observed_reachable", "a prober that only observes recorded that a worker was ready again"},
		{"ended_at_shutdown", "a stopping worker ended an action that outlasted the shutdown timeout"},
	}
}
