// Package score has the results for the mutants of the core's source, and the page that they make.
// A measurement writes its results one by one, and resumes after an interruption.
package score

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
)

// The killers of mutants, besides invariants, which are named by their number ("invariant 4").
const (
	Expectation = "expectation"
	Panic       = "panic"
	// GaveUp is a run that did not end: it took more steps than any run of the true core, or looped
	// while no time passed.
	GaveUp = "gave up"
	// Hang is a run that made no progress in real time. Memory is one that needed more memory than
	// a run may.
	Hang   = "hang"
	Memory = "memory"
	// Crash is the end of the whole program. Start is its end before any run began.
	Crash = "crash"
	Start = "does not start"
	// Situation is a situation that the true core reaches with the same seeds and the mutant does
	// not.
	Situation = "lost situation"
	// Contract is the suite of a store's contract, which judges the mutants of SQL.
	Contract = "contract"
)

// Result is the result for one mutant.
type Result struct {
	ID       string `json:"id"`
	Package  string `json:"package"`
	Operator string `json:"operator"`
	// About describes the mutant in one line.
	About string `json:"about"`
	// By is its killer, empty for a survivor.
	By string `json:"by,omitempty"`
	// Target is the scenario and profile that killed it, Seed the seed, and Message the killer's
	// message.
	Target  string `json:"target,omitempty"`
	Seed    uint64 `json:"seed,omitempty"`
	Message string `json:"message,omitempty"`
	// Reached reports whether the history of some run differs from the true core's.
	Reached bool `json:"reached"`
	// Runs is the number of runs.
	Runs int `json:"runs"`
	// Unit is the result of the unit tests, its package's and the oracle's: UnitKilled, UnitSurvived, or
	// empty if they were not run. The raw score does not count it.
	Unit string `json:"unit,omitempty"`
	// CPU is the processor time, in seconds. It differs between machines, so it is not stored.
	CPU float64 `json:"-"`
}

// The results of unit tests for a mutant that survives the simulator.
const (
	UnitKilled   = "killed"
	UnitSurvived = "survived"
)

// Killed reports whether something killed the mutant.
func (r *Result) Killed() bool { return r.By != "" }

// Killer returns the row of the table by killer for a result.
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
	// Untyped is the number of places that were left out because the mutant would not compile.
	Untyped int `json:"untyped"`
}

// Size is the number of runs that judge a mutant: these seeds of every scenario and profile. More runs kill
// more mutants, so measurements of different sizes can't be mixed.
type Size struct {
	// Seeds counts plain seeds, Varied those of varied runs besides (package vary).
	Seeds  int `json:"seeds"`
	Varied int `json:"varied"`
}

// String is the size in words.
func (s Size) String() string { return fmt.Sprintf("%d plain and %d varied seeds", s.Seeds, s.Varied) }

// Results are the results of one sample on one core, judged by one harness.
type Results struct {
	// Seed is the seed of the draw, Core a digest of the mutated source, Commit the revision of the harness,
	// and Size the number of runs. Results can be merged if these are equal. For SQL the size is zero: a
	// contract judges those mutants.
	Seed   string `json:"seed"`
	Core   string `json:"core"`
	Commit string `json:"commit"`
	Size   Size   `json:"size,omitzero"`
	// Asked is the number of mutants in the whole measurement, even if these results are a share of it.
	Asked int `json:"asked,omitempty"`
	// Unjudged are the varied runs that the true core fails. They judge no mutant.
	Unjudged []string `json:"unjudged,omitempty"`
	// Quotas are the operators, in order. LeftOut counts the functions without mutants.
	Quotas  []Quota        `json:"quotas"`
	LeftOut map[string]int `json:"left_out"`
	// Results are by ID.
	Results map[string]*Result `json:"results"`
	// Refused are the IDs of candidates that the database refuses, so that they are not mutants.
	Refused []string `json:"refused,omitempty"`
	// SQL has the results of the mutants of SQL, nil if there are none.
	SQL *Results `json:"sql,omitempty"`
}

// Read reads a file of results. If the file does not exist, it returns no results, and ok is false.
func Read(path string) (r *Results, ok bool, err error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, fmt.Errorf("%s can't be read: %w", path, errors.Unwrap(err))
	}
	if err := json.Unmarshal(text, &r); err != nil {
		return nil, false, unreadableError(path, text, err)
	}
	if r == nil || r.Seed == "" || r.Core == "" || r.Commit == "" {
		return nil, false, fmt.Errorf("%s has no results: seed, core or commit is missing", path)
	}
	return r, true, nil
}

// unreadableError returns an error with the position and the reason that make a file unreadable as results.
func unreadableError(path string, text []byte, err error) error {
	at, why := len(text), err.Error()
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax):
		at = int(syntax.Offset)
	case errors.As(err, &kind):
		at, why = int(kind.Offset), fmt.Sprintf("%s has the wrong type, %s", cmp.Or(kind.Field, "the file"), kind.Value)
	}
	before := text[:min(max(at-1, 0), len(text))]
	return fmt.Errorf("%s:%d:%d has no results: %s", path, bytes.Count(before, []byte{'\n'})+1, len(before)-bytes.LastIndexByte(before, '\n'), why)
}

// Write replaces a file of results in one step, so that an interruption leaves the old file intact.
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

// Merge adds the results of another part of the sample. A mutant in both keeps the kill with the
// smaller seed, and its result of unit tests.
func (r *Results) Merge(other *Results) error {
	if r.Seed != other.Seed || r.Core != other.Core || r.Commit != other.Commit {
		return fmt.Errorf("results of seed %.12s, core %.12s, harness %s can't be merged with those of seed %.12s, core %.12s, harness %s; measure again with one build",
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
		if mine := r.Results[id]; mine == nil || isMoreConclusive(o, mine) {
			r.Results[id] = o
		}
	}
	return nil
}

// isMoreConclusive reports whether a is more conclusive about a mutant than b.
func isMoreConclusive(a, b *Result) bool {
	if a.Killed() != b.Killed() {
		return a.Killed()
	}
	if a.Killed() {
		return cmp.Or(cmp.Compare(a.Seed, b.Seed), cmp.Compare(a.Target, b.Target), cmp.Compare(a.By, b.By)) < 0
	}
	return cmp.Or(compareBools(a.Reached, b.Reached), cmp.Compare(a.Unit, b.Unit)) > 0
}

// compareBools orders false before true.
func compareBools(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// Sorted returns the results in the order of operators and IDs.
func (r *Results) Sorted() []*Result {
	at := map[string]int{}
	for i, q := range r.Quotas {
		at[q.Operator] = i
	}
	return slices.SortedFunc(maps.Values(r.Results), func(a, b *Result) int {
		return cmp.Or(cmp.Compare(at[a.Operator], at[b.Operator]), cmp.Compare(a.Package, b.Package), cmp.Compare(a.ID, b.ID))
	})
}

// Truth is the behaviour of the true core with the same scenarios and seeds.
type Truth struct {
	Size Size
	// Targets are by name, such as "ttl-race (hardened)" and "ttl-race (hardened, varied)".
	Targets map[string]*Lines
}

// Lines are the true core's runs of one scenario under one profile.
type Lines struct {
	// Hashes are the histories' hashes, from seed 1 on, in hexadecimal digits.
	Hashes []string
	// Fails are the seeds of varied runs that the true core fails. A mutant's failure there does not count.
	Fails []uint64
	// Passes reports whether a sweep of all seeds passes.
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
