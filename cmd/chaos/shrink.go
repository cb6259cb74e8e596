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
	var profile, mutantName, out string
	var seed uint64
	var varied bool
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
			switch {
			case !cmd.Flags().Changed("seed"):
				return usage("%s needs --seed: the seed of the run that fails", cmd.Name())
			case !isYAML(out):
				return usage("%s needs -o FILE.yaml: where the small scenario is written", cmd.Name())
			}
			return a.atOnce(cmd.Context(), func(ctx context.Context) error { return a.shrink(ctx, args[0], profile, mutantName, seed, varied, out) })
		},
	}
	cmd.Flags().Uint64Var(&seed, "seed", 0, "the seed of the run that fails")
	cmd.Flags().BoolVar(&varied, "varied", false, "the varied run of the seed")
	cmd.Flags().StringVar(&profile, "profile", "", "the profile to run under; the scenario's first one when left out")
	cmd.Flags().StringVar(&mutantName, "mutant", "", "plant this mutant; `NAME`s: chaos list --mutants")
	cmd.Flags().StringVarP(&out, "output", "o", "", "write the small scenario to this `FILE`")
	return cmd
}

func (a *app) shrink(ctx context.Context, scenario, profile, mutantName string, seed uint64, varied bool, out string) error {
	planted, err := findMutant(mutantName)
	if err != nil {
		return err
	}
	t, err := replayTarget(scenario, profile)
	if err != nil {
		return err
	}
	t.Varied = varied
	small, err := explore.Shrink(ctx, t, seed, planted, out)
	var notKept *explore.ErrNotKept
	switch {
	case errors.Is(err, explore.ErrNothingToShrink), errors.As(err, &notKept):
		return usage("%v; to look at it: %s", err, t.Reproduce(seed, planted))
	case ctx.Err() != nil && err != nil:
		return broken("interrupted: %s was not written", out)
	case err != nil:
		return broken("%v", err)
	}
	if err := os.WriteFile(out, small.File, 0o644); err != nil {
		return broken("writing the small scenario: %s", reason(err))
	}
	fmt.Fprintf(a.out, "%s: %s, %s, %s, %s left, after %s\n", out,
		plural(small.Faults, "fault"), plural(small.Executions, "execution"), plural(small.Workers, "worker"),
		plural(len(small.Target.Scenario.Cluster.ExecutorNames()), "executor"), plural(small.Runs, "run"))
	fmt.Fprintf(a.out, "reproduce: %s\n", small.Target.Reproduce(small.Seed, planted))
	return nil
}
