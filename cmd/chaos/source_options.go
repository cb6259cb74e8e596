package main

import (
	"path/filepath"

	"github.com/spf13/cobra"

	"handoff/chaos/selftest/mutant/source/score"
	"handoff/chaos/shard"
)

// The default numbers of seeds of each scenario and profile for a source mutant, unvaried and
// varied. A surviving mutant takes about fifteen seconds of one processor; more seeds find little.
const (
	sourceSeeds       = 2
	sourceVariedSeeds = 2
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
	cmd.Flags().StringVar(&o.keep, "keep", "", "--source: keep the build in this `FOLDER`; HANDOFF_SOURCE_MUTANT=NUMBER FOLDER/chaos replay … then shows a mutant's run")
	cmd.Flags().StringVar(&o.into, "table", "", "--source: write the page of the score to this `FILE`, such as score.md")
	cmd.Flags().BoolVar(&o.pageOnly, "page-only", false, "--source: run nothing: make the page of the results in --out, also of an earlier commit, with the proofs of this one")
	cmd.Flags().StringVar(&o.before, "before", "", "--source: show on that page the earlier results of this `FILE`, such as before.json, too")
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
