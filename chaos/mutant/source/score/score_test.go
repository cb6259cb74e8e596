package score

import (
	"path/filepath"
	"strings"
	"testing"
)

func results(list ...*Result) *Results {
	r := &Results{
		Seed: "seed", Core: "core", Commit: "commit", Results: map[string]*Result{}, LeftOut: map[string]int{"an init function": 2},
		Quotas: []Quota{{Operator: "guards", Quota: 3, Candidates: 70, Untyped: 4}, {Operator: "order", Quota: 2, Candidates: 9}},
	}
	for _, m := range list {
		r.Results[m.ID] = m
	}
	return r
}

func sample() *Results {
	return results(
		&Result{ID: "a", Package: "core/worker", Operator: "guards", About: "a is negated", By: "invariant 12", Seeds: 1, Seed: 2, Reached: true},
		&Result{ID: "b", Package: "core/worker", Operator: "guards", About: "b is negated", By: "invariant 4", Seed: 1, Reached: true},
		&Result{ID: "c", Package: "core/executor", Operator: "guards", About: "c is negated", Seeds: 3, Reached: true, Unit: "killed"},
		&Result{ID: "d", Package: "core/executor", Operator: "order", About: "d before c", Seeds: 3},
	)
}

func TestWhatIsNotReachedCountsAsSurvivor(t *testing.T) {
	summary := sample().Summary()
	want := "2 of 4 mutants of the core's source killed: 50.0 %\n    1  invariant 4\n    1  invariant 12\n    1  survived\n    1  not reached\n"
	if summary != want {
		t.Errorf("%q; want %q", summary, want)
	}
}

func TestThePageHasRawAndAdjustedScore(t *testing.T) {
	page := sample().Page([]Equivalent{{ID: "d"}, {ID: "a"}})
	for _, want := range []string{
		"| raw score | **50.0 %** |",
		"| adjusted score, without equivalents | **66.7 %** |", // a is killed, so no proof takes it out
		"| guards | 70 | 3 | 3 | 2 | 67 % | 0 | 67 % |",
		"| order | 9 | 2 | 1 | 0 | 0 % | 1 | 0 % |",
		"- `c is negated` (a unit test kills it)",
		"- `d before c` (equivalent)",
		"- an init function: 2",
		"- a place where the mutant would not compile: 4",
	} {
		if !strings.Contains(page, want+"\n") {
			t.Errorf("the page lacks %q:\n%s", want, page)
		}
	}
}

func TestStatementsHaveATableOfTheirOwn(t *testing.T) {
	r := sample()
	r.SQL = results(&Result{ID: "s", Operator: "order", About: "skip locked left out", Reached: true}, &Result{ID: "t", Operator: "order", By: Contract})
	r.SQL.Refused = []string{"u"}
	page := r.Page(nil)
	for _, want := range []string{"1 of 2 are killed, **50.0 %**", "1 candidates were no mutants", "- `skip locked left out`", "| raw score | **50.0 %** |"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q:\n%s", want, page)
		}
	}
}

func TestResultsGoOnWhereTheyStopped(t *testing.T) {
	path := filepath.Join(t.TempDir(), "results.json")
	if _, ok, err := Read(path); ok || err != nil {
		t.Errorf("no file: %v, %v", ok, err)
	}
	if err := sample().Write(path); err != nil {
		t.Fatal(err)
	}
	r, ok, err := Read(path)
	if !ok || err != nil || r.Summary() != sample().Summary() {
		t.Errorf("read back %v, %v: %+v", ok, err, r)
	}
}

func TestMergingHasNoOrder(t *testing.T) {
	parts := func() (one, two *Results) {
		return results(
				&Result{ID: "killed in one", Seeds: 9}, &Result{ID: "earlier in two", By: "panic", Seed: 7}, &Result{ID: "longer in two", Seeds: 1}, &Result{ID: "only in one"},
			), results(
				&Result{ID: "killed in one", By: "invariant 1", Seed: 3}, &Result{ID: "earlier in two", By: "invariant 2", Seed: 2}, &Result{ID: "longer in two", Seeds: 5}, &Result{ID: "only in two"},
			)
	}
	merged := func(r, other *Results) string {
		if err := r.Merge(other); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), "merged.json")
		if err := r.Write(path); err != nil {
			t.Fatal(err)
		}
		again, _, err := Read(path)
		if err != nil {
			t.Fatal(err)
		}
		if m := again.Results["earlier in two"]; m.By != "invariant 2" {
			t.Errorf("kept the later kill: %+v", m)
		}
		if again.Results["longer in two"].Seeds != 5 || !again.Results["killed in one"].Killed() || len(again.Results) != 5 {
			t.Errorf("merged to %+v", again.Results)
		}
		return again.Page(nil)
	}
	one, two := parts()
	first := merged(one, two)
	one, two = parts()
	if second := merged(two, one); first != second {
		t.Errorf("another order, another page:\n%s\n%s", first, second)
	}
	one, two = parts()
	if merged(one, two) != first || one.Merge(two) != nil {
		t.Error("a part that is merged twice changes the page")
	}
}

func TestResultsOfAnotherBuildAreRefused(t *testing.T) {
	other := sample()
	other.Core = "another"
	if err := sample().Merge(other); err == nil || !strings.Contains(err.Error(), "measure again") {
		t.Errorf("merged with %v", err)
	}
}
