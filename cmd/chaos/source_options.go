package main

import (
	"path/filepath"
	"runtime"

	"github.com/spf13/cobra"

	"handoff/chaos/mutant/source"
	"handoff/chaos/mutant/source/score"
	"handoff/chaos/shard"
	"handoff/scenarios"
	"handoff/sim/explore"
)

// sourceOptions are the flags of `mutants --source`.
type sourceOptions struct {
	on, sql, unit, again, pageOnly bool
	sample, procs                  int
	size                           score.Size
	file, into, before             string
	keep, only                     string
	// report is the folder of a share, header the request as its file records it.
	report string
	share  shard.Share
	header func() (shard.Header, error)
}

func (o *sourceOptions) flags(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&o.on, "source", false, "make mutants of the core's own source instead, and measure what share of a sample is killed")
	cmd.Flags().BoolVar(&o.sql, "sql", false, "--source: mutants of the store's SQL, judged by the contract of the stores on a private PostgreSQL")
	cmd.Flags().IntVar(&o.sample, "sample", 300, "--source: 300, or 60 for the first fifth of each operator's quota")
	cmd.Flags().IntVar(&o.size.Varied, "varied-seeds", sourceVariedSeeds, "--source: varied runs of each scenario and profile, beside those of --seeds")
	cmd.Flags().BoolVar(&o.unit, "unit", false, "--source: run survivors against the unit tests of their package, too; the raw score does not count that")
	cmd.Flags().BoolVar(&o.again, "again", false, "--source: forget the results in --out")
	cmd.Flags().StringVar(&o.file, "out", filepath.Join("reports", "out", sourceFile), "--source: the results; an interrupted measurement goes on with this `FILE`")
	cmd.Flags().StringVar(&o.keep, "keep", "", "--source: keep the build in this `FOLDER`; "+source.Variable+"=NUMBER FOLDER/chaos replay … then shows a mutant's run")
	cmd.Flags().StringVar(&o.into, "table", "", "--source: write the page of the score to this `FILE`, such as docs/score.md")
	cmd.Flags().BoolVar(&o.pageOnly, "page-only", false, "--source: run nothing: make the page of the results in --out, also of an earlier commit, with the proofs of this one")
	cmd.Flags().StringVar(&o.before, "before", "", "--source: show on that page the earlier results of this `FILE`, such as docs/score-before.json, too")
}

// asked copies the flags that all kinds of mutants share, and refuses flags that don't go with
// --source.
func (o *sourceOptions) asked(cmd *cobra.Command, part string) error {
	for _, name := range []string{"world", "scenario", "matrix", "all"} {
		if cmd.Flags().Changed(name) {
			return usage("--%s is for planted mutants: leave out --%[1]s or --source", name)
		}
	}
	if !cmd.Flags().Changed("seeds") {
		o.size.Seeds = sourceSeeds
	}
	if !cmd.Flags().Changed("parallel") {
		o.procs = runtime.NumCPU()
	}
	var err error
	if o.share, err = share(part); err != nil {
		return err
	}
	switch {
	case o.sample != 60 && o.sample != 300:
		return usage("--sample %d: allowed are 300, and 60 for the first fifth of each quota", o.sample)
	case o.size.Varied < 0:
		return usage("--varied-seeds %d: 0 or more are needed", o.size.Varied)
	case o.procs < 1:
		return usage("--parallel %d: at least 1 is needed", o.procs)
	case o.before != "" && o.into == "":
		return usage("--before is for the page of the score: add --table FILE")
	case o.pageOnly && (o.into == "" || o.again || o.unit || o.sql || o.report != ""):
		return usage("--page-only runs nothing: give --table FILE, and leave out --again, --unit, --sql and --report")
	case o.report != "" && cmd.Flags().Changed("out"):
		return usage("--report FOLDER has the results in FOLDER/%s: leave out --out", sourceFile)
	case o.sql && o.report != "":
		return usage("--report with --sql: statements are judged on one machine; leave out --report")
	case o.into != "" && !o.share.Whole():
		return usage("--table with --shard: the page is made of all shares; give it after chaos merge (docs/shards.md)")
	}
	if o.report != "" {
		o.file = filepath.Join(o.report, sourceFile)
		if err := (&runFlags{out: o.report}).prepare(); err != nil {
			return err
		}
	}
	o.header = func() (shard.Header, error) {
		library, err := scenarios.Library()
		return shareHeader(cmd, o.share, 0, explore.Targets(library)), err
	}
	return shareOfMutants(o.share, o.report, "")
}

// withoutSource refuses flags that mean something only with --source.
func withoutSource(cmd *cobra.Command) error {
	for _, name := range []string{"sql", "sample", "varied-seeds", "unit", "again", "out", "keep", "table", "page-only", "before"} {
		if cmd.Flags().Changed(name) {
			return usage("--%s is for mutants of the source: add --source", name)
		}
	}
	return nil
}
