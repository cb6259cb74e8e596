package explore

import (
	"slices"
	"testing"

	"handoff/chaos/history"
	"handoff/sim"
)

// actsLater names the mutants whose planted defect can act only after the violation, and why.
var actsLater = map[string]string{ //nolint:gochecknoglobals // a constant table
	"unbounded-park": "a spin is no event, so the violation has the time of the last event before it, and the mutant acts when it begins to spin",
}

// A mutant says when it acted: the record of the run that kills it holds at least one such moment before the
// violation, and the record of the same seed without the mutant holds none. To say it changes nothing of the run.
func TestEveryKilledMutantHasActedBefore(t *testing.T) {
	for _, k := range kills(t) {
		if !k.Killed() {
			continue // which TestEveryMutantIsKilled reports
		}
		violation := k.Violation()
		first := func(o sim.Options) *history.Event {
			o.Seed = k.Seed
			rec, _ := record(k.Target, o)
			if r := once(k.Target, o); r.Hash != rec.Hash || r.Steps != rec.Steps {
				t.Errorf("%s, seed %d of %s: the run is another one when it is recorded", k.Mutant.Name, k.Seed, k.Target)
			}
			if at := slices.IndexFunc(rec.Events, func(e history.Event) bool { return e.Kind == history.MutantActed }); at >= 0 {
				return &rec.Events[at]
			}
			return nil
		}
		reason, later := actsLater[k.Mutant.Name]
		switch acted := first(sim.Options{Mutant: k.Mutant}); {
		case acted == nil:
			t.Errorf("%s never says that it acted in %s, seed %d, which it fails at %v", k.Mutant.Name, k.Target, k.Seed, violation.At)
		case acted.Step > violation.Step && !later:
			t.Errorf("%s acts first at %v in %s, seed %d, after the violation at %v", k.Mutant.Name, acted.At, k.Target, k.Seed, violation.At)
		case acted.Step <= violation.Step && later:
			t.Errorf("%s acts before the violation, and is listed as one that acts later: %s", k.Mutant.Name, reason)
		}
		if acted := first(sim.Options{}); acted != nil {
			t.Errorf("without %s, seed %d of %s says that a mutant acted: %s", k.Mutant.Name, k.Seed, k.Target, acted.Text)
		}
	}
}
