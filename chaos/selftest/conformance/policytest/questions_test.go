package policytest

import (
	"testing"

	"pgregory.net/rapid"

	"handoff/chaos/policies"
)

// For every draw, the core answers each question about its tables and policies as the contract
// does. Every simulated run asks the same questions (invariant 31). Here rapid draws them, and
// shrinks its findings.
func TestTheCoreAnswersEachQuestionAsTheContract(t *testing.T) {
	core := policies.InForce()
	rapid.Check(t, func(t *rapid.T) {
		a := policies.Ask(core, func(n uint64) uint64 { return rapid.Uint64Range(0, n-1).Draw(t, "lot") })
		if len(a.Wrong) > 0 {
			t.Fatalf("%s", a.Wrong[0])
		}
	})
}
