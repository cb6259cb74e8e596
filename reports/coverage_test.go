package reports

import (
	"maps"
	"strings"
	"testing"

	"handoff/chaos/verdict"
	"handoff/core/config"
)

// An expected situation that no run reached is a gap on the page and in the summary, with the nearest runs.
// Varied runs need not reach it.
func TestUnreachedSituationIsReportedWithNearestRun(t *testing.T) {
	var list []*verdict.Scenario
	for _, strategy := range []string{verdict.Random, verdict.Varied} {
		sc := verdict.NewScenario(verdict.Scenario{Name: "s", Strategy: strategy}, verdict.Want{Seeds: 2, Sometimes: []string{"parked", "cordoned"}})
		for seed := uint64(3); seed < 5; seed++ {
			sc.Add(&verdict.Run{Seed: seed, Sometimes: map[string]int{"cordoned": 1}, Near: map[string]int{"parked": 2}})
		}
		list = append(list, sc)
	}
	const near = "Nearest: 4 times in 2 runs, first with seed 3, a claim for scheduling ended, but never with the execution waiting for a worker to fit"
	c := newCoverage(list)
	if c.Unreached.All != 1 || c.Unreached.Rows[0].Name != "parked" || c.Unreached.Rows[0].Near != near || c.Sometimes.All != 2 {
		t.Errorf("gaps %+v, reached %+v", c.Unreached, c.Sometimes)
	}
	var b strings.Builder
	summaryCoverage(&b, list)
	if !strings.Contains(b.String(), "- Never reached: `parked`") || strings.Count(b.String(), near) != 1 {
		t.Errorf("the summary is\n%s", b.String())
	}
}

// Every run that broke a rule is counted, however few violations are kept as examples. A rule without a
// number has its own row: a run may both miss an expectation and panic.
func TestRuleCountsEveryRunThatBrokeIt(t *testing.T) {
	var list []*verdict.Scenario
	for _, profile := range []config.Profile{config.Hardened, config.Documented} {
		sc := verdict.NewScenario(verdict.Scenario{Name: "s", Profile: profile}, verdict.Want{Seeds: 36})
		for seed := range uint64(36) {
			r := verdict.Run{Seed: seed, Violations: []verdict.Violation{
				{Invariant: 3, Name: "fencing", Seed: seed}, {Invariant: 3, Name: "fencing", Seed: seed, Step: 1}, {Name: verdict.Expectation, Seed: seed},
			}}
			if seed%2 == 0 {
				r.Panic = "boom"
			}
			sc.Add(&r)
		}
		list = append(list, sc)
	}
	got := map[string]int{}
	for _, row := range newCoverage(list).RulesBroken {
		got[row.Name] = row.Runs
	}
	if want := map[string]int{"fencing": 72, verdict.Expectation: 72, "panic": 36}; !maps.Equal(got, want) {
		t.Errorf("runs %v, want %v", got, want)
	}
	// If a result has no counts, its examples are counted.
	if rows := newCoverage([]*verdict.Scenario{{Violations: []verdict.Violation{{Invariant: 3, Seed: 1}, {Invariant: 3, Seed: 1}, {Invariant: 3, Seed: 2}}}}).RulesBroken; rows[0].Runs != 2 {
		t.Errorf("rows %+v", rows)
	}
}

// The page separates the situations that a scenario demands from the other situations that its runs reached.
func TestPageSeparatesDemandedSituations(t *testing.T) {
	sc := verdict.NewScenario(verdict.Scenario{Name: "s"}, verdict.Want{Seeds: 1, Sometimes: []string{"parked"}})
	sc.Add(&verdict.Run{Seed: 1, Sometimes: map[string]int{"parked": 1, "cordoned": 1, "fenced": 2}})
	var page strings.Builder
	if err := WriteHTML(&page, &verdict.Sweep{Scenarios: []*verdict.Scenario{sc, sc}}, nil); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"✔ each that a scenario demands was reached", "6 that were reached, counted apart in each result"} {
		if !strings.Contains(page.String(), want) {
			t.Errorf("the page lacks %q", want)
		}
	}
}
