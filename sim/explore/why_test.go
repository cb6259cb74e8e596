package explore

import (
	"os"
	"slices"
	"strings"
	"testing"

	"handoff/chaos/history"
	"handoff/chaos/selftest/mutant"
	"handoff/reports"
	"handoff/scenarios"
)

// mostLines bounds the median number of lines of difference.
const mostLines = 15

// This test measures the quality of explanations. Each mutant's first failing run is explained: a line shows
// the first event at which the mutant acted, and the set of needed faults is minimal. make test has four
// mutants; HANDOFF_WHY names others, separated by commas, or all.
func TestExplanationsOfMutants(t *testing.T) {
	skipShort(t)
	names := []string{"unguarded-claim", "unguarded-monitor", "same-name-orphans", "refused-letter-dropped"}
	if how := os.Getenv("HANDOFF_WHY"); how != "" {
		names = strings.Split(how, ",")
	}
	var counts []int
	for _, f := range mutant.All() {
		if slices.Contains(names, f.Name) || slices.Contains(names, "all") {
			counts = append(counts, explainMutant(t, f))
		}
	}
	if len(counts) < len(names) {
		t.Fatalf("%d mutants are explained, of %v", len(counts), names)
	}
	if m := median(counts); m > mostLines {
		t.Errorf("the differences have a median of %d lines, want at most %d", m, mostLines)
	}
}

// explainMutant explains a mutant's failing run, and returns the number of lines of difference.
func explainMutant(t *testing.T, f *mutant.Mutant) (lines int) {
	t.Helper()
	library, err := scenarios.Library()
	if err != nil {
		t.Fatal(err)
	}
	w := newWatch(0, func(h *Hung) { panic(h.Error()) })
	defer w.dog.Close()
	k := huntMutant(t.Context(), f, library, MutantOptions{Seeds: 500}, w)
	if !k.Killed() {
		t.Errorf("%s: %s", f.Name, k.Summary())
		return 0
	}
	c, err := NewCase(t.Context(), k.Target, k.Seed, f)
	if err != nil {
		t.Fatal(err)
	}
	x := c.Compare()
	difference := reports.CounterpartLines(c.Record, &c.Violation, &x.Counterparts[0])
	first := slices.IndexFunc(c.Record.Events, func(e history.Event) bool { return e.Kind == history.MutantActed })
	if first < 0 {
		t.Errorf("%s in %s, seed %d: it did not act", f.Name, k.Target, k.Seed)
		return 0
	}
	act := "act     here   " + reports.Describe(&c.Record.Events[first], c.Record.Workers)[:20]
	if !slices.ContainsFunc(difference, func(l string) bool { return strings.HasPrefix(l, act) }) {
		t.Errorf("%s in %s, seed %d: no line tells its first act", f.Name, k.Target, k.Seed)
	}
	if !c.Ablate() {
		t.Fatal("interrupted")
	}
	checkNeeded(t, c)
	t.Logf("%s in %s, seed %d: %d lines, %d of %d faults needed", f.Name, k.Target, k.Seed, len(difference), x.Needed(), len(x.Faults))
	return len(difference)
}

// checkNeeded rechecks the set of needed faults: with only this set the rule is broken, and without any one
// of them it is not.
func checkNeeded(t *testing.T, c *Case) {
	t.Helper()
	var out, needed []int
	for i, f := range c.Record.Explained.Faults {
		if f.Needed {
			needed = append(needed, i)
		} else {
			out = append(out, i)
		}
	}
	c.tried = nil // anew
	if !c.brokenWithout(out) {
		t.Errorf("%s: with the faults %d alone the rule is kept", c.Name(), needed)
	}
	for _, f := range needed {
		if c.brokenWithout(slices.Sorted(slices.Values(append(slices.Clone(out), f)))) {
			t.Errorf("%s: without fault %d of %d the rule is still broken", c.Name(), f, needed)
		}
	}
}
