// Package hook defines the interfaces between the core and its environment, the ports of a process, and the
// mutants that wrap them. Both worlds apply mutants, to simulated processes and to real daemons alike. The
// core itself has no switch for any of them.
package hook

import (
	"context"
	"log/slog"
	"time"

	"handoff/core/broker"
	"handoff/core/config"
	"handoff/core/execution"
	"handoff/core/host"
	"handoff/core/store"
	"handoff/core/telemetry"
)

// Mutant is one known defect. A hook is nil if the mutant does not change that part.
type Mutant struct {
	Name string
	// Source is the number of the planted defect, as in docs/defects.md: D1 to D60, C1 to C15 of
	// the audit, or S1 to S17 of the attacks.
	Source string
	// About describes the defect in one sentence.
	About string
	// Expected is the number of the invariant that must detect the defect.
	Expected int
	// Scenario is the scenario in which the defect is known to be detected. The whole library is run, this
	// scenario first.
	Scenario string
	// Varied reports whether only varied runs of Scenario detect the defect: no plain scenario creates the
	// situation that it needs.
	Varied bool
	// Unread reports whether no alert shows the defect: only the simulated world compares metrics with the
	// events.
	Unread bool

	// Config changes the configuration that executors and workers get. The invariants still judge
	// by the scenario's.
	Config func(*config.Config)
	// Store wraps a process's client of the database.
	Store func(p Process, s store.Store) store.Store
	// Statements wraps the same client, for a mutant that makes unguarded statements. At most one of the two
	// is set.
	Statements func(p Process, db Database) store.Store
	// Broker wraps a process's client of the broker.
	Broker func(p Process, b broker.Broker) broker.Broker
	// Executors and Workers change the declared topology.
	Executors func(config.RabbitMQ) broker.Topology
	Workers   func(config.RabbitMQ, execution.WorkerID) broker.Topology
	// Host wraps a process's machine as the core sees it.
	Host func(p Process, h host.Host) host.Host
	// Recorder wraps the recorder of a process's metrics.
	Recorder func(p Process, r telemetry.Recorder) telemetry.Recorder
	// Log wraps the handler of an executor's log.
	Log func(p Process, h slog.Handler) slog.Handler
	// Machine changes the machine on which a worker's actions run.
	Machine func(p Process, m Machine)
	// Connections changes how a process keeps its connections to the database.
	Connections func(*Connections)
}

// Database is a process's client of a database that also makes unguarded statements, as the model does.
type Database interface {
	store.Store
	// Step executes one atomic step with raw access to the rows. Its errors are those of any statement.
	Step(ctx context.Context, do func(tx Tx)) error
}

// Tx is raw access to the rows within one atomic step, without any guard. It is only valid during the step.
type Tx interface {
	// Now returns the time of the database's clock.
	Now() time.Time
	// Rows returns the number of rows; their ids are 1 to Rows.
	Rows() int
	// Row returns the row with an id, or nil if there is none. Changes of it are stored.
	Row(id execution.ID) *execution.Execution
	// Locked reports whether another session has locked the row.
	Locked(id execution.ID) bool
	// LockedTable reports whether another session has locked a table, in any mode.
	LockedTable(name string) bool
	// Named records the epoch that the statement's caller named, and the incarnation that executes the
	// statement, or 0 if the caller is not a worker.
	Named(key execution.Key, writer execution.Incarnation)
	// Move changes a row's status, whatever it was before. change sets its other columns and may be nil.
	Move(id execution.ID, to execution.Status, by execution.Part, reason execution.Reason, change func(*execution.Execution))
	// MoveTold is like Move, but the audit attributes the change to the row told, or to no row if told is 0.
	MoveTold(id, told execution.ID, to execution.Status, by execution.Part, reason execution.Reason, change func(*execution.Execution))
	// Rewait changes a requested execution's entry in the scheduler's list of waiting work. It removes the
	// entry if change is nil. The execution itself stays requested.
	Rewait(id execution.ID, change func(*execution.Execution))
	// Unlist removes an execution from the list of unhandled ends.
	Unlist(id execution.ID)
	// MarkPublished marks a row's dispatch as published, whatever the row's state, unless it is marked.
	MarkPublished(id execution.ID)
	// Create inserts an execution without checking its key or the state of its parent's chain.
	Create(item store.NewExecution) store.Created
	// Keyed returns the execution created under an idempotency key, or 0 if there is none.
	Keyed(key string) execution.ID
	// HandleTerminal commits terminal handling, whether or not it was done before, and returns the retry
	// that it created, 0 for none. HandleKeepingSlot does not free the row's slot.
	HandleTerminal(id execution.ID, retry *store.Retry) execution.ID
	HandleKeepingSlot(id execution.ID, retry *store.Retry) execution.ID
	// HandleChildless commits terminal handling that settles no children, without a retry.
	HandleChildless(id execution.ID)
	// SettleChildren starts or skips the children of a row's chain, depending on the end of that row.
	SettleChildren(id execution.ID)
	// Children returns the number of children that are waiting for a row's chain to end.
	Children(id execution.ID) (waiting int)
	// RequestCancel only records the request to end a row's chain.
	RequestCancel(id execution.ID)
	// FreeSlot frees a row's concurrency slot. FreeAnySlot frees the first held slot of an action, and
	// returns its holder, 0 if none is held.
	FreeSlot(id execution.ID)
	FreeAnySlot(action string) (holder execution.ID)
	// Purge deletes the ended chain that begins with a row, even if it is still needed.
	Purge(first execution.ID)
}

// Machine is a machine on which actions run.
type Machine interface {
	// RemoveShims removes the shims, so that only the actions themselves and their worker can end them.
	RemoveShims()
}

// Connections controls how a process keeps its connections to the database, apart from its settings.
type Connections struct {
	// KeepDemoted keeps connections whose server refuses writes.
	KeepDemoted bool
}

// Lacks returns why a mutant can't be planted into a real daemon, or "" if it can.
func (m *Mutant) Lacks() string {
	switch {
	case m.Varied:
		return "it shows only in varied runs, which real daemons have none of"
	case m.Unread:
		return "it shows in no alert, and only the simulated world compares figures with what has happened"
	case m.Statements != nil:
		return "it is a statement that lacks its guard, and only the model of the database runs one"
	case m.Log != nil:
		return "it changes what is logged of workers, which only the simulated world judges"
	case m.Machine != nil:
		return "it changes the machine on which actions run"
	case m.Connections != nil:
		return "it changes how connections are kept, and only the model of the pool lets it"
	}
	return ""
}
