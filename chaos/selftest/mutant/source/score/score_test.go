package score

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func results(list ...*Result) *Results {
	r := &Results{
		Seed: "seed", Core: "core", Commit: "commit", Size: Size{2, 1}, Results: map[string]*Result{}, LeftOut: map[string]int{"an init function": 2},
		Quotas: []Quota{{Operator: "guards", Quota: 3, Candidates: 70, Untyped: 4}, {Operator: "order", Quota: 2, Candidates: 9}},
	}
	for _, m := range list {
		r.Results[m.ID] = m
	}
	return r
}

func sample() *Results {
	return results(
		&Result{ID: "a", Package: "core/worker", Operator: "guards", About: "a is negated", By: "invariant 12", Seed: 2, Reached: true},
		&Result{ID: "b", Package: "core/worker", Operator: "guards", About: "b is negated", By: "invariant 4", Seed: 1, Reached: true},
		&Result{ID: "c", Package: "core/executor", Operator: "guards", About: "c is negated", Reached: true, Unit: "killed"},
		&Result{ID: "d", Package: "core/executor", Operator: "order", About: "d before c", Unit: UnitSurvived},
	)
}

func TestUnreachedMutantCountsAsSurvivor(t *testing.T) {
	summary := sample().Summary()
	want := "2 of 4 mutants of the core's source killed: 50.0 %, by 2 plain and 1 varied seeds of every scenario and profile\n" +
		"    1  invariant 4\n    1  invariant 12\n    1  unit test\n    1  not reached\nwith unit tests: 75.0 %\n"
	if summary != want {
		t.Errorf("%q; want %q", summary, want)
	}
}

// page is the page of results whose proofs are accepted.
func page(t *testing.T, r *Results, equivalents []Equivalent, before *Results) string {
	t.Helper()
	text, err := r.Page(equivalents, before)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// has checks that a page has these lines.
func has(t *testing.T, page string, lines ...string) {
	t.Helper()
	for _, want := range lines {
		if !strings.Contains(page, want+"\n") {
			t.Errorf("the page lacks %q:\n%s", want, page)
		}
	}
}

// many is a sample of which one mutant in ten survives.
func many() *Results {
	r := results()
	for i := range 10 {
		id := string(rune('p' + i))
		r.Results[id] = &Result{ID: id, Package: "core/worker", Operator: "guards", About: "core/worker/x.go:7 f: " + id, By: "invariant 2", Reached: true}
	}
	r.Results["p"].By = ""
	return r
}

func TestPageHasRawAndAdjustedScore(t *testing.T) {
	r := many()
	text := page(t, r, []Equivalent{{ID: "p", Reader: "a second reader", Proof: "Both branches\nreturn nil."}}, nil)
	has(t, text,
		"| raw score: killed by the simulator alone | **90.0 %** |",
		"| adjusted score, without equivalents | **100.0 %** |",
		"| beside it: with unit tests | not measured |",
		"| runs of every scenario and profile | 2 plain and 1 varied seeds |",
		"| guards | 70 | 3 | 10 | 9 | 90 % |  | 1 | 100 % |",
		"- `core/worker/x.go:7 f: p`: Both branches return nil. (a second reader)",
		"- `core/worker/x.go:7 f: p` (equivalent)",
		"- an init function: 2",
		"- a place where the mutant would not compile: 4",
	)
}

func TestUnitTestsCountSeparately(t *testing.T) {
	has(t, page(t, sample(), nil, nil),
		"| raw score: killed by the simulator alone | **50.0 %** |",
		"| beside it: with unit tests | 75.0 % |",
		"| unit test | 1 |  |",
		"- `c is negated` (a unit test kills it)",
	)
}

func TestPageHasEarlierScore(t *testing.T) {
	before, now := many(), many()
	before.Size, before.Commit = Size{1, 0}, "earlier"
	before.Results["q"].By, before.Results["r"].By, before.Results["s"].By = "", "", Hang
	before.Results["q"].About = "core/worker/x.go:9 f: q"       // it has moved
	before.Results["r"].About = "core/worker/x.go:7 f: another" // another place now has this ID
	has(t, page(t, now, nil, before),
		"Before is the harness of commit earlier, with 1 plain and 0 varied seeds: **70.0 %**, 7 of 10.",
		"The core has changed since, and the sample with it: of the 9 mutants that both samples have, 77.8 % were killed then, and 88.9 % are now.",
		"| guards | 70 | 3 | 10 | 9 | 90 % | 70 % | 0 | 90 % |",
		"| core/worker | 10 | 9 | 90 % | 70 % | 0 | 90 % |",
		"| invariant 2 | 9 | 6 |",
		"| hang | 0 | 1 |",
	)
}

func TestImpossibleProofsAreRefused(t *testing.T) {
	of := func(ids ...string) (list []Equivalent) {
		for _, id := range ids {
			list = append(list, Equivalent{ID: id, Reader: "a second reader", Proof: "p"})
		}
		return list
	}
	two, unit, part := many(), many(), many()
	two.Results["q"].By = ""
	unit.Results["p"].Unit = UnitKilled
	part.Quotas[0].Quota = 300
	for _, tt := range []struct {
		r    *Results
		list []Equivalent
		want string
	}{
		{many(), of("p"), ""},
		{many(), of("p", "q"), "q is not an equivalent mutant, because invariant 2 killed it"},
		{unit, of("p"), "p is not an equivalent mutant, because a unit test of core/worker killed it"},
		{two, of("p", "q"), "2 of 10 mutants are said to be equivalent, and at most a tenth may be"},
		{many(), of("elsewhere"), "elsewhere is not a mutant of the sample"},
		{part, of("elsewhere"), ""},
		{many(), of("core/store/postgres/claim.go:Claim:order:1"), ""}, // no statements were measured
	} {
		_, err := tt.r.Page(tt.list, nil)
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%v; want %q", err, tt.want)
		}
	}
}

func TestUnjudgedVariedRunsAreListed(t *testing.T) {
	r := sample()
	r.Unjudged = []string{"ttl-race (hardened, varied), seed 1"}
	has(t, page(t, r, nil, nil), "| varied runs that the true core fails, which judge nothing | 1 |", "- ttl-race (hardened, varied), seed 1")
	if summary := r.Summary(); !strings.Contains(summary, "\n1 varied runs left out: the true core fails them\n") {
		t.Error(summary)
	}
}

func TestStatementsHaveOwnTable(t *testing.T) {
	r := sample()
	r.SQL = results(&Result{ID: "s", Operator: "order", About: "skip locked left out", Reached: true}, &Result{ID: "t", Operator: "order", By: Contract})
	r.SQL.Refused = []string{"u"}
	before := sample()
	before.SQL = results(&Result{ID: "s", Operator: "order"})
	text := page(t, r, nil, before)
	for _, want := range []string{"Before: 0.0 %, 0 of 1.", "| order | 9 | 2 | 2 | 1 | 50 % | 0 % | 0 | 50 % |", "1 of 2 are killed, **50.0 %**", "1 candidates were no mutants", "- `skip locked left out`", "alone | **50.0 %** |"} {
		if !strings.Contains(text, want) {
			t.Errorf("the page lacks %q:\n%s", want, text)
		}
	}
}

func TestResultsResumeAfterInterruption(t *testing.T) {
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

// The error names the position in a file that was named by mistake or was cut off.
func TestFileWithoutResultsIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "results.json")
	for text, want := range map[string]string{
		"":                              ":1:1 has no results: unexpected end of JSON input",
		"{\n\t\"seed\": 5\n}":           ":2:10 has no results: seed has the wrong type, number",
		"[]":                            ":1:1 has no results: the file has the wrong type, array",
		"{\n\t\"seed\": \"1\",\n\tx\n}": ":3:2 has no results: invalid character 'x'",
		"null":                          " has no results: seed, core or commit is missing",
		`{"seed": "1", "core": "2"}`:    " has no results: seed, core or commit is missing",
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if r, ok, err := Read(path); ok || r != nil || err == nil || !strings.Contains(err.Error(), path+want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	if _, _, err := Read(t.TempDir()); err == nil || !strings.HasSuffix(err.Error(), " can't be read: is a directory") {
		t.Errorf("a folder: %v", err)
	}
}

func TestMergeIgnoresOrder(t *testing.T) {
	parts := func() (one, two *Results) {
		return results(
				&Result{ID: "killed in two"}, &Result{ID: "earlier in two", By: "panic", Seed: 7}, &Result{ID: "asked in two"}, &Result{ID: "only in one"},
			), results(
				&Result{ID: "killed in two", By: "invariant 1", Seed: 3}, &Result{ID: "earlier in two", By: "invariant 2", Seed: 2}, &Result{ID: "asked in two", Unit: UnitSurvived}, &Result{ID: "only in two"},
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
		if again.Results["asked in two"].Unit == "" || !again.Results["killed in two"].Killed() || len(again.Results) != 5 {
			t.Errorf("merged to %+v", again.Results)
		}
		return page(t, again, nil, nil)
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

func TestMergeRefusesOtherBuild(t *testing.T) {
	other := sample()
	other.Core = "another"
	if err := sample().Merge(other); err == nil || !strings.Contains(err.Error(), "measure again") {
		t.Errorf("merged with %v", err)
	}
}

func TestMergeRefusesOtherSize(t *testing.T) {
	other := sample()
	other.Size.Varied++
	if err := sample().Merge(other); err == nil || !strings.Contains(err.Error(), "2 plain and 1 varied seeds can't be merged with those of 2 plain and 2 varied") {
		t.Errorf("merged with %v", err)
	}
}

func TestMergeRefusesOtherUnjudgedRuns(t *testing.T) {
	fresh, one, other := results(), sample(), sample()
	one.Unjudged = []string{"a"}
	if err := fresh.Merge(one); err != nil || len(fresh.Unjudged) != 1 {
		t.Errorf("a fresh one: %v, %v", err, fresh.Unjudged)
	}
	if err := one.Merge(other); err == nil || !strings.Contains(err.Error(), "not deterministic") {
		t.Errorf("merged with %v", err)
	}
}
