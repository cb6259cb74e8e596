package explore

import (
	"slices"
	"testing"

	"handoff/chaos/history"
	"handoff/chaos/verdict"
	"handoff/sim"
)

// withoutAMutant is how many runs are repeated without their mutant, to see that nothing says then that one acted.
const withoutAMutant = 5

// A mutant says when it acted: the record of the run that kills it holds at least one such moment before the
// violation. To say it changes nothing of the run, and nobody says it without a mutant.
func TestEveryKilledMutantHasActedBefore(t *testing.T) {
	for n, k := range kills(t) {
		if !k.Killed() {
			continue // which TestEveryMutantIsKilled reports
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

// recorded runs what kills a mutant again, and demands that the record leaves the run as it is.
func recorded(t *testing.T, k *Kill, o sim.Options) *verdict.Record {
	t.Helper()
	rec, _ := record(k.Target, o)
	if r := once(k.Target, o); r.Hash != rec.Hash || r.Steps != rec.Steps {
		t.Errorf("%s, seed %d: the run is another one when it is recorded", k.Target, k.Seed)
	}
	return rec
}

// firstAct is the first moment at which a mutant said that it acted, nil for none.
func firstAct(rec *verdict.Record) *history.Event {
	at := slices.IndexFunc(rec.Events, func(e history.Event) bool { return e.Kind == history.MutantActed })
	if at < 0 {
		return nil
	}
	return &rec.Events[at]
}
