// Package mutant plants known defects, one at a time, to measure the harness: each mutant that the
// harness does not find is a gap in it.
//
// A mutant wraps the store, the broker, the topology, the recorder, the runner's machine or the
// configuration that the core gets. The core itself has no switch for any of them, so the
// measurement is about the core that ships. [hook.Mutant.Apply] plants a mutant, in a simulated process
// and in a real daemon alike. Daemons link this package only with the build tag mutant.
//
// # Adding a mutant
//
// One file is enough. It registers the [Mutant], with the invariant that must find it (Expected) and the
// scenario in which it shows:
//
//	func init() { registerMutants(Mutant{Name: "no-republish", …}) }
//
// The wrapper embeds the interface that it changes, and replaces the methods that the defect
// concerns. It calls [hook.Process.Acted] at each moment at which its answer or its effect differs from
// the true one, and not when it only passes a call through, so that a reader of a run sees when the
// defect had an effect. Apply itself reports a changed configuration or topology.
//
// Some mutants need another hook than Store: Statements for unguarded statements, Machine for a
// changed machine, Log for changed log lines, and Connections for the way to keep connections.
// [hook.Mutant.Lacks] derives from these hooks that no real daemon can have
// the mutant. A mutant needs no other registration: lists, hunts and reports read [All].
package mutant

import (
	"cmp"
	"slices"
	"strconv"

	"handoff/chaos/hook"
)

// Names of package hook that mutants use.
type (
	// Mutant is hook.Mutant.
	Mutant = hook.Mutant
	// Process is hook.Process.
	Process = hook.Process
	// Database is hook.Database.
	Database = hook.Database
	// Tx is hook.Tx.
	Tx = hook.Tx
	// Machine is hook.Machine.
	Machine = hook.Machine
	// Connections is hook.Connections.
	Connections = hook.Connections
	// Ports is hook.Ports.
	Ports = hook.Ports
)

// registered are the mutants without state, and made the functions that create those with state. Only init
// functions write them.
var (
	registered []Mutant         //detlint:ok written before main starts, and All sorts what it holds
	made       []func() *Mutant //detlint:ok written before main starts, and All sorts what it holds
)

// registerMutants adds mutants to All. The init function of the file that defines them calls it.
func registerMutants(mutants ...Mutant) { registered = append(registered, mutants...) }

// registerMade adds mutants that are created anew for each run.
func registerMade(mutants ...func() *Mutant) { made = append(made, mutants...) }

// All makes every mutant, sorted by source (C before D, and each by its number) and then by name.
func All() []*Mutant {
	all := make([]*Mutant, 0, len(registered)+len(made))
	for _, m := range registered {
		all = append(all, &m)
	}
	for _, make := range made {
		all = append(all, make())
	}
	slices.SortFunc(all, func(a, b *Mutant) int {
		return cmp.Or(cmp.Compare(a.Source[:1], b.Source[:1]), cmp.Compare(sourceNumber(a.Source), sourceNumber(b.Source)), cmp.Compare(a.Name, b.Name))
	})
	return all
}

// sourceNumber is the number of a source, 0 for one without.
func sourceNumber(source string) int {
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
