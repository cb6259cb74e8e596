package main

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"handoff/reports"
	"handoff/sim/explore"
)

func (a *app) whyCommand() *cobra.Command {
	var f runChoice
	var out string
	o := explore.DefaultCurve()
	cmd := &cobra.Command{
		Use:   "why SCENARIO|FILE --seed N",
		Short: "Explain a failing run: its counterpart, the faults it needed, when it became inevitable",
		Long: `Shows why a run fails, in three parts.

The counterpart is the same run without its mutant, or without one of its faults, as in
chaos diff. The faults that were needed are a minimal set: with them alone the same
execution breaks the same rule, and if any one of them is left out, it does not. The
curve says when the failure became inevitable: from one moment of the run after another,
everything random is drawn anew, a hundred times, and the share of runs is counted that
end in the same failure. The steepest jump is put into words. It is the same failure if
the same rule is broken on the same execution, which the curve names.

It takes about ten seconds on two processors. --steps bounds the work, and --out writes
the page of the run with all of this in it.`,
		Example: `  bin/chaos why network-partition --seed 4 --mutant unguarded-claim
  bin/chaos why ttl-race --profile documented --seed 7 --mutant unguarded-monitor --out reports/out/why`,
		Args: needsOne("scenario"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.Runs < 1 {
				return usage("--runs %d: at least 1 run is needed", o.Runs)
			}
			return a.atOnce(cmd.Context(), func(ctx context.Context) error { return a.why(ctx, cmd, args[0], f, o, out) })
		},
	}
	f.add(cmd, "the run that fails")
	cmd.Flags().IntVar(&o.Runs, "runs", o.Runs, "how many runs the ends of the jump get")
	cmd.Flags().Uint64Var(&o.Steps, "steps", o.Steps, "bound the steps of all runs of the curve")
	cmd.Flags().StringVar(&out, "out", "", "write the run's page, history and scenario into a folder in this `FOLDER`")
	return cmd
}

func (a *app) why(ctx context.Context, cmd *cobra.Command, file string, f runChoice, o explore.CurveOptions, out string) error {
	c, err := f.failing(ctx, cmd, file)
	if err != nil {
		return err
	}
	x := c.Compare()
	for i := range x.Counterparts[:min(1, len(x.Counterparts))] {
		a.lines(reports.CounterpartLines(c.Record, &c.Violation, &x.Counterparts[i]))
	}
	if a.err.live {
		fmt.Fprint(a.err, "leaving out the faults, one after another")
	}
	c.Ablate()
	if a.err.live {
		fmt.Fprint(a.err, clearLine)
	}
	fmt.Fprintln(a.out)
	a.lines(reports.NeedLines(x))
	fmt.Fprintln(a.out)
	o.Progress = a.whyProgress()
	curve := c.Curve(o)
	if a.err.live {
		fmt.Fprint(a.err, clearLine)
	}
	if ctx.Err() != nil {
		return broken("interrupted after %s: the curve is not shown", plural(curve.Runs, "run"))
	}
	a.lines(reports.CurveLines(c.Record, curve))
	if out == "" {
		return nil
	}
	page, err := reports.WriteFolder(out, c.Record)
	if err != nil {
		return broken("%v", err)
	}
	fmt.Fprintf(a.out, "\nreport  %s\n", filepath.ToSlash(page))
	return nil
}

func (a *app) lines(lines []string) {
	for _, line := range lines {
		fmt.Fprintln(a.out, reports.Printable(line, ""))
	}
}

// whyProgress shows the progress of a curve: a changing line on a terminal, nothing elsewhere.
func (a *app) whyProgress() func(float64, int) {
	if !a.err.live {
		return nil
	}
	var mu sync.Mutex
	var told time.Time
	return func(done float64, runs int) {
		mu.Lock()
		defer mu.Unlock()
		if now := time.Now(); now.Sub(told) > 100*time.Millisecond {
			told = now
			fmt.Fprintf(a.err, "%s%s, %.0f %% of the allowed work", clearLine, plural(runs, "run"), 100*min(1, done))
		}
	}
}
