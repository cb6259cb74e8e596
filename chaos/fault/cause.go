package fault

// Cause explains why an execution ended badly: with a failure, a timeout or a lost worker. A kind of fault
// lists its causes in Kind.Excuses. Invariant 17 accepts a bad end only with a matching cause.
type Cause uint8

// The causes. Ended or paused processes and servers that are down are missing here, because the
// history records them with events of their own, whatever caused them.
const (
	// LinkToDatabase and LinkToBroker: the link of each struck process to that server fails. They
	// apply if the fault names the server as an end of the link.
	LinkToDatabase Cause = iota
	LinkToBroker
	// ClockOfProcess: the clock of each struck process is wrong. Doesn't apply if the fault strikes
	// the database.
	ClockOfProcess
	// ClockOfDatabase: the database's clock is wrong, if the fault strikes the database.
	ClockOfDatabase
	// DatabaseFails and BrokerFails: the server gives wrong answers, late answers or none.
	DatabaseFails
	BrokerFails
	// DispatchesFail: messages with dispatches are lost, delayed or changed. Applies if the fault
	// strikes messages of their type.
	DispatchesFail
	// WorkerDeaf, WorkerMute, WorkerSick: each struck worker has the gray failure of this name.
	WorkerDeaf
	WorkerMute
	WorkerSick
	// WorkerWithdrawn: an operator withdraws each struck worker.
	WorkerWithdrawn
	// WorkerTwin: another process takes the name of each struck worker.
	WorkerTwin
	// WorkerQueue: the queue of each struck worker, its bindings or its consumers are gone.
	WorkerQueue
	// WorkerQueueStuck: the queue of each struck worker neither confirms nor delivers.
	WorkerQueueStuck
)
