package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"handoff/chaos/scenario"
	"handoff/chaos/shard"
	"handoff/scenarios"
	"handoff/sim/explore"
)

// mutantSeeds is the number of seeds of each scenario and profile that a mutant must survive to count as
// missed.
const mutantSeeds = 500

// liveMutantSeeds is the number of live runs of its own scenario after which a mutant has survived.
const liveMutantSeeds = 3

func (a *app) mutantsCommand() *cobra.Command {
	var only, one, world, part, report string
	var seeds, parallel int
	var all bool
	cmd := &cobra.Command{
		Use:   "mutants",
		Short: "Plant mutants one at a time and see which invariant finds them",
		Long: `Plants every mutant into the core, runs the library until something is
violated, and prints what found it: a line for each invariant, and a row for each
mutant that it did not find. A mutant that survives is a defect of the harness, and
so is one that is found by another invariant than the named one: then the exit code
is 1. With --all every mutant has its row; mutants.json (--report) always has all.

With --scenario it shows the mutants that this scenario alone catches; only the mutants whose
own scenario it is have to be found. A rule that the scenario breaks without any
mutant is named first, and counts for none.

--shard 2/4 hunts the second of four equal parts of the mutants; each machine can
do one. Give what all of them write into --report to chaos merge.

bin/chaos run --mutants 10 runs every mutant through every scenario, and its report
says which kills which.`,
		Example: `  bin/chaos mutants --scenario my-incident.yaml --seeds 10
  bin/chaos mutants --only unguarded-claim
  bin/chaos mutants --shard 2/4 --report mutants/2`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if seeds < 1 {
				return usageError("--seeds %d: at least 1 seed is needed", seeds)
			}
			if err := refuseForeignFlags(cmd, world, scenario.Live, "parallel"); err != nil {
				return err
			}
			if err := refuseForeignFlags(cmd, world, scenario.Sim, "scenario", "shard", "report", "all"); err != nil {
				return err
			}
			mine, err := parseShare(part)
			if err != nil {
				return err
			}
			if !mine.Whole() && report == "" {
				return usageError("--shard %s: --report is needed, the folder that chaos merge reads", mine)
			}
			switch world {
			case string(scenario.Sim):
				return a.huntMutants(cmd, hunt{only: only, one: one, seeds: seeds, share: mine, out: report, all: all})
			case string(scenario.Live):
				if !cmd.Flags().Changed("seeds") {
					seeds = liveMutantSeeds
				}
				return a.liveMutants(cmd.Context(), only, seeds, parallel)
			}
			return unknownNameError("world", world, []string{string(scenario.Sim), string(scenario.Live)})
		},
	}
	cmd.Flags().StringVar(&only, "only", "", "plant this mutant only; `NAME`s: chaos list --mutants")
	cmd.Flags().StringVar(&one, "scenario", "", "run this scenario only: a `NAME` or a file")
	cmd.Flags().IntVar(&seeds, "seeds", mutantSeeds, "give up on a scenario and profile after this many seeds")
	cmd.Flags().StringVar(&part, "shard", "", shareUsage)
	cmd.Flags().StringVar(&report, "report", "", "write mutants.json into this `FOLDER`: what became of each mutant")
	cmd.Flags().BoolVar(&all, "all", false, "show a row for every mutant, not only for those that need a look")
	cmd.Flags().StringVar(&world, "world", string(scenario.Sim), "sim, or live: into real daemons, each in its own scenario")
	cmd.Flags().IntVar(&parallel, "parallel", 1, "live: how many runs go on at a time")
	return cmd
}

// hunt selects the mutants to run, and the scenarios and seeds.
type hunt struct {
	only, one string
	seeds     int
	share     shard.Share
	out       string
	// all reports whether each mutant gets a row.
	all bool
}

func (a *app) huntMutants(cmd *cobra.Command, h hunt) error {
	ctx := cmd.Context()
	mutants, err := mutantsNamed(h.only)
	if err != nil {
		return err
	}
	if len(mutants) == 0 {
		return usageError("this build knows no mutants")
	}
	var library []*scenario.Scenario
	err = a.atOnce(ctx, func(context.Context) (err error) {
		library, err = mutantScenarios(h.one)
		return err
	})
	if err != nil {
		return err
	}
	if h.out != "" {
		if err := (&reportFlags{out: h.out}).makeFolders(); err != nil {
			return err
		}
	}
	var own []explore.OwnFailure
	if h.one != "" {
		own = explore.FailsAnyway(ctx, library, min(h.seeds, defaultSeeds))
		a.printOwnFailures(own, min(h.seeds, defaultSeeds))
	}
	kills, err := explore.Mutants(ctx, shard.Part(h.share, mutants), library, explore.MutantOptions{Seeds: h.seeds, Progress: a.printKill, Own: own})
	if a.err.live {
		fmt.Fprint(a.err, clearLine)
	}
	home := "" // the only scenario, which must find its own mutants; empty for the whole library
	if h.one != "" {
		home = library[0].Name
	}
	became := fatesOf(kills, home)
	a.printFates(became, h.all)
	if failed := writeFates(h, became, shareHeader(cmd, h.share, 0, explore.Targets(library)), mutants); failed != nil {
		return harnessError("the mutants were run, but writing their results failed: %v", failed)
	}
	if err != nil {
		return a.reportHang(err)
	}
	return nil
}

// printOwnFailures prints the rules that a scenario breaks without a mutant.
func (a *app) printOwnFailures(own []explore.OwnFailure, seeds int) {
	for i := range own {
		f := &own[i]
		what, _, _ := strings.Cut(f.Violation.Message, "\n")
		fmt.Fprintf(a.out, "%s fails without a mutant, in %d of %s: %s: %s\n  to see it: %s\n",
			f.Target, f.Seeds, plural(seeds, "seed"), f.Violation.Rule(), what, f.Target.Reproduce(f.Violation.Seed, nil))
	}
	if len(own) > 0 {
		fmt.Fprintln(a.out, a.out.yellow("No mutant is counted as found by these rules. Mend the scenario first."))
	}
}

// clearLine clears the last line of a terminal.
const clearLine = "\r\x1b[K"

// printKill shows the progress: one changing line on a terminal, otherwise a line for each mutant.
func (a *app) printKill(k *explore.Kill, done, total int) {
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
	return loadScenarios([]string{one})
}
