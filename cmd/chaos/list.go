package main

import (
	"fmt"
	"strings"
	"text/tabwriter"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"handoff/chaos/fault"
	"handoff/chaos/invariant"
	"handoff/chaos/scenario"
	"handoff/chaos/selftest/mutant"
	"handoff/scenarios"
)

func (a *app) listCommand() *cobra.Command {
	lists := []struct {
		flag, about string
		rows        func() ([][]string, error)
	}{
		{"faults", "what a scenario can break, and how it says so", nil},
		{"triggers", "what a fault can wait for", triggerRows},
		{"sometimes", "what a sweep can be asked to reach", sometimesRows},
		{"invariants", "what must be true of every run", invariantRows},
		{"mutants", "what can be planted: name, defect (docs/defects.md), the invariant that must find it, scenario", mutantRows},
	}
	chosen := make([]bool, len(lists))
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List scenarios, faults, triggers, situations, invariants or mutants",
		Example: `  bin/chaos list
  bin/chaos list --faults
  bin/chaos list --mutants`,
		Args: noArgs,
		RunE: func(*cobra.Command, []string) error {
			rows, before := scenarioRows, ""
			for i, l := range lists {
				if !chosen[i] {
					continue
				}
				if before != "" {
					return usageError("--%s and --%s: one list at a time", before, l.flag)
				}
				rows, before = l.rows, l.flag
			}
			if before == "faults" {
				a.printFaults()
				return nil
			}
			table, err := rows()
			if err != nil {
				return usageError("%v", err)
			}
			a.printRows(table)
			return nil
		},
	}
	for i, l := range lists {
		cmd.Flags().BoolVar(&chosen[i], l.flag, false, l.about)
	}
	return cmd
}

// printRows prints aligned columns.
func (a *app) printRows(table [][]string) {
	w := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
	for _, row := range table {
		fmt.Fprintln(w, strings.Join(row, "\t"))
	}
	_ = w.Flush()
}

func scenarioRows() ([][]string, error) {
	list, err := scenarios.Library()
	if err != nil {
		return nil, err
	}
	rows := make([][]string, 0, len(list))
	for _, s := range list {
		rows = append(rows, []string{s.Name, firstSentence(s.About)})
	}
	return rows, nil
}

// listWidth is the maximum width of the list of faults, in columns.
const listWidth = 100

// printFaults prints each fault in the syntax of a scenario, and its description below it.
func (a *app) printFaults() {
	for _, f := range fault.Kinds() {
		about := f.Name + ": " + f.About
		if why := scenario.Lacks(f, scenario.Live); why != "" {
			about += " (simulated world only: " + why + ")"
		}
		fmt.Fprintf(a.out, "%s\n    %s\n", f.Example, strings.Join(wrapText(about, listWidth-4), "\n    "))
	}
}

// wrapText breaks a text at spaces into lines of at most the given number of columns.
func wrapText(text string, columns int) (lines []string) {
	line := ""
	for _, word := range strings.Fields(text) {
		switch {
		case line == "":
			line = word
		case utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) <= columns:
			line += " " + word
		default:
			lines = append(lines, line)
			line = word
		}
	}
	return append(lines, line)
}

func triggerRows() ([][]string, error) {
	var rows [][]string
	for _, t := range scenario.Triggers() {
		rows = append(rows, []string{t.Name, t.About})
	}
	return rows, nil
}

func sometimesRows() ([][]string, error) {
	var rows [][]string
	for _, s := range scenario.Sometimes() {
		rows = append(rows, []string{s.Name, s.About})
	}
	return rows, nil
}

func invariantRows() ([][]string, error) {
	var rows [][]string
	for _, i := range invariant.All() {
		about := "safety"
		if i.Conduct {
			about = "conduct"
		}
		rows = append(rows, []string{fmt.Sprint(i.Number), i.Name, about, i.Statement})
	}
	return rows, nil
}

func mutantRows() ([][]string, error) {
	var rows [][]string
	for _, f := range mutant.All() {
		rows = append(rows, []string{f.Name, f.Source, fmt.Sprintf("invariant %d", f.Expected), f.Scenario, f.About})
	}
	return rows, nil
}
