// Package score is what became of the mutants of the core's source: the results of a night, which are
// written one by one and go on where they stopped, and the page that they make.
package score

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
)

// What kills a mutant, beside an invariant, which goes by its number ("invariant 4").
const (
	Expectation = "expectation"
	Panic       = "panic"
	// GaveUp is a run that did not end: more steps than any run of the true core, or a loop without time
	// moving.
	GaveUp = "gave up"
	// Hang is a run that made no progress in real time, Memory one that needed more than a run may.
	Hang   = "hang"
	Memory = "memory"
	// Crash is the end of the whole program, Start the end before any run began.
	Crash = "crash"
	Start = "does not start"
	// Situation is one that the true core reaches with the same seeds and the mutant does not.
	Situation = "lost situation"
	// Contract is the suite of what a store promises, which judges the mutants of SQL.
	Contract = "contract"
)

// Result is what became of one mutant.
type Result struct {
	ID       string `json:"id"`
	Package  string `json:"package"`
	Operator string `json:"operator"`
	// About describes the mutant in a line.
	About string `json:"about"`
	// By is what killed it, empty for a survivor.
	By string `json:"by,omitempty"`
	// Target is the scenario and profile that killed it, Seed the seed, and Message what was said.
	Target  string `json:"target,omitempty"`
	Seed    uint64 `json:"seed,omitempty"`
	Message string `json:"message,omitempty"`
	// Reached says that the history of some run differs from the true core's.
	Reached bool `json:"reached"`
	// Runs is how many it took.
	Runs int `json:"runs"`
	// Unit is what the unit tests of its package say: UnitKilled, UnitSurvived, or empty if they were not
	// asked. The raw score does not count it.
	Unit string `json:"unit,omitempty"`
	// CPU is what it took, in seconds. It differs from machine to machine, so it is not kept.
	CPU float64 `json:"-"`
}

// What unit tests say of a mutant that the simulator leaves alive.
const (
	UnitKilled   = "killed"
	UnitSurvived = "survived"
)

// Killed says that something killed the mutant.
func (r *Result) Killed() bool { return r.By != "" }

// Killer is the column of the table that a result belongs to.
func (r *Result) Killer() string {
	switch {
	case r.Killed():
		return r.By
	case r.Reached:
		return "survived"
	default:
		return "not reached"
	}
}

// Quota is an operator's share of the sample.
type Quota struct {
	Operator   string `json:"operator"`
	Quota      int    `json:"quota"`
	Candidates int    `json:"candidates"`
	// Untyped is how many places were left out because the mutant would not compile.
	Untyped int `json:"untyped"`
}

// Size is how many runs judge a mutant: these seeds of every scenario and profile. The more there are,
// the more is killed, so that measurements of different size can't be mixed.
type Size struct {
	// Seeds are plain ones, Varied those of varied runs beside them (package vary).
	Seeds  int `json:"seeds"`
	Varied int `json:"varied"`
}

// String is the size as people read it.
func (s Size) String() string { return fmt.Sprintf("%d plain and %d varied seeds", s.Seeds, s.Varied) }

// Results are those of one sample on one core, judged by one harness.
type Results struct {
	// Seed is the seed of the draw; Core a digest of the mutated source; Commit the revision of the
	// harness; Size is how many runs judge. Results can be merged if these are equal. The size of
	// statements' results is zero: a contract judges them.
	Seed   string `json:"seed"`
	Core   string `json:"core"`
	Commit string `json:"commit"`
	Size   Size   `json:"size,omitzero"`
	// Unjudged are the varied runs that the true core fails. They judge no mutant.
	Unjudged []string `json:"unjudged,omitempty"`
	// Quotas are the operators, in order, and LeftOut the functions that no mutant is made of.
	Quotas  []Quota        `json:"quotas"`
	LeftOut map[string]int `json:"left_out"`
	// Results are by ID.
	Results map[string]*Result `json:"results"`
	// Refused are the IDs of candidates that the database does not take, and that are no mutants.
	Refused []string `json:"refused,omitempty"`
	// SQL are the results of the mutants of SQL, nil if there are none.
	SQL *Results `json:"sql,omitempty"`
}

// Read reads a file of results; one that does not exist has none, and ok is false.
func Read(path string) (r *Results, ok bool, err error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, fmt.Errorf("reading results: %w", err)
	}
	if err := json.Unmarshal(text, &r); err != nil {
		return nil, false, fmt.Errorf("reading results from %s: %w", path, err)
	}
	return r, true, nil
}

// Write replaces a file of results at once, so that an interruption leaves the last one whole.
func (r *Results) Write(path string) error {
	text, err := json.MarshalIndent(r, "", "\t")
	if err == nil {
		err = os.WriteFile(path+".new", append(text, '\n'), 0o600)
	}
	if err == nil {
		err = os.Rename(path+".new", path)
	}
	if err != nil {
		return fmt.Errorf("writing results to %s: %w", path, err)
	}
	return nil
}

// Merge adds the results of another part of the sample. A mutant that is in both keeps the kill of the
// smaller seed, and what unit tests said of it.
func (r *Results) Merge(other *Results) error {
	if r.Seed != other.Seed || r.Core != other.Core || r.Commit != other.Commit {
		return fmt.Errorf("results of seed %.12s, core %.12s, harness %.12s can't be merged with those of seed %.12s, core %.12s, harness %.12s; measure again with one build",
			r.Seed, r.Core, r.Commit, other.Seed, other.Core, other.Commit)
	}
	if r.Size != other.Size && len(other.Results) > 0 {
		return fmt.Errorf("results of %s can't be merged with those of %s: the score would be of neither", r.Size, other.Size)
	}
	switch {
	case len(other.Results) == 0:
	case len(r.Results) == 0:
		r.Unjudged = other.Unjudged
	case !slices.Equal(r.Unjudged, other.Unjudged):
		return fmt.Errorf("the true core fails %d varied runs in one part and %d in the other, or others: its runs are not deterministic", len(r.Unjudged), len(other.Unjudged))
	}
	switch {
	case r.SQL == nil:
		r.SQL = other.SQL
	case other.SQL != nil:
		if err := r.SQL.Merge(other.SQL); err != nil {
			return err
		}
	}
	for _, id := range other.Refused {
		if at, known := slices.BinarySearch(r.Refused, id); !known {
			r.Refused = slices.Insert(r.Refused, at, id)
		}
	}
	for id, o := range other.Results {
		if mine := r.Results[id]; mine == nil || better(o, mine) {
			r.Results[id] = o
		}
	}
	return nil
}

// better says that a says more of a mutant than b.
func better(a, b *Result) bool {
	if a.Killed() != b.Killed() {
		return a.Killed()
	}
	if a.Killed() {
		return cmp.Or(cmp.Compare(a.Seed, b.Seed), cmp.Compare(a.Target, b.Target), cmp.Compare(a.By, b.By)) < 0
	}
	return cmp.Or(compare(a.Reached, b.Reached), cmp.Compare(a.Unit, b.Unit)) > 0
}

// compare orders false before true.
func compare(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// Sorted are the results in the order of operators and IDs.
func (r *Results) Sorted() []*Result {
	at := map[string]int{}
	for i, q := range r.Quotas {
		at[q.Operator] = i
	}
	return slices.SortedFunc(maps.Values(r.Results), func(a, b *Result) int {
		return cmp.Or(cmp.Compare(at[a.Operator], at[b.Operator]), cmp.Compare(a.Package, b.Package), cmp.Compare(a.ID, b.ID))
	})
}

// Truth is what the true core does with the same scenarios and seeds.
type Truth struct {
	Size Size
	// Targets are by name, such as "ttl-race (hardened)" and "ttl-race (hardened, varied)".
	Targets map[string]*Lines
}

// Lines are the true core's runs of one scenario under one profile.
type Lines struct {
	// Hashes are the histories' hashes, from seed 1 on, in hexadecimal digits.
	Hashes []string
	// Fails are the seeds of varied runs that the true core fails: nothing that a mutant does there says
	// anything of the mutant.
	Fails []uint64
	// Passes says that a sweep of all seeds passes.
	Passes bool
}

// Unjudged names the varied runs that the true core fails, in order.
func (t *Truth) Unjudged() []string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(t.Targets)) {
		for _, seed := range t.Targets[name].Fails {
			all = append(all, fmt.Sprintf("%s, seed %d", name, seed))
		}
	}
	return all
}
