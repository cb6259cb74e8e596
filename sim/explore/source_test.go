package explore

import (
	"testing"
	"time"

	"handoff/chaos/mutant/source/score"
)

// judgeSource runs a source mutant that is none: the core of this process.
func judgeSource(t *testing.T, seeds int, truth *score.Truth) (*score.Truth, *score.Result) {
	t.Helper()
	var result *score.Result
	own := SourceMutant(find(t, "ttl-race"), 1, seeds, truth, time.Minute, func(r *score.Result) { result = r })
	if result == nil {
		t.Fatal("no result")
	}
	return own, result
}

func TestAMutantWhoseHistoriesAreTheTrueCoresIsNotReached(t *testing.T) {
	truth, first := judgeSource(t, 2, nil)
	if first.Killed() || first.Seeds != 2 || first.Runs != 4 || len(truth.Targets["ttl-race (hardened)"].Hashes) != 2 {
		t.Fatalf("the true core: %+v, %+v", first, truth)
	}
	if _, same := judgeSource(t, 2, truth); same.Killer() != "not reached" {
		t.Errorf("the same histories: %s", same.Killer())
	}
	truth.Targets["ttl-race (hardened)"].Hashes[1] = "another"
	if _, other := judgeSource(t, 2, truth); other.Killer() != "survived" {
		t.Errorf("another history: %s", other.Killer())
	}
}
