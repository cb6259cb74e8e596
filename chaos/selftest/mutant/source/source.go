// Package source makes mutants from the core's own source text: small mistakes that were not chosen by hand.
//
// The authors of the harness's rules (its invariants, for example) also write the planted mutants (package
// mutant). A harness that kills all of those only shows what its authors thought of. Here an operator is a
// kind of mistake, such as "the branch of an error is not taken". It is applied wherever it fits, and each
// way to apply it is a candidate. A sample of the candidates is drawn by a hash. The share of the sample that
// the harness kills is its score.
//
// Nobody could fit operators, quotas and the rule of the draw (Draw) to the rules that the score measures:
// they were committed before, and the hash of that commit is the seed of the draw (Seed). A change of an
// operator or of a quota makes a new sample and needs a new seed. The old and the new score are then not
// comparable.
//
// There are two sets of candidates: the Go code of the core that the simulator runs, and the SQL statements
// of the PostgreSQL adapter, which it does not run. Load lists one of them.
//
// The core contains nothing of this. Overlay writes copies of the mutated functions beside the originals into
// files of a temporary folder, and `go build -overlay` compiles these files instead. Each original asks at
// its start which mutant the process was started with (Variable). A mutated SQL statement is chosen when the
// process starts. One build serves all mutants.
package source

import (
	"cmp"
	"fmt"
	"slices"
)

// Candidate is one change that an operator can make. It becomes a mutant when it is built.
type Candidate struct {
	// ID is the file, the function, the operator, and the number of the change among all that the
	// operator found in the function, counted from 1. Changes of other functions don't alter it. A
	// change of its own function may renumber it.
	ID string `json:"id"`
	// Package is the package's folder below the module's root, such as core/executor.
	Package string `json:"package"`
	// File is the base name of the file, Line the line of the change.
	File string `json:"file"`
	Line int    `json:"line"`
	// Func is the function's name, with its receiver. For SQL it is the name of the statement's variable or
	// constant.
	Func string `json:"func"`
	// Operator is the name of the operator.
	Operator string `json:"operator"`
	// What describes the change, with quotations of the source.
	What string `json:"what"`

	fn    *function
	edits []edit
}

// String describes the candidate in a line that can be read without the source.
func (c *Candidate) String() string {
	return fmt.Sprintf("%s/%s:%d %s: %s", c.Package, c.File, c.Line, c.Func, c.What)
}

// edit replaces the bytes [from, to) of a file.
type edit struct {
	from, to int
	text     string
}

// applyEdits returns src[from:to] with the edits applied. They lie inside and don't overlap.
func applyEdits(src []byte, from, to int, edits []edit) string {
	sorted := slices.SortedFunc(slices.Values(edits), func(a, b edit) int { return cmp.Compare(a.from, b.from) })
	out := make([]byte, 0, to-from)
	at := from
	for _, e := range sorted {
		out = append(out, src[at:e.from]...)
		out = append(out, e.text...)
		at = e.to
	}
	return string(append(out, src[at:to]...))
}

// Operator is one kind of mistake.
type Operator struct {
	// Name is the operator's name in IDs and tables.
	Name string
	// About describes the operator in one line.
	About string
	// Quota is the number of its candidates in the sample of its set (Operators).
	Quota int
	// SQL reports whether it works on the statements of the store's PostgreSQL adapter, and not on the core
	// that the simulator runs.
	SQL bool

	find func(*site)
}

// Operators are all operators, in the order of the tables. The quotas for the simulated core add up
// to a sample of 300, those for SQL to one of 60. Each quota is a multiple of 5, so that the first
// fifth of every quota is a sample as well.
func Operators() []Operator {
	return []Operator{
		{Name: "guards", Quota: 50, About: "a condition is always met, never met or negated, or one side of && or || is left out", find: changeGuards},
		{Name: "comparisons", Quota: 30, About: "a comparison at a bound or a deadline includes or excludes the bound, or is turned round", find: changeComparisons},
		{Name: "sets", Quota: 30, About: "a status, reason or another constant of a set becomes its neighbour, or is left out of a list", find: changeSets},
		{Name: "order", Quota: 20, About: "two calls that follow each other change places", find: swapCalls},
		{Name: "errors", Quota: 30, About: "the branch of an error is not taken, or an error is dropped", find: dropErrors},
		{Name: "wakes", Quota: 15, About: "a wake-up, a notification or a cancellation is left out", find: dropWakes},
		{Name: "loops", Quota: 20, About: "continue and break change places, a loop ends after its first element, a return only ends the loop", find: changeLoops},
		{Name: "clocks", Quota: 20, About: "a moment is read from another clock, or is another moment in scope", find: changeClocks},
		{Name: "fields", Quota: 25, About: "a field of a record becomes another one of the same type", find: changeFields},
		{Name: "counts", Quota: 25, About: "a count is one more or one less, min becomes max, + becomes -", find: changeCounts},
		{Name: "locks", Quota: 10, About: "a pair of lock and unlock is left out, a defer is left out or runs at once", find: dropLocks},
		{Name: "results", Quota: 15, About: "a boolean result is inverted, another one is its zero value", find: changeResults},
		{Name: "durations", Quota: 10, About: "a duration or a default is halved or doubled", find: changeDurations},

		{Name: "sql-comparisons", SQL: true, Quota: 15, About: "a comparison includes or excludes its bound, or is turned round", find: sqlComparisons},
		{Name: "sql-conditions", SQL: true, Quota: 20, About: "a condition of a where, join or case is left out", find: sqlConditions},
		{Name: "sql-statuses", SQL: true, Quota: 10, About: "a status, reason or lifecycle becomes its neighbour, or is left out of a list", find: sqlStatuses},
		{Name: "sql-clocks", SQL: true, Quota: 5, About: "the moment of the statement becomes the start of its transaction, or is shifted", find: sqlClocks},
		{Name: "sql-limits", SQL: true, Quota: 5, About: "a limit, or the order of what it limits, is left out or reversed", find: sqlLimits},
		{Name: "sql-locks", SQL: true, Quota: 5, About: "a row lock is left out, or no longer skips what others have locked", find: sqlLocks},
	}
}

// scope is a package to mutate, with the files that the simulator does not run.
type scope struct {
	// dir is the package's folder below the module's root.
	dir string
	// without are the files of the package that the simulator does not run.
	without []string
}

// simulatedScopes returns the simulated core. Subfolders have adapters to the real world, which the simulator
// replaces by models. A file is left out if two seeds of every scenario run less than half of its statements.
// Such files read files, arguments and bytes, and print lists, which only the daemons do.
func simulatedScopes() []scope {
	return []scope{
		{dir: "core/executor"},
		{dir: "core/worker"},
		{dir: "core/broker"},
		// The lists of the API are left out.
		{dir: "core/store", without: []string{"changes.go", "lists.go", "observations.go"}},
		{dir: "core/execution"},
		// Every run uses the settings and the rules by which they fit together. It does not use the
		// code by which a daemon finds its settings, in files, variables and arguments, and which
		// clients may use the API.
		{dir: "core/config", without: []string{
			"access.go", "actions.go", "command.go", "decode.go", "deployment.go", "isolation.go", "leaf.go", "load.go", "log.go", "print.go",
			"secrets.go", "tokens.go",
		}},
	}
}

// statementScopes returns the package with the SQL.
func statementScopes() []scope { return []scope{{dir: "core/store/postgres"}} }
