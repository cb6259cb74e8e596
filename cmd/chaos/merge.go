package main

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"handoff/chaos/scenario"
	"handoff/chaos/shard"
	"handoff/chaos/verdict"
	"handoff/reports"
	"handoff/scenarios"
	"handoff/sim/explore"
)

type mergeFlags struct {
	reportFlags
	partial bool
	// all reports whether each mutant gets a row.
	all  bool
	wait time.Duration
}

func (a *app) mergeCommand() *cobra.Command {
	var f mergeFlags
	cmd := &cobra.Command{
		Use:   "merge DIR|FILE ...",
		Short: "Put the shares of a sweep together",
		Long: `Reads what chaos run --shard or chaos mutants --shard wrote on any number of
machines, and writes the report of all of it, byte for byte as one machine would
have written it: the first seed in which something failed is run again for that. An
argument is the folder of a share, its shard.jsonl, or a folder of such folders. A
share that is given twice counts once.

It refuses shares of different commits, versions of Go, scenarios or flags, a share
that was changed or cut off, and a set with shares missing. With --partial missing
shares make the result inconclusive instead.`,
		Example: `  bin/chaos merge shards/ --out reports/out/merged
  bin/chaos merge shards/1 shards/2 --partial
  bin/chaos merge shards/ --wait 2h`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usageError("merge needs the folders of the shares, as in: chaos merge shards/1 shards/2")
			}
			if f.wait < 0 {
				return usageError("--wait %v: a time is needed, as in 30m", f.wait)
			}
			return a.mergeShares(cmd.Context(), args, f)
		},
	}
	flags := cmd.Flags()
	f.addFlags(cmd, "reports/out/merged")
	flags.BoolVar(&f.partial, "partial", false, "merge what is there: inconclusive while shares are missing")
	flags.BoolVar(&f.all, "all", false, "of mutants: show a row for every one, not only for those that need a look")
	flags.DurationVar(&f.wait, "wait", 0, "wait this long until all shares are there, as in 2h")
	return cmd
}

func (a *app) mergeShares(ctx context.Context, args []string, f mergeFlags) error {
	if err := f.checkOutputs(a); err != nil {
		return err
	}
	begin := time.Now()
	set, err := a.gatherShares(ctx, args, f.wait)
	if err != nil {
		return err
	}
	h := set.Files[0].Header
	switch {
	case h.Commit != explore.Commit():
		return usageError("%s is of commit %s, and this program of %s: merge with the program that ran the shares", set.Files[0].Path, reports.CommitText(h.Commit), reports.CommitText(explore.Commit()))
	case len(set.Missing) > 0 && !f.partial:
		return usageError("%s %s missing of %d: give what %s wrote too, or --partial for an inconclusive result",
			plural(len(set.Missing), "share"), isOrAre(len(set.Missing)), h.Share.Of, set.Absent())
	}
	for _, file := range set.Files {
		if same, _ := filepath.Rel(filepath.Dir(file.Path), f.out); same == "." {
			return usageError("--out %s is the folder of a share: another one is needed, because its report would be written over", f.out)
		}
	}
	if err := f.makeFolders(); err != nil {
		return err
	}
	switch h.Kind {
	case reports.RunShares:
		return a.mergeRuns(ctx, set, f, begin)
	case mutantShares:
		return a.mergeMutants(set, f)
	}
	return usageError("%s: this program can't merge shares of kind %q", set.Files[0].Path, reports.Printable(h.Kind, ""))
}

func (a *app) mergeRuns(ctx context.Context, set shard.Set, f mergeFlags, begin time.Time) error {
	sweep, sources, err := reports.MergeShares(set)
	if err != nil {
		return usageError("%v", err)
	}
	h := set.Files[0].Header
	varied := explore.Beside(h.Seeds)
	if h.Asked["--varied"] == variedOnly {
		varied = h.Seeds
	}
	sweep.Whole(h.Seeds, varied, set.Absent())
	planted, err := findMutant(h.Asked["--mutant"])
	if err != nil {
		return err
	}
	targets, err := targetsOf(sweep, sources)
	if err != nil {
		return usageError("%s: %v", set.Files[0].Path, err)
	}
	out := &explore.Outcome{Sweep: sweep, Records: explore.Retell(ctx, sweep, targets, planted)}
	out.Wall = time.Since(begin)
	if err := a.writeReport(&f.reportFlags, sweep, targets, planted != nil, func() error { return reports.Write(f.out, sweep, out.Records) }); err != nil {
		return err
	}
	a.printSweepResult(out, targets, planted, f.out)
	a.code = sweep.Verdict.ExitCode()
	return nil
}

// sourcesOf returns the scenarios of targets outside the library.
func sourcesOf(targets []explore.Target) (sources []reports.Source) {
	seen := make(map[string]bool)
	for _, t := range targets {
		s := t.Scenario
		if known, err := scenarios.Find(s.Name); !seen[s.Digest] && (err != nil || known.Digest != s.Digest) {
			sources = append(sources, reports.Source{File: s.File, Text: string(s.Text())})
		}
		seen[s.Digest] = true
	}
	return sources
}

// targetsOf returns the targets of a sweep's results. Their scenarios are from the library or the sources.
func targetsOf(s *verdict.Sweep, sources []reports.Source) ([]explore.Target, error) {
	known := make(map[string]*scenario.Scenario)
	for _, from := range sources {
		own, err := scenario.Parse(reports.Printable(from.File, ""), []byte(from.Text))
		if err != nil {
			return nil, err
		}
		known[own.Digest] = own
	}
	var targets []explore.Target
	for _, sc := range s.Scenarios {
		of := known[sc.Digest]
		if of == nil {
			found, err := scenarios.Find(sc.Name)
			if err != nil || found.Digest != sc.Digest {
				return nil, fmt.Errorf("the scenario %s is neither in the library nor in the share; run the share again", sc.Name)
			}
			of = found
		}
		targets = append(targets, explore.Target{Scenario: of, Profile: sc.Profile, Varied: sc.Strategy == verdict.Varied})
	}
	return targets, nil
}

// lookEvery is the interval at which --wait looks for shares.
const lookEvery = 2 * time.Second

// gatherShares finds and verifies the shares. With a patience it waits until all exist. Meanwhile it assumes
// that an unreadable file is still being copied.
func (a *app) gatherShares(ctx context.Context, args []string, patience time.Duration) (set shard.Set, err error) {
	until := time.Now().Add(patience)
	known := make(map[string]shard.File)
	for {
		set, err = a.readShares(args, known)
		if err == nil && len(set.Missing) == 0 || time.Until(until) <= 0 {
			break
		}
		select {
		case <-ctx.Done():
			return set, harnessError("interrupted: nothing was merged")
		case <-time.After(min(lookEvery, patience/100)):
		}
	}
	if err != nil {
		return set, usageError("%s", err)
	}
	return set, nil
}

// readShares reads the shares that are not yet in known, and adds them to it.
func (a *app) readShares(args []string, known map[string]shard.File) (shard.Set, error) {
	paths, err := shard.Find(args)
	if err != nil {
		return shard.Set{}, err
	}
	var files []shard.File
	for _, path := range paths {
		file, there := known[path]
		if !there {
			if file, err = shard.Verify(path); err != nil {
				return shard.Set{}, err
			}
			known[path] = file
			fmt.Fprintf(a.err, "share %s: %s\n", file.Header.Share, path)
		}
		files = append(files, file)
	}
	return shard.Gather(files)
}

func isOrAre(n int) string {
	if n == 1 {
		return "is"
	}
	return "are"
}
