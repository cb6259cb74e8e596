package main

import (
	"fmt"
	"io"
	"os"
	"slices"

	"handoff/chaos/verdict"
	"handoff/sim/explore"
)

// Values of the flag --varied of chaos run.
const (
	variedBeside = "beside"
	variedOnly   = "only"
	variedNever  = "never"
)

func variedWords() []string { return []string{variedBeside, variedOnly, variedNever} }

// isVariedWord reports whether an argument is a value of --varied rather than a scenario.
func isVariedWord(arg string) bool {
	_, err := os.Stat(arg)
	return slices.Contains(variedWords(), arg) && err != nil
}

// varyTargets adds the varied targets, or replaces the unvaried targets with them, and sets their number of
// seeds. A single requested seed is run unvaried by default.
func (r *runFlags) varyTargets(targets []explore.Target, o *explore.Options) []explore.Target {
	switch {
	case r.varied == variedOnly:
		o.Varied = o.Seeds
		return explore.Varied(targets)
	case r.varied == variedNever || r.oneSeed:
		return targets
	}
	o.Varied = explore.Beside(o.Seeds)
	return append(targets[:len(targets):len(targets)], explore.Varied(targets)...)
}

// printChanges prints the changes that a varied run has drawn for its scenario.
func printChanges(out io.Writer, changes []string) {
	if len(changes) == 0 {
		return
	}
	fmt.Fprintln(out, "Varied:")
	for _, change := range changes {
		fmt.Fprintf(out, "  %s\n", change)
	}
	fmt.Fprintln(out)
}

// profileOf returns a result's profile, with a note if the result is varied.
func profileOf(sc *verdict.Scenario) string {
	return verdict.ProfileName(sc.Profile, sc.Strategy == verdict.Varied)
}

// printVariedLine summarizes the varied runs in one line.
func (a *app) printVariedLine(s *verdict.Sweep) {
	around, runs, failing, cut := 0, 0, 0, 0
	for _, sc := range s.Scenarios {
		if sc.Strategy == verdict.Varied {
			around, runs, failing, cut = around+1, runs+sc.Seeds, failing+sc.Failing, cut+sc.Cut
		}
	}
	if around > 0 {
		fmt.Fprintf(a.out, "varied: %s around %d of these, %d failing, %d broken off for their length\n", plural(runs, "run"), around, failing, cut)
	}
}
