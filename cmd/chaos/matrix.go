package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"

	"handoff/chaos/scenario"
	"handoff/chaos/selftest/mutant"
	"handoff/chaos/shard"
	"handoff/chaos/verdict"
	"handoff/sim/explore"
)

// matrixSeeds is the number of seeds for each mutant in each scenario and profile of a matrix.
const matrixSeeds = 10

// matrix writes the table of scenarios and the mutants that they kill as Markdown, and prints its
// weak points.
func (a *app) matrix(ctx context.Context, mutants []*mutant.Mutant, library []*scenario.Scenario, seeds int, path string) error {
	m := explore.Cross(ctx, mutants, library, seeds, shard.Share{})
	if err := ctx.Err(); err != nil {
		return broken("interrupted: no matrix was written")
	}
	if err := os.WriteFile(path, matrixTable(m), 0o644); err != nil {
		return broken("writing the matrix: %s", reason(err))
	}
	kills, killers := m.Kills()
	for i, f := range m.Mutants {
		switch killers[i] {
		case 0:
			fmt.Fprintf(a.out, "%s: no scenario kills it within %s\n", f.Name, plural(seeds, "seed"))
		case 1:
			fmt.Fprintf(a.out, "%s: only one scenario kills it\n", f.Name)
		}
	}
	for j, s := range m.Scenarios {
		if kills[j] == 0 {
			fmt.Fprintf(a.out, "%s: kills nothing within %s\n", s, plural(seeds, "seed"))
		}
	}
	fmt.Fprintf(a.out, "%s by %s, %s each: %s\n", plural(len(m.Mutants), "mutant"), plural(len(m.Scenarios), "scenario"), plural(seeds, "seed"), path)
	return nil
}

// cross returns the matrix of the scenarios that were run, for the report; nil if it was
// interrupted.
func (a *app) cross(ctx context.Context, targets []explore.Target, seeds int, share shard.Share) *verdict.Matrix {
	var chosen []*scenario.Scenario
	for _, t := range targets {
		if !slices.Contains(chosen, t.Scenario) {
			chosen = append(chosen, t.Scenario)
		}
	}
	mutants := mutant.All()
	fmt.Fprintf(a.err, "planting %s into %s\n", plural(len(mutants), "mutant"), plural(len(chosen), "scenario"))
	m := explore.Cross(ctx, mutants, chosen, seeds, share)
	if ctx.Err() != nil {
		fmt.Fprintln(a.err, "interrupted: the report has no table of mutants")
		return nil
	}
	return m
}

// matrixTable has a row for each scenario and a column for each mutant: the number of runs until it
// was killed.
func matrixTable(m *verdict.Matrix) []byte {
	var b bytes.Buffer
	kills, killers := m.Kills()
	fmt.Fprintf(&b, "# Which scenario kills which mutant\n\nRuns until the invariant that is named for the mutant was broken, over %d seeds of each profile.\n\n| scenario |", m.Seeds)
	for _, f := range m.Mutants {
		fmt.Fprintf(&b, " %s |", f.Name)
	}
	fmt.Fprintf(&b, " kills |\n|---|%s---|\n", strings.Repeat("---|", len(m.Mutants)))
	for j, s := range m.Scenarios {
		fmt.Fprintf(&b, "| %s |", s)
		for i := range m.Mutants {
			if runs := m.Runs[i][j]; runs > 0 {
				fmt.Fprintf(&b, " %d |", runs)
			} else {
				b.WriteString("  |")
			}
		}
		fmt.Fprintf(&b, " %d |\n", kills[j])
	}
	b.WriteString("| **killed by** |")
	for _, n := range killers {
		fmt.Fprintf(&b, " %d |", n)
	}
	b.WriteString("  |\n")
	return b.Bytes()
}
