package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"handoff/chaos/scenario"
	"handoff/chaos/selftest/mutant"
	"handoff/chaos/shard"
	"handoff/chaos/verdict"
	"handoff/reports"
	"handoff/sim/explore"
)

// defaultSeeds is the number of seeds of a scenario, unless --seeds is given.
const defaultSeeds = 60

type runFlags struct {
	reportFlags
	world, profile, mutant string
	seed                   uint64
	seeds, double, mutants int
	varied                 string
	quiet, failFast        bool
	oneSeed                bool
	// chosen reports whether a flag selects runs; see applyRegression.
	chosen       bool
	scale        float64
	parallel     int
	agree        bool
	target, file string
	shard        string
	// share is the parsed shard; header describes the share, once the targets are known.
	share  shard.Share
	header func(shard.Share, []explore.Target, int) shard.Header
}

// defaultScale is the smallest time scale that the default configuration allows: it turns AMQP heartbeats of
// 5 s into their minimum of one second.
const defaultScale = 0.2

// composeFile defines the containers that live runs use and into which chaos inject can inject faults.
const composeFile = "docker-compose.chaos.yaml"

// Environments of a live run: processes of this machine, or the containers of a compose file.
const (
	targetProcesses = "processes"
	targetCompose   = "compose"
)

func (a *app) runCommand() *cobra.Command {
	var f runFlags
	cmd := &cobra.Command{
		Use:   "run [SCENARIO|FILE|DIR ...]",
		Short: "Run scenarios under many seeds and judge them",
		Long: `Runs scenarios of the library by name, scenario files, or folders of them; the
whole library when none is named. Each runs under every profile that it names,
under seeds 1 to --seeds, or under the one seed of --seed. A file that chaos shrink
wrote is run in the seed and with the mutant of its key regression, if it is the only
one and no flag says otherwise.

Beside every fifteen seeds runs a varied one: the scenario with other sizes, settings
and durations, and further faults, as the seed draws them. --varied runs only such
ones, --varied=never none. In the live world nothing is varied.

--world live runs them on real servers and daemons: private processes of this
machine, or with --target compose the containers of docker-compose.chaos.yaml.

Writes index.html, result.json, junit.xml and summary.md into --out, and the
history of the first failing seed of everything that failed. In GitHub Actions each
failing scenario becomes an annotation at the line that demands what was broken.

--shard 2/4 does the second of four equal parts of the runs; each machine can do
one, and needs nothing of the others. Give the folders of all parts to chaos merge.`,
		Example: `  bin/chaos run
  bin/chaos run ttl-race --profile documented --seeds 1000
  bin/chaos run ttl-race --seed 7 --mutant unguarded-monitor
  bin/chaos run ttl-race --varied --seeds 1000
  bin/chaos run my-scenarios/ --junit junit.xml --quiet
  bin/chaos run --seeds 1000 --shard 2/4 --out shards/2
  bin/chaos run ttl-race --world live --target compose`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("file") && f.target != targetCompose {
				return usageError("--file names the compose file of --target compose: add that; a scenario's file is given without a flag")
			}
			if err := refuseForeignFlags(cmd, f.world, scenario.Live, "target", "file", "time-scale", "parallel", "agree"); err != nil {
				return err
			}
			if err := refuseForeignFlags(cmd, f.world, scenario.Sim, "shard", "varied", "fail-fast"); err != nil {
				return err
			}
			if at := slices.IndexFunc(args, isVariedWord); at >= 0 && cmd.Flags().Changed("varied") {
				return usageError("run: the value of --varied follows an equals sign: --varied=%s", args[at])
			}
			f.oneSeed, f.chosen = cmd.Flags().Changed("seed"), asksForRuns(cmd)
			if f.world == string(scenario.Live) && !cmd.Flags().Changed("seeds") {
				f.seeds = 1 // a live run takes long
			}
			if f.oneSeed && cmd.Flags().Changed("seeds") {
				return usageError("--seed is one seed and --seeds is how many: only one of them can be given")
			}
			f.header = func(s shard.Share, targets []explore.Target, seeds int) shard.Header {
				return shareHeader(cmd, s, seeds, targets)
			}
			return a.runScenarios(cmd.Context(), args, f)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.world, "world", "sim", "the world to run in: sim, or live (real servers and daemons)")
	flags.StringVar(&f.target, "target", targetProcesses, "live: where it runs: processes of this machine, or compose (containers)")
	flags.StringVar(&f.file, "file", composeFile, "live: the compose `FILE` of --target compose")
	flags.Float64Var(&f.scale, "time-scale", defaultScale, "live: multiply every duration by this")
	flags.IntVar(&f.parallel, "parallel", 1, "live: how many runs go on at a time, each on servers of its own")
	flags.BoolVar(&f.agree, "agree", false, "live: run the same in the simulated world, and compare both")
	flags.StringVar(&f.profile, "profile", "", "run under this profile only: hardened or documented")
	flags.Uint64Var(&f.seed, "seed", 0, "run this seed only, instead of several")
	flags.IntVar(&f.seeds, "seeds", defaultSeeds, "run seeds 1 to this")
	flags.StringVar(&f.shard, "shard", "", shareUsage)
	flags.StringVar(&f.varied, "varied", variedBeside, "varied runs: beside the plain ones, only, or never")
	flags.Lookup("varied").NoOptDefVal = variedOnly
	addMutantFlag(cmd, &f.mutant)
	f.reportFlags.addFlags(cmd, "reports/out")
	flags.IntVar(&f.double, "check-determinism", 0, "run this many seeds of everything twice, and fail where the histories differ")
	flags.IntVar(&f.mutants, "mutants", 0, "also plant every mutant, one at a time, into every scenario for this many seeds, and show in the report which kills which; --mutant plants one")
	flags.BoolVar(&f.failFast, "fail-fast", false, "begin no further run after the first failure")
	flags.BoolVar(&f.quiet, "quiet", false, "no progress, only the result")
	return cmd
}

// refuseForeignFlags refuses a flag that has no meaning in the given world, instead of silently ignoring it.
func refuseForeignFlags(cmd *cobra.Command, world string, only scenario.World, flags ...string) error {
	if world == string(only) || world != string(scenario.Sim) && world != string(scenario.Live) {
		return nil
	}
	for _, name := range flags {
		if !cmd.Flags().Changed(name) {
			continue
		}
		if only == scenario.Live {
			return usageError("--%s is for the live world: add --world live", name)
		}
		return usageError("--%s is for the simulated world: leave out --%[1]s or --world live", name)
	}
	return nil
}

func (r *runFlags) checkValues() error {
	worlds := []string{string(scenario.Sim), string(scenario.Live)}
	switch {
	case !slices.Contains(worlds, r.world):
		return unknownNameError("world", r.world, worlds)
	case r.seeds < 1:
		return usageError("--seeds %d: at least 1 seed is needed", r.seeds)
	case !slices.Contains(variedWords(), r.varied):
		return unknownNameError("value of --varied", r.varied, variedWords())
	case r.double < 0:
		return usageError("--check-determinism %d: a number of seeds is needed", r.double)
	case r.mutants < 0:
		return usageError("--mutants %d: a number of seeds is needed", r.mutants)
	case r.mutants > 0 && r.world == string(scenario.Live):
		return usageError("--mutants is for the simulated world; chaos mutants --world live plants them into real daemons")
	case !(r.scale > 0 && r.scale <= 1): // also false for NaN
		return usageError("--time-scale %v: a factor above 0 and up to 1 is needed", r.scale)
	case r.parallel < 1 || r.parallel > 8:
		return usageError("--parallel %d: must be from 1 to 8", r.parallel)
	case !slices.Contains([]string{targetProcesses, targetCompose}, r.target):
		return unknownNameError("target", r.target, []string{targetProcesses, targetCompose})
	case r.target == targetCompose && r.mutant != "":
		return usageError("--mutant %s: the daemons of --target compose are built without mutants; leave it out, and the mutant is planted into processes of this machine", r.mutant)
	case r.double > 0 && r.world == string(scenario.Live):
		return usageError("--check-determinism is for the simulated world: a live run is not deterministic")
	case r.failFast && r.shard != "":
		return usageError("--fail-fast and --shard: a share that stops early can't be merged with the others")
	}
	return nil
}

func (a *app) runScenarios(ctx context.Context, args []string, f runFlags) error {
	if err := f.checkValues(); err != nil {
		return err
	}
	var err error
	if f.share, err = parseShare(f.shard); err != nil {
		return err
	}
	if err := f.reportFlags.checkOutputs(a); err != nil {
		return err
	}
	if f.world == string(scenario.Live) {
		return a.runLive(ctx, args, f)
	}
	if _, err := findMutant(f.mutant); err != nil {
		return err
	}
	var targets []explore.Target
	var notes []string
	err = a.atOnce(ctx, func(context.Context) (err error) {
		targets, notes, err = chooseTargets(args, f.profile, scenario.Sim)
		return err
	})
	if err != nil {
		return err
	}
	if note := f.applyRegression(targets); note != "" {
		notes = append(notes, note)
	}
	planted, err := findMutant(f.mutant)
	if err != nil {
		return err
	}
	if err := f.makeFolders(); err != nil {
		return err
	}
	for _, note := range notes {
		fmt.Fprintln(a.err, note)
	}
	plain := targets
	o := explore.Options{First: 1, Seeds: f.seeds, Share: f.share, Mutant: planted, Double: f.double, Describe: reports.Describe, FailFast: f.failFast}
	if f.oneSeed {
		o.First, o.Seeds = f.seed, 1
	}
	targets = f.varyTargets(targets, &o)
	// A single run ends before it has any progress to show.
	p := newProgress(a.err, explore.Runs(targets, o), f.quiet || f.oneSeed)
	p.mutant = planted
	o.Progress = p.showProgress
	out, err := explore.Sweep(ctx, targets, o)
	p.close()
	if err == nil && f.mutants > 0 {
		out.Sweep.Matrix = a.crossMutants(ctx, plain, f.mutants, f.share)
	}
	a.printSweepResult(out, targets, planted, f.out)
	write := func() error { return reports.Write(f.out, out.Sweep, out.Records) }
	if !f.share.Whole() {
		fmt.Fprintf(a.out, "share: %s; when all %d are there: bin/chaos merge FOLDER...\n", f.share, f.share.Of)
		write = func() error {
			return reports.WriteShare(f.out, f.header(f.share, targets, o.Seeds), out.Sweep, out.Records, sourcesOf(targets))
		}
	}
	if failed := a.writeReport(&f.reportFlags, out.Sweep, targets, planted != nil, write); failed != nil {
		return failed
	}
	if err != nil {
		return a.reportHang(err)
	}
	a.code = out.Sweep.Verdict.ExitCode()
	return nil
}

// crossMutants returns the matrix of the scenarios that were run, for the report; nil if interrupted.
func (a *app) crossMutants(ctx context.Context, targets []explore.Target, seeds int, share shard.Share) *verdict.Matrix {
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
