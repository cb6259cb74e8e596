package verdict

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
)

func TestCauseOmitsNumbersAndNames(t *testing.T) {
	for _, c := range []struct{ a, b, where, text string }{
		{
			"the timeout monitor (executor-1) ended execution 7 as timeout while its action still ran\nmore",
			"the timeout monitor (executor-2) ended execution 31 as timeout while its action still ran",
			"timeout monitor", "the timeout monitor (executor-…) ended execution … as timeout while its action still ran",
		},
		{
			`shell-1 has published its hint "x:1" again, 1m2.5s after the broker had taken it`,
			`shell-12 has published its hint "y" again, 10ms after the broker had taken it`,
			"shell", "shell-… has published its hint … again, … after the broker had taken it",
		},
		{
			"execution 15 failed (by the execution_timeout_monitor, executor-2), as executor-2/c55f49b2/3 says",
			"execution 15 failed (by the execution_timeout_monitor, executor-1), as executor-1/s8zz/12 says",
			"execution timeout monitor", "execution … failed (by the execution_timeout_monitor, executor-…), as executor-… says",
		},
		{"queue a still holds 3 messages", "queue a still holds 12 messages", "", "queue a still holds … messages"},
	} {
		a, b := (&Violation{Invariant: 2, Name: "ownership", Message: c.a}).Cause(), (&Violation{Invariant: 2, Name: "ownership", Message: c.b}).Cause()
		if want := (Cause{Rule: "invariant 2, ownership", Where: c.where, Text: c.text}); a != want || b != want {
			t.Errorf("%q and %q have the causes\n%+v\n%+v\nwant %+v", c.a, c.b, a, b, want)
		}
	}
}

// Runs that miss an expectation in the same way have the same cause, even if the numbers differ.
func TestUnmetExpectationCauseNamesCommonestEnding(t *testing.T) {
	cause := func(found int, how string) string {
		v := Violation{Name: Expectation, Message: fmt.Sprintf("%d of 42 rows ended as failed; the scenario expects failed: 0\n%s", found, how)}
		if want := "rows ended as failed; the scenario expects failed: 0"; v.Expects() != want {
			t.Errorf("the violation expects %q, want %q", v.Expects(), want)
		}
		return v.Cause().Text
	}
	stale := cause(2, `2 of pay.transfer ended as failed, heartbeat_stale ("ended: heartbeat_stale"), decided by the worker: executions 10, 9`)
	if one := cause(1, `1 of pay.transfer ended as failed, heartbeat_stale ("ended: heartbeat_stale"), decided by the worker: execution 7`); one != stale {
		t.Errorf("%q and %q are two causes", one, stale)
	}
	if other := cause(2, `2 of pay.transfer ended as failed, no_workers ("No workers available"), decided by the scheduler: executions 10, 9`); other == stale {
		t.Errorf("both are %q", other)
	}
}

// Every cause is counted, even if a rule's first few violations all have the same cause. Counts don't depend
// on the order of runs or on shares, even beyond the limits.
func TestCauseCountsIgnoreRunOrder(t *testing.T) {
	runs := make([]*Run, 3*keptSeeds)
	for i := range runs {
		seed := uint64(i) //nolint:gosec // not negative
		runs[i] = &Run{Seed: seed, Violations: []Violation{
			{Invariant: 1, Seed: seed, Message: fmt.Sprintf("executor-%d did %c", i%3+1, 'a'+rune(i%90)/3)},
			{Invariant: 1, Seed: seed, Message: fmt.Sprintf("executor-%d did %c", i%4+1, 'a'+rune(i%90)/3)},
			{Invariant: 2, Seed: seed, Message: fmt.Sprintf("%c", 0x4e00+rune(i%100))},
		}}
	}
	whole := NewScenario(Scenario{}, Want{})
	for _, r := range runs {
		whole.Add(r)
	}
	if len(whole.Causes) != keptCauses || len(whole.FailedSeeds) != keptSeeds || whole.FailedSeeds[keptSeeds-1] != keptSeeds-1 {
		t.Fatalf("%d causes, %d seeds", len(whole.Causes), len(whole.FailedSeeds))
	}
	if got := whole.Causes[0]; got.Seeds != 102 || got.First != 0 {
		t.Errorf("the first cause is %+v, want 102 runs: a run counts once for a cause", got)
	}
	rand.New(rand.NewPCG(1, 2)).Shuffle(len(runs), func(i, j int) { runs[i], runs[j] = runs[j], runs[i] })
	parts := [2]*Scenario{NewScenario(Scenario{}, Want{}), NewScenario(Scenario{}, Want{})}
	for i, r := range runs {
		parts[i%2].Add(r)
	}
	if err := parts[1].Merge(parts[0]); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(parts[1].Causes, whole.Causes) || !reflect.DeepEqual(parts[1].FailedSeeds, whole.FailedSeeds) {
		t.Errorf("in another order, in two shares:\n%v\nwant\n%v", parts[1].Causes, whole.Causes)
	}
}
