//go:build !simulator

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"handoff/chaos/live"
	"handoff/chaos/live/capability"
	"handoff/chaos/live/compose"
	"handoff/chaos/scenario"
	"handoff/chaos/selftest/mutant"
	"handoff/chaos/servers"
	"handoff/chaos/verdict"
	"handoff/reports"
	"handoff/sim/explore"
)

// runLive runs scenarios on real servers and real daemons.
func (a *app) runLive(ctx context.Context, args []string, f runFlags) error {
	targets, notes, err := chooseTargets(args, f.profile, scenario.Live)
	if err != nil {
		return err
	}
	targets, unable, err := a.expressibleTargets(targets, len(args) > 0, f)
	if err != nil {
		return err
	}
	planted, err := plantableMutant(f.mutant)
	if err != nil {
		return err
	}
	if err := f.makeFolders(); err != nil {
		return err
	}
	notes = append(notes, unable...)
	for _, note := range notes {
		fmt.Fprintln(a.err, note)
	}
	plan := live.Plan{First: 1, Seeds: f.seeds, Scale: f.scale, Parallel: f.parallel}
	if err := a.liveGround(ctx, &plan, f); err != nil {
		return err
	}
	if f.oneSeed {
		plan.First, plan.Seeds = f.seed, 1
	} else if f.seeds == 1 {
		plan.More = moreRuns
	}
	for _, t := range targets {
		plan.Targets = append(plan.Targets, live.Target{Scenario: t.Scenario, Profile: t.Profile, Mutant: f.mutant})
	}
	if !f.quiet {
		plan.Log = a.err
		plan.Done = a.printLiveRun
	}
	done, err := live.Execute(ctx, plan)
	if errors.Is(err, live.ErrNoDaemons) {
		return harnessError("%v", err) // nothing was run, so there is nothing to report
	}
	out := a.liveOutcome(done, targets, f)
	if f.agree && err == nil && !done.Interrupted {
		if failed := a.compareWorlds(ctx, targets, out.Sweep, f.scale); failed != nil {
			return harnessError("%v", failed)
		}
		out.Sweep.Judge()
	}
	defer func() { a.printAgreement(out.Sweep.Agreement) }()
	a.printSweepResult(out, targets, planted, f.out)
	counts := liveCounts(notes, done.Repeated, f.target)
	for _, count := range counts {
		fmt.Fprintln(a.out, count)
	}
	out.Sweep.Notes = slices.Concat(counts, notes)
	if failed := a.writeReport(&f.reportFlags, out.Sweep, targets, planted != nil, func() error { return reports.Write(f.out, out.Sweep, out.Records) }); failed != nil {
		return failed
	}
	if err != nil {
		return harnessError("the environment failed: %v", err)
	}
	a.code = out.Sweep.Verdict.ExitCode()
	if tooMany, text := unjudgedNote(done, out.Sweep.Verdict); text != "" {
		fmt.Fprintln(a.out, text)
		a.code = verdict.Pass.ExitCode()
		if tooMany {
			a.code = verdict.Fail.ExitCode()
		}
	}
	return nil
}

// unjudgedNote describes the runs that could not be judged if the machine alone is the cause; otherwise it is
// empty. One run in ten is tolerated, and always one: a busy machine stalls at times, and its owner learns
// nothing from a failure. With more of them, the runs prove nothing.
func unjudgedNote(done *live.Outcome, v verdict.Verdict) (tooMany bool, text string) {
	if v != verdict.Inconclusive || done.Interrupted {
		return false, ""
	}
	n := 0
	for i, sc := range done.Scenarios {
		n += done.Unjudged[i]
		if sc.Verdict == verdict.Inconclusive && done.Unjudged[i] == 0 {
			return false, ""
		}
	}
	text = fmt.Sprintf("%d of %s could not be judged, twice, because the machine stood still; one in ten may", n, plural(done.Runs, "run"))
	if tooMany = n > max(1, done.Runs/10); tooMany {
		text += "; give the machine less to do, run fewer at a time (--parallel) or more slowly (--time-scale)"
	}
	return tooMany, text
}

// liveGround chooses where the plan runs: on this machine, or in the containers of the compose file.
func (a *app) liveGround(ctx context.Context, plan *live.Plan, f runFlags) error {
	if f.target == targetCompose {
		if _, err := os.Stat(f.file); err != nil {
			return usageError("--file %s: reading the compose file: %s", f.file, fileErrorText(err))
		}
		plan.Compose = f.file
		if err := compose.Prepare(ctx, f.file, a.err); err != nil {
			return harnessError("%v", err)
		}
		return nil
	}
	var err error
	plan.Bin, err = a.daemonsOnServers(ctx)
	return err
}

// daemonsOnServers ensures that the servers are installed, and returns the folder with the daemons' binaries.
func (a *app) daemonsOnServers(ctx context.Context) (string, error) {
	bin, err := daemonFolder()
	if err != nil {
		return "", err
	}
	if err := servers.EnsureInstalled(ctx, a.err); err != nil {
		return "", harnessError("%v", err)
	}
	return bin, nil
}

// daemonFolder returns this binary's folder, which also contains the daemons.
func daemonFolder() (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", harnessError("finding the daemons beside this binary: %v", err)
	}
	return filepath.Dir(self), nil
}

// liveCounts lists how many scenarios were not run and how many runs were repeated, if any.
func liveCounts(notes []string, repeated int, target string) (counts []string) {
	where := "in the live world"
	if target == targetCompose {
		where = "in containers"
	}
	unable := 0
	for _, note := range notes {
		if strings.HasPrefix(note, notExpressible) {
			unable++
		}
	}
	if unable > 0 {
		counts = append(counts, plural(unable, "scenario")+" not expressible "+where+": each is named with the reason")
	}
	if repeated > 0 {
		counts = append(counts, plural(repeated, "run")+" repeated because the machine stood still for too long")
	}
	return counts
}

// moreRuns is the maximum number of extra runs of a live scenario while one of its faults has had no effect.
const moreRuns = 4

// plantableMutant returns a mutant that can be planted into a daemon, and checks that such daemons exist.
func plantableMutant(name string) (*mutant.Mutant, error) {
	f, err := findMutant(name)
	if f == nil || err != nil {
		return nil, err
	}
	if why := f.Lacks(); why != "" {
		return nil, usageError("the mutant %s is not expressible in the live world: %s", f.Name, why)
	}
	return f, mutatedDaemons()
}

// mutatedDaemons checks that this binary's folder has daemons for mutants.
func mutatedDaemons() error {
	bin, err := daemonFolder()
	if err != nil {
		return err
	}
	folder := filepath.Join(bin, live.Mutated)
	for _, name := range []string{"executor", "worker"} {
		if _, err := os.Stat(filepath.Join(folder, name)); err != nil {
			return harnessError("there is no %s in %s: .ci/mutated builds the daemons that can be given a mutant", name, folder)
		}
	}
	return nil
}

// notExpressible begins the line about a scenario that the live world can't run.
const notExpressible = "not expressible: "

// expressibleTargets omits the scenarios that the live world can't run. It refuses such a scenario if the
// user named it.
func (a *app) expressibleTargets(targets []explore.Target, named bool, f runFlags) (able []explore.Target, notes []string, err error) {
	unable, where := capability.Unable, "in the live world"
	if f.target == targetCompose {
		unable, where = capability.UnableInCompose, "in containers"
	}
	for _, t := range targets {
		why := unable(t.Scenario, t.Profile, f.scale)
		switch {
		case why == "":
			able = append(able, t)
		case named:
			return nil, nil, usageError("%s is not expressible %s: %s", t, where, why)
		default:
			notes = append(notes, fmt.Sprintf(notExpressible+"%s: %s", t, why))
		}
	}
	if len(able) == 0 {
		return nil, nil, usageError("nothing is left to run")
	}
	return able, notes, nil
}

// printLiveRun prints the result of one run.
func (a *app) printLiveRun(t live.Target, r *live.Result) {
	word := verdict.Pass
	why := ""
	switch failures := r.Failures(); {
	case len(failures) > 0:
		word, why = verdict.Fail, failures[0].Rule()+": "+failures[0].Message
	case r.GaveUp != "":
		word, why = verdict.Inconclusive, r.GaveUp
	}
	fmt.Fprintf(a.err, "%s %s, seed %d, in %v %s\n", a.err.colourVerdict(word.String()), t, r.Seed, r.Wall.Round(100*time.Millisecond), why)
	if r.Unscraped > 0 {
		fmt.Fprintf(a.err, "     %s of processes that were up failed\n", plural(r.Unscraped, "scrape"))
	}
}

// liveOutcome converts the outcome of a live plan to the outcome of a sweep.
func (a *app) liveOutcome(done *live.Outcome, targets []explore.Target, f runFlags) *explore.Outcome {
	out := &explore.Outcome{Wall: done.Wall, Records: done.Records}
	out.Sweep = &verdict.Sweep{Scenarios: done.Scenarios, Go: runtime.Version(), Commit: explore.Commit(), Interrupted: done.Interrupted}
	out.Sweep.Judge()
	reproduce := func(name string, t explore.Target, seed uint64) string {
		command := fmt.Sprintf("bin/chaos run %s --world live --time-scale %v --profile %s --seed %d", name, f.scale, t.Profile, seed)
		if f.target == targetCompose {
			command += " --target compose"
		}
		if f.mutant != "" {
			command += " --mutant " + f.mutant
		}
		return command
	}
	for i, t := range targets {
		for j := range done.Scenarios[i].Violations {
			v := &done.Scenarios[i].Violations[j]
			v.Reproduce = reproduce(t.Argument(), t, v.Seed)
		}
		for _, r := range done.Records {
			if r.Scenario != t.Scenario.Name || r.Profile != t.Profile {
				continue
			}
			for j := range r.Violations {
				v := &r.Violations[j]
				v.Reproduce = reproduce(t.Argument(), t, v.Seed)
				v.Causes, v.Past = explore.Causes(r, v)
			}
		}
	}
	return out
}
