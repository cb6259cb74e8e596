// Package planted gives a known defect to a real daemon. It is linked only into daemons that are built for
// that, with the build tag mutant: the ones that ship have no switch for any.
package planted

import (
	"context"
	"fmt"
	"os"

	"handoff/chaos/mutant"
	"handoff/core/store"
	"handoff/sim/simstore"
)

// Real is the real database as a mutant sees it.
type Real struct{ store.Store }

// Step implements mutant.Database. A mutant that needs it is refused before anything starts.
func (Real) Step(context.Context, func(*simstore.Tx)) error {
	return fmt.Errorf("%w: the real database has no raw statements", store.ErrUnavailable)
}

// The flag, and what it was called before: that goes on working in this release.
const (
	flag    = "--mutant"
	oldFlag = "--flaw"
)

// FromArguments takes --mutant NAME from a command line; nil if it is not there. A name that can't be planted
// ends the process.
func FromArguments(args []string) (f *mutant.Mutant, rest []string) {
	for i := 0; i < len(args); i++ {
		if args[i] != flag && args[i] != oldFlag || i+1 == len(args) {
			rest = append(rest, args[i])
			continue
		}
		if args[i] == oldFlag {
			fmt.Fprintf(os.Stderr, "%s is called %s now\n", oldFlag, flag)
		}
		if f != nil {
			refuse("%s %s: %s is planted already, and a daemon has one mutant at most", args[i], args[i+1], f.Name)
		}
		i++
		f = mutant.Find(args[i])
		switch {
		case f == nil:
			refuse("no mutant is called %q", args[i])
		case f.Lacks() != "":
			refuse("the mutant %s can't be planted into a daemon: %s", f.Name, f.Lacks())
		}
	}
	return f, rest
}

func refuse(format string, args ...any) {
	fmt.Fprintf(os.Stderr, flag+": "+format+"\n", args...)
	os.Exit(2)
}
