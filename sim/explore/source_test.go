package explore

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"handoff/chaos/selftest/mutant/source/score"
	"handoff/chaos/verdict"
	"handoff/core/config"
	"handoff/sim"
)

// judgeSource runs SourceMutant with the unmutated core of this process.
func judgeSource(t *testing.T, size score.Size, truth *score.Truth) (*score.Truth, *score.Result) {
	t.Helper()
	var result *score.Result
	own := SourceMutant(find(t, "ttl-race"), size, truth, time.Minute, func(r *score.Result) { result = r })
	if result == nil {
		t.Fatal("no result")
	}
	return own, result
}

func TestMutantWithEqualHistoriesIsNotReached(t *testing.T) {
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

// A varied run in which the original core fails is not attributed to a mutant, and doesn't hide the mutant's
// effect in other runs.
func TestVariedRunsFailedByCoreAreSkipped(t *testing.T) {
	size := score.Size{Seeds: 1, Varied: 2}
	var order []string
	// core fails seed 1 of every varied target; a mutant also fails seed 2 under one profile.
	core := func(mutant bool) runOne {
		order = nil
		return func(target Target, o sim.Options) *sim.Result {
			order = append(order, fmt.Sprintf("%s %d", target, o.Seed))
			r := &sim.Result{Run: verdict.Run{Seed: o.Seed, Profile: target.Profile, Hash: o.Seed}}
			if target.Varied && (o.Seed == 1 || mutant && target.Profile == config.Hardened) {
				r.GaveUp = "it was drawn"
			}
			return r
		}
	}
	judge := func(run runOne, truth *score.Truth) (own *score.Truth, result *score.Result) {
		own = sourceMutant(run, find(t, "ttl-race"), size, truth, time.Minute, func(r *score.Result) { result = r })
		return own, result
	}
	truth, first := judge(core(false), nil)
	want := []string{"ttl-race (documented, varied), seed 1", "ttl-race (hardened, varied), seed 1"}
	if got := truth.Unjudged(); first.Killed() || first.Runs != 6 || !slices.Equal(got, want) {
		t.Fatalf("the true core: %+v; left out %q; want %q", first, got, want)
	}
	if got, want := fmt.Sprintf("%s %s", order[:2], order[4]), "[ttl-race (hardened) 1 ttl-race (documented) 1] ttl-race (hardened, varied) 2"; len(order) != 6 || got != want {
		t.Errorf("order %q; want %s", order, want)
	}
	if _, same := judge(core(false), truth); same.Killer() != "not reached" || same.Runs != 4 {
		t.Errorf("the same core: %s after %d runs; want 4", same.Killer(), same.Runs)
	}
	if _, r := judge(core(true), truth); r.By != score.GaveUp || r.Target != "ttl-race (hardened, varied)" || r.Seed != 2 {
		t.Errorf("a mutant that fails another varied run: %+v", r)
	}
}

// A run that ends after its limit has already been reported, and its mutant is killed.
func TestLateRunIsReportedOnce(t *testing.T) {
	for _, c := range []struct {
		about string
		truth *score.Truth
	}{
		{"the true core", nil},
		{"a mutant", &score.Truth{Targets: map[string]*score.Lines{
			"ttl-race (hardened)":   {Hashes: []string{"a", "b"}},
			"ttl-race (documented)": {Hashes: []string{"a", "b"}},
		}}},
	} {
		var results []*score.Result
		reported := make(chan struct{}, 10)
		runs := 0
		late := func(target Target, o sim.Options) *sim.Result {
			if runs++; runs == 1 {
				<-reported
			}
			return &sim.Result{Run: verdict.Run{Seed: o.Seed, Profile: target.Profile}}
		}
		// The time limit is short, because the first run waits until it is over.
		sourceMutant(late, find(t, "ttl-race"), score.Size{Seeds: 2}, c.truth, time.Millisecond, func(r *score.Result) {
			results = append(results, r)
			reported <- struct{}{}
		})
		if len(results) != 1 || results[0].By != score.Hang || results[0].Seed != 1 || results[0].Target != "ttl-race (hardened)" {
			t.Errorf("%s: %d results, %+v; want the first run as the only one that hung", c.about, len(results), results)
		}
		if runs != 1 {
			t.Errorf("%s: %d runs were made, although the result was known after the first", c.about, runs)
		}
	}
}
