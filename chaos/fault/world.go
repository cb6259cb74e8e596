package fault

import (
	"time"

	"handoff/core/broker"
	"handoff/core/execution"
)

// This file holds the interfaces that worlds offer to faults. Each is small, so that a world may lack any of
// them. A method that begins something returns a function that ends it; the caller calls that once. An error
// means that the world itself failed: the run ends without a verdict on the product.
//
// A method that takes an Injection calls its Touch as soon as the fault makes a difference to something.

// Processes are the executors and workers of the cluster.
type Processes interface {
	// Process returns the process with a name, or nil if there is none.
	Process(name string) Process
}

// Process is an executor or a worker, identified by its name across restarts.
type Process interface {
	Name() string
	// Alive reports whether the process runs. A paused process is alive.
	Alive() bool
	// Start starts or restarts the process. It does nothing if the process is alive.
	Start()
	// Terminate asks the process to stop gracefully, like SIGTERM, and does not wait.
	Terminate()
	// Kill ends the process immediately, like SIGKILL.
	Kill()
	// OnEnd calls f once, at the next end of the process. It replaces an earlier f.
	OnEnd(f func())
	// Instance returns the process's current instance; each start makes a new one. nil before the first
	// start. Compare instances with ==.
	Instance() Instance
}

// Instance is a process from one start to its next end.
type Instance interface {
	Alive() bool
	// Pause suspends the process, like SIGSTOP, while its clocks and actions continue. Resume lets it
	// continue.
	Pause()
	Resume()
}

// Machines are the machines on which processes run, with their clocks and actions.
type Machines interface {
	Processes
	// Freeze suspends the machine of a process, with its clocks and actions, until thaw.
	Freeze(process string) (thaw func())
}

// Twins are second processes under one name.
type Twins interface {
	Processes
	// Twin makes, but does not start, a process called name that registers as the same worker as
	// the process called worker.
	Twin(name, worker string) (Process, error)
}

// Links are the connections between a process and the servers or the executors.
type Links interface {
	// Affect changes how bytes or messages pass between a process and another end: Broker, Database
	// or Executors. The direction is seen from the process.
	Affect(x *Injection, process, end string, way Direction, e Effect) (heal func(), err error)
}

// Effect is the effect of a fault on a link. Exactly one field is set.
type Effect struct {
	// Cut holds everything back until the link is healed.
	Cut bool
	// Silence loses everything on the connections that exist at its beginning; new connections
	// work. The silent connections break at its end.
	Silence bool
	// Delay is the extra time that each message takes. Busy is how long one message occupies the link.
	Delay, Busy Span
	// ResetPerMillion is how many of a million calls break their connection.
	ResetPerMillion uint64
}

// BrokerServer is the message broker as a server.
type BrokerServer interface {
	// StopBroker stops the broker, or kills it. start restarts it.
	StopBroker(x *Injection, kill bool) (start func(), err error)
}

// DatabaseServer is the database as a server.
type DatabaseServer interface {
	// StopDatabase stops the database, or kills it. start restarts it.
	StopDatabase(x *Injection, kill bool) (start func(), err error)
}

// BrokerAlarm is the broker's resource alarm. While raised, the broker accepts no messages.
type BrokerAlarm interface {
	RaiseAlarm(x *Injection) (clear func(), err error)
}

// Registry lists the workers that have registered.
type Registry interface {
	// Registered lists these workers, sorted by id.
	Registered() []Registration
}

// Registration is a worker that has registered: its id, which its queues carry, and its name.
type Registration struct {
	ID   execution.WorkerID
	Name string
}

// Queues are the broker's queues. A binding holds a queue and its routing.
type Queues interface {
	Registry
	// DeleteQueue deletes a queue with its messages.
	DeleteQueue(x *Injection, b broker.Binding) error
	// UnbindQueue removes a queue's binding. bind restores it.
	UnbindQueue(x *Injection, b broker.Binding) (bind func(), err error)
	// BlockConsumers cancels the consumers of the queues and refuses new ones until unblock.
	// x.Targets are the consumers of workers' queues; every executor consumes the other queues.
	BlockConsumers(x *Injection, all []broker.Binding) (unblock func(), err error)
}

// ConsumerCancelling is a broker that can cancel the consumers of a queue but keep the queue.
type ConsumerCancelling interface {
	Registry
	CancelConsumers(x *Injection, queue string) error
}

// StuckQueues are queues whose processes can hang: they neither confirm published messages nor deliver.
type StuckQueues interface {
	Registry
	SuspendQueue(x *Injection, queue string) (resume func(), err error)
}

// ConsumerTimeouts is a broker that limits how long a consumer may keep a delivery unacknowledged.
// Depending on its release, the broker closes the channel or the queue cancels the consumer. The
// method returns an error if the world knows that its broker does neither.
type ConsumerTimeouts interface {
	SetConsumerTimeout(x *Injection, after time.Duration) (back func(), err error)
}

// DeadLettering is a broker whose dead-lettering processes can hang: dead messages stay in their queue.
type DeadLettering interface {
	StopDeadLettering(x *Injection) (resume func(), err error)
}

// Messages are the messages on their way into the broker.
type Messages interface {
	// Intercept calls fate with the type of each message that a process publishes, until end. The result is
	// the fate of the message.
	Intercept(x *Injection, fate func(messageType string) Fate) (end func(), err error)
}

// Fate is what happens to a message. The zero value changes nothing.
type Fate struct {
	// Drop loses the message after it was routed and confirmed. Corrupt makes it unreadable. Duplicate
	// delivers it twice.
	Drop, Corrupt, Duplicate bool
	// Delay is how much later the message arrives; 0 for no delay. With Behind it arrives as soon as the next
	// message of its queue has overtaken it, and after Delay at the latest.
	Delay  time.Duration
	Behind bool
}

// Touches reports whether the fate changes the message.
func (f Fate) Touches() bool { return f != Fate{} }

// Publisher publishes forged messages.
type Publisher interface {
	Registry
	// Running lists the running executions.
	Running() ([]execution.Execution, error)
	// Publish publishes messages to a queue, immediately and in this order.
	Publish(x *Injection, all []Forged) error
}

// Forged is an attacker's message.
type Forged struct {
	Queue string
	// Number distinguishes the messages of one fault.
	Number int
	// Envelope is the content, without id and time; unused for garbage.
	Envelope broker.Envelope
	// Garbage stands for an unreadable body of Size bytes; Size 0 means a few bytes.
	Garbage bool
	Size    int
	// HostileHeaders adds an x-death header that the broker did not write.
	HostileHeaders bool
}

// Deafness makes workers deaf: their consumers hang while their heartbeats continue. It strikes x.Targets.
type Deafness interface {
	Deafen(x *Injection) (end func(), err error)
}

// Muteness makes workers mute: their heartbeats don't arrive while everything else works. It
// strikes x.Targets.
type Muteness interface {
	Mute(x *Injection) (end func(), err error)
}

// Sickness makes workers sick: their machines can't start any action. It strikes x.Targets.
type Sickness interface {
	Sicken(x *Injection) (end func(), err error)
}

// Fleet lets an operator manage the workers.
type Fleet interface {
	Processes
	// Cordon sets or lifts the cordon of a worker; drain also asks the worker to stop. It returns
	// false if it did nothing, as for a worker that has never registered.
	Cordon(x *Injection, worker string, on, drain bool) bool
}

// DatabaseReadOnly is a database that can refuse every write for a while.
type DatabaseReadOnly interface {
	RefuseWrites(x *Injection) (end func(), err error)
}

// DatabaseDemotion is a database whose server can become read-only for its existing connections, while new
// connections reach another, writable server. At the end the old server closes its connections.
type DatabaseDemotion interface {
	DemoteDatabase(x *Injection) (end func(), err error)
}

// DatabaseRewinding is a database with a standby that can stop following. At the end the standby takes over:
// the database is as it was at the beginning of the fault, and every connection is closed.
type DatabaseRewinding interface {
	RewindDatabase(x *Injection) (end func(), err error)
}

// DatabaseSlow is a database whose statements can take longer.
type DatabaseSlow interface {
	SlowDatabase(x *Injection, adds Span) (end func(), err error)
}

// DatabaseFailures is a database that rolls back a share of the writing statements with the given error.
type DatabaseFailures interface {
	FailWrites(x *Injection, perMillion uint64, with WriteFailure) (end func(), err error)
}

// WriteFailure is the error with which a database refuses a write: SQLSTATE and message.
type WriteFailure struct{ Code, Message string }

// DatabaseReadFailures is a database that refuses a share of the statements that only read, with a
// transient error (53200, out of memory).
type DatabaseReadFailures interface {
	FailReads(x *Injection, perMillion uint64) (end func(), err error)
}

// DatabaseFull is a database whose disk is full: writes fail with 53100 and reads continue to work.
type DatabaseFull interface {
	FillDatabase(x *Injection) (end func(), err error)
}

// DatabaseConnections is a database that refuses new connections with 53300, while existing ones continue
// to work.
type DatabaseConnections interface {
	RefuseConnections(x *Injection) (end func(), err error)
}

// DatabaseHanging is a database that can hang: it accepts connections and statements but answers nothing. At
// the end it executes the statements that have arrived, if their connection has reached the database.
type DatabaseHanging interface {
	HangDatabase(x *Injection) (end func(), err error)
}

// SlotEdits is a database in which a person edits concurrency slots manually.
type SlotEdits interface {
	// HoldSlots assigns free concurrency slots to executions that have ended. It returns the number of slots.
	HoldSlots(x *Injection, most int) int
	// HeldSlots returns the number of these slots that are still taken.
	HeldSlots() int
}

// RowEdits is a database into which a newer program writes.
type RowEdits interface {
	// HideRows makes up to most rows of waiting executions unreadable to every program of the run. It returns
	// the number of hidden rows, and a function that restores their content.
	HideRows(x *Injection, most int) (hidden int, show func())
}

// Strangers are sessions of another program in the database.
type Strangers interface {
	// LockRows locks up to most rows of executions that were dispatched or run, and that no stranger has
	// locked. It returns the number of locked rows, and a function that releases them.
	LockRows(x *Injection, most int) (locked int, free func(), err error)
	// LockTable locks a table until free is called, and calls Touch when the lock delays a call. A world that
	// can't see that calls Touch when the table is locked.
	LockTable(x *Injection, l TableLock) (free func(), err error)
	// OpenTransaction opens a transaction that writes and then keeps its snapshot until end is called.
	OpenTransaction(x *Injection) (end func(), err error)
}

// TableLock is a lock of a table: in SHARE mode, which blocks writes, or in ACCESS EXCLUSIVE mode, which
// blocks everything.
type TableLock struct {
	Table     string
	Exclusive bool
}

// Clocks are the clocks of processes and of the database, each of which can be moved.
type Clocks interface {
	// ShiftClock moves the wall clock of a process's current instance.
	ShiftClock(x *Injection, process string, by time.Duration) (back func())
	// DriftClock makes both clocks of a process, and those of its machine, run fast by perMillion millionths.
	DriftClock(x *Injection, process string, perMillion int64) (back func())
	// ShiftDatabaseClock moves the database's clock. TouchDatabaseClock makes the next read of that
	// clock call Touch.
	ShiftDatabaseClock(by time.Duration)
	TouchDatabaseClock(x *Injection)
}
