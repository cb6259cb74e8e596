package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"handoff/chaos/mutant"
	"handoff/chaos/scenario"
	"handoff/chaos/verdict"
	"handoff/scenarios"
	"handoff/sim/explore"
)

// mutantSeeds is how many seeds of each scenario and profile a mutant may survive before it counts as
// one that the suite does not see.
const mutantSeeds = 500

func (a *app) mutantsCommand() *cobra.Command {
	var only, one, matrix, world string
	var seeds, parallel int
	var fromSource sourceOptions
	cmd := &cobra.Command{
		Use:   "mutants",
		Short: "Plant mutants one at a time and see which invariant finds them",
		Long: `Plants every mutant into the core, runs the library until something is
violated, and prints what found it. A mutant that survives is a defect of the
harness, and so is one that is found by another invariant than the named one:
then the exit code is 1.

With --scenario it shows what that scenario alone catches; only the mutants whose
own scenario it is have to be found.

With --matrix FILE.md every mutant is run through every scenario, and the file says
which scenario kills which; a scenario that kills nothing and a mutant that only
one scenario kills are printed.

With --source the mutants are not the planted ones: operators make them of the
core's own source, a sample is drawn, and the score is the share that the library
kills (docs/score.md). It needs the source and Go, and builds all of them at once.
To see what one of them does: --keep FOLDER --only ID, and then with the number that
is printed: HANDOFF_SOURCE_MUTANT=17 FOLDER/chaos replay ttl-race --seed 1`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if seeds < 1 {
				return usage("--seeds %d: at least 1 seed is needed", seeds)
			}
			if fromSource.on {
				fromSource.seeds, fromSource.procs, fromSource.only = seeds, parallel, only
				if !cmd.Flags().Changed("seeds") {
					fromSource.seeds = sourceSeeds
				}
				if !cmd.Flags().Changed("parallel") {
					fromSource.procs = 0
				}
				return a.sourceMutants(cmd.Context(), &fromSource)
			}
			if err := foreign(cmd, world, scenario.Live, "parallel"); err != nil {
				return err
			}
			if err := foreign(cmd, world, scenario.Sim, "scenario", "matrix"); err != nil {
				return err
			}
			switch world {
			case string(scenario.Sim):
				if matrix != "" && !cmd.Flags().Changed("seeds") {
					seeds = matrixSeeds
				}
				return a.mutants(cmd.Context(), only, one, seeds, matrix)
			case string(scenario.Live):
				if !cmd.Flags().Changed("seeds") {
					seeds = liveMutantSeeds
				}
				return a.liveMutants(cmd.Context(), only, seeds, parallel)
			}
			return unknown("world", world, []string{string(scenario.Sim), string(scenario.Live)})
		},
	}
	cmd.Flags().StringVar(&only, "only", "", "plant this mutant only; `NAME`s: chaos list --mutants; --source: those whose ID contains it")
	cmd.Flags().StringVar(&one, "scenario", "", "run this scenario only: a `NAME` or a file")
	cmd.Flags().StringVar(&matrix, "matrix", "", "write which scenario kills which mutant to this `FILE`; 10 seeds each unless --seeds says otherwise")
	cmd.Flags().IntVar(&seeds, "seeds", mutantSeeds, "give up on a scenario and profile after this many seeds")
	cmd.Flags().StringVar(&world, "world", string(scenario.Sim), "sim, or live: into real daemons, each in its own scenario")
	cmd.Flags().IntVar(&parallel, "parallel", 1, "live: how many runs go on at a time; --source: how many mutants, all processors unless it is given")
	fromSource.flags(cmd)
	return cmd
}

func (a *app) mutants(ctx context.Context, only, one string, seeds int, matrix string) error {
	mutants := mutant.All()
	if only != "" {
		f, err := findMutant(only)
		if err != nil {
			return err
		}
		mutants = []*mutant.Mutant{f}
	}
	if len(mutants) == 0 {
		return usage("this build knows no mutants")
	}
	var library []*scenario.Scenario
	err := a.atOnce(ctx, func(context.Context) (err error) {
		library, err = mutantScenarios(one)
		return err
	})
	if err != nil {
		return err
	}
	if matrix != "" {
		return a.matrix(ctx, mutants, library, seeds, matrix)
	}
	kills, err := explore.Mutants(ctx, mutants, library, explore.MutantOptions{Seeds: seeds, Progress: a.hunted})
	if a.err.live {
		fmt.Fprint(a.err, clearLine)
	}
	home := "" // the scenario that has to find its own mutants, or all of them
	if one != "" {
		home = library[0].Name
	}
	a.kills(kills, home)
	var hung *explore.Hung
	if errors.As(err, &hung) {
		_, _ = a.err.Write(hung.Stacks)
		return broken("%v", hung)
	}
	return nil
}

// clearLine makes room for another text on a terminal's last line.
const clearLine = "\r\x1b[K"

// hunted shows how far the hunt is: one line that changes on a terminal, a line for each mutant
// elsewhere.
func (a *app) hunted(k *explore.Kill, done, total int) {
	before, after := "", "\n"
	if a.err.live {
		before, after = clearLine, ""
	}
	fmt.Fprintf(a.err, "%s%d of %d: %s: %s%s", before, done, total, k.Mutant.Name, k.Summary(), after)
}

func mutantScenarios(one string) ([]*scenario.Scenario, error) {
	if one == "" {
		return scenarios.Library()
	}
	return load([]string{one})
}

// kills prints the table and sets the exit code. Where one scenario was asked for, home is its name,
// and other scenarios' mutants may survive it.
func (a *app) kills(kills []*explore.Kill, home string) {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "MUTANT\tSOURCE\tRUNS\tSECONDS\tSCENARIO\tSEED\tINVARIANT\tRESULT")
	missed, found, stopped := 0, 0, 0
	for _, k := range kills {
		where, seed, by := "-", "-", fmt.Sprintf("none, should be %d", k.Mutant.Expected)
		if v := k.Violation(); v != nil {
			where, seed, by = k.Target.String(), fmt.Sprint(k.Seed), strings.TrimPrefix(v.Rule(), "invariant ")
			if !k.Killed() {
				by += fmt.Sprintf(", should be %d", k.Mutant.Expected)
			}
		}
		result := "killed"
		switch {
		case k.Stopped:
			result = "stopped"
			stopped++
		case k.Killed():
			found++
		case home == "" || k.Mutant.Scenario == home:
			result = "MISSED"
			missed++
		default:
			result = "survived"
		}
		fmt.Fprintf(w, "%s\t%s\t%d\t%.1f\t%s\t%s\t%s\t%s\n", k.Mutant.Name, k.Mutant.Source, k.Runs, k.Wall.Seconds(), where, seed, by, result)
	}
	_ = w.Flush()
	a.lastColumn(b.String())
	fmt.Fprintf(a.out, "%d of %d mutants killed by the invariant that is named for them\n", found, len(kills))
	a.killsEnd(kills, missed, stopped)
}

func (a *app) killsEnd(kills []*explore.Kill, missed, stopped int) {
	if missed > 0 {
		a.code = verdict.ExitFail
	} else if stopped > 0 {
		a.code = verdict.ExitInconclusive
	}
	for _, k := range kills {
		if k.Found() && !k.Killed() {
			fmt.Fprintf(a.out, "to see %s: %s\n", k.Mutant.Name, k.Target.Reproduce(k.Seed, k.Mutant))
		}
		if k.GaveUp > 0 {
			fmt.Fprintf(a.out, "%s: %d runs could not be judged\n", k.Mutant.Name, k.GaveUp)
		}
	}
	var total time.Duration
	runs := 0
	for _, k := range kills {
		total += k.Wall
		runs += k.Runs
	}
	fmt.Fprintf(a.out, "%d runs, %s of work\n", runs, human(total))
}
