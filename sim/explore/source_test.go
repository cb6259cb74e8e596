package explore

import (
	"testing"
	"time"

	"handoff/chaos/mutant/source/score"
)

// judgeSource runs a source mutant that is none: the core of this process.
func judgeSource(t *testing.T, size score.Size, truth *score.Truth) (*score.Truth, *score.Result) {
	t.Helper()
	var result *score.Result
	own := SourceMutant(find(t, "ttl-race"), size, truth, time.Minute, func(r *score.Result) { result = r })
	if result == nil {
		t.Fatal("no result")
	}
	return own, result
}

func TestAMutantWhoseHistoriesAreTheTrueCoresIsNotReached(t *testing.T) {
	size := score.Size{Seeds: 2, Varied: 1}
	truth, first := judgeSource(t, size, nil)
	if first.Killed() || first.Runs != 6 || len(truth.Targets["ttl-race (hardened)"].Hashes) != 2 || len(truth.Targets["ttl-race (hardened, varied)"].Hashes) != 1 {
		t.Fatalf("the true core: %+v, %+v", first, truth)
	}
	if _, same := judgeSource(t, size, truth); same.Killer() != "not reached" || same.Runs != 6 {
		t.Errorf("the same histories: %s after %d runs", same.Killer(), same.Runs)
	}
	truth.Targets["ttl-race (hardened, varied)"].Hashes[0] = "another"
	if _, other := judgeSource(t, size, truth); other.Killer() != "survived" {
		t.Errorf("another history of a varied run: %s", other.Killer())
	}
}

func TestAVariedRunThatTheTrueCoreFailsJudgesNoMutant(t *testing.T) {
	size := score.Size{Seeds: 1, Varied: 1}
	truth, _ := judgeSource(t, size, nil)
	lines := truth.Targets["ttl-race (documented, varied)"]
	lines.Hashes[0] = "another"
	lines.Fails = []uint64{1}
	_, r := judgeSource(t, size, truth)
	if r.Killer() != "not reached" || r.Runs != 3 {
		t.Errorf("%s after %d runs; want it not reached, after all but one", r.Killer(), r.Runs)
	}
	if got := truth.Unjudged(); len(got) != 1 || got[0] != "ttl-race (documented, varied), seed 1" {
		t.Errorf("left out: %q", got)
	}
}
