// Package verdict judges a run of a scenario, and a sweep of many runs.
//
// There are three verdicts. Fail: an invariant was violated, an expectation was not met, or the
// product panicked. Inconclusive: the run proves nothing, because a fault did not strike, a
// situation of the scenario was never reached, nothing completed before or after the faults, or a
// checker gave up. Everything else is a pass.
package verdict

import (
	"time"

	"handoff/chaos/explain"
	"handoff/chaos/history"
	"handoff/chaos/verdict/discovery"
	"handoff/core/config"
	"handoff/core/execution"
)

// Verdict is the result of a run or a sweep. A larger value is worse to overlook.
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

// Violation is a broken invariant or expectation.
type Violation struct {
	// Invariant is its number; 0 for an unmet expectation of the scenario.
	Invariant int
	// Name and Statement are the invariant's.
	Name      string
	Statement string
	Seed      uint64
	// Execution is 0 if the violation is about no particular execution.
	Execution execution.ID
	Step      uint64
	At        time.Duration
	// Message says what happened, to whom, and which process did it.
	Message string
	// Missed are the executions that missed an unmet expectation; Execution is one of them. They are
	// not stored.
	Missed []execution.ID `json:"-"`
	// Causes are the events that led to it, the oldest first; see Record.FindCauses. Past is how many
	// events its whole past has. They are not stored, because they can be found again in the
	// history.
	Causes []history.Event `json:"-"`
	Past   int             `json:"-"`
	// Varied lists what was drawn to vary the scenario; nil for an unvaried run.
	Varied []string
	// Reproduce is the command that reproduces it.
	Reproduce string
}

// FaultCount counts, for one fault of the scenario, the runs in which it was planned, fired, and
// touched something.
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

	// Varied lists what was drawn to vary the scenario, a sentence each; nil for an unvaried run.
	// Cut says that the run was broken off because it took more steps than a varied run may take.
	Varied []string
	Cut    bool

	Faults    []FaultCount
	Sometimes map[string]int
	// Near counts, for each situation that was not reached, the events that lacked one condition.
	Near map[string]int
	// Texts counts the error texts of failed executions that the scenario asks for.
	Texts map[string]int

	// Chains counts chains of executions by their last status; index None counts the stuck ones.
	Chains [execution.Statuses]int64
	// Rows counts rows in the same way.
	Rows [execution.Statuses]int64
	// CompletedBefore counts completions before the first fault fired, CompletedAfter those after
	// the last fault ended.
	CompletedBefore int
	CompletedAfter  int
	// Judged is how often each invariant has judged something, at its number minus one; see
	// invariant.Suite.Judged. It is nil if the harness broke off before any judgement.
	Judged []uint64
	// Detection is the duration of the slowest detection of each kind.
	Detection map[string]time.Duration
	// Situations are the fingerprints of the run's distinct situations, ascending; see
	// discovery.Collector.
	Situations []uint64

	Steps   uint64
	Virtual time.Duration
	Hash    uint64
}

// The strategies that produce the runs of a scenario: unchanged, or varied.
const (
	Random = "random"
	Varied = "varied"
)

// ProfileName is how people are told the profile of a run or of a result, and that it is varied.
func ProfileName(p config.Profile, varied bool) string {
	if varied {
		return string(p) + ", varied"
	}
	return string(p)
}

// Scenario is the result of a scenario under one profile and one strategy, over its seeds. Merge
// must handle every field.
type Scenario struct {
	Name     string
	About    string
	World    string
	Strategy string
	Profile  config.Profile
	Mutant   string
	Digest   string
	Seeds    int
	// FirstSeed is the smallest seed of the sweep, LastSeed the largest. A share has gaps between
	// them.
	FirstSeed uint64
	LastSeed  uint64

	// Judge sets Verdict and Why from all other fields.
	Verdict    Verdict  `json:"-"`
	Why        []string `json:"-"`
	Violations []Violation
	// Failing counts the seeds with a violation; FirstFailing is the smallest of them.
	Failing      int
	FirstFailing uint64
	// FailedSeeds are the seeds with a violation, ascending; of very many the smallest.
	FailedSeeds []uint64
	// Causes are the ways in which runs failed, by rule, place and text; of very many the first ones.
	Causes []Cause

	Faults    []FaultCount
	Sometimes map[string]int
	// Near is how near runs came that did not reach what the scenario expects.
	Near   map[string]Near `json:",omitempty"`
	Texts  map[string]int
	Chains [execution.Statuses]int64
	Rows   [execution.Statuses]int64

	CompletedBefore int
	CompletedAfter  int
	GaveUp          int
	// Cut counts the varied runs that were broken off; see Run.Cut.
	Cut       int
	Panics    int
	Detection map[string]time.Duration
	// Discovery counts the runs in which each distinct situation was seen.
	Discovery discovery.Counts

	Steps   uint64
	Virtual time.Duration
	Hash    uint64
	// Wall is the elapsed time. It is stored in a separate file, because results are compared.
	Wall time.Duration `json:"-"`

	tally tally
}

// Sweep is the result of one invocation. Merge must handle every field.
type Sweep struct {
	Scenarios []*Scenario
	Verdict   Verdict
	Go        string
	Commit    string
	// Agreement compares live with simulated results; nil unless requested.
	Agreement []Agreement
	// Matrix says which scenario kills which mutant; nil unless requested.
	Matrix *Matrix
	// Notes say what was not run, and what was repeated, a sentence each.
	Notes []string
	// Interrupted says that the sweep was stopped before every seed had run.
	Interrupted bool
}

// Record is everything about one run, for replays and reports.
type Record struct {
	Run
	Events []history.Event
	// Parents are, for each event, the numbers of the events that led to it directly, as far as the
	// world that wrote the record knows. It is nil if that world knows nothing of it, as for a
	// history from a file. Package explain finds more.
	Parents [][]int32
	// Workers names the workers by id.
	Workers map[execution.WorkerID]string
	// FaultIntervals are the times during which the faults lasted.
	FaultIntervals []FaultInterval
	// Kinds are the kinds of events that the history records whenever they happen; nil for all.
	Kinds []history.Kind
	// TimeScale is the factor by which every duration of the scenario was multiplied, on real
	// daemons; 0 for a simulated run.
	TimeScale float64
	// ScenarioText is the file of the scenario that ran: of a varied run, the drawn one. It is nil if
	// that is unknown.
	ScenarioText []byte
	// Explained says why the run failed; nil if that was not asked.
	Explained *explain.Explanation
}

// FindCauses finds what led to a violation of the run.
func (r *Record) FindCauses(v *Violation) *explain.Causes {
	run := explain.Run{Events: r.Events, Parents: r.Parents, Workers: r.Workers}
	return explain.FindCauses(&run, &explain.Violation{Execution: v.Execution, Step: v.Step, At: v.At, Message: v.Message}, explain.MostCauses)
}

// FaultInterval is the time during which a fault lasted.
type FaultInterval struct {
	Fault string
	Begin time.Duration
	// End is the end of the run if the fault never ended.
	End time.Duration
}
