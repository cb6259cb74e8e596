package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"handoff/chaos/explain"
	"handoff/chaos/verdict"
	"handoff/core/execution"
	"handoff/reports"
)

func (a *app) diffCommand() *cobra.Command {
	var f runChoice
	var all bool
	cmd := &cobra.Command{
		Use:   "diff SCENARIO|FILE --seed N | diff A B",
		Short: "Compare a failing run with one that does not fail",
		Long: `Shows where a run that fails goes another way than its counterpart: of a run with a
mutant, the same seed without it; of any other, the same seed without one of its
faults, and the nearest seed that passes. With the same seed, both draw the same random
numbers for the same acts, so what differs follows from the change. Runs are aligned by
execution, epoch, kind of event and actor. Of each execution and part the first
difference counts. Shown are the earliest of all and those of the execution that failed
and its retries, parent and children; --all shows every one.

With two arguments it compares two recordings, also of two versions of the program:
A and B are files history.jsonl, or folders of failures.`,
		Example: `  bin/chaos diff network-partition --seed 4 --mutant unguarded-claim
  bin/chaos diff scenarios/regressions/late-claim-keeps-its-run.yaml
  bin/chaos diff before/ttl-race-hardened-7 after/ttl-race-hardened-7`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 || len(args) == 2 {
				return nil
			}
			return usageError("%s needs a scenario, or two recordings, and got %d arguments", cmd.Name(), len(args))
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			most := shownDifferences
			if all {
				most = everyDifference
			}
			if len(args) == 2 {
				if err := refuseRunChoice(cmd, "one scenario; two recordings say themselves what they are"); err != nil {
					return err
				}
				return a.diffFiles(args[0], args[1], most)
			}
			return a.atOnce(cmd.Context(), func(ctx context.Context) error { return a.diffRun(ctx, cmd, args[0], f, most) })
		},
	}
	f.addFlags(cmd, "the run that fails")
	cmd.Flags().BoolVar(&all, "all", false, "show every execution and part that differs, not only the first ones")
	return cmd
}

// The numbers of differences that diff shows.
const (
	shownDifferences = 4
	everyDifference  = 1 << 20
)

func (a *app) diffRun(ctx context.Context, cmd *cobra.Command, file string, f runChoice, most int) error {
	c, err := f.failingCase(ctx, cmd, file)
	if err != nil {
		return err
	}
	c.Most = most
	x := c.Compare()
	if ctx.Err() != nil {
		return harnessError("interrupted: nothing is shown")
	}
	if len(x.Counterparts) == 0 {
		fmt.Fprintf(a.out, "%s has no mutant and no fault that began, and no seed near it passes: there is nothing to compare it with.\n", c.Name())
		return nil
	}
	a.printLines(reports.CounterpartLines(c.Record, &c.Violation, &x.Counterparts[0]))
	for i := range x.Counterparts[1:] {
		a.printLines([]string{"also    the " + reports.OtherCounterpart(&x.Counterparts[1+i])})
	}
	return nil
}

// diffFiles compares two recordings.
func (a *app) diffFiles(here, there string, most int) error {
	x, err := readRecording(here)
	if err != nil {
		return err
	}
	y, err := readRecording(there)
	if err != nil {
		return err
	}
	about := execution.ID(0)
	if len(x.Violations) > 0 {
		about = x.Violations[0].Execution
	}
	d := explain.Compare(explain.Run{Events: x.Events, Workers: x.Workers}, explain.Run{Events: y.Events, Workers: y.Workers}, about, most)
	a.printLines([]string{"here    " + here + ": " + reports.RunLabel(x), "there   " + there + ": " + reports.RunLabel(y)})
	a.printLines(reports.DifferenceLines(d, x.Workers, y.Workers))
	return nil
}

// readRecording reads a history file, or the history in the folder of a failure.
func readRecording(path string) (*verdict.Record, error) {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		path = filepath.Join(path, reports.HistoryFile)
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, usageError("%s: a history.jsonl is needed, or the folder of a failure, as in reports/out/SCENARIO-PROFILE-SEED: %s", path, fileErrorText(err))
	}
	defer func() { _ = file.Close() }()
	r, err := reports.ReadHistory(path, file)
	if err != nil {
		return nil, usageError("%v", err)
	}
	return r, nil
}
