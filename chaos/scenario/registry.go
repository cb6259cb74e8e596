package scenario

import "handoff/chaos/verdict"

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

// Sometimes lists every situation that `sometimes` may name: those that a run counts.
func Sometimes() []verdict.Situation { return verdict.Situations() }
