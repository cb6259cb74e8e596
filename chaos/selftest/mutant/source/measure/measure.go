package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"handoff/chaos/selftest/mutant/source"
	"handoff/chaos/selftest/mutant/source/score"
	"handoff/chaos/shard"
	"handoff/reports"
	"handoff/sim/explore"
	"handoff/sim/weave"
)

// measureSource measures the harness with a sample of mutants of the core's source.
func measureSource(ctx context.Context, o options) error {
	root, err := moduleRoot()
	if err != nil {
		return err
	}
	work, err := o.buildFolder()
	if err != nil {
		return err
	}
	if o.keep == "" {
		defer os.RemoveAll(work)
	}
	m := &measurement{options: o, root: root, work: work, bin: filepath.Join(work, "measure")}
	switch err := m.measureSample(ctx); {
	case err != nil && ctx.Err() != nil && m.done == 0:
		return brokenError("interrupted before a mutant was judged: there is nothing to continue")
	case err != nil:
		return err
	}
	return o.writePage(m.results)
}

// buildFolder makes the folder of the build, and returns its path.
func (o *options) buildFolder() (string, error) {
	work, err := o.keep, error(nil)
	if work == "" {
		work, err = os.MkdirTemp("", "source-mutants")
	} else if err = os.MkdirAll(work, 0o750); err == nil {
		work, err = filepath.Abs(work)
	}
	if err != nil {
		return "", brokenError("making a folder for the build: %v", err)
	}
	return work, nil
}

func (m *measurement) measureSample(ctx context.Context) error {
	catalog, err := m.openResults()
	if err != nil {
		return err
	}
	if m.sql {
		return m.measureSQL(ctx)
	}
	if err := m.chooseSample(catalog); err != nil {
		return err
	}
	if slices.ContainsFunc(m.order, m.needsRun) || m.keep != "" {
		if err := m.buildMutants(ctx, catalog); err != nil {
			return err
		}
	}
	if err := m.runMutants(ctx, m.order, m.completeMutant); err != nil {
		return err
	}
	fmt.Fprint(m.out, m.results.Summary())
	if m.cpu > 0 {
		fmt.Fprintf(m.err, "%.0f s of processor time\n", m.cpu)
	}
	return m.results.Write(m.file)
}

// measurement is a running measurement.
type measurement struct {
	options
	root, work, bin string
	overlay, truth  string
	// full is the sample of 300; in the build, its first mutant has the number 1. order holds the
	// mutants that run, in this order.
	full, order []*source.Candidate
	numbers     map[*source.Candidate]int
	tests       unitBinaries

	mu      sync.Mutex
	results *score.Results
	done    int
	cpu     float64
}

// moduleRoot returns the folder of the sources that are mutated.
func moduleRoot() (string, error) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Path}} {{.Dir}}").Output()
	var name, dir string
	if err == nil {
		_, err = fmt.Sscan(string(out), &name, &dir)
	}
	if err != nil || name != "handoff" {
		return "", brokenError("this mutates the source of this project: start it in its folder (go list -m says %q)", bytes.TrimSpace(out))
	}
	return dir, nil
}

// openResults reads existing results, and lists the candidates.
func (m *measurement) openResults() (*source.Catalog, error) {
	const instead = "; --again forgets what is there, --out FILE writes to another file"
	var before *score.Results
	if !m.again {
		var err error
		if before, _, err = score.Read(m.file); err != nil {
			return nil, usageError("--out %v"+instead, err)
		}
	}
	if err := m.checkWritable(); err != nil {
		return nil, usageError("--out %s can't be written, so nothing is measured: %v", m.file, err)
	}
	fmt.Fprintln(m.err, "listing candidates")
	catalog, err := source.Load(m.root, false)
	if err != nil {
		return nil, brokenError("%v", err)
	}
	m.results = newResults(catalog, harnessRevision(m.root), false)
	m.results.Size = m.size
	if before != nil {
		if m.sql {
			m.results.Size, m.results.Asked = before.Size, before.Asked // no runs judge statements
		}
		if err := m.results.Merge(before); err != nil {
			return nil, usageError("--out %s: %v"+instead, m.file, err)
		}
	}
	return catalog, nil
}

// checkWritable checks that the file of results can be written, before the measurement takes half an hour. It
// makes the folder of the file.
func (m *measurement) checkWritable() error {
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

// chooseSample draws the sample, and selects the requested part of it.
func (m *measurement) chooseSample(catalog *source.Catalog) error {
	m.full = source.Draw(catalog.Candidates, source.Seed, false)
	m.numbers = map[*source.Candidate]int{}
	for i, c := range m.full {
		m.numbers[c] = i + 1
	}
	whole := source.Spread(m.full)
	if m.sample == 60 {
		whole = source.Draw(catalog.Candidates, source.Seed, true)
	}
	whole = m.selectNamed(whole)
	if len(whole) == 0 {
		return usageError("--only %q: the ID of no mutant of the sample contains this; the IDs are in %s", m.only, m.file)
	}
	m.order, m.results.Asked = shard.Part(m.share, whole), len(whole)
	if !m.share.Whole() {
		maps.DeleteFunc(m.results.Results, func(id string, _ *score.Result) bool {
			return !slices.ContainsFunc(m.order, func(c *source.Candidate) bool { return c.ID == id })
		})
	}
	return nil
}

// selectNamed returns the mutants that --only selects, or all.
func (m *measurement) selectNamed(order []*source.Candidate) []*source.Candidate {
	return slices.DeleteFunc(order, func(c *source.Candidate) bool { return !strings.Contains(c.ID, m.only) })
}

// buildMutants builds the mutants, and runs the original core.
func (m *measurement) buildMutants(ctx context.Context, catalog *source.Catalog) (err error) {
	fmt.Fprintf(m.err, "building %d mutants\n", len(m.full))
	if m.overlay, err = catalog.Overlay(m.work, m.full); err != nil {
		return brokenError("%v", err)
	}
	// The build is guarded like the program of make chaos, so that the score is valid for its runs.
	guarded, err := weave.Write(m.root, m.overlay, filepath.Join(m.work, "guarded"), weave.Guard)
	if err != nil {
		return brokenError("%v", err)
	}
	programs := []string{"./chaos/selftest/mutant/source/measure"}
	if m.keep != "" {
		programs = append(programs, "./cmd/chaos")
	}
	build := exec.CommandContext(ctx, "go", slices.Concat([]string{"build", "-overlay", guarded.File, "-o", m.work}, programs)...) //nolint:gosec // fixed packages
	build.Dir = m.root
	if out, err := build.CombinedOutput(); err != nil {
		return brokenError("building the mutants: %v\n%s", err, out)
	}
	fmt.Fprintf(m.err, "running the true core: %s of the library\n", m.size)
	m.truth = filepath.Join(m.work, "truth.json")
	if out, err := m.sourceRun(ctx, "--out", m.truth).CombinedOutput(); err != nil {
		return brokenError("running the true core: %v\n%s", err, out)
	}
	truth, err := readTruth(m.truth)
	if err != nil {
		return err
	}
	unjudged := truth.Unjudged()
	if len(m.results.Results) > 0 && !slices.Equal(unjudged, m.results.Unjudged) {
		return brokenError("%s: its true core failed %d varied runs, and this one fails %d, or others: its runs are not deterministic; --again forgets the results", m.file, len(m.results.Unjudged), len(unjudged))
	}
	m.results.Unjudged = unjudged
	for _, run := range unjudged {
		fmt.Fprintf(m.err, "left out, because the true core fails it: %s\n", run)
	}
	return nil
}

// sourceRun is the process of one core, mutated or original.
func (m *measurement) sourceRun(ctx context.Context, args ...string) *exec.Cmd {
	all := append([]string{runArgument, "--seeds", fmt.Sprint(m.size.Seeds), "--varied-seeds", fmt.Sprint(m.size.Varied)}, args...)
	return exec.CommandContext(ctx, m.bin, all...) //nolint:gosec // the program that was built for this
}

// harnessRevision returns the commit of the harness and the core, with "-dirty" appended if files have
// changed since. The page of the score does not count: one measurement writes it, and the next adds to it.
func harnessRevision(root string) string {
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
	if git("status", "--porcelain", "--untracked-files=no", "--", ".", ":(exclude)docs/score.md") != "" {
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

// runMutants runs the sample, --parallel mutants at a time.
func (m *measurement) runMutants(ctx context.Context, order []*source.Candidate, one func(context.Context, *source.Candidate) error) error {
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
		return brokenError("interrupted after %d of %d mutants: the same command continues", m.done, len(order))
	}
	return nil
}

// needsRun reports whether a mutant, or its unit tests, must still run.
func (m *measurement) needsRun(c *source.Candidate) bool {
	r := m.results.Results[c.ID]
	return r == nil || m.unit && !r.Killed() && r.Unit == ""
}

// completeMutant completes the results of one mutant: its runs and, if requested, its unit tests.
func (m *measurement) completeMutant(ctx context.Context, c *source.Candidate) error {
	m.mu.Lock()
	old := m.results.Results[c.ID]
	m.mu.Unlock()
	r := old
	if old == nil {
		fresh, err := m.judgeMutant(ctx, c)
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

// judgeMutant runs the library with one mutant.
func (m *measurement) judgeMutant(ctx context.Context, c *source.Candidate) (*score.Result, error) {
	// The process itself ends a hanging run. This limit is for a process that hangs outside of a run.
	limit, cancel := context.WithTimeout(ctx, 10*time.Minute+time.Duration(m.size.Seeds+m.size.Varied)*2*time.Minute)
	defer cancel()
	out := filepath.Join(m.work, fmt.Sprintf("result%d.json", m.numbers[c]))
	if err := os.Remove(out); err != nil && !os.IsNotExist(err) { // left by an earlier run with the same --keep
		return nil, brokenError("removing an old result: %v", err)
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
	case cmd.ProcessState == nil || cmd.ProcessState.ExitCode() < 0 || strings.HasPrefix(first, prefix):
		// The process was killed or could not be run, so the failure says nothing about the mutant.
		return nil, brokenError("running %s: %v: %s", c.ID, err, first)
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
