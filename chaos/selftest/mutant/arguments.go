package mutant

import "fmt"

// flag is the flag of daemons that plants a mutant.
const flag = "--mutant"

// FromArguments reads --mutant NAME from a daemon's command line; nil if it is missing. It returns the
// remaining arguments. An error states why the mutant can't be planted.
func FromArguments(args []string) (m *Mutant, rest []string, err error) {
	for i := 0; i < len(args); i++ {
		if args[i] != flag || i+1 == len(args) {
			rest = append(rest, args[i])
			continue
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
