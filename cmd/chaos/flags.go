package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"handoff/chaos/selftest/mutant"
	"handoff/chaos/verdict"
	"handoff/reports"
	"handoff/sim/explore"
)

// This file holds flags that several commands share.

// addMutantFlag adds --mutant.
func addMutantFlag(cmd *cobra.Command, name *string) {
	cmd.Flags().StringVar(name, "mutant", "", "plant this mutant; `NAME`s: chaos list --mutants")
}

// runChoice holds the flags that select a run, for replay, diff, why, export and shrink.
type runChoice struct {
	profile, mutant string
	varied          bool
	seed            uint64
	// oneSeed reports whether the seed was given.
	oneSeed bool
}

// addFlags adds the flags. of describes the run.
func (rc *runChoice) addFlags(cmd *cobra.Command, of string) {
	flags := cmd.Flags()
	flags.Uint64Var(&rc.seed, "seed", 0, "the seed of "+of)
	flags.StringVar(&rc.profile, "profile", "", "the profile to run under; the scenario's first one when left out")
	addMutantFlag(cmd, &rc.mutant)
	flags.BoolVar(&rc.varied, "varied", false, "the varied run of the seed")
}

// refuseRunChoice refuses the flags of runChoice, for an argument that is not a scenario.
func refuseRunChoice(cmd *cobra.Command, why string) error {
	for _, name := range []string{"seed", "profile", "mutant", "varied"} {
		if cmd.Flags().Changed(name) {
			return usageError("--%s is for %s", name, why)
		}
	}
	return nil
}

// chosenTarget returns the target and the mutant of the chosen run. A file with the key regression needs no
// seed. lacking is the error for a missing seed.
func (rc *runChoice) chosenTarget(cmd *cobra.Command, file, lacking string) (explore.Target, *mutant.Mutant, error) {
	t, err := replayTarget(file, rc.profile)
	if err != nil {
		return t, nil, err
	}
	rc.oneSeed = cmd.Flags().Changed("seed")
	if r := t.Scenario.Regression; r != nil && !rc.oneSeed && rc.mutant == "" && !rc.varied {
		rc.oneSeed, rc.seed, rc.mutant = true, r.Seed, r.Mutant
	}
	if !rc.oneSeed {
		return t, nil, usageError("%s needs --seed: %s", cmd.Name(), lacking)
	}
	planted, err := findMutant(rc.mutant)
	t.Varied = rc.varied
	return t, planted, err
}

// failingCase repeats the chosen run, which must fail.
func (rc *runChoice) failingCase(ctx context.Context, cmd *cobra.Command, file string) (*explore.Case, error) {
	t, planted, err := rc.chosenTarget(cmd, file, "the seed of the run that fails")
	if err != nil {
		return nil, err
	}
	c, err := explore.NewCase(ctx, t, rc.seed, planted)
	var passes *explore.ErrPasses
	switch {
	case errors.As(err, &passes):
		search := fmt.Sprintf("bin/chaos run %s --profile %s", t.Argument(), t.Profile)
		if planted != nil {
			search += " --mutant " + planted.Name
		}
		return nil, usageError("%v; to look for a seed that does: %s", err, search)
	case ctx.Err() != nil && err != nil:
		return nil, harnessError("interrupted: nothing is shown")
	case err != nil:
		return nil, harnessError("%v", err)
	}
	return c, nil
}

// reportFlags holds the flags for a report's files, for run and merge.
type reportFlags struct {
	out, json, junit, annotations string
	// stdout receives the file named standardOutput. Messages then go to standard error.
	stdout io.Writer
}

// standardOutput is the file name that stands for standard output, as in other programs.
const standardOutput = "-"

// addFlags adds the flags. folder is the default of --out.
func (r *reportFlags) addFlags(cmd *cobra.Command, folder string) {
	flags := cmd.Flags()
	flags.StringVar(&r.out, "out", filepath.FromSlash(folder), "the folder of the report")
	flags.StringVar(&r.json, "json", "", "write result.json to this `FILE` too; - is standard output")
	flags.StringVar(&r.junit, "junit", "", "write junit.xml to this `FILE` too; - is standard output")
	flags.StringVar(&r.annotations, "annotations", "", "write the failures as annotations of GitHub Actions to this `FILE`; - is standard output; in GitHub Actions they are always printed, except with --mutant")
}

// checkOutputs refuses contradictory flags. If a result goes to standard output, nothing else does.
func (r *reportFlags) checkOutputs(a *app) error {
	switch {
	case r.out == "":
		return usageError("--out is empty: the report needs a folder")
	case r.json == standardOutput && r.junit == standardOutput:
		return usageError("--json and --junit are both -: only one of them can be written to standard output")
	case r.annotations == standardOutput && (r.json == standardOutput || r.junit == standardOutput):
		return usageError("--annotations is -, and so is --json or --junit: only one of them can be written to standard output")
	}
	r.stdout = a.out.Writer
	if slices.Contains([]string{r.json, r.junit, r.annotations}, standardOutput) {
		a.out = a.err
	}
	return nil
}

// makeFolders makes the folders before the runs, so that mistakes in their names are found early.
func (r *reportFlags) makeFolders() error {
	if err := makeFolder("--out", r.out); err != nil {
		return err
	}
	for _, of := range [][2]string{{"--json", r.json}, {"--junit", r.junit}, {"--annotations", r.annotations}} {
		if err := makeFileFolder(of[0], of[1]); err != nil {
			return err
		}
	}
	return removeOldShare(r.out)
}

// writeReport writes the report and the requested copies. The targets locate the annotations in files.
// Failures from a planted mutant are intended, so in GitHub Actions they are printed only on request.
func (a *app) writeReport(f *reportFlags, s *verdict.Sweep, targets []explore.Target, planted bool, report func() error) error {
	annotate := func(w io.Writer, s *verdict.Sweep) error { return reports.WriteAnnotations(w, s, newLocator(targets)) }
	err := errors.Join(report(), f.writeCopy(f.json, s, reports.WriteJSON), f.writeCopy(f.junit, s, reports.WriteJUnit), f.writeCopy(f.annotations, s, annotate))
	if f.annotations == "" && os.Getenv("GITHUB_ACTIONS") == "true" && !planted {
		err = errors.Join(err, annotate(a.out, s))
	}
	if err != nil {
		return harnessError("the runs are done, but writing their report failed: %v", err)
	}
	return nil
}

func (r *reportFlags) writeCopy(path string, s *verdict.Sweep, write func(io.Writer, *verdict.Sweep) error) error {
	switch path {
	case "":
		return nil
	case standardOutput:
		return write(r.stdout, s)
	}
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(write(file, s), file.Close())
}
