package explore

import (
	"context"
	"strings"
	"testing"

	"handoff/chaos/scenario"
	"handoff/chaos/selftest/mutant"
)

func TestMutants(t *testing.T) {
	harmless := &mutant.Mutant{Name: "harmless", Expected: 1}
	killed, misnamed := deaf(), deaf()
	misnamed.Expected = 1
	library := []*scenario.Scenario{find(t, "worker-stops-gracefully")[0].Scenario, find(t, "worker-stops-mid-execution")[0].Scenario}
	told := 0
	kills, err := Mutants(t.Context(), []*mutant.Mutant{harmless, killed, misnamed}, library, MutantOptions{
		Seeds: 2, Progress: func(_ *Kill, done, total int) {
			if told++; done != told || total != 3 {
				t.Errorf("progress is %d of %d, want %d of 3", done, total, told)
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if k := kills[0]; k.Found() || k.Killed() || k.Violation() != nil || k.Runs != 8 || k.Summary() != "survived 8 runs" {
		t.Errorf("harmless: %s after %d runs", k.Summary(), k.Runs)
	}
	k := kills[1]
	if !k.Killed() || k.Violation().Invariant != 12 || k.Runs != 1 || k.Seed != 1 || k.Target.Scenario.Name != killed.Scenario {
		t.Errorf("deaf: %s after %d runs of %v", k.Summary(), k.Runs, k.Target)
	}
	if k := kills[2]; !k.Found() || k.Killed() || !strings.HasSuffix(k.Summary(), "and not by invariant 1") {
		t.Errorf("found by another invariant: %s", k.Summary())
	}
}

func TestMutantIsNotKilledWithoutItsInvariant(t *testing.T) {
	library := []*scenario.Scenario{find(t, "worker-stops-mid-execution")[0].Scenario}
	kills, err := Mutants(t.Context(), []*mutant.Mutant{deaf()}, library, MutantOptions{Seeds: 2, Without: []int{12}})
	if err != nil {
		t.Fatal(err)
	}
	if kills[0].Killed() {
		t.Errorf("killed by an invariant that was left out: %s", kills[0].Summary())
	}
}

func TestInterruptedHuntIsMarkedStopped(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	kills, err := Mutants(ctx, []*mutant.Mutant{deaf()}, nil, MutantOptions{Seeds: 2})
	if err != nil || len(kills) != 1 || kills[0].Killed() {
		t.Errorf("%v, %v", kills, err)
	}
	kills, err = Mutants(ctx, []*mutant.Mutant{deaf()}, []*scenario.Scenario{find(t, "ttl-race")[0].Scenario}, MutantOptions{Seeds: 2})
	if err != nil || !kills[0].Stopped {
		t.Errorf("%v, %v", kills, err)
	}
}
