package reports

import (
	"strings"
	"testing"

	"handoff/chaos/verdict"
)

// A situation that a scenario expects and no run reached is a gap of the page and of the summary,
// with how near the runs came. Varied runs need not reach it.
func TestWhatNoRunReachedIsAGapAndSaysHowNearItCame(t *testing.T) {
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
		t.Errorf("the summary says\n%s", b.String())
	}
}
