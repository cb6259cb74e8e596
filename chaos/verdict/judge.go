package verdict

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
)

// The exit codes of chaos commands. Scripts and CI depend on these numbers.
const (
	ExitPass         = 0
	ExitFail         = 1
	ExitUsage        = 2 // invalid usage or an invalid scenario: nothing was run
	ExitInconclusive = 3
	ExitBroken       = 4 // the harness or its environment failed to start, or hung
)

// ExitCode returns the exit code of a command with this verdict.
func (v Verdict) ExitCode() int {
	switch v {
	case Fail:
		return ExitFail
	case Inconclusive:
		return ExitInconclusive
	default:
		return ExitPass
	}
}

// SweepSeeds is the minimum number of seeds in a sweep. A sweep must reach situations that only some runs
// reach, and fewer runs may miss these by chance.
const SweepSeeds = 50

// keptViolations limits the number of violations kept for each invariant. An invariant may be broken in
// thousands of seeds, and the first few violations are enough to understand why.
const keptViolations = 5

// Want holds a scenario's demands in addition to its invariants and expectations.
type Want struct {
	// Seeds is the number of runs that were requested.
	Seeds int
	// Sometimes holds situations and Texts error texts that must occur in at least one run of a sweep.
	Sometimes []string
	Texts     []string
	// Faults reports whether the scenario has faults, so that there is a time before and after the faults.
	Faults bool
	// Share reports whether the runs are only a part of the sweep. If they are, sweep-wide conditions are not
	// judged, such as that a fault must have an effect.
	Share bool
}

// tally holds the state of a Scenario that Judge needs but reports don't. Its fields are exported because
// they are stored in files; see Stored.
type tally struct {
	Want   Want
	Broken map[string]*breach
	// GaveUp is the reason why the first of the runs that could not be judged was not.
	GaveUp     string
	GaveUpSeed uint64
	// Unrecorded is the reason why the record of UnrecordedSeed is missing.
	Unrecorded     string
	UnrecordedSeed uint64
}

// breach counts the seeds in which one rule was broken.
type breach struct {
	Seeds int
	First uint64
}

// NewScenario returns a result without runs. about describes the scenario, and Add fills in the counts.
func NewScenario(about Scenario, want Want) *Scenario {
	s := about
	s.Sometimes, s.Texts, s.Detection = make(map[string]int), make(map[string]int), make(map[string]time.Duration)
	s.tally = tally{Want: want, Broken: make(map[string]*breach)}
	return &s
}

// Failures returns the run's violations, including a panic of the product.
func (r *Run) Failures() []Violation {
	if r.Panic == "" {
		return r.Violations
	}
	first, _, _ := strings.Cut(r.Panic, "\n")
	return append(slices.Clone(r.Violations), Violation{
		Name: "panic", Statement: "The product does not panic.", Seed: r.Seed, Step: r.Steps, At: r.Virtual, Message: first,
	})
}

// Before compares two violations by seed, then by the time at which they happened. A run's first violation is
// the headline of its page, and is the violation that is explained.
func Before(a, b *Violation) int {
	return cmp.Or(cmp.Compare(a.Seed, b.Seed), cmp.Compare(a.Step, b.Step), cmp.Compare(a.At, b.At),
		cmp.Compare(a.Invariant, b.Invariant), cmp.Compare(a.Execution, b.Execution), cmp.Compare(a.Message, b.Message))
}

// Add adds a run. It is not safe for concurrent use. The result doesn't depend on the order of the runs.
func (s *Scenario) Add(r *Run) {
	if s.Seeds == 0 || r.Seed < s.FirstSeed {
		s.FirstSeed = r.Seed
	}
	s.LastSeed = max(s.LastSeed, r.Seed)
	s.Seeds++
	s.addFailures(r)
	if r.GaveUp != "" {
		if s.GaveUp == 0 || r.Seed < s.tally.GaveUpSeed {
			s.tally.GaveUp, s.tally.GaveUpSeed = r.GaveUp, r.Seed
		}
		s.GaveUp++
	}
	if r.Cut {
		s.Cut++
	}
	s.addFaults(r.Faults)
	for name, n := range r.Sometimes {
		s.Sometimes[name] += n
	}
	s.addNear(r)
	for text, n := range r.Texts {
		s.Texts[text] += n
	}
	for status := range r.Chains {
		s.Chains[status] += r.Chains[status]
		s.Rows[status] += r.Rows[status]
	}
	for name, took := range r.Detection {
		s.Detection[name] = max(s.Detection[name], took)
	}
	s.CompletedBefore += r.CompletedBefore
	s.CompletedAfter += r.CompletedAfter
	s.Discovery.Add(r.Situations)
	s.Steps += r.Steps
	s.Virtual += r.Virtual
	// A sum doesn't depend on the order of runs, and the sums of shards can be added.
	s.Hash += hashWithSeed(r.Seed, r.Hash)
}

func (s *Scenario) addFailures(r *Run) {
	failures := r.Failures()
	if len(failures) == 0 {
		return
	}
	if s.Failing == 0 || r.Seed < s.FirstFailing {
		s.FirstFailing = r.Seed
	}
	s.Failing++
	s.FailedSeeds = addSeed(s.FailedSeeds, r.Seed)
	for _, c := range Causes(failures) {
		c.Seeds, c.First = 1, r.Seed
		s.Causes = addCause(s.Causes, c)
	}
	if r.Panic != "" {
		s.Panics++
	}
	counted := make(map[string]bool)
	for i := range failures {
		v := &failures[i]
		s.keepViolation(v)
		rule := v.Rule()
		if counted[rule] {
			continue
		}
		counted[rule] = true
		b := s.tally.Broken[rule]
		if b == nil {
			b = &breach{First: r.Seed}
			s.tally.Broken[rule] = b
		}
		b.Seeds++
		b.First = min(b.First, r.Seed)
	}
}

// keepViolation inserts a violation at its position. If its rule then has too many, it drops the last.
func (s *Scenario) keepViolation(v *Violation) {
	at, _ := slices.BinarySearchFunc(s.Violations, v, func(a Violation, b *Violation) int { return compareViolations(&a, b) })
	s.Violations = slices.Insert(s.Violations, at, *v)
	n, last := 0, 0
	for i := range s.Violations {
		if s.Violations[i].Rule() == v.Rule() {
			n, last = n+1, i
		}
	}
	if n > keptViolations {
		s.Violations = slices.Delete(s.Violations, last, last+1)
	}
}

// compareViolations orders violations for reports. It returns 0 only for equal violations.
func compareViolations(a, b *Violation) int {
	return cmp.Or(cmp.Compare(a.Seed, b.Seed), cmp.Compare(a.Step, b.Step), cmp.Compare(a.Invariant, b.Invariant),
		cmp.Compare(a.Execution, b.Execution), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Message, b.Message))
}

func (s *Scenario) addFaults(counts []FaultCount) {
	for _, f := range counts {
		i := slices.IndexFunc(s.Faults, func(known FaultCount) bool { return known.Fault == f.Fault })
		if i < 0 {
			// Sort by name, because runs arrive in any order.
			i, _ = slices.BinarySearchFunc(s.Faults, f, func(a, b FaultCount) int { return cmp.Compare(a.Fault, b.Fault) })
			s.Faults = slices.Insert(s.Faults, i, FaultCount{Fault: f.Fault})
		}
		s.Faults[i].Planned += f.Planned
		s.Faults[i].Fired += f.Fired
		s.Faults[i].Touched += f.Touched
	}
}

// hashWithSeed combines a seed with its run's hash, so that a sum of the results depends on which seed had
// which history.
func hashWithSeed(seed, hash uint64) uint64 {
	x := hash ^ (seed * 0x9e3779b97f4a7c15)
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// Judge sets Verdict and Why from the runs added so far.
func (s *Scenario) Judge() {
	s.Verdict, s.Why = Pass, nil
	because := func(v Verdict, format string, args ...any) {
		s.Verdict = max(s.Verdict, v)
		s.Why = append(s.Why, fmt.Sprintf(format, args...))
	}
	s.judgeFailures(because)
	switch {
	case s.Seeds == 0 && s.tally.Want.Share && s.tally.Want.Seeds == 0:
		return // this share has no seeds, because there are fewer seeds than shares
	case s.Seeds == 0:
		because(Inconclusive, "nothing was run")
		return
	case s.Seeds < s.tally.Want.Seeds:
		because(Inconclusive, "stopped after %d of %d seeds", s.Seeds, s.tally.Want.Seeds)
	}
	if s.GaveUp > 0 {
		because(Inconclusive, "%s could not be judged, first seed %d: %s", countPhrase(s.GaveUp, "run"), s.tally.GaveUpSeed, s.tally.GaveUp)
	}
	if s.Strategy != Varied && !s.tally.Want.Share { // varied runs need not reach the scenario's situations
		s.judgeFaults(because)
		if s.Seeds >= SweepSeeds {
			s.judgeReach(because)
		}
	}
	if s.tally.Unrecorded != "" && s.tally.UnrecordedSeed == s.FirstFailing {
		s.Why = append(s.Why, s.tally.Unrecorded)
	}
}

// NotRecorded sets the reason why the record of the smallest failing seed is missing.
func (s *Scenario) NotRecorded(why string) {
	s.tally.Unrecorded, s.tally.UnrecordedSeed = why, s.FirstFailing
	s.Why = append(s.Why, why)
}

func (s *Scenario) judgeFailures(because func(Verdict, string, ...any)) {
	told := make(map[string]bool)
	for i := range s.Violations {
		v := &s.Violations[i]
		b := s.tally.Broken[v.Rule()]
		if told[v.Rule()] || b == nil {
			continue
		}
		told[v.Rule()] = true
		what, _, _ := strings.Cut(v.Message, "\n") // the other lines explain it, and are shown with the violation
		if s.Seeds == 1 {
			because(Fail, "%s: %s", v.Rule(), what)
			continue
		}
		because(Fail, "%s: in %d of %d seeds, first in seed %d: %s", v.Rule(), b.Seeds, s.Seeds, b.First, what)
	}
}

// RunsThatBroke returns the number of runs that broke a rule, given by its Violation.Rule. For a result not
// built by Add or Merge, it counts only the runs in Violations.
func (s *Scenario) RunsThatBroke(rule string) int {
	if b := s.tally.Broken[rule]; b != nil {
		return b.Seeds
	}
	seeds := make(map[uint64]bool)
	for i := range s.Violations {
		if v := &s.Violations[i]; v.Rule() == rule {
			seeds[v.Seed] = true
		}
	}
	return len(seeds)
}

// Rule returns the name of the violated rule.
func (v *Violation) Rule() string {
	if v.Invariant == 0 {
		return v.Name
	}
	return fmt.Sprintf("invariant %d, %s", v.Invariant, v.Name)
}

// Expectation is the Violation.Name of every unmet expectation.
const Expectation = "expectation"

// foundCountPattern matches the number of executions at the beginning of an unmet expectation's message.
var foundCountPattern = regexp.MustCompile(`^\d+ of \d+ `)

// Expects returns the unmet expectation in the scenario's words, without counts: the same in every run that
// misses it. It is empty for an invariant.
func (v *Violation) Expects() string {
	if v.Name != Expectation {
		return ""
	}
	line, _, _ := strings.Cut(v.Message, "\n")
	return foundCountPattern.ReplaceAllString(line, "")
}

// judgeFaults requires evidence of every planned fault in at least one run.
func (s *Scenario) judgeFaults(because func(Verdict, string, ...any)) {
	in := fmt.Sprintf("in any of %d runs", s.Seeds)
	if s.Seeds == 1 {
		in = "in this run"
	}
	for _, f := range s.Faults {
		switch {
		case f.Planned == 0 || f.Touched > 0:
		case f.Fired == 0:
			because(Inconclusive, "the fault “%s” did not fire %s", f.Fault, in)
		default:
			because(Inconclusive, "the fault “%s” fired, but made no difference to anything %s", f.Fault, in)
		}
	}
}

// judgeReach judges whether the sweep reached the scenario's situations.
func (s *Scenario) judgeReach(because func(Verdict, string, ...any)) {
	for _, name := range s.Unreached() {
		because(Inconclusive, "“%s” was never reached in %s. %s", name, countPhrase(s.Seeds, "run"), s.Nearness(name))
	}
	for _, text := range s.tally.Want.Texts {
		if s.Texts[text] == 0 {
			because(Inconclusive, "no execution failed with the text %q in %d runs", text, s.Seeds)
		}
	}
	if !s.tally.Want.Faults {
		return
	}
	if s.CompletedBefore == 0 {
		because(Inconclusive, "nothing completed before the first fault in %d runs: nothing shows that the cluster worked without it", s.Seeds)
	}
	if s.CompletedAfter == 0 {
		because(Inconclusive, "nothing completed after the faults in %d runs: nothing shows that the cluster recovers", s.Seeds)
	}
}

// Judge judges every scenario. The sweep's verdict is the worst of the scenarios' verdicts.
func (s *Sweep) Judge() {
	s.Verdict = Pass
	for _, sc := range s.Scenarios {
		sc.Judge()
		s.Verdict = max(s.Verdict, sc.Verdict)
	}
	for i := range s.Agreement {
		if s.Agreement[i].Differs != "" {
			s.Verdict = Fail
		}
	}
	if len(s.Scenarios) == 0 || s.Interrupted {
		s.Verdict = max(s.Verdict, Inconclusive)
	}
}

func countPhrase(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
