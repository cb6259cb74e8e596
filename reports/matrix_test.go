package reports_test

import (
	"bytes"
	"regexp"
	"strings"
	"testing"

	"handoff/chaos/verdict"
	"handoff/reports"
)

// The page names the weak points: a mutant that nothing kills, one that a single scenario kills, and a
// scenario that kills nothing.
func TestPageShowsMutantMatrix(t *testing.T) {
	sweep, records := syntheticSweep()
	page := func() string {
		var b bytes.Buffer
		if err := reports.WriteHTML(&b, sweep, records); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	if strings.Contains(page(), `id="mutants"`) {
		t.Error("a table of mutants that was not requested")
	}
	sweep.Matrix = &verdict.Matrix{
		Mutants:   []verdict.MatrixMutant{{Name: "common", Expected: 1}, {Name: "lone", Expected: 2, Own: "two"}, {Name: "immortal", Expected: 3}},
		Scenarios: []string{"one", "two", "idle"},
		Seeds:     4,
		Runs:      [][]int{{3, 1, 0}, {0, 7, 0}, {0, 0, 0}},
	}
	got := page()
	for what, form := range map[string]string{
		"the survivor":           `killed by none within 4 seeds: immortal<`,
		"the idle scenario":      `kill nothing within 4 seeds: idle<`,
		"the lone mutant":        `by one scenario alone: lone<`,
		"the row of two":         `two</th><td class="n">2</td><td class="n kill" title="common">1</td><td class="n kill own only" title="lone">7</td>`,
		"how often it was found": `killed by</th><td></td><td class="n" title="common">2</td><td class="n weak" title="lone">1</td>`,
	} {
		if !regexp.MustCompile(form).MatchString(got) {
			t.Errorf("%s is not shown: no %q", what, form)
		}
	}
}
