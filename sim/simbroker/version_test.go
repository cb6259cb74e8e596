package simbroker

import (
	"slices"
	"testing"

	"handoff/chaos/scenario"
)

func TestLikeReturnsNewestReleaseNotAbove(t *testing.T) {
	for version, want := range map[string]string{
		"3.10.8": "3.10", "3.13.7": "3.10", "4.0.5": "4.0", "4.2.1": "4.0", "4.3.6": "4.3", "4.10.0": "4.3", "5.0.0": "4.3", "": "3.10", "nonsense": "3.10",
	} {
		if got := Like(version); got != want {
			t.Errorf("%q is like %s, want %s", version, got, want)
		}
	}
}

// Scenarios may name exactly the versions that the model knows.
func TestScenarioVersionsAreModelledVersions(t *testing.T) {
	if !slices.Equal(Versions(), scenario.BrokerVersions()) {
		t.Errorf("modelled: %q; in scenarios: %q", Versions(), scenario.BrokerVersions())
	}
}
