//go:build !simulator

package main

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"handoff/chaos/selftest/mutant/source"
	"handoff/chaos/selftest/mutant/source/score"
	"handoff/chaos/shard"
	"handoff/sim/explore"
)

func TestWhatDoesNotGoWithSourceMutantsIsRefused(t *testing.T) {
	for flags, want := range map[string]string{
		"--source --sample 61":                              "--sample 61: allowed are 300, and 60",
		"--source --varied-seeds -1":                        "--varied-seeds -1: 0 or more",
		"--source --parallel 0":                             "--parallel 0: at least 1",
		"--source --before x":                               "add --table FILE",
		"--source --shard 1/2":                              "--report is needed, the folder that chaos merge reads",
		"--source --shard 3/2":                              "the shares are counted from 1/2 to 2/2",
		"--source --report x --out y":                       "leave out --out",
		"--source --all":                                    "--all is for planted mutants",
		"--all --matrix x":                                  "--all with --matrix: the table has every mutant anyway",
		"--source --sql --report x":                         "statements are judged on one machine",
		"--source --shard 1/2 --table x":                    "the page is made of all shares",
		"--sample 60":                                       "--sample is for mutants of the source: add --source",
		"--source --page-only":                              "--page-only runs nothing: give --table FILE",
		"--source --page-only --table x --out nothing.json": "--out nothing.json: no results there",
		"--varied-seeds 1":                                  "--varied-seeds is for mutants of the source: add --source",
	} {
		chaos(t, append([]string{"mutants"}, strings.Fields(flags)...)...).wants(t, 2, want)
	}
}

// A file that is none of results is refused before anything is measured, and not read with
// --again.
func TestAFileWithoutResultsIsRefused(t *testing.T) {
	file := filepath.Join(t.TempDir(), "out.json")
	if err := os.WriteFile(file, []byte("{\n\tx"), 0o600); err != nil {
		t.Fatal(err)
	}
	want := "--out " + file + ":2:2 has no results: invalid character 'x'"
	m := &measurement{app: &app{err: newTerminal(new(bytes.Buffer))}, root: t.TempDir(), sourceOptions: &sourceOptions{file: file}}
	if _, err := m.open(); err == nil || !strings.HasPrefix(err.Error(), want) || !strings.HasSuffix(err.Error(), "; --again forgets what is there, --out FILE writes to another file") {
		t.Errorf("%v, want %s", err, want)
	}
	m.again = true // goes on to the source, of which the folder has none
	if _, err := m.open(); err == nil || strings.Contains(err.Error(), file) {
		t.Errorf("with --again: %v", err)
	}
	chaos(t, "mutants", "--source", "--page-only", "--table", "x", "--out", file).wants(t, 2, want)
}

// A file that can't be written is refused before anything is measured, and a measurement that is
// interrupted early says so.
func TestAMeasurementThatCanKeepNothingDoesNotBegin(t *testing.T) {
	leaveToMakeTest(t)
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	inside := filepath.Join(file, "results.json")
	chaos(t, "mutants", "--source", "--again", "--out", inside).wants(t, 2, "--out "+inside+" can't be written, so nothing is measured")
	ctx, stop := context.WithCancel(t.Context())
	stop()
	err := (&app{err: newTerminal(new(bytes.Buffer))}).sourceMutants(ctx, &sourceOptions{file: filepath.Join(t.TempDir(), "out.json"), sql: true, procs: 1})
	if err == nil || !strings.Contains(err.Error(), "interrupted before a mutant was judged") {
		t.Errorf("interrupted while it builds: %v", err)
	}
}

// measured are the results of some mutants, or of a share of them, in the form of a measurement.
func measured(t *testing.T, text string) string {
	t.Helper()
	part, err := share(text)
	if err != nil {
		t.Fatal(err)
	}
	m := &measurement{
		sourceOptions: &sourceOptions{share: part, report: t.TempDir(), header: func() (shard.Header, error) {
			return shard.Header{Share: part, Commit: explore.Commit(), Asked: map[string]string{}}, nil
		}},
		results: &score.Results{
			Seed: "seed", Core: "core", Commit: "commit", Size: score.Size{Seeds: 2, Varied: 1}, Unjudged: []string{"calm (hardened, varied), seed 1"},
			// More than is measured here, because the proofs are about the real sample.
			Quotas: []score.Quota{{Operator: "guards", Quota: 6}}, LeftOut: map[string]int{"an init function": 2}, Results: map[string]*score.Result{},
		},
	}
	for i := range 5 {
		m.whole = append(m.whole, &source.Candidate{ID: string(rune('e' - i)), Package: "core/worker", Operator: "guards"})
	}
	m.order = shard.Part(part, m.whole)
	for i, c := range m.order {
		r := &score.Result{ID: c.ID, Package: c.Package, Operator: c.Operator, About: "about " + c.ID, Reached: true, Runs: 7, CPU: float64(i)}
		if c.ID < "c" {
			r.By, r.Target, r.Seed, r.Message = "invariant 4", "calm (hardened)", 2, "“x” was lost"
		}
		m.results.Results[c.ID] = r
	}
	if err := m.results.Write(filepath.Join(m.report, sourceFile)); err != nil {
		t.Fatal(err)
	}
	if err := m.writeShare(); err != nil {
		t.Fatal(err)
	}
	return m.report
}

// make shards does this with mutants that are built and run.
func TestSharesOfSourceMutantsMergeToTheBytesOfOneRun(t *testing.T) {
	one, first, second := measured(t, ""), measured(t, "1/2"), measured(t, "2/2")
	out := filepath.Join(t.TempDir(), "merged")
	chaos(t, "merge", second, first, filepath.Join(second, shard.FileName), "--out", out).wants(t, 0, "2 of 5 mutants of the core's source killed: 40.0 %")
	want, err := os.ReadFile(filepath.Join(one, sourceFile))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(filepath.Join(out, sourceFile)); err != nil || !bytes.Equal(got, want) {
		t.Errorf("merged to\n%s\nand one run wrote\n%s\n%v", got, want, err)
	}
	page := filepath.Join(t.TempDir(), "score.md")
	chaos(t, "mutants", "--source", "--out", filepath.Join(out, sourceFile), "--page-only", "--table", page, "--before", filepath.Join(one, sourceFile)).wants(t, 0, "40.0 %")
	if text, err := os.ReadFile(page); err != nil || !strings.Contains(string(text), "| mutants | 5 of a sample of 6 |") || !strings.Contains(string(text), "| invariant 4 | 2 | 2 |") {
		t.Errorf("the page of what was merged: %v\n%s", err, text)
	}
	chaos(t, "merge", first, "--out", out).wants(t, 2, "1 share is missing of 2")
	chaos(t, "merge", first, "--partial", "--out", out).wants(t, 3, "1 of 3 mutants", "without share 2/2")
}

func TestWhatBrokeAProgramIsItsFirstLine(t *testing.T) {
	if got := firstLine("noise\npanic: runtime error: index out of range\n\ngoroutine 1"); got != "panic: runtime error: index out of range" {
		t.Errorf("%q", got)
	}
	if got := firstLine("chaos: something\nmore"); got != "chaos: something" {
		t.Errorf("%q", got)
	}
}

func TestTheFailedCaseIsTheInnermostOne(t *testing.T) {
	out := "=== RUN x\n--- FAIL: TestContract (3s)\n    --- FAIL: TestContract/claim/a_late_one (0.1s)\n"
	if got := firstFailure(out); got != "TestContract/claim/a_late_one (0.1s)" {
		t.Errorf("%q", got)
	}
	if !notTaken.MatchString(`ERROR: syntax error at or near "and" (SQLSTATE 42601)`) || notTaken.MatchString("SQLSTATE 23505") {
		t.Error("class 42 alone is what PostgreSQL does not take")
	}
}

func TestRevisionShowsChangedFiles(t *testing.T) {
	root := t.TempDir()
	git := func(args ...string) {
		t.Helper()
		with := append([]string{"-C", root, "-c", "user.name=t", "-c", "user.email=t@example.org"}, args...)
		if out, err := exec.Command("git", with...).CombinedOutput(); err != nil { //nolint:gosec // fixed commands
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	write := func(path, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(root, path), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("core.go", "1")
	git("init", "-q")
	git("add", ".")
	git("commit", "-q", "-m", "first")
	clean := revision(root)
	write("core.go", "2")
	if now := revision(root); now != clean+"-dirty" {
		t.Errorf("with another core the harness is %s, want %s-dirty", now, clean)
	}
}
