// Command measure measures the harness: it reports which share of a sample of small mistakes in the core's
// own source the library of scenarios kills. It writes the answer to a page.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	"handoff/chaos/selftest/mutant/source"
	"handoff/chaos/selftest/mutant/source/score"
	"handoff/chaos/shard"
	"handoff/chaos/verdict"
	"handoff/reports"
)

// The default numbers of seeds of each scenario and profile for a mutant, plain and varied. A surviving
// mutant takes about fifteen seconds of one processor; more seeds find little.
const (
	sourceSeeds       = 2
	sourceVariedSeeds = 2
)

// prefix begins the program's reports of its own failures.
const prefix = "measure: "

const help = `measure [flags]                       measure, or go on with an interrupted measurement
measure [--out FILE] [--table FILE] RESULTS ...   run nothing: put the results of all shares together

Operators make mutants of the core's own source, a sample is drawn, and the score is the share that
the library of scenarios kills. It needs the source and Go, and builds all mutants at once. To see
what one of them does: --keep FOLDER --only ID, and then with the number that is printed:
HANDOFF_SOURCE_MUTANT=17 FOLDER/chaos replay ttl-race --seed 1

`

// options are the flags.
type options struct {
	out, err           io.Writer
	sql, unit, again   bool
	sample, procs      int
	size               score.Size
	file, into, before string
	keep, only, part   string
	share              shard.Share
}

func main() {
	if len(os.Args) > 1 && os.Args[1] == runArgument {
		os.Exit(exitCode(os.Stderr, runOne(os.Args[2:])))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends the program
	os.Exit(runProgram(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// runProgram is the whole program; it returns the exit code.
func runProgram(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	o := options{out: stdout, err: stderr}
	flags := flag.NewFlagSet("measure", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() { fmt.Fprint(stderr, help); flags.PrintDefaults() }
	flags.BoolVar(&o.sql, "sql", false, "mutants of the store's SQL, judged by the contract of the stores on a private PostgreSQL")
	flags.IntVar(&o.sample, "sample", 300, "300, or 60 for the first fifth of each operator's quota")
	flags.IntVar(&o.size.Seeds, "seeds", sourceSeeds, "plain runs of each scenario and profile")
	flags.IntVar(&o.size.Varied, "varied-seeds", sourceVariedSeeds, "varied runs of each, beside those of --seeds")
	flags.BoolVar(&o.unit, "unit", false, "run survivors against the unit tests of their package and of the oracle, too; the raw score does not count that")
	flags.BoolVar(&o.again, "again", false, "forget the results in --out")
	flags.StringVar(&o.file, "out", "", "the results, reports/out/source.json unless it is given; an interrupted measurement continues with this `FILE`")
	flags.StringVar(&o.keep, "keep", "", "keep the build in this `FOLDER`; HANDOFF_SOURCE_MUTANT=NUMBER FOLDER/chaos replay … then shows a mutant's run")
	flags.StringVar(&o.only, "only", "", "those mutants whose ID contains this `TEXT`")
	flags.StringVar(&o.part, "shard", "", "do share `I/N` only, as in 2/4; then put the results of all shares together")
	flags.IntVar(&o.procs, "parallel", runtime.NumCPU(), "how many mutants run at a time")
	flags.StringVar(&o.into, "table", "", "write the page of the score to this `FILE`")
	flags.StringVar(&o.before, "before", "", "show on that page the earlier results of this `FILE`, too")
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		return verdict.ExitUsage
	}
	err := o.checkFlags()
	switch {
	case err != nil:
	case flags.NArg() > 0:
		err = o.putTogether(flags.Args())
	default:
		if o.file == "" {
			o.file = filepath.Join("reports", "out", "source.json")
		}
		err = measureSource(ctx, o)
	}
	return exitCode(stderr, err)
}

// failure is an error with its own exit code.
type failure struct {
	code int
	text string
}

// Error implements error.
func (f *failure) Error() string { return f.text }

// usageError refuses the user's request.
func usageError(format string, args ...any) error {
	return &failure{verdict.ExitUsage, fmt.Sprintf(format, args...)}
}

// brokenError reports that the measurement could not be made.
func brokenError(format string, args ...any) error {
	return &failure{verdict.ExitBroken, fmt.Sprintf(format, args...)}
}

// exitCode prints an error and returns the exit code for it.
func exitCode(stderr io.Writer, err error) int {
	if err == nil {
		return 0
	}
	fmt.Fprintln(stderr, prefix+reports.Printable(err.Error(), "\n\t"))
	var f *failure
	if errors.As(err, &f) {
		return f.code
	}
	return verdict.ExitBroken
}

// checkFlags refuses flags that contradict each other.
func (o *options) checkFlags() (err error) {
	if o.share, err = shard.Parse(o.part); err != nil {
		return usageError("--shard %v", err)
	}
	switch {
	case o.sample != 60 && o.sample != 300:
		return usageError("--sample %d: allowed are 300, and 60 for the first fifth of each quota", o.sample)
	case o.size.Seeds < 1:
		return usageError("--seeds %d: at least 1 seed is needed", o.size.Seeds)
	case o.size.Varied < 0:
		return usageError("--varied-seeds %d: 0 or more are needed", o.size.Varied)
	case o.procs < 1:
		return usageError("--parallel %d: at least 1 is needed", o.procs)
	case o.before != "" && o.into == "":
		return usageError("--before is for the page of the score: add --table FILE")
	case o.sql && !o.share.Whole():
		return usageError("--sql with --shard: statements are judged on one machine; leave out --shard")
	case o.into != "" && !o.share.Whole():
		return usageError("--table with --shard: the page is made of all shares; give it when they are put together")
	}
	return nil
}

// putTogether merges the results of all shares, and makes the page if it is requested. Proofs about survivors
// are written once the survivors are known, so the page may come from a later commit than its results.
func (o *options) putTogether(files []string) error {
	var all *score.Results
	for _, file := range files {
		part, err := readResults(file)
		if err != nil {
			return err
		}
		if all == nil {
			all = part
			continue
		}
		if part.Asked != all.Asked {
			return usageError("%s and %s are not of one measurement: one has %d mutants, the other %d", files[0], file, all.Asked, part.Asked)
		}
		if err := all.Merge(part); err != nil {
			return usageError("%s: %v", file, err)
		}
	}
	fmt.Fprint(o.out, all.Summary())
	if o.file != "" {
		if err := os.MkdirAll(filepath.Dir(o.file), 0o750); err != nil {
			return brokenError("%v", err)
		}
		if err := all.Write(o.file); err != nil {
			return brokenError("%v", err)
		}
	}
	if missing := all.Asked - len(all.Results); missing > 0 {
		return &failure{verdict.ExitInconclusive, fmt.Sprintf("%d of %d mutants have no result: a share is missing, or was interrupted; no page is written", missing, all.Asked)}
	}
	return o.writePage(all)
}

// readResults reads results that may come from another machine. All texts for readers in them must be
// printable.
func readResults(file string) (*score.Results, error) {
	results, there, err := score.Read(file)
	switch {
	case err != nil:
		return nil, usageError("%v", err)
	case !there:
		return nil, usageError("%s: no results there: the file does not exist", file)
	}
	for _, m := range results.Results {
		text := strings.Join([]string{m.ID, m.Package, m.Operator, m.About, m.By, m.Target, m.Message, m.Unit}, " ")
		if text != reports.Printable(text, "") {
			return nil, usageError("%s: the result of %s has letters that can't be shown", file, reports.Printable(m.ID, ""))
		}
	}
	return results, nil
}

// writePage writes the page of the score, if it is requested.
func (o *options) writePage(results *score.Results) error {
	if o.into == "" {
		return nil
	}
	equivalents, err := source.Equivalents()
	if err != nil {
		return brokenError("%v", err)
	}
	var before *score.Results
	if o.before != "" {
		if before, err = readResults(o.before); err != nil {
			return err
		}
	}
	page, err := results.Page(equivalents, before)
	if err != nil {
		return brokenError("%s is not written: %v\nthe results are kept: fix that, then give their file as the argument, with --table", o.into, err)
	}
	if err := os.WriteFile(o.into, []byte(page), 0o600); err != nil {
		return brokenError("writing the score to %s: %v", o.into, err)
	}
	return nil
}
