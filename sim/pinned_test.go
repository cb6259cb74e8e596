package sim

import (
	"testing"

	"handoff/chaos/selftest/mutant"
	"handoff/core/execution"
	"handoff/scenarios"
)

// No execution is claimed only to be parked again while its worker is full: in each scenario with a pinned
// backlog, an execution is parked about once, however long it waits. While the worker is away, its backlog is
// claimed once in every reconcile interval.
func TestPinnedBacklogsAreRarelyParked(t *testing.T) {
	for _, x := range []struct {
		scenario string
		parks    int // for each execution
	}{{"pinned-backlog", 1}, {"pinned-beside-unpinned", 1}, {"pinned-with-a-limit", 1}, {"pinned-beyond-a-batch", 6}} {
		s, err := scenarios.Find(x.scenario)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range s.Profiles {
			r := Run(s, p, Options{Seed: 1})
			n := int(r.Chains[execution.Completed])
			if len(r.Violations) > 0 || n == 0 {
				t.Fatalf("%s (%s): %d executions completed, %v", s.Name, p, n, r.Violations)
			}
			if parks := r.Sometimes["parked"]; parks > x.parks*n {
				t.Errorf("%s (%s): %d executions were parked %d times, at most %d expected", s.Name, p, n, parks, x.parks*n)
			}
		}
	}
}

// An executor that claims executions pinned to a full worker parks them hundreds of times, and the test
// detects it.
func TestParkedPinnedExecutionsAreDetected(t *testing.T) {
	s, err := scenarios.Find("pinned-backlog")
	if err != nil {
		t.Fatal(err)
	}
	r := Run(s, s.Profiles[0], Options{Seed: 1, Mutant: mutant.Find("parks-the-pinned")})
	if n, parks := int(r.Chains[execution.Completed]), r.Sometimes["parked"]; n == 0 || parks < 100*n {
		t.Errorf("%d executions were parked %d times: nothing was planted", n, parks)
	}
}
