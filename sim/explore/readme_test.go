package explore

import (
	"context"
	"os"
	"regexp"
	"strings"
	"testing"

	"handoff/chaos/scenario"
	"handoff/chaos/verdict"
)

// Every YAML example of the documentation is a scenario that runs and passes.
func TestDocumentationExamplesPass(t *testing.T) {
	if testing.Short() {
		t.Skip("the ordinary tests run the examples; another sweep shows the race detector nothing new")
	}
	found := 0
	for _, page := range []string{"../../README.md", "../../ARCHITECTURE.md"} {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, block := range regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllSubmatch(text, -1) {
			found++
			s, err := scenario.Parse(page, block[1])
			if err != nil {
				t.Errorf("%v", err)
				continue
			}
			out, err := Sweep(context.Background(), Targets([]*scenario.Scenario{s}), Options{First: 1, Seeds: verdict.SweepSeeds})
			if err != nil {
				t.Fatal(err)
			}
			for _, result := range out.Sweep.Scenarios {
				if result.Verdict != verdict.Pass {
					t.Errorf("%s: the example %s (%s) is %v: %s", page, s.Name, result.Profile, result.Verdict, strings.Join(result.Why, "; "))
				}
			}
		}
	}
	if found == 0 {
		t.Error("no example was found")
	}
}
