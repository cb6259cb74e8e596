package main

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"handoff/reports"
)

func (a *app) whyCommand() *cobra.Command {
	var f runChoice
	var out string
	cmd := &cobra.Command{
		Use:   "why SCENARIO|FILE --seed N",
		Short: "Explain a failing run: its counterpart, and the faults it needed",
		Long: `Shows why a run fails, in two parts.

The counterpart is the same run without its mutant, or without one of its faults, as in
chaos diff. The faults that were needed are a minimal set: with them alone the same
execution breaks the same rule, and if any one of them is left out, it does not.

--out writes the page of the run with all of this in it.`,
		Example: `  bin/chaos why network-partition --seed 4 --mutant unguarded-claim
  bin/chaos why ttl-race --profile documented --seed 7 --mutant unguarded-monitor --out reports/out/why`,
		Args: needsOne("scenario"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.atOnce(cmd.Context(), func(ctx context.Context) error { return a.explainRun(ctx, cmd, args[0], f, out) })
		},
	}
	f.addFlags(cmd, "the run that fails")
	cmd.Flags().StringVar(&out, "out", "", "write the run's page, history and scenario into a folder in this `FOLDER`")
	return cmd
}

func (a *app) explainRun(ctx context.Context, cmd *cobra.Command, file string, f runChoice, out string) error {
	c, err := f.failingCase(ctx, cmd, file)
	if err != nil {
		return err
	}
	x := c.Compare()
	for i := range x.Counterparts[:min(1, len(x.Counterparts))] {
		a.printLines(reports.CounterpartLines(c.Record, &c.Violation, &x.Counterparts[i]))
	}
	if a.err.live {
		fmt.Fprint(a.err, "leaving out the faults, one after another")
	}
	ended := c.Ablate()
	if a.err.live {
		fmt.Fprint(a.err, clearLine)
	}
	if !ended {
		return harnessError("interrupted: which faults were needed is not known")
	}
	fmt.Fprintln(a.out)
	a.printLines(reports.NeedLines(x))
	if out == "" {
		return nil
	}
	page, err := reports.WriteFolder(out, c.Record)
	if err != nil {
		return harnessError("%v", err)
	}
	fmt.Fprintf(a.out, "\nreport  %s\n", filepath.ToSlash(page))
	return nil
}

func (a *app) printLines(lines []string) {
	for _, line := range lines {
		fmt.Fprintln(a.out, reports.Printable(line, ""))
	}
}
