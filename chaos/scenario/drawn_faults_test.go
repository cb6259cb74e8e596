package scenario_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"handoff/chaos/fault"
	"handoff/chaos/scenario"
)

func TestEveryKindDrawsValidEntries(t *testing.T) {
	source := rand.New(rand.NewPCG(1, 2))
	dice := &fault.Dice{Choose: source.IntN, Cluster: fault.Cluster{Executors: []string{"executor-1"}, Workers: []string{"w-1", "w-2"}}}
	for _, k := range fault.Kinds() {
		if k.Draw == nil && (k.Edits || k.Rewinds()) {
			// Edits of rows are not drawn because they would affect nothing in most scenarios, and losses of
			// writes because little of a run is judged after them.
			continue
		}
		if k.Draw == nil {
			t.Errorf("%s has no Draw, so no varied run has it", k.Name)
			continue
		}
		for range 50 {
			entry := k.Draw(dice)
			switch k.Ends {
			case fault.WithFor:
				entry += ", for: 5s"
			case fault.WithRestart:
				entry += ", restart_after: 5s"
			case fault.ByItself:
			}
			text := fmt.Sprintf("name: drawn\nabout: Drawn.\nworlds: [sim]\ncluster:\n  workers:\n    w-1: {runtimes: [shell]}\n    w-2: {runtimes: [shell]}\n"+
				"actions:\n  a: {runtime: shell, takes: 1s}\nworkload:\n  - {action: a, count: 1}\nfaults:\n  - {when: {at: 1s}, %s}\n", entry)
			if _, err := scenario.Parse("drawn.yaml", []byte(text)); err != nil {
				t.Fatalf("%s draws %s: %v", k.Name, entry, err)
			}
		}
	}
}
