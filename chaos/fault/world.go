package fault

import (
	"time"

	"handoff/core/broker"
	"handoff/core/execution"
)

// This file is what worlds offer to faults. Each interface is as small as a fault can need it, so that a world may
// lack any of them. What a method returns ends what it began; whoever gets it calls it once. An error means that the
// world itself failed: it ends the run without a verdict on the product.
//
// A method that is given an Injection tells it what it touches, as soon as it makes a difference to something.

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

// Links are the ways between a process and the servers or the executors.
type Links interface {
	// Affect has an effect on what goes between a process and another end: Broker, Database or Executors. The
	// direction is seen from the process.
	Affect(x *Injection, process, end string, way Direction, e Effect) (heal func(), err error)
}

// Effect is what a fault does to a link. One of the fields is set.
type Effect struct {
	// Cut holds everything back until the link is healed.
	Cut bool
	// Delay is what each message takes longer, Busy how long the link is busy with one message.
	Delay, Busy Span
	// ResetPerMillion is the share of the calls that lose their connection.
	ResetPerMillion uint64
}

// BrokerServer is the message broker as a server.
type BrokerServer interface {
	// StopBroker stops the broker, or kills it, until start.
	StopBroker(x *Injection, kill bool) (start func(), err error)
}

// DatabaseServer is the database as a server.
type DatabaseServer interface {
	// StopDatabase stops the database, or kills it, until start.
	StopDatabase(x *Injection, kill bool) (start func(), err error)
}

// BrokerAlarm is the broker's alarm of low resources, under which it takes no messages.
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
	// UnbindQueue takes a queue's binding away until it is bound again.
	UnbindQueue(x *Injection, b broker.Binding) (bind func(), err error)
	// BlockConsumers cancels the consumers of queues, and lets nobody consume them until unblock. For queues of workers
	// these are x.Targets; else every executor.
	BlockConsumers(x *Injection, all []broker.Binding) (unblock func(), err error)
}

// ConsumerCancelling is a broker that cancels the consumers of a queue that stays.
type ConsumerCancelling interface {
	Registry
	CancelConsumers(x *Injection, queue string) error
}

// Messages are the messages on their way into the broker.
type Messages interface {
	// Intercept asks of each message that a process publishes what becomes of it, by its type, until end.
	Intercept(x *Injection, fate func(messageType string) Fate) (end func(), err error)
}

// Fate is what becomes of a message. The zero value leaves it alone.
type Fate struct {
	// Drop has it routed, confirmed and lost. Corrupt makes it unreadable. Duplicate delivers it twice.
	Drop, Corrupt, Duplicate bool
	// Delay is how late it arrives; 0 for no delay. With Behind it arrives sooner if the next message of its queue has.
	Delay  time.Duration
	Behind bool
}

// Touches says that something becomes of the message.
func (f Fate) Touches() bool { return f != Fate{} }

// Publisher publishes what no process has written.
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

// Deafness is that of workers whose consumers hang while their heartbeats go on.
type Deafness interface {
	Deafen(x *Injection) (end func(), err error)
}

// Muteness is that of workers whose heartbeats don't get through while all else does.
type Muteness interface {
	Mute(x *Injection) (end func(), err error)
}

// Sickness is that of workers whose machines can't start any action.
type Sickness interface {
	Sicken(x *Injection) (end func(), err error)
}

// Fleet is what an operator can do to workers.
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

// DatabaseSlow is a database whose statements take longer.
type DatabaseSlow interface {
	SlowDatabase(x *Injection, adds Span) (end func(), err error)
}

// DatabaseConflicts is a database that rolls back a share of the writing statements as serialization failures.
type DatabaseConflicts interface {
	FailWrites(x *Injection, perMillion uint64) (end func(), err error)
}

// DatabaseFull is a database whose disk is full: writes fail with 53100 and reads go on.
type DatabaseFull interface {
	FillDatabase(x *Injection) (end func(), err error)
}

// DatabaseConnections is a database that refuses new connections with 53300, while existing ones go on.
type DatabaseConnections interface {
	RefuseConnections(x *Injection) (end func(), err error)
}

// Clocks are the clocks of processes and of the database, each of which can be moved.
type Clocks interface {
	// ShiftClock moves the wall clock of a process, as it runs now.
	ShiftClock(x *Injection, process string, by time.Duration) (back func())
	// DriftClock has both clocks of a process, and those of its machine, run faster by so many millionths.
	DriftClock(x *Injection, process string, perMillion int64) (back func())
	// ShiftDatabaseClock moves the database's clock. TouchDatabaseClock has the fault touch whoever reads it next.
	ShiftDatabaseClock(by time.Duration)
	TouchDatabaseClock(x *Injection)
}
