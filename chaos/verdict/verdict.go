// Package verdict says what a run of a scenario, and a sweep of many, amounts to.
//
// There are three verdicts. A fail is a violated invariant, an unmet expectation, or a panic of the
// product. An inconclusive one means that the run proves nothing: a fault did not strike, a
// situation that the scenario is about was never reached, nothing completed before the faults or
// nothing after them, or a checker gave up. Only what is neither is a pass.
package verdict

import (
	"time"

	"handoff/chaos/history"
	"handoff/chaos/verdict/discovery"
	"handoff/core/config"
	"handoff/core/execution"
)

// Verdict is what a run or a sweep amounts to; the larger value is the worse one to have hidden.
type Verdict uint8

// The verdicts.
const (
	Pass Verdict = iota
	Inconclusive
	Fail
)

// String is the verdict's name in results.
func (v Verdict) String() string { return [...]string{"pass", "inconclusive", "fail"}[v] }

// MarshalText implements encoding.TextMarshaler.
func (v Verdict) MarshalText() ([]byte, error) { return []byte(v.String()), nil }

// Violation is one broken invariant or expectation.
type Violation struct {
	// Invariant is its number; 0 for an unmet expectation of the scenario.
	Invariant int
	// Name and Statement are the invariant's.
	Name      string
	Statement string
	Seed      uint64
	// Execution is 0 where the violation is about none in particular.
	Execution execution.ID
	Step      uint64
	At        time.Duration
	// Message says what happened, to whom, by whom.
	Message string
	// Causes are the last events that led to it, oldest first. They are not stored: they are found again in the history.
	Causes []history.Event `json:"-"`
	// Varied says what was drawn around the scenario in the run; nil for a plain one.
	Varied []string
	// Reproduce is the command that shows it again.
	Reproduce string
}

// FaultCount is what became of one fault of the scenario over the runs: in how many it was planned,
// fired, and touched something.
type FaultCount struct {
	Fault   string
	Planned int
	Fired   int
	Touched int
}

// Run is the result of one seed.
type Run struct {
	Scenario string
	Profile  config.Profile
	Seed     uint64
	Mutant   string

	Violations []Violation
	// Panic is a panic of the product, with its stack; empty for none.
	Panic string
	// GaveUp says why a checker or the harness could not judge the run; empty if it could.
	GaveUp string

	// Varied says what was drawn around the scenario, a sentence each; nil for a plain run. Cut says that the run was broken
	// off because it took more steps than a varied run is granted.
	Varied []string
	Cut    bool

	Faults    []FaultCount
	Sometimes map[string]int
	// Texts are the error texts of failed executions that the scenario asks for.
	Texts map[string]int

	// Chains counts how chains of executions ended, by last status; index None counts the stuck.
	Chains [execution.Statuses]int64
	// Rows counts rows the same way.
	Rows [execution.Statuses]int64
	// CompletedBefore and CompletedAfter count completions before the first fault fired and after
	// the last one ended.
	CompletedBefore int
	CompletedAfter  int
	// Judged is how often each invariant has judged something, by number less one; see invariant.Suite.Judged. It is nil
	// where the harness broke off before anything was judged.
	Judged []uint64
	// Detection is how long the slowest detection of each kind took.
	Detection map[string]time.Duration
	// Situations are the fingerprints of the distinct situations that it showed, ascending; see discovery.Collector.
	Situations []uint64

	Steps   uint64
	Virtual time.Duration
	Hash    uint64
}

// The strategies by which a scenario's runs come about: as it stands, or varied around it.
const (
	Random = "random"
	Varied = "varied"
)

// Scenario is the result of a scenario under one profile and one strategy, over its seeds. Merge knows every field of it.
type Scenario struct {
	Name     string
	About    string
	World    string
	Strategy string
	Profile  config.Profile
	Mutant   string
	Digest   string
	Seeds    int
	// FirstSeed is the smallest seed of the sweep, LastSeed the largest. A share has gaps between them.
	FirstSeed uint64
	LastSeed  uint64

	// Verdict and Why are Judge's, from all the others.
	Verdict    Verdict  `json:"-"`
	Why        []string `json:"-"`
	Violations []Violation
	// Failing counts the seeds with a violation; FirstFailing is the smallest of them.
	Failing      int
	FirstFailing uint64

	Faults    []FaultCount
	Sometimes map[string]int
	Texts     map[string]int
	Chains    [execution.Statuses]int64
	Rows      [execution.Statuses]int64

	CompletedBefore int
	CompletedAfter  int
	GaveUp          int
	// Cut counts the varied runs that were broken off; see Run.Cut.
	Cut       int
	Panics    int
	Detection map[string]time.Duration
	// Discovery says in how many runs each distinct situation was seen.
	Discovery discovery.Counts

	Steps   uint64
	Virtual time.Duration
	Hash    uint64
	// Wall is how long it took; it stands in a file of its own, because results are compared.
	Wall time.Duration `json:"-"`

	tally tally
}

// Sweep is everything that one invocation ran. Merge knows every field of it.
type Sweep struct {
	Scenarios []*Scenario
	Verdict   Verdict
	Go        string
	Commit    string
	// Agreement puts the live results beside simulated ones; nil where nobody asked.
	Agreement []Agreement
	// Matrix says which scenario kills which mutant; nil where nobody asked.
	Matrix *Matrix
	// Notes say what was not run, and what was run again, each in a sentence.
	Notes []string
	// Interrupted says that it was stopped before every seed had run.
	Interrupted bool
}

// Record is the full story of one run, for replays and reports.
type Record struct {
	Run
	Events []history.Event
	// Workers names the workers by id.
	Workers map[execution.WorkerID]string
	// FaultIntervals are the faults as they happened.
	FaultIntervals []FaultInterval
	// Kinds are the kinds of events that it would hold if they had happened; nil for all.
	Kinds []history.Kind
	// TimeScale is what every duration of the scenario was multiplied by, on real daemons; 0 for a simulated run.
	TimeScale float64
}

// FaultInterval is the time during which a fault lasted.
type FaultInterval struct {
	Fault string
	Begin time.Duration
	// End is the end of the run where the fault never ended.
	End time.Duration
}
