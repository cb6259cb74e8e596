// Write writes the woven core, and the overlay that puts it in place of the original. The kind
// preempt has the mutants of its locks:
//
//	go run ./sim/weave/write guard DIR
//	go build -overlay DIR/overlay.json ./cmd/chaos
//
//	go run ./sim/weave/write preempt DIR
//	go build -tags preempt -overlay DIR/overlay.json ./cmd/chaos
//
// Run it in the root of the module.
package main

import (
	"fmt"
	"os"

	"handoff/sim/weave"
)

func main() {
	kind, mutants, said := weave.Kind(""), []weave.Mutant(nil), ""
	if len(os.Args) == 3 {
		kind = weave.Kind(os.Args[1])
	}
	switch kind {
	case weave.Guard:
		said = "guarded: %d accesses to fields below a mutex: %s\n"
	case weave.Preempt:
		mutants, said = weave.Mutants(), "woven: %d points at which tasks can be preempted: %s\n"
	default:
		fmt.Fprintln(os.Stderr, "write: a kind and a folder to write to are needed, as in: go run ./sim/weave/write guard reports/out/guarded; the other kind is preempt")
		os.Exit(2)
	}
	o, err := weave.Write(".", "", os.Args[2], kind, mutants...)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Fprintf(os.Stdout, said, len(o.Points), o.File)
}
