// Package verdict judges a run of a scenario, and a sweep of many runs.
//
// There are three verdicts. Fail: an invariant was violated, an expectation was not met, or the product
// panicked. Inconclusive: the run proves nothing, because a fault had no effect, a situation of the scenario
// was never reached, nothing completed before or after the faults, or a checker gave up. Everything else
// passes.
package verdict

import (
	"time"

	"handoff/chaos/explain"
	"handoff/chaos/history"
	"handoff/chaos/verdict/discovery"
	"handoff/core/config"
	"handoff/core/execution"
)

// Verdict is the result of a run or a sweep. The larger the value, the worse it is to overlook it.
type Verdict uint8

// The verdicts.
const (
	Pass Verdict = iota
	Inconclusive
	Fail
)

// String returns the verdict's name in results.
func (v Verdict) String() string { return [...]string{"pass", "inconclusive", "fail"}[v] }

// MarshalText implements encoding.TextMarshaler.
func (v Verdict) MarshalText() ([]byte, error) { return []byte(v.String()), nil }

// Violation is a broken invariant or expectation.
type Violation struct {
	// Invariant is the invariant's number; 0 for an unmet expectation of the scenario.
	Invariant int
	// Name and Statement are those of the invariant.
	Name      string
	Statement string
	Seed      uint64
	// Execution is the execution concerned; 0 if there is no particular one.
	Execution execution.ID
	Step      uint64
	At        time.Duration
	// Message describes what happened, to which execution, and by which process.
	Message string
	// Missed holds the executions that missed an unmet expectation, Execution among them. It is not stored.
	Missed []execution.ID `json:"-"`
	// Causes holds the events that led to the violation, the oldest first; see Record.FindCauses. Past is the
	// number of events in its whole past. They are not stored, because they can be computed from the history.
	Causes []history.Event `json:"-"`
	Past   int             `json:"-"`
	// Varied describes the drawn variations of the scenario; nil for an unvaried run.
	Varied []string
	// Reproduce is the command that reproduces the violation.
	Reproduce string
}

// FaultCount counts the runs in which a fault of the scenario was planned, began, and had an effect.
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
	// GaveUp is the reason why a checker or the harness could not judge the run; empty if it could.
	GaveUp string

	// Varied describes the drawn variations of the scenario, a sentence each; nil for an unvaried run. Cut
	// reports whether the run was aborted because it took more steps than a varied run may.
	Varied []string
	Cut    bool

	Faults    []FaultCount
	Sometimes map[string]int
	// Near counts, for each situation that was not reached, the events that lacked one condition.
	Near map[string]int
	// Texts counts, for each error text that the scenario requires, the failed executions with that text.
	Texts map[string]int

	// Chains counts chains of executions by their last status. Index None counts stuck chains.
	Chains [execution.Statuses]int64
	// Rows counts rows by their last status, in the same way.
	Rows [execution.Statuses]int64
	// CompletedBefore counts completions before the first fault began, and CompletedAfter completions after
	// the last fault ended.
	CompletedBefore int
	CompletedAfter  int
	// Judged holds, at each invariant's number minus one, how often it was judged; see
	// invariant.Suite.Judged. It is nil if the harness aborted before any judgement.
	Judged []uint64
	// Detection is the duration of the slowest detection of each kind.
	Detection map[string]time.Duration
	// Situations holds the fingerprints of the run's distinct situations, ascending; see discovery.Collector.
	Situations []uint64

	Steps   uint64
	Virtual time.Duration
	Hash    uint64
}

// These strategies produce a scenario's runs: the scenario is run unchanged, or varied.
const (
	Random = "random"
	Varied = "varied"
)

// ProfileName returns the name of a run's or a result's profile for readers, marked if varied.
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
	// FirstSeed is the smallest seed of the sweep, LastSeed the largest. A share has gaps between the two.
	FirstSeed uint64
	LastSeed  uint64

	// Judge sets Verdict and Why from all other fields.
	Verdict    Verdict  `json:"-"`
	Why        []string `json:"-"`
	Violations []Violation
	// Failing counts the seeds with a violation. FirstFailing is the smallest of these seeds.
	Failing      int
	FirstFailing uint64
	// FailedSeeds holds the seeds with a violation, ascending, up to a limit.
	FailedSeeds []uint64
	// Causes holds the ways in which runs failed, ordered by rule, place and text, up to a limit.
	Causes []Cause

	Faults    []FaultCount
	Sometimes map[string]int
	// Near holds, for each expected situation, how near the runs that did not reach it came.
	Near   map[string]Near `json:",omitempty"`
	Texts  map[string]int
	Chains [execution.Statuses]int64
	Rows   [execution.Statuses]int64

	CompletedBefore int
	CompletedAfter  int
	GaveUp          int
	// Cut counts the varied runs that were aborted; see Run.Cut.
	Cut       int
	Panics    int
	Detection map[string]time.Duration
	// Discovery counts the runs in which each distinct situation was seen.
	Discovery discovery.Counts

	Steps   uint64
	Virtual time.Duration
	Hash    uint64
	// Wall is the elapsed time. It is stored in a separate file, so that results can be compared.
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
	// Matrix records which scenario kills which mutant; nil unless requested.
	Matrix *Matrix
	// Notes holds a sentence for everything that was not run or was repeated.
	Notes []string
	// Interrupted reports whether the sweep was stopped before every seed had run.
	Interrupted bool
}

// Record holds everything about one run, for replays and reports.
type Record struct {
	Run
	Events []history.Event
	// Parents holds, for each event, the indices of the events that directly led to it, as far as the
	// recording world knows them. It is nil if the world doesn't, as for a history from a file. Package
	// explain finds further causes.
	Parents [][]int32
	// Workers maps the workers' ids to their names.
	Workers map[execution.WorkerID]string
	// FaultIntervals holds the times during which the faults lasted.
	FaultIntervals []FaultInterval
	// Kinds lists the kinds of events that the history records completely; nil for all.
	Kinds []history.Kind
	// TimeScale is the factor by which a live run multiplied every duration of the scenario; 0 for a
	// simulated run.
	TimeScale float64
	// ScenarioText is the text of the scenario that ran, which for a varied run is the drawn scenario; nil if
	// unknown.
	ScenarioText []byte
	// Explained explains why the run failed; nil if not requested.
	Explained *explain.Explanation
}

// FindCauses returns the events that led to a violation of the run.
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
