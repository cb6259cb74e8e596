package main

import (
	"fmt"
	"io"

	"handoff/sim/explore"
)

// The words of run's --varied.
const (
	variedBeside = "beside"
	variedOnly   = "only"
	variedNever  = "never"
)

func variedWords() []string { return []string{variedBeside, variedOnly, variedNever} }

// vary adds the varied targets, or puts them in the place of the others, and says how many seeds they get. One seed that
// was asked for is plain if nobody says otherwise.
func (f *runFlags) vary(targets []explore.Target, o *explore.Options) []explore.Target {
	switch {
	case f.varied == variedOnly:
		o.Varied = o.Seeds
		return explore.Varied(targets)
	case f.varied == variedNever || f.oneSeed:
		return targets
	}
	o.Varied = explore.OneInFour(o.Seeds)
	return append(targets[:len(targets):len(targets)], explore.Varied(targets)...)
}

// tellChanges says what was drawn around the scenario in a varied run.
func tellChanges(out io.Writer, changes []string) {
	if len(changes) == 0 {
		return
	}
	fmt.Fprintln(out, "Varied:")
	for _, change := range changes {
		fmt.Fprintf(out, "  %s\n", change)
	}
	fmt.Fprintln(out)
}
