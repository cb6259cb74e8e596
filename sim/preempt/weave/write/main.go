// Write writes the woven core, with the mutants of its locks, and the overlay that puts it in place
// of the original:
//
//	go run ./sim/preempt/weave/write DIR
//	go build -tags preempt -overlay DIR/overlay.json ./cmd/chaos
//
// Run it in the root of the module.
package main

import (
	"fmt"
	"os"

	"handoff/sim/preempt/weave"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "write: one argument is needed, the folder to write to, as in: go run ./sim/preempt/weave/write reports/out/woven")
		os.Exit(2)
	}
	o, err := weave.Write(".", os.Args[1], weave.Mutants()...)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Fprintf(os.Stdout, "woven: %d points at which tasks can be preempted: %s\n", len(o.Points), o.File)
}
