package explore

import (
	"context"
	"slices"
	"testing"

	"handoff/chaos/scenario"
	"handoff/chaos/selftest/mutant"
	"handoff/chaos/shard"
	"handoff/scenarios"
)

func TestCrossCountsRunsUntilKill(t *testing.T) {
	var chosen []*scenario.Scenario
	for _, name := range []string{"queue-unbound", "database-clock-steps", "slow-links"} {
		s, err := scenarios.Find(name)
		if err != nil {
			t.Fatal(err)
		}
		chosen = append(chosen, s)
	}
	m := Cross(context.Background(), []*mutant.Mutant{mutant.Find("returned-is-confirmed"), mutant.Find("one-clock-lease")}, chosen, 2, shard.Share{})
	kills, killers := m.Kills()
	if !slices.Equal(kills, []int{1, 1, 0}) || !slices.Equal(killers, []int{1, 1}) || m.Runs[0][0] != 1 || m.Runs[0][1] != 0 {
		t.Errorf("%v: kills %v, killers %v", m.Runs, kills, killers)
	}
}
