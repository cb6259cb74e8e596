package fault

import (
	"time"

	"handoff/core/broker"
	"handoff/core/execution"
)

// This file holds the interfaces that worlds offer to faults. Each is small, so that a world may lack any of them. A
// method that begins something returns a function that ends it; the caller calls that once. An error means that the
// world itself failed: it ends the run without a verdict on the product.
//
// A method that takes an Injection calls its Touch as soon as the fault makes a difference to something.

// Processes are the executors and workers of the cluster.
type Processes interface {
	// Process returns a process by its name, nil if there is none.
	Process(name string) Process
}

// Process is an executor or a worker under its name, over all its restarts.
type Process interface {
	Name() string
	// Alive says that it runs. One that stands still is alive.
	Alive() bool
	// Start starts it, or starts it again. It does nothing where the process is alive.
	Start()
	// Terminate asks it to stop gracefully, as by SIGTERM, and does not wait.
	Terminate()
	// Kill ends it at once, as by SIGKILL.
	Kill()
	// OnEnd calls f once, when the process ends next. It replaces an earlier f.
	OnEnd(f func())
	// Instance is the process as it runs now: the next start makes another one. It is nil before the first start.
	// Two instances are the same if they are equal.
	Instance() Instance
}

// Instance is a process from one start to its end.
type Instance interface {
	Alive() bool
	// Pause has it stand still, as by SIGSTOP, while clocks and actions go on; Resume ends that.
	Pause()
	Resume()
}

// Machines are the machines below the processes, with their clocks and actions.
type Machines interface {
	Processes
	// Freeze has the machine of a process stand still, its clocks and actions too, until thaw.
	Freeze(process string) (thaw func())
}

// Twins are second processes under one name.
type Twins interface {
	Processes
	// Twin makes a process of that name that registers as the worker that another process is. It does not start it.
	Twin(name, worker string) (Process, error)
}

// Links are the connections between a process and the servers or the executors.
type Links interface {
	// Affect changes how bytes or messages pass between a process and another end: Broker, Database or Executors. The
	// direction is seen from the process.
	Affect(x *Injection, process, end string, way Direction, e Effect) (heal func(), err error)
}

// Effect is what a fault does to a link. One of the fields is set.
type Effect struct {
	// Cut holds everything back until the link is healed.
	Cut bool
	// Silence loses what passes over the connections that there are when it begins; new ones work. They break when it ends.
	Silence bool
	// Delay is added to the time of each message. Busy is how long the link carries one message, and no other.
	Delay, Busy Span
	// ResetPerMillion is the share of the calls that lose their connection.
	ResetPerMillion uint64
}

// BrokerServer is the message broker as a server.
type BrokerServer interface {
	// StopBroker stops the broker, or kills it. start starts it again.
	StopBroker(x *Injection, kill bool) (start func(), err error)
}

// DatabaseServer is the database as a server.
type DatabaseServer interface {
	// StopDatabase stops the database, or kills it. start starts it again.
	StopDatabase(x *Injection, kill bool) (start func(), err error)
}

// BrokerAlarm is the broker's resource alarm: while it is raised, the broker takes no messages.
type BrokerAlarm interface {
	RaiseAlarm(x *Injection) (clear func(), err error)
}

// Registry tells which workers have registered.
type Registry interface {
	// Registered lists them, in the order of their ids.
	Registered() []Registration
}

// Registration is a worker that has registered: the id under which its queues are known, and its name.
type Registration struct {
	ID   execution.WorkerID
	Name string
}

// Queues are the broker's queues. A binding names a queue and what routes to it.
type Queues interface {
	Registry
	// DeleteQueue deletes a queue with its messages.
	DeleteQueue(x *Injection, b broker.Binding) error
	// UnbindQueue removes a queue's binding. bind restores it.
	UnbindQueue(x *Injection, b broker.Binding) (bind func(), err error)
	// BlockConsumers cancels the consumers of queues, and refuses new ones until unblock. The consumers of workers'
	// queues are x.Targets; those of the other queues are all executors.
	BlockConsumers(x *Injection, all []broker.Binding) (unblock func(), err error)
}

// ConsumerCancelling is a broker that cancels the consumers of a queue that stays.
type ConsumerCancelling interface {
	Registry
	CancelConsumers(x *Injection, queue string) error
}

// StuckQueues are queues whose processes can hang: they neither confirm what is published to them nor deliver.
type StuckQueues interface {
	Registry
	SuspendQueue(x *Injection, queue string) (resume func(), err error)
}

// ConsumerTimeouts is a broker that closes the channel of a consumer that keeps a delivery unacknowledged for longer than
// after, or whose queue cancels it, by its release. A world that can tell that its broker does neither returns an error.
type ConsumerTimeouts interface {
	SetConsumerTimeout(x *Injection, after time.Duration) (back func(), err error)
}

// DeadLettering is a broker whose processes that move dead letters can hang: what dies stays in its queue.
type DeadLettering interface {
	StopDeadLettering(x *Injection) (resume func(), err error)
}

// Messages are the messages on their way into the broker.
type Messages interface {
	// Intercept calls fate, with the message's type, for each message that a process publishes, until end. The result is
	// what becomes of the message.
	Intercept(x *Injection, fate func(messageType string) Fate) (end func(), err error)
}

// Fate is what becomes of a message. The zero value leaves it alone.
type Fate struct {
	// Drop loses it after it was routed and confirmed. Corrupt makes it unreadable. Duplicate delivers it twice.
	Drop, Corrupt, Duplicate bool
	// Delay is how late it arrives; 0 for no delay. With Behind it arrives as soon as the next message of its queue has
	// overtaken it, and after Delay at the latest.
	Delay  time.Duration
	Behind bool
}

// Touches says that something becomes of the message.
func (f Fate) Touches() bool { return f != Fate{} }

// Publisher publishes messages that no process has written.
type Publisher interface {
	Registry
	// Running lists the executions that run.
	Running() ([]execution.Execution, error)
	// Publish publishes messages to a queue, at once and in this order.
	Publish(x *Injection, all []Forged) error
}

// Forged is a message of an attacker.
type Forged struct {
	Queue string
	// Number tells the messages of one fault apart.
	Number int
	// Envelope is what it says, without id and time; unused for garbage.
	Envelope broker.Envelope
	// Garbage is a body that nobody can read, of Size bytes; 0 for a few.
	Garbage bool
	Size    int
	// HostileHeaders are an x-death header that the broker did not write.
	HostileHeaders bool
}

// Deafness makes workers deaf: their consumers hang while their heartbeats go on. It strikes x.Targets.
type Deafness interface {
	Deafen(x *Injection) (end func(), err error)
}

// Muteness makes workers mute: their heartbeats don't get through while all else does. It strikes x.Targets.
type Muteness interface {
	Mute(x *Injection) (end func(), err error)
}

// Sickness makes workers sick: their machines can't start any action. It strikes x.Targets.
type Sickness interface {
	Sicken(x *Injection) (end func(), err error)
}

// Fleet are the workers as an operator manages them.
type Fleet interface {
	Processes
	// Cordon sets or lifts the cordon of a worker, drain asks it to stop as well. It returns false where nothing was
	// done, as for a worker that has never registered.
	Cordon(x *Injection, worker string, on, drain bool) bool
}

// DatabaseReadOnly is a database that refuses every write for a while.
type DatabaseReadOnly interface {
	RefuseWrites(x *Injection) (end func(), err error)
}

// DatabaseDemotion is a database whose server becomes read-only with the connections that it has, while new ones reach
// another, which writes. The old server ends its connections when it ends.
type DatabaseDemotion interface {
	DemoteDatabase(x *Injection) (end func(), err error)
}

// DatabaseRewinding is a database whose standby stops following. The end lets it take over: the database is as it was at the
// beginning, and every connection has ended.
type DatabaseRewinding interface {
	RewindDatabase(x *Injection) (end func(), err error)
}

// DatabaseSlow is a database whose statements take longer.
type DatabaseSlow interface {
	SlowDatabase(x *Injection, adds Span) (end func(), err error)
}

// DatabaseFailures is a database that rolls back a share of the writing statements, with an error of that kind.
type DatabaseFailures interface {
	FailWrites(x *Injection, perMillion uint64, with WriteFailure) (end func(), err error)
}

// WriteFailure is the error that a database answers instead of writing, as its SQLSTATE and its message.
type WriteFailure struct{ Code, Message string }

// DatabaseReadFailures is a database that refuses a share of the statements that only read, with an error that passes
// (53200, out of memory).
type DatabaseReadFailures interface {
	FailReads(x *Injection, perMillion uint64) (end func(), err error)
}

// DatabaseFull is a database whose disk is full: writes fail with 53100 and reads go on.
type DatabaseFull interface {
	FillDatabase(x *Injection) (end func(), err error)
}

// DatabaseConnections is a database that refuses new connections with 53300, while existing ones go on.
type DatabaseConnections interface {
	RefuseConnections(x *Injection) (end func(), err error)
}

// DatabaseHanging is a database that accepts connections and statements and answers nothing. What has come meanwhile is
// executed when it ends, if the connection has reached it.
type DatabaseHanging interface {
	HangDatabase(x *Injection) (end func(), err error)
}

// SlotEdits is a database in which somebody edits rows by hand.
type SlotEdits interface {
	// HoldSlots gives free concurrency slots to executions that have ended, and says to how many.
	HoldSlots(x *Injection, most int) int
	// HeldSlots is how many slots that HoldSlots gave away have not come free.
	HeldSlots() int
}

// RowEdits is a database into which a newer program writes.
type RowEdits interface {
	// HideRows lets at most so many executions that wait for a worker say what no program of the run can read. It returns
	// for how many it did, and what lets them say again what they said before.
	HideRows(x *Injection, most int) (hidden int, show func())
}

// Clocks are the clocks of processes and of the database, each of which can be moved.
type Clocks interface {
	// ShiftClock moves the wall clock of a process, as it runs now.
	ShiftClock(x *Injection, process string, by time.Duration) (back func())
	// DriftClock makes both clocks of a process, and those of its machine, run faster by perMillion millionths.
	DriftClock(x *Injection, process string, perMillion int64) (back func())
	// ShiftDatabaseClock moves the database's clock. After TouchDatabaseClock the next read of that clock touches.
	ShiftDatabaseClock(by time.Duration)
	TouchDatabaseClock(x *Injection)
}
