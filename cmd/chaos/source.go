//go:build !simulator

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"handoff/chaos/selftest/mutant/source"
	"handoff/chaos/selftest/mutant/source/score"
	"handoff/chaos/shard"
	"handoff/reports"
	"handoff/scenarios"
	"handoff/sim/explore"
	"handoff/sim/guard/weave"
)

// measureSource checks the flags of `mutants --source` and measures the harness.
func (a *app) measureSource(cmd *cobra.Command, part string, o *sourceOptions) error {
	if err := o.asked(cmd, part); err != nil {
		return err
	}
	return a.sourceMutants(cmd.Context(), o)
}

// sourceMutants measures the harness with a sample of mutants of the core's source.
func (a *app) sourceMutants(ctx context.Context, o *sourceOptions) error {
	if o.pageOnly {
		return a.sourcePage(o)
	}
	root, err := moduleRoot()
	if err != nil {
		return err
	}
	work, err := o.folder()
	if err != nil {
		return err
	}
	if o.keep == "" {
		defer os.RemoveAll(work)
	}
	m := &measurement{app: a, sourceOptions: o, root: root, work: work, bin: filepath.Join(work, "chaos")}
	switch err := m.measure(ctx); {
	case err != nil && ctx.Err() != nil && m.done == 0:
		return broken("interrupted before a mutant was judged: there is nothing to go on with")
	case err != nil:
		return err
	}
	if o.into != "" {
		return m.page()
	}
	return nil
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
		return usage("--table with --shard: the page is made of all shares; give it after chaos merge")
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

// sourcePage makes the page of a finished measurement. Proofs about survivors are written once the
// survivors are known, so they come from a later commit.
func (a *app) sourcePage(o *sourceOptions) error {
	results, err := resultsOf("out", o.file)
	if err != nil {
		return err
	}
	fmt.Fprint(a.out, results.Summary())
	return (&measurement{app: a, sourceOptions: o, results: results}).page()
}

// resultsOf reads the file of results that a flag names.
func resultsOf(flag, file string) (*score.Results, error) {
	results, there, err := score.Read(file)
	switch {
	case err != nil:
		return nil, usage("--%s %v", flag, err)
	case !there:
		return nil, usage("--%s %s: no results there: the file does not exist", flag, file)
	}
	return results, nil
}

// folder is the folder of the build.
func (o *sourceOptions) folder() (string, error) {
	work, err := o.keep, error(nil)
	if work == "" {
		work, err = os.MkdirTemp("", "source-mutants")
	} else if err = os.MkdirAll(work, 0o750); err == nil {
		work, err = filepath.Abs(work)
	}
	if err != nil {
		return "", broken("making a folder for the build: %v", err)
	}
	return work, nil
}

func (m *measurement) measure(ctx context.Context) error {
	catalog, err := m.open()
	if err != nil {
		return err
	}
	if m.sql {
		return m.measureSQL(ctx)
	}
	if err := m.choose(catalog); err != nil {
		return err
	}
	if slices.ContainsFunc(m.order, m.undone) || m.keep != "" {
		if err := m.prepare(ctx, catalog); err != nil {
			return err
		}
	}
	if err := m.all(ctx, m.order, m.one); err != nil {
		return err
	}
	fmt.Fprint(m.app.out, m.results.Summary())
	if m.cpu > 0 {
		fmt.Fprintf(m.err, "%.0f s of processor time\n", m.cpu)
	}
	return m.writeShare()
}

// measurement is a running measurement.
type measurement struct {
	*app
	*sourceOptions
	root, work, bin string
	overlay, truth  string
	// full is the sample of 300; in the build, its first mutant has the number 1. order holds the
	// mutants that run, in this order; whole is the list of which order is a share.
	full, order, whole []*source.Candidate
	numbers            map[*source.Candidate]int
	tests              unitBinaries

	mu      sync.Mutex
	results *score.Results
	done    int
	cpu     float64
}

// moduleRoot is the folder of the sources that are mutated.
func moduleRoot() (string, error) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Path}} {{.Dir}}").Output()
	var name, dir string
	if err == nil {
		_, err = fmt.Sscan(string(out), &name, &dir)
	}
	if err != nil || name != "handoff" {
		return "", broken("--source mutates the source of this project: start it in its folder (go list -m says %q)", bytes.TrimSpace(out))
	}
	return dir, nil
}

// open reads existing results, and lists the candidates.
func (m *measurement) open() (*source.Catalog, error) {
	const instead = "; --again forgets what is there, --out FILE writes to another file"
	var before *score.Results
	if !m.again {
		var err error
		if before, _, err = score.Read(m.file); err != nil {
			return nil, usage("--out %v"+instead, err)
		}
	}
	if err := m.writable(); err != nil {
		return nil, usage("--out %s can't be written, so nothing is measured: %v", m.file, err)
	}
	fmt.Fprintln(m.err, "listing candidates")
	catalog, err := source.Load(m.root, false)
	if err != nil {
		return nil, broken("%v", err)
	}
	m.results = newResults(catalog, revision(m.root), false)
	m.results.Size = m.size
	if before != nil {
		if m.sql {
			m.results.Size = before.Size // no runs judge statements
		}
		if err := m.results.Merge(before); err != nil {
			return nil, usage("--out %s: %v"+instead, m.file, err)
		}
	}
	return catalog, nil
}

// writable says whether the file of results can be written, before the measurement takes half an
// hour. It makes the folder of the file.
func (m *measurement) writable() error {
	folder := filepath.Dir(m.file)
	if err := os.MkdirAll(folder, 0o750); err != nil {
		return err
	}
	probe, err := os.CreateTemp(folder, ".results-*")
	if err != nil {
		return err
	}
	return errors.Join(probe.Close(), os.Remove(probe.Name()))
}

// choose draws the sample, and selects the requested part of it.
func (m *measurement) choose(catalog *source.Catalog) error {
	m.full = source.Draw(catalog.Candidates, source.Seed, false)
	m.numbers = map[*source.Candidate]int{}
	for i, c := range m.full {
		m.numbers[c] = i + 1
	}
	m.whole = source.Spread(m.full)
	if m.sample == 60 {
		m.whole = source.Draw(catalog.Candidates, source.Seed, true)
	}
	m.whole = m.named(m.whole)
	if len(m.whole) == 0 {
		return usage("--only %q: the ID of no mutant of the sample contains this; the IDs are in %s", m.only, m.file)
	}
	m.order = shard.Part(m.share, m.whole)
	if !m.share.Whole() {
		maps.DeleteFunc(m.results.Results, func(id string, _ *score.Result) bool {
			return !slices.ContainsFunc(m.order, func(c *source.Candidate) bool { return c.ID == id })
		})
	}
	return nil
}

// named returns the mutants that --only selects, or all.
func (m *measurement) named(order []*source.Candidate) []*source.Candidate {
	return slices.DeleteFunc(order, func(c *source.Candidate) bool { return !strings.Contains(c.ID, m.only) })
}

// prepare builds the mutants, and runs the original core.
func (m *measurement) prepare(ctx context.Context, catalog *source.Catalog) (err error) {
	fmt.Fprintf(m.err, "building %d mutants\n", len(m.full))
	if m.overlay, err = catalog.Overlay(m.work, m.full); err != nil {
		return broken("%v", err)
	}
	// Guarded like the program of make chaos, so that the score is valid for its runs.
	guarded, _, err := weave.Add(m.root, m.overlay, filepath.Join(m.work, "guarded"))
	if err != nil {
		return broken("%v", err)
	}
	build := exec.CommandContext(ctx, "go", "build", "-overlay", guarded, "-o", m.bin, "./cmd/chaos")
	build.Dir = m.root
	if out, err := build.CombinedOutput(); err != nil {
		return broken("building the mutants: %v\n%s", err, out)
	}
	fmt.Fprintf(m.err, "running the true core: %s of the library\n", m.size)
	m.truth = filepath.Join(m.work, "truth.json")
	if out, err := m.sourceRun(ctx, "--out", m.truth).CombinedOutput(); err != nil {
		return broken("running the true core: %v\n%s", err, out)
	}
	truth, err := readTruth(m.truth)
	if err != nil {
		return err
	}
	unjudged := truth.Unjudged()
	if len(m.results.Results) > 0 && !slices.Equal(unjudged, m.results.Unjudged) {
		return broken("%s: its true core failed %d varied runs, and this one fails %d, or others: its runs are not deterministic; --again forgets the results", m.file, len(m.results.Unjudged), len(unjudged))
	}
	m.results.Unjudged = unjudged
	for _, run := range unjudged {
		fmt.Fprintf(m.err, "left out, because the true core fails it: %s\n", run)
	}
	return nil
}

// sourceRun is the process of one core, mutated or original.
func (m *measurement) sourceRun(ctx context.Context, args ...string) *exec.Cmd {
	all := append([]string{"source-run", "--seeds", fmt.Sprint(m.size.Seeds), "--varied-seeds", fmt.Sprint(m.size.Varied)}, args...)
	return exec.CommandContext(ctx, m.bin, all...) //nolint:gosec // the program that was built for this
}

// revision is the commit of the harness and the core, with "-dirty" appended if files have changed
// since.
func revision(root string) string {
	git := func(args ...string) string {
		out, err := exec.Command("git", append([]string{"-C", root}, args...)...).Output() //nolint:gosec // fixed commands
		if err != nil {
			return ""
		}
		return string(bytes.TrimSpace(out))
	}
	commit := git("rev-parse", "HEAD")
	if commit == "" {
		return explore.Commit()
	}
	if git("status", "--porcelain", "--untracked-files=no", "--", ".") != "" {
		commit += "-dirty"
	}
	return commit
}

func newResults(c *source.Catalog, commit string, sql bool) *score.Results {
	r := &score.Results{Seed: source.Seed, Core: c.Digest(), Commit: commit, LeftOut: c.LeftOut, Results: map[string]*score.Result{}}
	count := map[string]int{}
	for _, m := range c.Candidates {
		count[m.Operator]++
	}
	for _, o := range source.Operators() {
		if o.SQL == sql {
			r.Quotas = append(r.Quotas, score.Quota{Operator: o.Name, Quota: o.Quota, Candidates: count[o.Name], Untyped: c.Untyped[o.Name]})
		}
	}
	return r
}

// all runs the sample, as many mutants at a time as there are processors.
func (m *measurement) all(ctx context.Context, order []*source.Candidate, one func(context.Context, *source.Candidate) error) error {
	jobs := make(chan *source.Candidate)
	var group sync.WaitGroup
	errs := make(chan error, m.procs)
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	for range m.procs {
		group.Go(func() {
			for c := range jobs {
				if err := one(ctx, c); err != nil {
					errs <- err
					stop()
					return
				}
			}
		})
	}
	for _, c := range order {
		select {
		case jobs <- c:
			continue
		case <-ctx.Done():
		}
		break
	}
	close(jobs)
	group.Wait()
	close(errs)
	for err := range errs {
		if !errors.Is(err, context.Canceled) {
			return err
		}
	}
	if ctx.Err() != nil {
		return broken("interrupted after %d of %d mutants: the same command goes on", m.done, len(order))
	}
	return nil
}

// undone says that a mutant, or its unit tests, must still run.
func (m *measurement) undone(c *source.Candidate) bool {
	r := m.results.Results[c.ID]
	return r == nil || m.unit && !r.Killed() && r.Unit == ""
}

// one completes the results of one mutant: its runs and, if requested, its unit tests.
func (m *measurement) one(ctx context.Context, c *source.Candidate) error {
	m.mu.Lock()
	old := m.results.Results[c.ID]
	m.mu.Unlock()
	r := old
	if old == nil {
		fresh, err := m.judge(ctx, c)
		if err != nil {
			return err
		}
		r = fresh
	}
	if m.unit && !r.Killed() && r.Unit == "" {
		with := *r
		if err := m.unitTests(ctx, c, &with); err != nil {
			return err
		}
		r = &with
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.done++
	if r == old {
		return nil
	}
	m.results.Results[c.ID] = r
	m.cpu += r.CPU
	by := r.Killer()
	if r.Unit == score.UnitKilled {
		by += ", a unit test kills it"
	}
	fmt.Fprintf(m.err, "%d of %d: number %d: %s: %s\n", m.done, len(m.order), m.numbers[c], by, c)
	return m.results.Write(m.file)
}

// judge runs the library with one mutant.
func (m *measurement) judge(ctx context.Context, c *source.Candidate) (*score.Result, error) {
	// The process itself ends a hanging run; this limit is for a process that hangs outside of a
	// run.
	limit, cancel := context.WithTimeout(ctx, 10*time.Minute+time.Duration(m.size.Seeds+m.size.Varied)*2*time.Minute)
	defer cancel()
	out := filepath.Join(m.work, fmt.Sprintf("result%d.json", m.numbers[c]))
	if err := os.Remove(out); err != nil && !os.IsNotExist(err) { // left by an earlier run with the same --keep
		return nil, broken("removing an old result: %v", err)
	}
	cmd := m.sourceRun(limit, "--truth", m.truth, "--out", out)
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d", source.Variable, m.numbers[c]), "GOMAXPROCS=1")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	err := cmd.Run()
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	r := new(score.Result)
	text, unread := os.ReadFile(out)
	if unread == nil {
		unread = json.Unmarshal(text, r)
	}
	switch first := firstLine(stderr.String()); {
	case limit.Err() != nil:
		*r = score.Result{By: score.Hang, Reached: true}
	case unread == nil:
	case cmd.ProcessState == nil || cmd.ProcessState.ExitCode() < 0 || strings.HasPrefix(first, "chaos: "):
		// It did not end by itself, or could not be run: that says nothing about the mutant.
		return nil, broken("running %s: %v: %s", c.ID, err, first)
	default:
		*r = score.Result{By: score.Crash, Reached: true, Message: fmt.Sprintf("%v: %s", err, first)}
	}
	r.ID, r.Package, r.Operator, r.About = c.ID, c.Package, c.Operator, reports.Printable(c.String(), "")
	r.Message = reports.Printable(r.Message, "")
	r.CPU = processorTime(cmd)
	return r, nil
}

// processorTime is the processor time of an ended process, in seconds.
func processorTime(cmd *exec.Cmd) float64 {
	return (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds()
}

// page writes the page of the score.
func (m *measurement) page() error {
	equivalents, err := source.Equivalents()
	if err != nil {
		return broken("%v", err)
	}
	var before *score.Results
	if m.before != "" {
		if before, err = resultsOf("before", m.before); err != nil {
			return err
		}
	}
	page, err := m.results.Page(equivalents, before)
	if err != nil {
		return broken("%s is not written: %v\nthe results stay in %s: once that is mended, --page-only in place of a measurement writes the page", m.into, err, m.file)
	}
	if err := os.WriteFile(m.into, []byte(page), 0o600); err != nil {
		return broken("writing the score to %s: %v", m.into, err)
	}
	return nil
}

// writeShare writes the share beside its results, if this is a share.
func (m *measurement) writeShare() error {
	if m.share.Whole() {
		return nil
	}
	header, err := m.header()
	if err != nil {
		return broken("%v", err)
	}
	header.Kind = sourceShares
	head := *m.results
	head.Results = nil
	first := sourceItem{Head: &head}
	for _, c := range m.whole {
		first.Order = append(first.Order, c.ID)
	}
	items := []any{first}
	for _, c := range m.order {
		items = append(items, sourceItem{Result: m.results.Results[c.ID]})
	}
	err = reports.WriteFile(filepath.Join(m.report, shard.FileName), func(w io.Writer) error { return shard.Write(w, header, items, m.cpu) })
	if err != nil {
		return broken("the mutants are judged, but writing the share failed: %v", err)
	}
	return nil
}
