package explore

import (
	"context"
	"slices"
	"testing"

	"handoff/scenarios"
	"handoff/sim/flaw"
)

func TestCrossSaysWhichScenarioKillsWhich(t *testing.T) {
	var chosen []*scenarios.Scenario
	for _, name := range []string{"queue-unbound", "database-clock-steps", "slow-links"} {
		s, err := scenarios.Find(name)
		if err != nil {
			t.Fatal(err)
		}
		chosen = append(chosen, s)
	}
	m := Cross(context.Background(), []*flaw.Flaw{flaw.Find("returned-is-confirmed"), flaw.Find("one-clock-lease")}, chosen, 2)
	kills, killers := m.Kills()
	if !slices.Equal(kills, []int{1, 1, 0}) || !slices.Equal(killers, []int{1, 1}) || m.Runs[0][0] != 1 || m.Runs[0][1] != 0 {
		t.Errorf("%v: kills %v, killers %v", m.Runs, kills, killers)
	}
}
