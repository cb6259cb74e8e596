package reports

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"handoff/chaos/explain"
	"handoff/chaos/history"
	"handoff/chaos/verdict"
	"handoff/core/config"
	"handoff/core/execution"
)

// A varied run's folder is marked in its name, with and without a mutant, because it differs from the
// unvaried run of the same seed.
func TestFolderNameMarksVariedRuns(t *testing.T) {
	run := func(mutant string, varied []string) *verdict.Record {
		return &verdict.Record{Run: verdict.Run{Scenario: "s", Profile: config.Hardened, Seed: 1, Mutant: mutant, Varied: varied, Panic: "boom"}}
	}
	for _, c := range []struct {
		records []*verdict.Record
		want    []string
	}{
		{[]*verdict.Record{run("", nil), run("", []string{"more workers"})}, []string{"s-hardened-1", "s-hardened-varied-1"}},
		{[]*verdict.Record{run("m", nil), run("m", []string{})}, []string{"s-hardened-1", "s-hardened-varied-1"}},
		{[]*verdict.Record{run("", []string{}), run("m", []string{})}, []string{"s-hardened-varied-1", "s-hardened-varied-1-m"}},
	} {
		if got := recordFolders(c.records); !slices.Equal(got, c.want) {
			t.Errorf("folders %q, want %q", got, c.want)
		}
	}
}

// A failure that concerns no execution has a link to the timeline, but none to an execution's story.
func TestOnlyExecutionFailuresLinkToStory(t *testing.T) {
	for id, want := range map[execution.ID]bool{0: false, 7: true} {
		v := verdict.Violation{Invariant: 15, Name: "alerts", Seed: 1, Execution: id}
		r := &verdict.Record{Run: verdict.Run{Scenario: "s", Profile: config.Hardened, Seed: 1, Violations: []verdict.Violation{v}}}
		sc := verdict.NewScenario(verdict.Scenario{Name: "s", Profile: config.Hardened}, verdict.Want{Seeds: 1})
		sc.Add(&r.Run)
		s := &verdict.Sweep{Scenarios: []*verdict.Scenario{sc}}
		s.Judge()
		var page strings.Builder
		if err := WriteHTML(&page, s, []*verdict.Record{r}); err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(page.String(), "Story of this execution"); got != want || !strings.Contains(page.String(), `<a href="#run">Timeline`) {
			t.Errorf("execution %d: a link to its story: %v, want %v", id, got, want)
		}
	}
}

// A refused change that sets no status is described without naming a status.
func TestRefusedWriteWithoutStatusNamesNone(t *testing.T) {
	got := Describe(&history.Event{Kind: history.StaleWrite, By: execution.Reconciler, Process: "executor-2", Execution: 19, Epoch: 1}, nil)
	if want := "tried to change execution 19 at epoch 1 and was refused"; !strings.Contains(got, want) {
		t.Errorf("%q lacks %q", got, want)
	}
}

func TestNeedTextIsWholeSentences(t *testing.T) {
	two := []explain.Need{{Needed: true}, {Needed: true}}
	for want, x := range map[string]*explain.Explanation{
		"2 of 2 were needed: with them alone the same rule is broken, with fewer of them it is kept":             {Faults: two},
		"2 of 2 were needed: with them alone execution 7 misses the expectation, with fewer of them it does not": {Faults: two, Followed: true, Missed: true, Execution: 7},
		"one of 1 was needed: with it alone execution 7 breaks the rule, without any fault it does not":          {Faults: two[:1], Followed: true, Execution: 7},
	} {
		if got := needText(x); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestUnstampedBuildReportsUnknownCommit(t *testing.T) {
	var page, summary strings.Builder
	s := &verdict.Sweep{Go: "go1"}
	if err := errors.Join(WriteSummary(&summary, s), WriteHTML(&page, s, nil)); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"summary": summary.String(), "page": page.String()} {
		if !strings.Contains(text, "go1, commit unknown") {
			t.Errorf("the %s does not report an unknown commit", name)
		}
	}
}
