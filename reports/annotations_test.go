package reports_test

import (
	"fmt"
	"io"
	"strings"
	"testing"

	"handoff/chaos/verdict"
	"handoff/reports"
)

func renderAnnotations(t *testing.T, s *verdict.Sweep, file string, line int) string {
	t.Helper()
	return renderText(t, func(w io.Writer, s *verdict.Sweep) error {
		return reports.WriteAnnotations(w, s, func(*verdict.Scenario, *verdict.Violation) (string, int) { return file, line })
	}, s)
}

func TestAnnotationIsEscaped(t *testing.T) {
	sc := &verdict.Scenario{Name: "odd", Profile: "hardened", Verdict: verdict.Fail, Seeds: 1, Failing: 1, Violations: []verdict.Violation{{
		Invariant: 4, Name: "a, b: c%", Message: "100 %\r\n::error::forged, as it stands: \x1b[31m", Statement: "rule", Reproduce: "bin/chaos replay",
	}}}
	got := renderAnnotations(t, &verdict.Sweep{Scenarios: []*verdict.Scenario{sc}}, "a,b:c%\n.yaml", 7)
	want := "::error file=a%2Cb%3Ac%25%0A.yaml,line=7,title=odd (hardened)%3A invariant 4 (a%2C b%3A c%25)::" +
		"100 %25%0A::error::forged, as it stands: [31m%0Arule: rule%0Areproduce: bin/chaos replay\n"
	if got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

func TestAnnotationsAreLimited(t *testing.T) {
	s := &verdict.Sweep{}
	for i := range 2*reports.Annotations + 1 {
		s.Scenarios = append(s.Scenarios, &verdict.Scenario{
			Name: fmt.Sprintf("s-%02d", i), Profile: "hardened", Verdict: verdict.Fail,
			Why: []string{strings.Repeat("long ", 10)}, Violations: []verdict.Violation{{Name: "expectation", Message: strings.Repeat("ö", 100_000)}},
		})
	}
	s.Scenarios = append(s.Scenarios, &verdict.Scenario{Name: "passes", Profile: "hardened"})
	got := renderAnnotations(t, s, "", 0)
	if n := strings.Count(got, "\n"); n != reports.Annotations || !strings.Contains(got, "title=12 more fail::") || strings.Contains(got, "passes") {
		t.Errorf("%d lines, want %d, the last with 12 more:\n%.300s", n, reports.Annotations, got)
	}
	if len(got) > 50_000 {
		t.Errorf("%d bytes", len(got))
	}
	s.Scenarios = s.Scenarios[:reports.Annotations]
	if got := renderAnnotations(t, s, "", 0); strings.Count(got, "\n") != reports.Annotations || strings.Contains(got, "more fail") {
		t.Errorf("ten failures give\n%.300s", got)
	}
}
