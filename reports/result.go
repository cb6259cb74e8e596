package reports

import (
	"encoding/json"
	"fmt"
	"io"

	"handoff/chaos/verdict"
	"handoff/chaos/verdict/discovery"
	"handoff/core/execution"
)

// ResultSchema is the version of result.json. It is incremented when a field is removed or changes its meaning.
const ResultSchema = 1

type result struct {
	Schema    int              `json:"schema"`
	Scenarios []scenarioResult `json:"scenarios"`
	Verdict   verdict.Verdict  `json:"verdict"`
}

type scenarioResult struct {
	Name        string            `json:"name"`
	Profile     string            `json:"profile"`
	Mutant      string            `json:"mutant"`
	World       string            `json:"world"`
	Strategy    string            `json:"strategy"`
	Seeds       int               `json:"seeds"`
	Verdict     verdict.Verdict   `json:"verdict"`
	Why         []string          `json:"why"`
	Violations  []violationResult `json:"violations"`
	Faults      []faultResult     `json:"faults"`
	Sometimes   map[string]int    `json:"sometimes"`
	Executions  int64             `json:"executions"`
	Outcomes    map[string]int64  `json:"outcomes"`
	Steps       uint64            `json:"steps"`
	Virtual     float64           `json:"virtual_s"`
	HistoryHash string            `json:"history_hash"`
	// Cut counts the varied runs that were stopped because they took too many steps.
	Cut int `json:"cut,omitempty"`

	Failing     int              `json:"failing"`
	FailsAtMost float64          `json:"fails_at_most"`
	Situations  situationsResult `json:"situations"`
}

type violationResult struct {
	Invariant int          `json:"invariant"`
	Seed      uint64       `json:"seed"`
	Execution execution.ID `json:"execution"`
	Step      uint64       `json:"step"`
	At        string       `json:"at"`
	Message   string       `json:"message"`
	Reproduce string       `json:"reproduce"`
	// Varied lists the changes drawn for the scenario; omitted for an unvaried run.
	Varied []string `json:"varied,omitempty"`
}

type faultResult struct {
	Fault   string `json:"fault"`
	Planned int    `json:"planned"`
	Fired   int    `json:"fired"`
	Touched int    `json:"touched"`
}

// WriteJSON writes the machine-readable result, schema 1. The same results give the same bytes: lists are
// sorted, and nothing depends on duration or machine.
//
// A violation's "invariant" is its number, 0 for an unmet expectation of the scenario. "execution" is 0 if
// the violation concerns no particular execution. "at" is virtual time with its unit, as in scenario files.
// "outcomes" counts chains of executions by their last status, with "stuck" for chains that never ended;
// "executions" is their sum. "history_hash" is hexadecimal, because not every JSON reader keeps 64-bit
// numbers. "fails_at_most" is the upper bound of the share of failing runs, with 95 % confidence, given that
// "failing" did. "situations" counts the distinct situations; the second half of its "curve" is an estimate.
func WriteJSON(w io.Writer, s *verdict.Sweep) error {
	r := result{Schema: ResultSchema, Scenarios: []scenarioResult{}, Verdict: s.Verdict}
	for _, sc := range sortedScenarios(s) {
		r.Scenarios = append(r.Scenarios, resultOf(sc))
	}
	return encodeIndented(w, r, "the result")
}

func resultOf(sc *verdict.Scenario) scenarioResult {
	r := scenarioResult{
		Name: sc.Name, Profile: string(sc.Profile), Mutant: sc.Mutant, World: sc.World, Strategy: sc.Strategy,
		Seeds: sc.Seeds, Verdict: sc.Verdict, Why: append([]string{}, sc.Why...),
		Violations: []violationResult{}, Faults: []faultResult{}, Sometimes: map[string]int{},
		Outcomes: map[string]int64{}, Steps: sc.Steps, Virtual: sc.Virtual.Seconds(),
		HistoryHash: fmt.Sprintf("%016x", sc.Hash), Cut: sc.Cut, Failing: sc.Failing,
		FailsAtMost: roundTo(discovery.FailsAtMost(sc.Failing, judgedRuns(sc)), 6), Situations: situationsOf(sc),
	}
	for _, v := range sortedViolations(sc.Violations) {
		r.Violations = append(r.Violations, violationResult{
			v.Invariant, v.Seed, v.Execution, v.Step, v.At.String(), v.Message, v.Reproduce, v.Varied,
		})
	}
	for _, f := range sortedFaults(sc.Faults) {
		r.Faults = append(r.Faults, faultResult(f))
	}
	for name, hits := range sc.Sometimes {
		r.Sometimes[name] = hits
	}
	for _, o := range outcomeCounts(sc) {
		r.Outcomes[o.Name] = o.Count
		r.Executions += o.Count
	}
	return r
}

// outcome is the number of chains that ended with one status.
type outcome struct {
	Name  string
	Count int64
}

// outcomeCounts counts chains by their last status, in the order of the statuses, with stuck chains last.
func outcomeCounts(sc *verdict.Scenario) []outcome {
	var list []outcome
	for s := execution.Requested; int(s) < execution.Statuses; s++ {
		if n := sc.Chains[s]; n > 0 {
			list = append(list, outcome{s.String(), n})
		}
	}
	if n := sc.Chains[execution.None]; n > 0 {
		list = append(list, outcome{"stuck", n})
	}
	return list
}

type timing struct {
	Schema      int              `json:"schema"`
	Go          string           `json:"go"`
	Commit      string           `json:"commit"`
	Interrupted bool             `json:"interrupted"`
	Wall        float64          `json:"wall_s"`
	Scenarios   []scenarioTiming `json:"scenarios"`
}

type scenarioTiming struct {
	Name     string  `json:"name"`
	Profile  string  `json:"profile"`
	Mutant   string  `json:"mutant"`
	World    string  `json:"world"`
	Strategy string  `json:"strategy"`
	Seeds    int     `json:"seeds"`
	Wall     float64 `json:"wall_s"`
	Speed    float64 `json:"steps_per_s"`
}

// writeTiming writes everything that differs between two runs of the same sweep: durations and the build.
// Parallel scenarios count in full, so wall_s is the machine's work, not the elapsed time.
func writeTiming(w io.Writer, s *verdict.Sweep) error {
	t := timing{Schema: ResultSchema, Go: s.Go, Commit: s.Commit, Interrupted: s.Interrupted, Scenarios: []scenarioTiming{}}
	for _, sc := range sortedScenarios(s) {
		st := scenarioTiming{
			Name: sc.Name, Profile: string(sc.Profile), Mutant: sc.Mutant, World: sc.World, Strategy: sc.Strategy,
			Seeds: sc.Seeds, Wall: sc.Wall.Seconds(),
		}
		if st.Wall > 0 {
			st.Speed = float64(sc.Steps) / st.Wall
		}
		t.Wall += st.Wall
		t.Scenarios = append(t.Scenarios, st)
	}
	return encodeIndented(w, t, "the timing")
}

func encodeIndented(w io.Writer, v any, what string) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("writing %s: %w", what, err)
	}
	return nil
}
