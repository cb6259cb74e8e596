package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"handoff/chaos/scenario"
	"handoff/sim/explore"
)

// regressionFlags lists the flags of run that select runs. Without any of them, a file that reproduces a
// failure is run according to its key regression.
func regressionFlags() []string {
	return []string{"seed", "seeds", "mutant", "mutants", "varied", "shard", "check-determinism"}
}

// asksForRuns reports whether a flag selects runs.
func asksForRuns(cmd *cobra.Command) bool {
	for _, name := range regressionFlags() {
		if cmd.Flags().Changed(name) {
			return true
		}
	}
	return false
}

// applyRegression sets the seed and the mutant if the only named scenario reproduces a failure. It returns a
// line about that; empty if the scenarios are run as usual.
func (r *runFlags) applyRegression(targets []explore.Target) string {
	s := onlyScenario(targets)
	if r.chosen || s == nil || s.Regression == nil {
		return ""
	}
	r.oneSeed, r.seed, r.mutant = true, s.Regression.Seed, s.Regression.Mutant
	return regressionNote(s) + "; --seeds runs others, and plants nothing"
}

// regressionNote describes how a file that reproduces a failure is run.
func regressionNote(s *scenario.Scenario) string {
	with := "no mutant"
	if s.Regression.Mutant != "" {
		with = "the mutant " + s.Regression.Mutant
	}
	return fmt.Sprintf("%s reproduces a failure: it is run in seed %d with %s", s.File, s.Regression.Seed, with)
}

// onlyScenario returns the scenario that all targets have in common; nil if they have several scenarios.
func onlyScenario(targets []explore.Target) *scenario.Scenario {
	for _, t := range targets {
		if t.Scenario != targets[0].Scenario {
			return nil
		}
	}
	if len(targets) == 0 {
		return nil
	}
	return targets[0].Scenario
}
