package main

import (
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Renamed words of the command line. The old ones still work in this release, are in no help text,
// and print their new name on stderr. Renamed keys of scenario files are in chaos/scenario
// (Key.Was), of histories in reports, of daemons with mutants in chaos/selftest/mutant/planted, and of make
// in the Makefile. renamed_test.go and renamed_linux_test.go test all of them.
var (
	//nolint:gochecknoglobals // a constant table
	renamedFlags = []renamedWord{{"flaw", "mutant"}, {"flaws", "mutants"}, {"lanes", "parallel"}}
	//nolint:gochecknoglobals // a constant table
	renamedCommands = []renamedCommand{{renamedWord{"flaws", "mutants"}, (*app).mutantsCommand}}
)

type renamedWord struct{ old, now string }

type renamedCommand struct {
	renamedWord
	build func(*app) *cobra.Command
}

// notice is the warning about an old word.
func (r renamedWord) notice(prefix string) string {
	return fmt.Sprintf("%s%s is called %s%s now", prefix, r.old, prefix, r.now)
}

// keepOldWords gives every renamed flag its old name too, hidden, and adds the old commands.
func (a *app) keepOldWords(root *cobra.Command) {
	for _, r := range renamedCommands {
		old := r.build(a)
		old.Use, old.Hidden = r.old, true
		root.AddCommand(old)
	}
	for _, cmd := range root.Commands() {
		keepOldFlags(cmd)
	}
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error { return a.takeOldWords(cmd) }
}

func keepOldFlags(cmd *cobra.Command) {
	for _, r := range renamedFlags {
		now := cmd.Flags().Lookup(r.now)
		if now == nil || cmd.Flags().Lookup(r.old) != nil {
			continue
		}
		cmd.Flags().AddFlag(&pflag.Flag{Name: r.old, Usage: r.notice("--"), Value: &oldFlag{kind: now.Value.Type()}, NoOptDefVal: now.NoOptDefVal, Hidden: true})
	}
}

// oldFlag keeps the value of a flag with its old name until takeOldWords passes it on.
type oldFlag struct{ text, kind string }

// String implements pflag.Value.
func (o *oldFlag) String() string { return o.text }

// Set implements pflag.Value.
func (o *oldFlag) Set(text string) error { o.text = text; return nil }

// Type implements pflag.Value.
func (o *oldFlag) Type() string { return o.kind }

// takeOldWords prints the new names of the old words on a command line, and sets the flags for
// which they stand, so that commands use the new names only.
func (a *app) takeOldWords(cmd *cobra.Command) error {
	for _, r := range renamedCommands {
		if cmd.CalledAs() == r.old {
			fmt.Fprintln(a.err, r.notice("chaos "))
		}
	}
	for _, r := range renamedFlags {
		old := cmd.Flags().Lookup(r.old)
		if old == nil || !old.Changed {
			continue
		}
		if cmd.Flags().Changed(r.now) {
			return usage("--%s and --%s are the same: %s; give that one only", r.old, r.now, r.notice("--"))
		}
		fmt.Fprintln(a.err, r.notice("--"))
		if err := cmd.Flags().Set(r.now, old.Value.String()); err != nil {
			return flagError(cmd, err)
		}
	}
	return nil
}
