package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"handoff/chaos/mutant/source"
	"handoff/chaos/mutant/source/score"
)

// contractTests is the package whose tests judge the mutants of SQL.
const contractTests = "chaos/conformance/postgrestest"

// notTaken is in the output of a test whose statement PostgreSQL could not prepare: class 42, syntax
// errors and what does not fit the schema.
var notTaken = regexp.MustCompile(`SQLSTATE 42[0-9A-Z]{3}`) //nolint:gochecknoglobals // a constant expression

// measureSQL runs the contract of the stores with each mutant of SQL.
func (m *measurement) measureSQL(ctx context.Context) error {
	catalog, err := source.Load(m.root, true)
	if err != nil {
		return broken("%v", err)
	}
	of := newResults(catalog, m.results.Commit, true)
	if m.results.SQL != nil {
		if err := of.Merge(m.results.SQL); err != nil {
			return usage("%s: %v; --again forgets them, --out FILE writes to another file", m.file, err)
		}
	}
	m.results.SQL = of
	m.numbers = map[*source.Candidate]int{}
	for i, c := range catalog.Candidates {
		m.numbers[c] = i + 1
	}
	fmt.Fprintf(m.err, "building %d candidates\n", len(catalog.Candidates))
	if m.overlay, err = catalog.Overlay(m.work, catalog.Candidates); err != nil {
		return broken("%v", err)
	}
	if _, err := m.unitBinary(ctx, contractTests); err != nil {
		return err
	}
	if r, out, err := m.contract(ctx, nil); err != nil || r.Killed() {
		return broken("the true statements do not keep the contract: %v\n%s", err, out)
	}
	for {
		refused := len(of.Refused)
		m.order = source.Spread(source.Draw(catalog.Candidates, source.Seed, m.sample == 60, of.Refused...))
		m.done = 0
		if err := m.all(ctx, m.order, m.oneStatement); err != nil {
			return err
		}
		if len(of.Refused) == refused || ctx.Err() != nil {
			break
		}
	}
	fmt.Fprint(m.app.out, of.Summary())
	return nil
}

// oneStatement judges one candidate, unless it has been.
func (m *measurement) oneStatement(ctx context.Context, c *source.Candidate) error {
	of := m.results.SQL
	m.mu.Lock()
	known := of.Results[c.ID] != nil
	m.mu.Unlock()
	var r *score.Result
	var out string
	if !known {
		var err error
		if r, out, err = m.contract(ctx, c); err != nil {
			return err
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.done++
	switch {
	case known:
		return nil
	case r.Killed() && notTaken.MatchString(out):
		at, _ := slices.BinarySearch(of.Refused, c.ID)
		of.Refused = slices.Insert(of.Refused, at, c.ID)
		fmt.Fprintf(m.err, "%d of %d: not taken by PostgreSQL: %s\n", m.done, len(m.order), c)
	default:
		of.Results[c.ID] = r
		fmt.Fprintf(m.err, "%d of %d: %s: %s\n", m.done, len(m.order), r.Killer(), c)
	}
	return m.results.Write(m.file)
}

// contract runs the contract with a mutant, or nil for the true statements, up to the first failure.
func (m *measurement) contract(ctx context.Context, c *source.Candidate) (*score.Result, string, error) {
	limit, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	//nolint:gosec // the program that was built for this
	cmd := exec.CommandContext(limit, filepath.Join(m.work, filepath.Base(contractTests)+".test"), "-test.run", "^TestContract$", "-test.failfast", "-test.v")
	cmd.Dir = filepath.Join(m.root, contractTests)
	// A test that is interrupted stops its server; one that is killed can't.
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 30 * time.Second
	r := &score.Result{Reached: true}
	cmd.Env = os.Environ()
	if c != nil {
		r.ID, r.Package, r.Operator, r.About = c.ID, c.Package, c.Operator, c.String()
		cmd.Env = append(cmd.Env, fmt.Sprintf("%s=%d", source.Variable, m.numbers[c]))
	}
	text, err := cmd.CombinedOutput()
	out := string(text)
	if ctx.Err() != nil {
		return nil, out, ctx.Err()
	}
	r.CPU = (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds()
	var exit *exec.ExitError
	switch {
	case limit.Err() != nil:
		r.By = score.Hang
	case errors.As(err, &exit):
		r.By, r.Message = score.Contract, firstFailure(out)
	case err != nil:
		return nil, out, broken("running the contract: %v", err)
	case strings.Contains(out, "--- SKIP"):
		return nil, out, broken("the contract was not run: it needs PostgreSQL\n%s", out)
	}
	return r, out, nil
}

// firstFailure is the name of the case that failed.
func firstFailure(out string) string {
	name := ""
	for line := range strings.Lines(out) {
		if _, after, ok := strings.Cut(line, "--- FAIL: "); ok {
			if after = strings.TrimSpace(after); len(after) > len(name) {
				name = after
			}
		}
	}
	return name
}
