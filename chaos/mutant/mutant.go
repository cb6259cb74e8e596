// Package mutant plants known defects, one at a time, to measure the harness: a suite that lets one
// pass is worth that much less.
//
// A mutant wraps the store, the broker, the topology, the runner's machine or the configuration that
// the core is given. The core itself has no switch for any of them, so what is measured is the core
// that ships.
package mutant

import (
	"context"

	"handoff/core/broker"
	"handoff/core/config"
	"handoff/core/execution"
	"handoff/core/host"
	"handoff/core/store"
	"handoff/core/telemetry"
	"handoff/sim/simhost"
	"handoff/sim/simstore"
)

// Mutant is one known defect. Its zero hooks change nothing.
type Mutant struct {
	Name string
	// Source is the number of the known defect that it plants: D1 to D60, or C1 to C15 of docs/findings.md.
	Source string
	// About says what is wrong, in one sentence.
	About string
	// Expected is the number of the invariant that must find it.
	Expected int
	// Scenario is where it is known to show; the whole library is run, this one first.
	Scenario string

	// Raw says that it makes statements without a guard.
	Raw bool

	// Config changes the configuration that the processes get; the invariants keep judging by the
	// scenario's.
	Config func(*config.Config)
	// Store wraps what a process sees of the database.
	Store func(p Process, c Database) store.Store
	// Broker wraps what a process sees of the broker.
	Broker func(p Process, b broker.Broker) broker.Broker
	// Executors and Workers change the topology that is declared.
	Executors func(config.RabbitMQ) broker.Topology
	Workers   func(config.RabbitMQ, execution.WorkerID) broker.Topology
	// Host wraps a process's machine as the core sees it.
	Host func(p Process, h host.Host) host.Host
	// Recorder wraps where a process reports its figures to.
	Recorder func(p Process, r telemetry.Recorder) telemetry.Recorder
	// Machine changes the machine on which actions run.
	Machine func(*simhost.Machine)
}

// Process is who is being wrapped.
type Process struct {
	Name string
	// Worker says that it is a worker, not an executor.
	Worker bool
	// Client says that it is the one that submits the workload.
	Client bool
	Config config.Config
	Host   host.Host
}

// Database is what a mutant wraps: a process's client of the simulated database or, in a daemon that was built
// for it, of the real one, which can't make the model's raw statements.
type Database interface {
	store.Store
	// Step makes a statement without a guard.
	Step(ctx context.Context, do func(tx *simstore.Tx)) error
}

// Lacks says why a mutant can't be planted into a real daemon; empty if it can.
func (f *Mutant) Lacks() string {
	switch {
	case f.Raw:
		return "it is a statement that lacks its guard, and only the model of the database runs one"
	case f.Machine != nil:
		return "it changes the machine on which actions run"
	}
	return ""
}

// Find returns a mutant by name, nil if there is none.
func Find(name string) *Mutant {
	for _, f := range All() {
		if f.Name == name {
			return f
		}
	}
	return nil
}
