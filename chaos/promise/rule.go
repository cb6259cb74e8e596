package promise

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"handoff/chaos/jobhistory"
)

// Rule is one rule.
type Rule struct {
	// Name is P1 to P12.
	Name  string
	Title string
	// Statement is the rule in short sentences.
	Statement string
	// Needs are the kinds of lines without which the rule can't be judged; of each list one kind is enough.
	Needs [][]jobhistory.Kind
	// OfTime is whether the rule compares times, so that a stall of the observer makes it inconclusive.
	OfTime bool
	// Promised reports whether the promises make the rule one to judge; nil if it is always judged. Without the
	// promise what it would find is counted.
	Promised func(*Promises) bool
	// make returns the rule's checks for one book.
	make func(*Book, *checks)
}

// checks are what a rule does at the moments of a history. Each may be nil.
type checks struct {
	submitted func(*job, *jobhistory.Line)
	started   func(*attempt)
	ended     func(*attempt)
	settled   func(*job, *jobhistory.Line)
	process   func(*process, *jobhistory.Line)
	// rest is called for each job at the end. at is called once, before.
	rest func(*job)
	end  func()
}

// Rules returns all rules, in the order of their names.
func Rules() []Rule {
	return []Rule{
		nothingLost(), nothingStuck(), doneMeansDone(), notTooSoon(), boundedOverlap(), lostJobsRecovered(),
		boundedAttempts(), finalIsFinal(), stableResult(), gracefulStop(), uniqueKeys(), notBefore(),
	}
}

// Verdict is what a rule says about a history.
type Verdict string

// The verdicts. Measured is one of a rule that is not promised: what it would have found is in its figure.
const (
	Holds        Verdict = "holds"
	Broken       Verdict = "broken"
	Inconclusive Verdict = "inconclusive"
	Measured     Verdict = "measured"
	NotJudged    Verdict = "not judged"
)

// Violation is one breach of a rule.
type Violation struct {
	Job  string
	At   time.Duration
	Text string
}

// Result is the verdict of one rule.
type Result struct {
	Rule    Rule
	Verdict Verdict
	// Violations are the first few, Count is the number of all. They are there for a measured rule too.
	Violations []Violation
	Count      int
	// Judged is how often something was judged that could have broken the rule.
	Judged int
	// Why says why the rule was not judged or is inconclusive.
	Why string
}

// Figure is something that was measured.
type Figure struct {
	Name, Value string
}

// Report is what a book says at the end.
type Report struct {
	Results []Result
	Figures []Figure
	// Jobs counts the accepted jobs.
	Jobs int
}

// Broken returns the names of the broken rules.
func (r *Report) Broken() (names []string) {
	for _, one := range r.Results {
		if one.Verdict == Broken {
			names = append(names, one.Rule.Name)
		}
	}
	return names
}

// mostViolations is how many violations of a rule are kept with their texts.
const mostViolations = 20

// state is what a book keeps of a rule.
type state struct {
	rule       Rule
	checks     checks
	promised   bool
	violations []Violation
	// spans has, of a rule about time, each violation from the beginning of what was too long or too soon.
	spans  []span
	count  int
	judged int
}

// recordViolation records a violation that began at from.
func (b *Book) recordViolation(s *state, j *job, from time.Duration, format string, args ...any) {
	s.count++
	if s.rule.OfTime {
		s.spans = append(s.spans, span{from, b.now})
	}
	if len(s.violations) < mostViolations {
		v := Violation{At: b.now, Text: fmt.Sprintf(format, args...)}
		if j != nil {
			v.Job = j.name
		}
		s.violations = append(s.violations, v)
	}
}

// judgeRule judges a rule at the end.
func (b *Book) judgeRule(s *state) Result {
	r := Result{Rule: s.rule, Violations: s.violations, Count: s.count, Judged: s.judged, Verdict: Holds}
	var missing []string
	for _, need := range s.rule.Needs {
		if !slices.ContainsFunc(need, func(k jobhistory.Kind) bool { return b.seen[k] }) {
			names := make([]string, len(need))
			for i, k := range need {
				names[i] = k.String()
			}
			missing = append(missing, strings.Join(names, " or "))
		}
	}
	switch {
	case len(missing) > 0:
		r.Verdict, r.Why, r.Violations, r.Count = NotJudged, "the history has no line of the kind "+strings.Join(missing, ", and none of "), nil, 0
	case !s.promised:
		r.Verdict = Measured
	case s.judged == 0:
		r.Verdict, r.Why = NotJudged, "nothing happened that the rule judges"
	case s.count > 0:
		r.Verdict = Broken
		if s.rule.OfTime && !slices.ContainsFunc(s.spans, func(x span) bool { return !b.stalledNear(x.from, x.to) }) {
			r.Verdict, r.Why = Inconclusive, "the observing machine stood still close to each violation"
		}
	}
	return r
}
