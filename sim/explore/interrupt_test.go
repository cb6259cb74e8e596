package explore

import (
	"context"
	"testing"

	"handoff/chaos/scenario"
	"handoff/chaos/selftest/mutant"
	"handoff/core/config"
	"handoff/scenarios"
)

// endsAfter is a context that ends after a number of calls of Err: in the middle of a run, always at the same
// step.
type endsAfter struct {
	context.Context
	left int
}

func (e *endsAfter) Err() error {
	if e.left--; e.left < 0 {
		return context.Canceled
	}
	return nil
}

// An interrupted run stops within a few steps and is not counted in the result.
func TestInterruptedRunDoesNotCount(t *testing.T) {
	s, err := scenarios.Find("ttl-race")
	if err != nil {
		t.Fatal(err)
	}
	target := Target{Scenario: s, Profile: config.Hardened}
	rec, r := Record(&endsAfter{t.Context(), 5}, target, 158, nil)
	if !r.Interrupted || r.Steps > 6*64 || len(rec.Violations) > 0 {
		t.Errorf("interrupted: %v, after %d steps, with %d violations", r.Interrupted, r.Steps, len(rec.Violations))
	}
	if _, r := Record(t.Context(), target, 158, nil); r.Interrupted || r.Steps < 1000 {
		t.Errorf("a whole run takes %d steps, interrupted: %v", r.Steps, r.Interrupted)
	}
	out, err := Sweep(&endsAfter{t.Context(), 5}, []Target{target}, Options{First: 158, Seeds: 3, Workers: 1, Double: 3})
	if err != nil || !out.Sweep.Interrupted || out.Sweep.Scenarios[0].Steps != 0 || len(out.Records) > 0 {
		t.Errorf("a sweep that was interrupted in its first run: %v, %+v", err, out.Sweep.Scenarios[0])
	}
	if _, err := Shrink(&endsAfter{t.Context(), 5}, target, 158, mutant.Find("unguarded-monitor"), "x.yaml"); err == nil {
		t.Error("a failure that was not found was shrunk")
	}
	k := huntMutant(&endsAfter{t.Context(), 5}, mutant.Find("unguarded-monitor"), []*scenario.Scenario{s}, MutantOptions{Seeds: 2}, newWatch(0, func(*Hung) {}))
	if !k.Stopped || k.Runs != 0 {
		t.Errorf("a hunt that was interrupted in its first run made %d, stopped: %v", k.Runs, k.Stopped)
	}
}
