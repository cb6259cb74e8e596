package fault

// Cause is something that explains a bad end of an execution: a failure, a timeout, a lost worker. A kind of fault lists
// its causes in Kind.Excuses; invariant 17 asks for one of them.
type Cause uint8

// The causes. A process that ends or stands still and a server that is down are no causes here: the history tells of
// them by events of their own, whatever brought them about.
const (
	// LinkToDatabase and LinkToBroker: the link of each struck process to that server fails, if the server is among
	// the ends that the fault strikes.
	LinkToDatabase Cause = iota
	LinkToBroker
	// ClockOfProcess: the clock of each struck process is wrong; not if the fault strikes the database.
	ClockOfProcess
	// ClockOfDatabase: the database's clock is wrong, if the fault strikes the database.
	ClockOfDatabase
	// DatabaseFails and BrokerFails: the server answers wrongly, late or not.
	DatabaseFails
	BrokerFails
	// DispatchesFail: messages that carry dispatches don't arrive as they were sent, if the fault strikes their type.
	DispatchesFail
	// WorkerDeaf, WorkerMute, WorkerSick: what the gray failures of these names say, of each struck worker.
	WorkerDeaf
	WorkerMute
	WorkerSick
	// WorkerWithdrawn: an operator withdraws each struck worker.
	WorkerWithdrawn
	// WorkerTwin: another process takes the name of each struck worker.
	WorkerTwin
	// WorkerQueue: the queue of each struck worker, or its consumers, are gone.
	WorkerQueue
	// WorkerQueueStuck: the queue of each struck worker neither confirms nor delivers.
	WorkerQueueStuck
)
