package source

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestCoreHasEnoughCandidates asserts that every quota can be filled, and that the statements with all their
// mutants compile.
func TestCoreHasEnoughCandidates(t *testing.T) {
	for _, sql := range []bool{false, true} {
		c, err := Load(root(t), sql)
		if err != nil {
			t.Fatal(err)
		}
		count, drawn := map[string]int{}, map[string]int{}
		for _, m := range c.Candidates {
			count[m.Operator]++
		}
		sample := Draw(c.Candidates, Seed, false)
		for _, m := range sample {
			drawn[m.Operator]++
		}
		for _, o := range Operators() {
			if o.SQL == sql && drawn[o.Name] != o.Quota {
				t.Errorf("%s: %d drawn, the quota is %d of %d candidates", o.Name, drawn[o.Name], o.Quota, count[o.Name])
			}
		}
		t.Logf("%d candidates: %v; would not compile: %v; left out: %v", len(c.Candidates), count, c.Untyped, c.LeftOut)
		if os.Getenv("HANDOFF_SOURCE_ALL") == "" {
			continue // a minute of the compiler
		}
		overlay, err := c.Overlay(t.TempDir(), c.Candidates)
		if err != nil {
			t.Fatal(err)
		}
		build := exec.Command("go", "build", "-overlay", overlay, "-o", filepath.Join(t.TempDir(), "executor"), "./cmd/executor")
		build.Dir = root(t)
		if out, err := build.CombinedOutput(); err != nil {
			t.Errorf("building with every mutant: %v\n%s", err, out)
		}
	}
}

// Some statements repeat a restriction of their join for a table, so that the planner has one plan. Leaving
// the repetition out does not change the answers, so it is no mutant. Leaving out a condition that alone
// selects a statement's rows is one.
func TestPlannerHintsHaveNoMutants(t *testing.T) {
	c, err := Load(root(t), true)
	if err != nil {
		t.Fatal(err)
	}
	left := map[string]int{}
	for _, m := range c.Candidates {
		// The line around the text that is left out or replaced follows that text.
		removed, _, _ := strings.Cut(strings.Replace(m.What, " replaced by ", " left out", 1), " left out")
		if m.Operator == "sql-conditions" && strings.Contains(removed, " = any(") {
			left[m.Func]++
		}
	}
	for _, name := range []string{"finishRows", "insertPlain", "insertExecutions", "handleEnds", "markPublished"} {
		if left[name] > 0 {
			t.Errorf("%s: %d mutants leave out a restriction that changes no answer", name, left[name])
		}
	}
	for _, name := range []string{"claimRows", "lockParents", "markHasChildren", "selectExecutions"} {
		if left[name] == 0 {
			t.Errorf("%s: no mutant leaves out the only condition by which it finds its rows", name)
		}
	}
}
