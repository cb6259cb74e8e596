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

	"github.com/jackc/pgx/v5"

	"handoff/chaos/selftest/mutant/source"
	"handoff/chaos/selftest/mutant/source/score"
	"handoff/chaos/servers"
)

// contractTests is the package whose tests judge the mutants of SQL.
const contractTests = "chaos/selftest/conformance/postgrestest"

// sqlStage is a part of those tests. A mutant passes through the stages until one fails.
type sqlStage struct{ flags, env []string }

// sqlStages are in the order of mutants killed per time.
//
//nolint:gochecknoglobals // a table
var sqlStages = []sqlStage{
	{flags: []string{"-test.run", "^TestContract$"}},
	{flags: []string{"-test.run", "^(TestPairs|TestCallsUseTimeAfterLockWait)$"}, env: []string{"HANDOFF_CONFORMANCE_PAIRS=alone"}},
	{flags: []string{"-test.run", "^TestSequences$"}, env: []string{"HANDOFF_CONFORMANCE_STEPS=3000"}},
	{flags: []string{"-test.run", "^TestPairs$"}},
	{flags: []string{"-test.short", "-test.skip", "^Test(" + strings.Join(aboutOtherThings, "|") + ")"}},
}

// aboutOtherThings are patterns for names of tests that run in an earlier stage, or that do not judge the
// statements of the store. Those are tests of the schema, the server's faults, the queries of the pages, what
// a statement costs, and controls.
//
//nolint:gochecknoglobals // a table
var aboutOtherThings = []string{
	"Contract$", "Pairs$", "CallsUse", "Sequences$", "Migrations", "MigrationWaits", "MigrationTimeout", "PausedMigration", "DatabaseTransitions", "ImpossibleStates",
	"AuditAndViews", "SchemaIsReady", "RetriableFunction", "EligibleWorkers", "RetriesCount", "FullDisk", "ExhaustedServer", "ConnectionCut", "ReplyLost",
	"Unavailable", "DeadlineDuringCall", "HeartbeatTakesOneRoundTrip", "Documented", "ObservationsQuery", "QueueDepth", "Costs", "EveryMethodHasCost",
	"Plans", "APIRequests", "UnreadableRow", "PairsDetect", "LinearizableDetects",
}

// notTaken occurs in the output of a test whose statement PostgreSQL could not prepare: class 42,
// syntax errors and statements that don't fit the schema.
var notTaken = regexp.MustCompile(`SQLSTATE 42[0-9A-Z]{3}`) //nolint:gochecknoglobals // a constant expression

// contracts judges mutants of SQL.
type contracts struct {
	*measurement
	// free are the idle servers.
	free chan string
}

// measureSQL runs the contract of the stores with each mutant of SQL.
func (m *measurement) measureSQL(ctx context.Context) error {
	catalog, err := source.Load(m.root, true)
	if err != nil {
		return brokenError("%v", err)
	}
	of := newResults(catalog, m.results.Commit, true)
	if m.results.SQL != nil {
		if err := of.Merge(m.results.SQL); err != nil {
			return usageError("%s: %v; --again forgets them, --out FILE writes to another file", m.file, err)
		}
	}
	m.results.SQL = of
	m.numbers = map[*source.Candidate]int{}
	for i, c := range catalog.Candidates {
		m.numbers[c] = i + 1
	}
	fmt.Fprintf(m.err, "building %d candidates\n", len(catalog.Candidates))
	if m.overlay, err = catalog.Overlay(m.work, catalog.Candidates); err != nil {
		return brokenError("%v", err)
	}
	if _, err := m.unitBinary(ctx, contractTests); err != nil {
		return err
	}
	j := &contracts{measurement: m}
	down, err := j.startServers(ctx)
	if err != nil {
		return err
	}
	defer down()
	if r, out, err := j.runContract(ctx, nil); err != nil || r.Killed() {
		return brokenError("the true statements do not keep the contract: %v\n%s", err, out)
	}
	for {
		refused := len(of.Refused)
		m.order = m.selectNamed(source.Spread(source.Draw(catalog.Candidates, source.Seed, m.sample == 60, of.Refused...)))
		m.done = 0
		if err := m.runMutants(ctx, m.order, j.oneStatement); err != nil {
			return err
		}
		if len(of.Refused) == refused || ctx.Err() != nil {
			break
		}
	}
	fmt.Fprint(m.out, of.Summary())
	return nil
}

// oneStatement judges one candidate, unless it already was.
func (co *contracts) oneStatement(ctx context.Context, c *source.Candidate) error {
	of := co.results.SQL
	co.mu.Lock()
	known := of.Results[c.ID] != nil
	co.mu.Unlock()
	var r *score.Result
	var out string
	if !known {
		var err error
		if r, out, err = co.runContract(ctx, c); err != nil {
			return err
		}
	}
	co.mu.Lock()
	defer co.mu.Unlock()
	co.done++
	switch {
	case known:
		return nil
	case r.Killed() && notTaken.MatchString(out):
		at, _ := slices.BinarySearch(of.Refused, c.ID)
		of.Refused = slices.Insert(of.Refused, at, c.ID)
		fmt.Fprintf(co.err, "%d of %d: number %d: not taken by PostgreSQL: %s\n", co.done, len(co.order), co.numbers[c], c)
	default:
		of.Results[c.ID] = r
		fmt.Fprintf(co.err, "%d of %d: number %d: %s: %s\n", co.done, len(co.order), co.numbers[c], strings.TrimSpace(r.Killer()+" "+r.Message), c)
	}
	return co.results.Write(co.file)
}

// startServers starts a server for each mutant that is judged at the same time; every test creates
// its own databases there. Two mutants on one server would influence each other, because a
// snapshot's horizon is that of all databases. The servers need no durability.
func (co *contracts) startServers(ctx context.Context) (down func(), err error) {
	co.free = make(chan string, co.procs)
	var sets []*servers.Set
	down = func() {
		for _, s := range sets {
			if err := s.Down(); err != nil {
				fmt.Fprintf(co.err, "ending a server: %v\n", err)
			}
		}
	}
	for range co.procs {
		s, err := servers.Up(ctx, servers.Options{Postgres: true, PrivateOnly: true})
		if err == nil {
			sets = append(sets, s)
			err = withoutSync(ctx, s.Postgres.URL)
		}
		if err != nil {
			down()
			return nil, brokenError("starting PostgreSQL for the contract: %v", err)
		}
		co.free <- s.Postgres.URL
	}
	return down, nil
}

func withoutSync(ctx context.Context, url string) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	for _, statement := range []string{"alter system set fsync = off", "alter system set full_page_writes = off", "select pg_reload_conf()"} {
		if _, err = conn.Exec(ctx, statement); err != nil {
			break
		}
	}
	return errors.Join(err, conn.Close(ctx))
}

// runContract runs the contract with a mutant, or with the original statements for nil, up to the
// first failure.
func (co *contracts) runContract(ctx context.Context, c *source.Candidate) (*score.Result, string, error) {
	server := <-co.free
	defer func() { co.free <- server }()
	r := &score.Result{Reached: true}
	env := append(os.Environ(), servers.AddressPostgres+"="+server)
	if c != nil {
		r.ID, r.Package, r.Operator, r.About = c.ID, c.Package, c.Operator, c.String()
		env = append(env, fmt.Sprintf("%s=%d", source.Variable, co.numbers[c]))
	}
	for _, stage := range sqlStages {
		out, err := co.runStage(ctx, stage, env, r)
		if err != nil || r.Killed() {
			return r, out, err
		}
	}
	return r, "", nil
}

// runStage runs a part of the tests, and records their time and whether one failed.
func (co *contracts) runStage(ctx context.Context, stage sqlStage, env []string, r *score.Result) (string, error) {
	limit, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	//nolint:gosec // the program that was built for this
	cmd := exec.CommandContext(limit, filepath.Join(co.work, filepath.Base(contractTests)+".test"), append([]string{"-test.failfast", "-test.v"}, stage.flags...)...)
	cmd.Dir = filepath.Join(co.root, contractTests)
	// An interrupted test drops its database; a killed test can't.
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 30 * time.Second
	cmd.Env = slices.Concat(env, stage.env)
	text, err := cmd.CombinedOutput()
	out := string(text)
	if ctx.Err() != nil {
		return out, ctx.Err()
	}
	r.CPU += (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds()
	var exit *exec.ExitError
	switch {
	case limit.Err() != nil:
		r.By = score.Hang
	case errors.As(err, &exit):
		r.By, r.Message = score.Contract, firstFailure(out)
	case err != nil:
		return out, brokenError("running the contract: %v", err)
	case strings.Contains(out, "not run: "):
		return out, brokenError("the contract was not run: it needs PostgreSQL\n%s", out)
	}
	return out, nil
}

// firstFailure is the name of the failed case.
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
