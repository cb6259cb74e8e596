// Package mutant plants known defects, one at a time, to measure the harness: a suite that does not
// find one of them is worth that much less.
//
// A mutant wraps the store, the broker, the topology, the recorder, the runner's machine or the
// configuration that the core is given. The core itself has no switch for any of them, so what is
// measured is the core that ships. [Mutant.Apply] plants a mutant, in a simulated process and in a
// real daemon alike. Daemons link this package only with the build tag mutant.
//
// # Adding a mutant
//
// One file is enough. It holds a function that returns the [Mutant], with the invariant that must
// find it (Expected) and the scenario in which it shows, and it registers this function:
//
//	func init() { register(noRepublish) }
//
// The wrapper embeds the interface that it changes, replaces the methods that the defect is about,
// and calls [Process.Acted] at each moment at which its answer or its effect differs from the true
// one. Where it only passes a call through it says nothing, so that a reader of a run sees when the
// defect made a difference. Apply itself says that a configuration or a topology was changed.
//
// A mutant that makes statements without a guard has the hook Statements instead of Store, one that changes the
// machine has the hook Machine, one that changes what is logged the hook Log, one that changes how connections are
// kept the hook Connections, and one that changes a pure decision the hook Answers; [Mutant.Lacks] derives from these
// hooks that no real daemon can have it. Nothing else has to be told of a mutant: lists, hunts and reports read
// [All].
package mutant

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"strconv"
	"time"

	"handoff/chaos/policies"
	"handoff/core/broker"
	"handoff/core/config"
	"handoff/core/execution"
	"handoff/core/host"
	"handoff/core/store"
	"handoff/core/telemetry"
)

// Mutant is one known defect. Its hooks are nil where it changes nothing.
type Mutant struct {
	Name string
	// Source is the number of the known defect that it plants, as in docs/defects.md: D1 to D60, C1 to C15 of the
	// audit, or S1 to S17 of the attacks.
	Source string
	// About says what is wrong, in one sentence.
	About string
	// Expected is the number of the invariant that must find it.
	Expected int
	// Scenario is where it is known to show; the whole library is run, this one first.
	Scenario string
	// Varied says that it shows only in varied runs of that scenario: no scenario sets up what it needs.
	Varied bool
	// Unread says that it shows in no alert: only the simulated world compares figures with what has happened.
	Unread bool

	// Config changes the configuration that executors and workers get; the invariants keep judging by
	// the scenario's.
	Config func(*config.Config)
	// Store wraps what a process sees of the database.
	Store func(p Process, s store.Store) store.Store
	// Statements wraps it too, for a mutant that makes statements without a guard. At most one of the
	// two is set.
	Statements func(p Process, db Database) store.Store
	// Broker wraps what a process sees of the broker.
	Broker func(p Process, b broker.Broker) broker.Broker
	// Executors and Workers change the topology that is declared.
	Executors func(config.RabbitMQ) broker.Topology
	Workers   func(config.RabbitMQ, execution.WorkerID) broker.Topology
	// Host wraps a process's machine as the core sees it.
	Host func(p Process, h host.Host) host.Host
	// Recorder wraps where a process reports its figures to.
	Recorder func(p Process, r telemetry.Recorder) telemetry.Recorder
	// Log wraps where an executor writes its log to.
	Log func(p Process, h slog.Handler) slog.Handler
	// Machine changes the machine on which a worker's actions run.
	Machine func(p Process, m Machine)
	// Connections changes how a process keeps its connections to the database.
	Connections func(*Connections)
	// Answers changes what the core answers to who asks it for its tables and policies beside a run.
	Answers func(*policies.Core)
}

// Database is a process's client of a database that also makes statements without a guard, as the
// model does.
type Database interface {
	store.Store
	// Step makes one atomic step with raw access to the rows. Its errors are those of any statement.
	Step(ctx context.Context, do func(tx Tx)) error
}

// Tx is raw access to the rows within one atomic step, past every guard. It is only valid during the
// step.
type Tx interface {
	// Now is the database's clock.
	Now() time.Time
	// Rows is how many rows there are; their ids are 1 to Rows.
	Rows() int
	// Row returns the row, nil if there is none. What is changed in it is stored.
	Row(id execution.ID) *execution.Execution
	// Named notes the epoch that the statement's caller named, and the incarnation that makes the
	// statement, 0 where no worker does.
	Named(key execution.Key, writer execution.Incarnation)
	// Move changes a row's status whatever it is; change sets its other columns and may be nil.
	Move(id execution.ID, to execution.Status, by execution.Part, reason execution.Reason, change func(*execution.Execution))
	// MarkPublished marks a row's dispatch as published, whatever the row is, unless it is marked.
	MarkPublished(id execution.ID)
	// Create inserts an execution without a look at its key or at how its parent's chain stands.
	Create(item store.NewExecution) store.Created
	// Keyed is the execution that an idempotency key has created, 0 for none.
	Keyed(key string) execution.ID
	// HandleTerminal commits terminal handling, whether or not it was done before, and returns the
	// retry that it has created, 0 for none. HandleKeepingSlot does not give the row's slot back.
	HandleTerminal(id execution.ID, retry *store.Retry) execution.ID
	HandleKeepingSlot(id execution.ID, retry *store.Retry) execution.ID
	// HandleChildless commits terminal handling that settles no children, without a retry.
	HandleChildless(id execution.ID)
	// SettleChildren starts or skips the children of a row's chain by how that row has ended.
	SettleChildren(id execution.ID)
	// Children is how many children wait for a row's chain.
	Children(id execution.ID) (waiting int)
	// RequestCancel notes the request to end a row's chain, and nothing else.
	RequestCancel(id execution.ID)
	// FreeSlot gives a row's concurrency slot back; FreeAnySlot the first one of an action that
	// somebody holds, and reports whose it was, 0 if nobody held one.
	FreeSlot(id execution.ID)
	FreeAnySlot(action string) (holder execution.ID)
}

// Machine is a machine on which actions run.
type Machine interface {
	// RemoveShims leaves the actions of the machine without anything that ends them but themselves
	// and their worker.
	RemoveShims()
}

// Connections is how a process keeps its connections to the database, where that is no setting.
type Connections struct {
	// KeepDemoted keeps those whose server refuses writes.
	KeepDemoted bool
}

// Lacks says why a mutant can't be planted into a real daemon; empty if it can.
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
	case m.Answers != nil:
		return "it changes what the core answers beside a run, and daemons are asked nothing beside theirs"
	}
	return ""
}

// registered are the functions that make the mutants. Only init functions write it.
var registered []func() *Mutant //detlint:ok written before main starts, and All sorts what it holds

// register adds mutants to All. It is called by the init function of the file that defines them.
func register(mutants ...func() *Mutant) { registered = append(registered, mutants...) }

// All makes every mutant, sorted by source (C before D, and each by its number) and then by name.
func All() []*Mutant {
	all := make([]*Mutant, len(registered))
	for i, make := range registered {
		all[i] = make()
	}
	slices.SortFunc(all, func(a, b *Mutant) int {
		return cmp.Or(cmp.Compare(a.Source[:1], b.Source[:1]), cmp.Compare(number(a.Source), number(b.Source)), cmp.Compare(a.Name, b.Name))
	})
	return all
}

// number is the number of a source, 0 for one without.
func number(source string) int {
	n, err := strconv.Atoi(source[1:])
	if err != nil {
		return 0
	}
	return n
}

// Find returns a mutant by name, nil if there is none.
func Find(name string) *Mutant {
	for _, m := range All() {
		if m.Name == name {
			return m
		}
	}
	return nil
}
