package vary_test

import (
	"slices"
	"testing"

	"handoff/chaos/scenario"
	"handoff/chaos/vary"
	"handoff/scenarios"
)

func loadLibrary(t testing.TB) []*scenario.Scenario {
	t.Helper()
	all, err := scenarios.Library()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// The same scenario, profile and seed always draw the same variant. It keeps the scenario's name and digest,
// drops its expectations about particular situations, and few of its edits are refused.
func TestDrawIsValidAndReproducible(t *testing.T) {
	refused, made := 0, 0
	for i, s := range loadLibrary(t) {
		p, seed := s.Profiles[i%len(s.Profiles)], uint64(i)
		v, err := vary.Of(s, p, seed)
		if err != nil {
			t.Fatal(err)
		}
		again, err := vary.Of(s, p, seed)
		if err != nil || !slices.Equal(v.Changes, again.Changes) {
			t.Errorf("%s, seed %d: %v is %q and then %q", s.Name, seed, err, v.Changes, again.Changes)
		}
		e := v.Scenario.Expect(p)
		if v.Scenario.Digest != s.Digest || v.Scenario.Name != s.Name || !slices.Equal(v.Scenario.Profiles, s.Profiles[i%len(s.Profiles):][:1]) {
			t.Errorf("%s: %s, %v", s.Name, v.Scenario.Name, v.Scenario.Profiles)
		}
		if len(e.Executions)+len(e.Rows)+len(e.Texts) > 0 || e.Alerts.Any() {
			t.Errorf("%s still has expectations of the original: %+v", s.Name, e)
		}
		refused, made = refused+v.Refused, made+len(v.Changes)
	}
	if refused*20 > made || made == 0 {
		t.Errorf("%d edits were refused, and %d were made", refused, made)
	}
}

func TestDifferentSeedsDrawDifferentVariants(t *testing.T) {
	s := loadLibrary(t)[0]
	a, errA := vary.Of(s, s.Profiles[0], 1)
	b, errB := vary.Of(s, s.Profiles[0], 2)
	if errA != nil || errB != nil || slices.Equal(a.Changes, b.Changes) {
		t.Errorf("%v, %v: both seeds draw %q", errA, errB, a.Changes)
	}
}

// Some draws have actions that fail with exit codes, declared and undeclared, and other draws have none.
func TestSomeDrawsHaveExitCodes(t *testing.T) {
	s := loadLibrary(t)[0]
	declared, others, without := 0, 0, 0
	for seed := range uint64(60) {
		v, err := vary.Of(s, s.Profiles[0], seed)
		if err != nil {
			t.Fatal(err)
		}
		any := false
		for _, a := range v.Scenario.Actions {
			for _, code := range a.FailCodes {
				any = true
				if slices.Contains(a.Retried, code) {
					declared++
				} else {
					others++
				}
			}
		}
		if !any {
			without++
		}
	}
	if declared == 0 || others == 0 || without < 30 {
		t.Errorf("declared exit codes %d, others %d, draws without %d of 60", declared, others, without)
	}
}
