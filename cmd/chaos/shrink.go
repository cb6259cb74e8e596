package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"handoff/sim/explore"
)

func (a *app) shrinkCommand() *cobra.Command {
	var f runChoice
	var out string
	cmd := &cobra.Command{
		Use:   "shrink SCENARIO|FILE --seed N -o FILE.yaml",
		Short: "Reduce a failing run to what its failure needs",
		Long: `Takes faults, settings, executions, workers and executors out of a run that fails, and
narrows what is left, as long as the same invariant fails, and writes what
remains as a scenario with the seed that shows it. The same run gives the same
file. A file in scenarios/regressions is run by the tests from then on.`,
		Example: `  bin/chaos shrink ttl-race --profile hardened --seed 158 --mutant unguarded-monitor -o small.yaml
  bin/chaos shrink ttl-race --profile hardened --seed 12 --varied -o small.yaml`,
		Args: needsOne("scenario"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !isYAML(out) {
				return usageError("%s needs -o FILE.yaml: where the small scenario is written", cmd.Name())
			}
			return a.atOnce(cmd.Context(), func(ctx context.Context) error { return a.shrinkRun(ctx, cmd, args[0], f, out) })
		},
	}
	f.addFlags(cmd, "the run that fails")
	cmd.Flags().StringVarP(&out, "output", "o", "", "write the small scenario to this `FILE`")
	return cmd
}

func (a *app) shrinkRun(ctx context.Context, cmd *cobra.Command, scenario string, f runChoice, out string) error {
	t, planted, err := f.chosenTarget(cmd, scenario, "the seed of the run that fails")
	if err != nil {
		return err
	}
	small, err := explore.Shrink(ctx, t, f.seed, planted, out)
	var notKept *explore.ErrNotKept
	switch {
	case errors.Is(err, explore.ErrNothingToShrink), errors.As(err, &notKept):
		return usageError("%v; to look at it: %s", err, t.Reproduce(f.seed, planted))
	case ctx.Err() != nil && err != nil:
		return harnessError("interrupted: %s was not written", out)
	case err != nil:
		return harnessError("%v", err)
	}
	if err := os.WriteFile(out, small.File, 0o644); err != nil {
		return harnessError("writing the small scenario: %s", fileErrorText(err))
	}
	fmt.Fprintf(a.out, "%s: %s, %s, %s, %s left, after %s\n", out,
		plural(small.Faults, "fault"), plural(small.Executions, "execution"), plural(small.Workers, "worker"),
		plural(len(small.Target.Scenario.Cluster.ExecutorNames()), "executor"), plural(small.Runs, "run"))
	fmt.Fprintf(a.out, "reproduce: %s\n", small.Target.Reproduce(small.Seed, planted))
	return nil
}
