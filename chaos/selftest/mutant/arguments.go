package mutant

import (
	"fmt"
	"io"
)

// The flag and its former name, which this release still accepts.
const (
	flag    = "--mutant"
	oldFlag = "--flaw"
)

// FromArguments takes --mutant NAME from a daemon's command line; nil if it is not there. It
// returns the rest of the command line, and writes to notices if the flag has its old name. An
// error says why the mutant can't be planted.
func FromArguments(args []string, notices io.Writer) (m *Mutant, rest []string, err error) {
	for i := 0; i < len(args); i++ {
		if args[i] != flag && args[i] != oldFlag || i+1 == len(args) {
			rest = append(rest, args[i])
			continue
		}
		if args[i] == oldFlag {
			fmt.Fprintf(notices, "%s is called %s now\n", oldFlag, flag)
		}
		if m != nil {
			return nil, rest, fmt.Errorf("%s %s: %s is planted already, and a daemon has one mutant at most", args[i], args[i+1], m.Name)
		}
		i++
		m = Find(args[i])
		switch {
		case m == nil:
			return nil, rest, fmt.Errorf("--mutant: no mutant is called %q; chaos list --mutants names them all", args[i])
		case m.Lacks() != "":
			return nil, rest, fmt.Errorf("--mutant: %s can't be planted into a daemon: %s; plant it with chaos run --mutant", m.Name, m.Lacks())
		}
	}
	return m, rest, nil
}
