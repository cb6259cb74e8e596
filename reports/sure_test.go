package reports_test

import (
	"bytes"
	"strings"
	"testing"

	"handoff/chaos/verdict"
	"handoff/core/config"
	"handoff/reports"
)

// scenarioWithRuns returns a scenario whose runs each showed one unique situation and one common to all.
func scenarioWithRuns(seeds, failing int) *verdict.Scenario {
	sc := &verdict.Scenario{Name: "s", Profile: config.Hardened, Seeds: seeds, Failing: failing}
	for seed := range uint64(seeds) {
		sc.Discovery.Add([]uint64{0, seed + 1})
	}
	return sc
}

func TestSureDescribesConfidence(t *testing.T) {
	many := &verdict.Scenario{Seeds: 20000}
	for range 20000 {
		many.Discovery.Add([]uint64{1})
	}
	capped := &verdict.Scenario{Seeds: 2}
	wide := make([]uint64, 20000)
	for i := range wide {
		wide[i] = uint64(i)
	}
	capped.Discovery.Add(wide)
	capped.Discovery.Add(nil)
	unjudged := scenarioWithRuns(20, 0)
	unjudged.GaveUp = 10
	for _, tt := range []struct {
		name string
		list []*verdict.Scenario
		want string
	}{
		{"nothing", nil, ""},
		{"one run", []*verdict.Scenario{scenarioWithRuns(1, 0)}, ""},
		{"few runs", []*verdict.Scenario{scenarioWithRuns(2, 0)}, "3 distinct situations, 2 seen in one run only (too few seeds to say what more would show: 10 are needed); 0 of 2 runs failed: fewer than 78 % with 95 %"},
		{"many runs", []*verdict.Scenario{many}, "1 distinct situation, 0 seen in one run only; doubling the seeds would show 0 more; 0 of 20,000 runs failed: fewer than 1 in 6,600 with 95 %"},
		{"always new", []*verdict.Scenario{scenarioWithRuns(50, 0)}, "51 distinct situations, 50 seen in one run only; doubling the seeds would show 49 more"},
		{"two scenarios", []*verdict.Scenario{scenarioWithRuns(20, 0), scenarioWithRuns(20, 0)}, "42 distinct situations (counted apart in each of 2 results), 40 seen in one run only; doubling the seeds would show 38 more"},
		{"failing", []*verdict.Scenario{scenarioWithRuns(100, 3)}, "; 3 of 100 runs failed: at most 1 in 13 with 95 %"},
		{"not judged", []*verdict.Scenario{unjudged}, "; 0 of 10 runs failed: fewer than 26 % with 95 %"},
		{"capped", []*verdict.Scenario{capped}, "at least 16,384 distinct situations, 16,384 seen"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := reports.Sure(&verdict.Sweep{Scenarios: tt.list}); !strings.Contains(got, tt.want) || tt.want == "" && got != "" {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}

func TestPageRanksResultsThatNeedSeeds(t *testing.T) {
	s := &verdict.Sweep{}
	for range 14 {
		s.Scenarios = append(s.Scenarios, scenarioWithRuns(20, 0))
	}
	steep := scenarioWithRuns(60, 0)
	steep.Name = "steep"
	s.Scenarios = append(s.Scenarios, steep, scenarioWithRuns(5, 0))
	var page, summary bytes.Buffer
	if err := reports.WriteHTML(&page, s, nil); err != nil {
		t.Fatal(err)
	}
	if err := reports.WriteSummary(&summary, s); err != nil {
		t.Fatal(err)
	}
	text := reports.Sure(s)
	if !strings.Contains(page.String(), text) || !strings.Contains(summary.String(), text) {
		t.Errorf("page or summary lacks %q", text)
	}
	_, table, _ := strings.Cut(page.String(), `id="sure"`)
	table, _, _ = strings.Cut(table, "</section>")
	if n := strings.Count(table, "<tr>"); n != 1+12 { // a head, and the twelve of the fifteen that are extrapolated
		t.Errorf("%d rows, want 13", n)
	}
	if first := strings.Split(table, "<tr>")[2]; !strings.Contains(first, "steep") || !strings.Contains(table, "3 more results") {
		t.Errorf("the rows do not begin with the one that would show the most:\n%s", first)
	}
}
