package reports

import (
	"encoding/xml"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"handoff/chaos/scenario"
	"handoff/chaos/verdict"
)

type junitSuites struct {
	XMLName  xml.Name      `xml:"testsuites"`
	Name     string        `xml:"name,attr"`
	Tests    int           `xml:"tests,attr"`
	Failures int           `xml:"failures,attr"`
	Errors   int           `xml:"errors,attr"`
	Suites   []*junitSuite `xml:"testsuite"`
}

type junitSuite struct {
	Name     string       `xml:"name,attr"`
	Tests    int          `xml:"tests,attr"`
	Failures int          `xml:"failures,attr"`
	Errors   int          `xml:"errors,attr"`
	Time     string       `xml:"time,attr,omitempty"`
	Cases    []*junitCase `xml:"testcase"`

	seconds float64
}

type junitCase struct {
	Name    string        `xml:"name,attr"`
	Class   string        `xml:"classname,attr"`
	Time    string        `xml:"time,attr,omitempty"`
	Failure *junitProblem `xml:"failure,omitempty"`
	Error   *junitProblem `xml:"error,omitempty"`
}

type junitProblem struct {
	Message string `xml:"message,attr"`
	Type    string `xml:"type,attr"`
	Text    string `xml:",cdata"`
}

// junitViolations is the maximum number of violations in one failure's text; result.json lists all of them.
const junitViolations = 20

// WriteJUnit writes JUnit XML: a testsuite for each scenario, a testcase for each of its profiles.
//
// A run that proves nothing is an error, not skipped, because CI servers count skipped tests as green. For
// the same reason an interrupted sweep adds its own testcase.
//
// Only testcases of the live world have a time: the same simulated runs give the same bytes, whatever their
// duration and number of machines. Their duration is in timing.json.
func WriteJUnit(w io.Writer, s *verdict.Sweep) error {
	all := &junitSuites{Name: "handoff chaos"}
	var suite *junitSuite
	for _, sc := range sortedScenarios(s) {
		if suite == nil || suite.Name != sanitizeText(sc.Name) {
			suite = &junitSuite{Name: sanitizeText(sc.Name)}
			all.Suites = append(all.Suites, suite)
		}
		suite.addCase(caseOf(sc), liveSeconds(sc))
	}
	if s.Interrupted {
		suite = &junitSuite{Name: "sweep"}
		all.Suites = append(all.Suites, suite)
		suite.addCase(&junitCase{Name: "complete", Class: "sweep", Error: &junitProblem{
			Message: "interrupted before every seed had run", Type: verdict.Inconclusive.String(),
		}}, 0)
	}
	for _, suite := range all.Suites {
		suite.Time = formatSeconds(suite.seconds)
		all.Tests += suite.Tests
		all.Failures += suite.Failures
		all.Errors += suite.Errors
	}
	text, err := xml.MarshalIndent(all, "", "  ")
	if err == nil {
		_, err = fmt.Fprintf(w, "%s%s\n", xml.Header, text)
	}
	if err != nil {
		return fmt.Errorf("writing JUnit XML: %w", err)
	}
	return nil
}

func (j *junitSuite) addCase(c *junitCase, wall float64) {
	c.Time = formatSeconds(wall)
	j.seconds += wall
	j.Tests++
	if c.Failure != nil {
		j.Failures++
	}
	if c.Error != nil {
		j.Errors++
	}
	j.Cases = append(j.Cases, c)
}

func caseOf(sc *verdict.Scenario) *junitCase {
	c := &junitCase{Name: sanitizeText(caseName(sc)), Class: sanitizeText(sc.Name)}
	switch sc.Verdict {
	case verdict.Fail:
		c.Failure = problemOf(sc)
	case verdict.Inconclusive:
		c.Error = problemOf(sc)
	}
	return c
}

// caseName returns the profile, followed by whatever else distinguishes two results of one scenario.
func caseName(sc *verdict.Scenario) string {
	name := verdict.ProfileName(sc.Profile, sc.Strategy == verdict.Varied)
	if sc.Mutant != "" {
		name += " with mutant " + sc.Mutant
	}
	return name
}

func problemOf(sc *verdict.Scenario) *junitProblem {
	violations := sortedViolations(sc.Violations)
	if len(violations) == 0 || sc.Verdict != verdict.Fail {
		why := sanitizeText(strings.Join(sc.Why, "\n"))
		return &junitProblem{Message: firstLines(why, 1)[0], Type: sc.Verdict.String(), Text: why}
	}
	var text strings.Builder
	for i, v := range violations {
		if i == junitViolations {
			fmt.Fprintf(&text, "… and %s more\n", plural(len(violations)-i, "violation"))
			break
		}
		fmt.Fprintf(&text, "%s, seed %d, at %s (step %d)\n%s\n", violationTitle(v), v.Seed, FormatTime(v.At), v.Step, v.Message)
		if v.Statement != "" {
			fmt.Fprintf(&text, "Rule: %s\n", v.Statement)
		}
		if len(v.Varied) > 0 {
			fmt.Fprintf(&text, "Varied: %s\n", strings.Join(v.Varied, "; "))
		}
		fmt.Fprintf(&text, "Reproduce: %s\n\n", v.Reproduce)
	}
	first := violations[0]
	return &junitProblem{
		Message: sanitizeText(firstLines(first.Message, 1)[0] + " — reproduce: " + first.Reproduce),
		Type:    sanitizeText(violationTitle(first)),
		Text:    sanitizeText(text.String()),
	}
}

// violationTitle returns a title such as "invariant 2 (ownership)" or "expectation (stuck)".
func violationTitle(v *verdict.Violation) string {
	title := "expectation"
	if v.Invariant > 0 {
		title = fmt.Sprintf("invariant %d", v.Invariant)
	}
	if v.Name != "" && v.Name != title {
		title += " (" + v.Name + ")"
	}
	return title
}

// liveSeconds returns the duration of a live result in seconds; 0 for a simulated one.
func liveSeconds(sc *verdict.Scenario) float64 {
	if sc.World == string(scenario.Sim) {
		return 0
	}
	return sc.Wall.Seconds()
}

func formatSeconds(s float64) string {
	if s == 0 {
		return ""
	}
	return fmt.Sprintf("%.3f", s)
}

// sanitizeText removes what XML 1.0 can't represent, even escaped: control characters, which the product's
// error texts may contain, the two non-characters, and invalid UTF-8.
func sanitizeText(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\t', r == '\n':
			return r
		case r < 0x20, r == utf8.RuneError, r >= 0xFFFE && r <= 0xFFFF, r >= 0x7F && r <= 0x9F:
			return -1
		}
		return r
	}, s)
}
