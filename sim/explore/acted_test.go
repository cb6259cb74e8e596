package explore

import (
	"slices"
	"testing"

	"handoff/chaos/history"
	"handoff/chaos/verdict"
	"handoff/sim"
)

// withoutAMutant is the number of runs that are repeated without their mutant, to check that nothing then
// reports an act.
const withoutAMutant = 5

// The record of a run that kills a mutant must contain at least one report, before the violation, that the
// mutant acted. Reports must not change the run, and a run without a mutant must have none.
func TestKilledMutantsActBeforeViolation(t *testing.T) {
	for n, k := range sampledKills(t) {
		if !k.Killed() {
			continue // TestEveryMutantIsKilled reports this
		}
		t.Run(k.Mutant.Name, func(t *testing.T) {
			t.Parallel()
			rec := recorded(t, k, sim.Options{Seed: k.Seed, Mutant: k.Mutant})
			acted, violation := firstAct(rec), k.Violation()
			switch {
			case acted == nil:
				t.Errorf("it never says that it acted in %s, seed %d, which it fails at %v", k.Target, k.Seed, violation.At)
			case acted.Step > violation.Step:
				t.Errorf("it acts first at %v in %s, seed %d, after the violation at %v", acted.At, k.Target, k.Seed, violation.At)
			}
			if n < withoutAMutant {
				if acted := firstAct(recorded(t, k, sim.Options{Seed: k.Seed})); acted != nil {
					t.Errorf("without it %s, seed %d, says that a mutant acted: %s", k.Target, k.Seed, acted.Text)
				}
			}
		})
	}
}

// recorded repeats the run that killed a mutant, and requires that recording leaves the run unchanged.
func recorded(t *testing.T, k *Kill, o sim.Options) *verdict.Record {
	t.Helper()
	rec, _ := recordRun(k.Target, o)
	if r := runOnce(k.Target, o); r.Hash != rec.Hash || r.Steps != rec.Steps {
		t.Errorf("%s, seed %d: the run is another one when it is recorded", k.Target, k.Seed)
	}
	return rec
}

// firstAct returns the first event at which a mutant acted, or nil if it never did.
func firstAct(rec *verdict.Record) *history.Event {
	at := slices.IndexFunc(rec.Events, func(e history.Event) bool { return e.Kind == history.MutantActed })
	if at < 0 {
		return nil
	}
	return &rec.Events[at]
}
