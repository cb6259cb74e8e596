package reports

import (
	"slices"
	"strings"
	"testing"

	"handoff/chaos/history"
	"handoff/chaos/verdict"
	"handoff/core/config"
	"handoff/core/execution"
)

// The folder of a varied run says so, with and without a mutant: the run of the same seed as written
// is another one.
func TestAFolderSaysThatItsRunIsVaried(t *testing.T) {
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

// A failure that concerns no execution leads to no execution's story, and to the timeline all the same.
func TestOnlyAFailureOfAnExecutionLeadsToItsStory(t *testing.T) {
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
// A refused change that sets no status is told without one.
func TestARefusedChangeWithoutAStatusNamesNone(t *testing.T) {
	got := Describe(&history.Event{Kind: history.StaleWrite, By: execution.Reconciler, Process: "executor-2", Execution: 19, Epoch: 1}, nil)
	if want := "tried to change execution 19 at epoch 1 and was refused"; !strings.Contains(got, want) {
		t.Errorf("%q lacks %q", got, want)
	}
}
