package verdict_test

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"handoff/chaos/verdict"
	"handoff/core/execution"
)

// goodRun returns a run as a passing sweep may have it.
func goodRun(seed uint64) *verdict.Run {
	return &verdict.Run{
		Scenario: "s", Seed: seed, Faults: []verdict.FaultCount{{Fault: "crash w", Planned: 1, Fired: 1, Touched: 1}},
		Sometimes: map[string]int{"parked": 1}, Texts: map[string]int{"boom": 1}, CompletedBefore: 1, CompletedAfter: 1,
		Steps: 10, Virtual: time.Second, Hash: seed * 3,
	}
}

func wantFor(seeds int) verdict.Want {
	return verdict.Want{Seeds: seeds, Sometimes: []string{"parked"}, Texts: []string{"boom"}, Faults: true}
}

// judgedScenario returns the judged result of n good runs, each modified by change.
func judgedScenario(n int, change func(*verdict.Run)) *verdict.Scenario {
	s := verdict.NewScenario(verdict.Scenario{Name: "s"}, wantFor(n))
	for seed := range n {
		r := goodRun(uint64(seed + 1))
		change(r)
		s.Add(r)
	}
	s.Judge()
	return s
}

func TestVerdictRules(t *testing.T) {
	violation := verdict.Violation{Invariant: 3, Name: "fencing", Message: "old epoch"}
	tests := []struct {
		name   string
		seeds  int
		change func(*verdict.Run)
		want   verdict.Verdict
		why    string
	}{
		{"nothing wrong", 50, func(*verdict.Run) {}, verdict.Pass, ""},
		{"nothing wrong with one seed", 1, func(*verdict.Run) {}, verdict.Pass, ""},
		{
			"a violation", 50, func(r *verdict.Run) {
				if r.Seed > 48 {
					r.Violations = []verdict.Violation{violation}
					r.Violations[0].Seed = r.Seed
				}
			}, verdict.Fail, "invariant 3, fencing: in 2 of 50 seeds, first in seed 49: old epoch",
		},
		{"a violation of one seed", 1, func(r *verdict.Run) { r.Violations = []verdict.Violation{violation} }, verdict.Fail, "invariant 3, fencing: old epoch"},
		{
			"an unmet expectation", 1, func(r *verdict.Run) {
				r.Violations = []verdict.Violation{{Name: "expectation", Message: "2 stuck"}}
			}, verdict.Fail, "expectation: 2 stuck",
		},
		{"a panic", 1, func(r *verdict.Run) { r.Panic = "nil map\nstack" }, verdict.Fail, "panic: nil map"},
		{
			"a run that gave up", 50, func(r *verdict.Run) {
				if r.Seed == 7 {
					r.GaveUp = "too many steps"
				}
			}, verdict.Inconclusive, "1 run could not be judged, first seed 7: too many steps",
		},
		{"a situation that a sweep never reached", 50, func(r *verdict.Run) { r.Sometimes = nil }, verdict.Inconclusive, "“parked” was never reached in 50 runs"},
		{
			"a situation that runs came near", 50, func(r *verdict.Run) {
				r.Sometimes = nil
				if r.Seed == 8 || r.Seed == 9 {
					r.Near = map[string]int{"parked": int(r.Seed), "cordoned": 1} //nolint:gosec // small
				}
			}, verdict.Inconclusive, "“parked” was never reached in 50 runs. Nearest: 17 times in 2 runs, first with seed 8, a claim for scheduling ended, but never with the execution waiting for a worker to fit",
		},
		{
			"a situation that no run came near", 50, func(r *verdict.Run) { r.Sometimes = nil }, verdict.Inconclusive,
			"No run came near, for none saw its first condition: a claim for scheduling ended",
		},
		{"a situation that few seeds never reached", 49, func(r *verdict.Run) { r.Sometimes = nil }, verdict.Pass, ""},
		{
			"a situation that one seed reached", 50, func(r *verdict.Run) {
				if r.Seed != 33 {
					r.Sometimes = nil
				}
			}, verdict.Pass, "",
		},
		{"a text that a sweep never saw", 50, func(r *verdict.Run) { r.Texts = nil }, verdict.Inconclusive, `no execution failed with the text "boom" in 50 runs`},
		{"a text that one seed never saw", 1, func(r *verdict.Run) { r.Texts = nil }, verdict.Pass, ""},
		{"a fault that never fired", 50, func(r *verdict.Run) { r.Faults[0].Fired, r.Faults[0].Touched = 0, 0 }, verdict.Inconclusive, "the fault “crash w” did not fire in any of 50 runs"},
		{"a fault that did not fire in one seed", 1, func(r *verdict.Run) { r.Faults[0].Fired, r.Faults[0].Touched = 0, 0 }, verdict.Inconclusive, "did not fire in this run"},
		{"a fault without evidence", 50, func(r *verdict.Run) { r.Faults[0].Touched = 0 }, verdict.Inconclusive, "“crash w” fired, but made no difference to anything in any of 50 runs"},
		{
			"a fault with evidence in one of few seeds", 3, func(r *verdict.Run) {
				if r.Seed != 2 {
					r.Faults[0].Fired, r.Faults[0].Touched = 0, 0
				}
			}, verdict.Pass, "",
		},
		{"nothing before the faults", 50, func(r *verdict.Run) { r.CompletedBefore = 0 }, verdict.Inconclusive, "nothing completed before the first fault"},
		{"nothing after the faults", 50, func(r *verdict.Run) { r.CompletedAfter = 0 }, verdict.Inconclusive, "nothing completed after the faults"},
		{"nothing before or after in one seed", 1, func(r *verdict.Run) { r.CompletedBefore, r.CompletedAfter = 0, 0 }, verdict.Pass, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := judgedScenario(tt.seeds, tt.change)
			why := strings.Join(s.Why, "\n")
			if s.Verdict != tt.want || !strings.Contains(why, tt.why) || (tt.why == "") != (why == "") {
				t.Errorf("%v because of %q; want %v because of %q", s.Verdict, why, tt.want, tt.why)
			}
		})
	}
}

func TestFaultlessScenarioNeedsNoCompletions(t *testing.T) {
	s := verdict.NewScenario(verdict.Scenario{}, verdict.Want{Seeds: 50})
	for seed := range 50 {
		s.Add(&verdict.Run{Seed: uint64(seed)})
	}
	if s.Judge(); s.Verdict != verdict.Pass {
		t.Errorf("%v because of %q", s.Verdict, s.Why)
	}
}

func TestIncompleteSweepIsInconclusive(t *testing.T) {
	s := verdict.NewScenario(verdict.Scenario{}, wantFor(200))
	if s.Judge(); s.Verdict != verdict.Inconclusive || s.Why[0] != "nothing was run" {
		t.Errorf("no run: %v because of %q", s.Verdict, s.Why)
	}
	s.Add(goodRun(1))
	if s.Judge(); s.Verdict != verdict.Inconclusive || s.Why[0] != "stopped after 1 of 200 seeds" {
		t.Errorf("one run: %v because of %q", s.Verdict, s.Why)
	}
	sweep := verdict.Sweep{Interrupted: true, Scenarios: []*verdict.Scenario{judgedScenario(1, func(*verdict.Run) {})}}
	if sweep.Judge(); sweep.Verdict != verdict.Inconclusive {
		t.Errorf("an interrupted sweep: %v", sweep.Verdict)
	}
}

func TestJudgeListsEveryReason(t *testing.T) {
	s := judgedScenario(50, func(r *verdict.Run) {
		r.Violations = []verdict.Violation{{Invariant: 1, Message: "a"}, {Invariant: 2, Message: "b"}}
		r.GaveUp, r.Texts, r.Sometimes, r.CompletedAfter = "x", nil, nil, 0
	})
	if s.Verdict != verdict.Fail || len(s.Why) != 6 {
		t.Errorf("%v, %d reasons: %q", s.Verdict, len(s.Why), s.Why)
	}
}

func TestScenarioIgnoresRunOrder(t *testing.T) {
	runs := make([]*verdict.Run, 300)
	for i := range runs {
		r := goodRun(uint64(i + 1))
		if i%3 == 0 {
			for n := range 7 {
				r.Violations = append(r.Violations, verdict.Violation{
					Invariant: n % 3, Seed: r.Seed, Step: uint64(100 - n), Execution: execution.ID(n), Message: fmt.Sprint(n), Name: []string{"x", "y"}[n%2],
				})
			}
		}
		switch i % 50 {
		case 10:
			r.GaveUp = fmt.Sprintf("gave up %d", i)
		case 11:
			r.Panic = fmt.Sprintf("panic %d", i)
		case 12:
			r.Faults = append(r.Faults, verdict.FaultCount{Fault: "another", Planned: 1})
		}
		r.Chains[execution.Completed] = int64(i)
		r.Situations = []uint64{uint64(i % 7), uint64(1000 + i)}
		runs[i] = r
	}
	var first *verdict.Scenario
	random := rand.New(rand.NewPCG(1, 2))
	for range 5 {
		s := verdict.NewScenario(verdict.Scenario{Name: "s"}, wantFor(300))
		for _, i := range random.Perm(len(runs)) {
			s.Add(runs[i])
		}
		s.Judge()
		if first == nil {
			first = s
			continue
		}
		if !reflect.DeepEqual(first, s) {
			t.Fatalf("two orders, two results:\n%+v\n%+v", first, s)
		}
	}
}

func TestScenarioKeepsFirstFiveViolationsPerRule(t *testing.T) {
	s := judgedScenario(100, func(r *verdict.Run) {
		r.Violations = []verdict.Violation{{Invariant: 4, Seed: r.Seed, Step: 9}, {Invariant: 2, Seed: r.Seed, Step: 9}}
	})
	var got []string
	for _, v := range s.Violations {
		got = append(got, fmt.Sprintf("%d/%d", v.Seed, v.Invariant))
	}
	if want := "1/2 1/4 2/2 2/4 3/2 3/4 4/2 4/4 5/2 5/4"; strings.Join(got, " ") != want {
		t.Errorf("kept %q, want %q", got, want)
	}
	if s.Failing != 100 || s.FirstFailing != 1 {
		t.Errorf("%d failing, first %d", s.Failing, s.FirstFailing)
	}
}

func TestHashBindsHistoriesToSeeds(t *testing.T) {
	sum := func(hashes ...uint64) uint64 {
		s := verdict.NewScenario(verdict.Scenario{}, verdict.Want{})
		for i, h := range hashes {
			s.Add(&verdict.Run{Seed: uint64(i), Hash: h})
		}
		return s.Hash
	}
	if sum(1, 2) == sum(2, 1) {
		t.Error("two seeds that swap their histories have the same hash")
	}
	if sum(1, 2) == sum(1, 3) {
		t.Error("two histories of a seed have the same hash")
	}
}

func TestSweepTakesWorstVerdict(t *testing.T) {
	pass, open := judgedScenario(1, func(*verdict.Run) {}), judgedScenario(1, func(r *verdict.Run) { r.GaveUp = "x" })
	fail := judgedScenario(1, func(r *verdict.Run) { r.Panic = "x" })
	for _, tt := range []struct {
		list []*verdict.Scenario
		want verdict.Verdict
		code int
	}{
		{[]*verdict.Scenario{pass}, verdict.Pass, 0},
		{[]*verdict.Scenario{pass, open}, verdict.Inconclusive, 3},
		{[]*verdict.Scenario{fail, open, pass}, verdict.Fail, 1},
		{nil, verdict.Inconclusive, 3},
	} {
		s := verdict.Sweep{Scenarios: tt.list}
		if s.Judge(); s.Verdict != tt.want || s.Verdict.ExitCode() != tt.code {
			t.Errorf("%d scenarios: %v, exit %d; want %v, exit %d", len(tt.list), s.Verdict, s.Verdict.ExitCode(), tt.want, tt.code)
		}
	}
}

func TestSituationsHaveUniqueNamesAndDescriptions(t *testing.T) {
	seen := make(map[string]bool)
	for _, s := range verdict.Situations() {
		if s.Name == "" || s.About == "" || seen[s.Name] {
			t.Errorf("%+v lacks a name or a description, or repeats a name", s)
		}
		seen[s.Name] = true
	}
}
