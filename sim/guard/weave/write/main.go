// Write writes the guarded core, and the overlay that puts it in place of the original:
//
//	go run ./sim/guard/weave/write DIR
//	go build -overlay DIR/overlay.json ./cmd/chaos
//
// Run it in the root of the module.
package main

import (
	"fmt"
	"os"

	"handoff/sim/guard/weave"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "write: one argument is needed, the folder to write to, as in: go run ./sim/guard/weave/write reports/out/guarded")
		os.Exit(2)
	}
	root, err := os.Getwd()
	if err == nil {
		var path string
		var guarded int
		if path, guarded, err = weave.Add(root, "", os.Args[1]); err == nil {
			fmt.Fprintf(os.Stdout, "guarded: %d accesses to fields below a mutex: %s\n", guarded, path)
			return
		}
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}
