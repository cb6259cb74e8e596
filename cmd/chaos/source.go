package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"handoff/chaos/mutant/source"
	"handoff/chaos/mutant/source/score"
	"handoff/sim/explore"
)

// sourceSeeds is how many seeds of each scenario and profile a source mutant gets by default: a fifth of
// the sample then takes about twenty minutes of one processor.
const sourceSeeds = 3

// sourceOptions are the flags of `mutants --source`.
type sourceOptions struct {
	on, sql, unit, again bool
	sample, seeds, procs int
	file, into           string
	keep, only           string
}

func (o *sourceOptions) flags(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&o.on, "source", false, "make mutants of the core's own source instead, and measure what share of a sample is killed")
	cmd.Flags().BoolVar(&o.sql, "sql", false, "--source: mutants of the store's SQL, judged by the contract of the stores on a private PostgreSQL")
	cmd.Flags().IntVar(&o.sample, "sample", 300, "--source: 300, or 60 for the first fifth of each operator's quota")
	cmd.Flags().BoolVar(&o.unit, "unit", false, "--source: run survivors against the unit tests of their package, too; that counts for nothing")
	cmd.Flags().BoolVar(&o.again, "again", false, "--source: forget the results in --out")
	cmd.Flags().StringVar(&o.file, "out", "reports/out/source.json", "--source: the results; an interrupted measurement goes on with this `FILE`")
	cmd.Flags().StringVar(&o.keep, "keep", "", "--source: keep the build in this `FOLDER`; "+source.Variable+"=NUMBER FOLDER/chaos replay … then shows a mutant's run")
	cmd.Flags().StringVar(&o.into, "table", "", "--source: write the page of the score to this `FILE`, such as docs/score.md")
}

// sourceMutants measures the harness on a sample of mutants of the core's source.
func (a *app) sourceMutants(ctx context.Context, o *sourceOptions) error {
	if o.sample != 60 && o.sample != 300 {
		return usage("--sample %d: allowed are 300, and 60 for the first fifth of each quota", o.sample)
	}
	if o.procs < 1 {
		o.procs = runtime.NumCPU()
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
	if err := m.measure(ctx); err != nil {
		return err
	}
	if o.into != "" {
		return m.page()
	}
	return nil
}

// folder is where the build goes.
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
	if err := m.prepare(ctx, catalog); err != nil {
		return err
	}
	if err := m.all(ctx, m.order, m.one); err != nil {
		return err
	}
	fmt.Fprint(m.app.out, m.results.Summary())
	return nil
}

// measurement is a sample under way.
type measurement struct {
	*app
	*sourceOptions
	root, work, bin string
	overlay, truth  string
	// order are the mutants in the order in which they run, numbers the numbers that the build knows them
	// by.
	order   []*source.Candidate
	numbers map[*source.Candidate]int

	mu      sync.Mutex
	results *score.Results
	done    int
	units   map[string]string
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

// open lists the candidates, and reads the results that there are.
func (m *measurement) open() (*source.Catalog, error) {
	fmt.Fprintln(m.err, "listing candidates")
	catalog, err := source.Load(m.root, false)
	if err != nil {
		return nil, broken("%v", err)
	}
	m.results = newResults(catalog, revision(m.root), false)
	before, ok, err := score.Read(m.file)
	switch {
	case err != nil:
		return nil, broken("%v", err)
	case ok && !m.again:
		if err := m.results.Merge(before); err != nil {
			return nil, usage("%s: %v; --again forgets them, --out FILE writes to another file", m.file, err)
		}
	}
	if err := os.MkdirAll(filepath.Dir(m.file), 0o750); err != nil {
		return nil, broken("making the folder of %s: %v", m.file, err)
	}
	return catalog, nil
}

// prepare draws the sample, builds it, and runs the true core.
func (m *measurement) prepare(ctx context.Context, catalog *source.Catalog) (err error) {
	full := source.Draw(catalog.Candidates, source.Seed, false)
	m.numbers = map[*source.Candidate]int{}
	for i, c := range full {
		m.numbers[c] = i + 1
	}
	m.order = source.Spread(full)
	if m.sample == 60 {
		m.order = source.Draw(catalog.Candidates, source.Seed, true)
	}
	if m.order = m.named(m.order); len(m.order) == 0 {
		return usage("--only %q: the ID of no mutant of the sample contains this; the IDs are in %s", m.only, m.file)
	}
	fmt.Fprintf(m.err, "building %d mutants\n", len(full))
	if m.overlay, err = catalog.Overlay(m.work, full); err != nil {
		return broken("%v", err)
	}
	build := exec.CommandContext(ctx, "go", "build", "-overlay", m.overlay, "-o", m.bin, "./cmd/chaos")
	build.Dir = m.root
	if out, err := build.CombinedOutput(); err != nil {
		return broken("building the mutants: %v\n%s", err, out)
	}
	fmt.Fprintf(m.err, "running the true core: seeds 1 to %d of the library\n", m.seeds)
	m.truth = filepath.Join(m.work, "truth.json")
	run := exec.CommandContext(ctx, m.bin, "source-run", "--seeds", fmt.Sprint(m.seeds), "--out", m.truth)
	if out, err := run.CombinedOutput(); err != nil {
		return broken("running the true core: %v\n%s", err, out)
	}
	return nil
}

// revision is the commit that the harness and the core are built from, with "-dirty" after it if files
// were changed since.
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
	if git("status", "--porcelain", "--untracked-files=no") != "" {
		commit += "-dirty"
	}
	return commit
}

// named are the mutants that --only asks for, or all.
func (m *measurement) named(order []*source.Candidate) []*source.Candidate {
	return slices.DeleteFunc(order, func(c *source.Candidate) bool { return !strings.Contains(c.ID, m.only) })
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
	return nil
}

// one brings one mutant up to date: its runs, and the unit tests if they are wanted.
func (m *measurement) one(ctx context.Context, c *source.Candidate) error {
	m.mu.Lock()
	old := m.results.Results[c.ID]
	m.mu.Unlock()
	r := old
	if old == nil || !old.Killed() && old.Seeds < m.seeds {
		fresh, err := m.judge(ctx, c, old)
		if err != nil {
			return err
		}
		r = fresh
	}
	if m.unit && !r.Killed() && r.Unit == "" {
		unit, err := m.unitTests(ctx, c)
		if err != nil {
			return err
		}
		with := *r
		with.Unit = unit
		r = &with
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.results.Results[c.ID] = r
	m.done++
	if r == old {
		return nil
	}
	fmt.Fprintf(m.err, "%d of %d: number %d: %s: %s\n", m.done, len(m.order), m.numbers[c], r.Killer(), c)
	return m.results.Write(m.file)
}

// judge runs the library with one mutant, from where it stopped before.
func (m *measurement) judge(ctx context.Context, c *source.Candidate, old *score.Result) (*score.Result, error) {
	from := 1
	if old != nil && m.seeds < sweepSeeds {
		from = old.Seeds + 1
	}
	// The process itself ends a run that hangs; this is for one that hangs outside of any run.
	limit, cancel := context.WithTimeout(ctx, 10*time.Minute+time.Duration(m.seeds)*2*time.Minute)
	defer cancel()
	out := filepath.Join(m.work, fmt.Sprintf("result%d.json", m.numbers[c]))
	cmd := exec.CommandContext(limit, m.bin, "source-run", "--from", fmt.Sprint(from), "--seeds", fmt.Sprint(m.seeds), "--truth", m.truth, "--out", out)
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
	switch {
	case limit.Err() != nil:
		*r = score.Result{By: score.Hang, Reached: true}
	case unread != nil:
		*r = score.Result{By: score.Crash, Reached: true, Message: fmt.Sprintf("%v: %s", err, firstLine(stderr.String()))}
	}
	if old != nil && from > 1 {
		r.Reached = r.Reached || old.Reached
		r.Runs += old.Runs
		r.CPU = old.CPU
		r.Unit = old.Unit
	}
	r.ID, r.Package, r.Operator, r.About = c.ID, c.Package, c.Operator, c.String()
	r.CPU += (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds()
	return r, nil
}

// sweepSeeds is from where on a lost situation counts, so that all seeds have to be in one sweep.
const sweepSeeds = 50

// unitTests runs the tests of a mutant's package with the mutant, and says what they did with it.
func (m *measurement) unitTests(ctx context.Context, c *source.Candidate) (string, error) {
	bin, err := m.unitBinary(ctx, c.Package)
	if err != nil {
		return "", err
	}
	limit, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(limit, bin, "-test.short", "-test.failfast")
	cmd.Dir = filepath.Join(m.root, c.Package)
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d", source.Variable, m.numbers[c]), "GOMAXPROCS=1")
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			return "", ctx.Err()
		}
		return "killed", nil
	}
	return "survived", nil
}

// unitBinary builds the tests of a package once.
func (m *measurement) unitBinary(ctx context.Context, dir string) (string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.units[dir] != "" {
		return m.units[dir], nil
	}
	bin := filepath.Join(m.work, filepath.Base(dir)+".test")
	cmd := exec.CommandContext(ctx, "go", "test", "-c", "-overlay", m.overlay, "-o", bin, "./"+dir)
	cmd.Dir = m.root
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", broken("building the tests of %s with the mutants: %v\n%s", dir, err, out)
	}
	if m.units == nil {
		m.units = map[string]string{}
	}
	m.units[dir] = bin
	return bin, nil
}

// page writes the score where people read it.
func (m *measurement) page() error {
	equivalents, err := source.Equivalents()
	if err == nil {
		err = os.WriteFile(m.into, []byte(m.results.Page(equivalents)), 0o600)
	}
	if err != nil {
		return broken("writing the score to %s: %v", m.into, err)
	}
	return nil
}
