package live

import (
	"slices"
	"testing"

	"handoff/core/config"
	"handoff/scenarios"
)

// The longest scenarios start first, whatever the order of the targets.
func TestLongestTargetsRunFirst(t *testing.T) {
	var targets []Target
	for _, name := range []string{"worker-stops-gracefully", "unpublished-dispatches", "worker-never-picks-up"} {
		s, err := scenarios.Find(name)
		if err != nil {
			t.Fatal(err)
		}
		targets = append(targets, Target{Scenario: s, Profile: config.Hardened})
	}
	if got := longestFirst(targets); !slices.Equal(got, []int{1, 2, 0}) {
		t.Errorf("the order is %v", got)
	}
}
