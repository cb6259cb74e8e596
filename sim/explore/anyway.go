package explore

import (
	"context"

	"handoff/chaos/scenario"
	"handoff/chaos/verdict"
	"handoff/sim"
)

// OwnFailure is a rule that a target breaks even without a mutant.
type OwnFailure struct {
	Target Target
	// Violation is the rule's first violation in the first seed that violates it. Seeds counts the seeds that
	// violate it.
	Violation verdict.Violation
	Seeds     int
}

// FailsAnyway runs scenarios without a mutant under the first seeds, in every profile, and returns
// the rules that they break. A violation of such a rule does not count as finding a mutant. When
// ctx ends, it returns the rules found so far.
func FailsAnyway(ctx context.Context, library []*scenario.Scenario, seeds int) (own []OwnFailure) {
	for _, t := range Targets(library) {
		known := make(map[string]int)
		for seed := uint64(1); seed <= uint64(seeds); seed++ {
			r := runOnce(t, sim.Options{Seed: seed, Interrupted: interruptOn(ctx)})
			if r.Interrupted {
				return own
			}
			counted := make(map[string]bool)
			for _, v := range r.Failures() {
				at, there := known[v.Rule()]
				if !there {
					at = len(own)
					known[v.Rule()] = at
					own = append(own, OwnFailure{Target: t, Violation: v})
				}
				if !counted[v.Rule()] {
					counted[v.Rule()] = true
					own[at].Seeds++
				}
			}
		}
	}
	return own
}

// withoutOwnFailures returns only violations of rules that the target does not also break without a mutant.
func withoutOwnFailures(own []OwnFailure, t Target, violations []verdict.Violation) (left []verdict.Violation) {
	for i := range violations {
		v := &violations[i]
		anyway := false
		for j := range own {
			f := &own[j]
			anyway = anyway || f.Target.Scenario == t.Scenario && f.Target.Profile == t.Profile && f.Violation.Rule() == v.Rule()
		}
		if !anyway {
			left = append(left, *v)
		}
	}
	return left
}
