package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"handoff/chaos/selftest/mutant/source/score"
	"handoff/chaos/shard"
)

// measured runs the program.
func measured(t *testing.T, args ...string) (code int, out, errs string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code = runProgram(t.Context(), args, &stdout, &stderr)
	return code, stdout.String(), stderr.String()
}

func TestContradictoryFlagsAreRefused(t *testing.T) {
	for flags, want := range map[string]string{
		"--sample 61":            "--sample 61: allowed are 300, and 60",
		"--varied-seeds -1":      "--varied-seeds -1: 0 or more",
		"--seeds 0":              "--seeds 0: at least 1",
		"--parallel 0":           "--parallel 0: at least 1",
		"--before x":             "add --table FILE",
		"--shard 3/2":            "the shares are counted from 1/2 to 2/2",
		"--sql --shard 1/2":      "statements are judged on one machine",
		"--shard 1/2 --table x":  "the page is made of all shares",
		"--table x nothing.json": "nothing.json: no results there",
		"--nothing":              "flag provided but not defined: -nothing",
	} {
		if code, out, errs := measured(t, strings.Fields(flags)...); code != 2 || !strings.Contains(errs, want) {
			t.Errorf("%s: exit %d, %s%s; want %q", flags, code, out, errs, want)
		}
	}
}

// A file without results is refused before anything is measured. With --again it is not read.
func TestFileWithoutResultsIsRefused(t *testing.T) {
	file := filepath.Join(t.TempDir(), "out.json")
	if err := os.WriteFile(file, []byte("{\n\tx"), 0o600); err != nil {
		t.Fatal(err)
	}
	want := file + ":2:2 has no results: invalid character 'x'"
	m := &measurement{root: t.TempDir(), options: options{file: file, err: io.Discard}}
	if _, err := m.openResults(); err == nil || !strings.HasPrefix(err.Error(), "--out "+want) || !strings.HasSuffix(err.Error(), "; --again forgets what is there, --out FILE writes to another file") {
		t.Errorf("%v, want %s", err, want)
	}
	m.again = true // continues to the source, which the folder does not have
	if _, err := m.openResults(); err == nil || strings.Contains(err.Error(), file) {
		t.Errorf("with --again: %v", err)
	}
	if code, _, errs := measured(t, "--table", "x", file); code != 2 || !strings.Contains(errs, want) {
		t.Errorf("exit %d, %s", code, errs)
	}
}

// A file that can't be written is refused before anything is measured. A measurement that is interrupted
// early reports that.
func TestMeasurementNeedsWritableFile(t *testing.T) {
	if testing.Short() {
		t.Skip("lists the candidates of the core")
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	inside := filepath.Join(file, "results.json")
	if code, _, errs := measured(t, "--again", "--out", inside); code != 2 || !strings.Contains(errs, "--out "+inside+" can't be written, so nothing is measured") {
		t.Errorf("exit %d, %s", code, errs)
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	err := measureSource(ctx, options{file: filepath.Join(t.TempDir(), "out.json"), sql: true, procs: 1, out: io.Discard, err: io.Discard})
	if err == nil || !strings.Contains(err.Error(), "interrupted before a mutant was judged") {
		t.Errorf("interrupted while it builds: %v", err)
	}
}

// results writes the results of some mutants, or of a share of them.
func results(t *testing.T, text string) string {
	t.Helper()
	part, err := shard.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	r := &score.Results{
		Seed: "seed", Core: "core", Commit: "commit", Size: score.Size{Seeds: 2, Varied: 1}, Asked: 5, Unjudged: []string{"calm (hardened, varied), seed 1"},
		// The numbers exceed what is measured here, because the proofs are about the real sample.
		Quotas: []score.Quota{{Operator: "guards", Quota: 6}}, LeftOut: map[string]int{"an init function": 2}, Results: map[string]*score.Result{},
	}
	for i, id := range shard.Part(part, []string{"e", "d", "c", "b", "a"}) {
		one := &score.Result{ID: id, Package: "core/worker", Operator: "guards", About: "about " + id, Reached: true, Runs: 7, CPU: float64(i)}
		if id < "c" {
			one.By, one.Target, one.Seed, one.Message = "invariant 4", "calm (hardened)", 2, "“x” was lost"
		}
		r.Results[id] = one
	}
	file := filepath.Join(t.TempDir(), "source.json")
	if err := r.Write(file); err != nil {
		t.Fatal(err)
	}
	return file
}

// .ci/shards does the same with mutants that are built and run.
func TestSharesAddUpToWhole(t *testing.T) {
	one, first, second := results(t, ""), results(t, "1/2"), results(t, "2/2")
	merged, page := filepath.Join(t.TempDir(), "merged", "source.json"), filepath.Join(t.TempDir(), "score.md")
	code, out, errs := measured(t, "--out", merged, "--table", page, "--before", one, second, first, second)
	if code != 0 || !strings.Contains(out, "2 of 5 mutants of the core's source killed: 40.0 %") {
		t.Errorf("exit %d, %s%s", code, out, errs)
	}
	want, err := os.ReadFile(one)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(merged); err != nil || !bytes.Equal(got, want) {
		t.Errorf("put together\n%s\nand one run wrote\n%s\n%v", got, want, err)
	}
	if text, err := os.ReadFile(page); err != nil || !strings.Contains(string(text), "| mutants | 5 of a sample of 6 |") || !strings.Contains(string(text), "| invariant 4 | 2 | 2 |") {
		t.Errorf("the page: %v\n%s", err, text)
	}
	if code, out, errs := measured(t, first); code != 3 || !strings.Contains(out, "1 of 3 mutants") || !strings.Contains(errs, "2 of 5 mutants have no result") {
		t.Errorf("without the second share: exit %d, %s%s", code, out, errs)
	}
}

func TestFirstLineNamesCrash(t *testing.T) {
	if got := firstLine("noise\npanic: runtime error: index out of range\n\ngoroutine 1"); got != "panic: runtime error: index out of range" {
		t.Errorf("%q", got)
	}
	if got := firstLine("measure: something\nmore"); got != "measure: something" {
		t.Errorf("%q", got)
	}
}

func TestFirstFailureIsInnermostCase(t *testing.T) {
	out := "=== RUN x\n--- FAIL: TestContract (3s)\n    --- FAIL: TestContract/claim/a_late_one (0.1s)\n"
	if got := firstFailure(out); got != "TestContract/claim/a_late_one (0.1s)" {
		t.Errorf("%q", got)
	}
	if !notTaken.MatchString(`ERROR: syntax error at or near "and" (SQLSTATE 42601)`) || notTaken.MatchString("SQLSTATE 23505") {
		t.Error("class 42 alone is what PostgreSQL does not take")
	}
}

// The results of two measurements of one commit belong together, although the first one has written
// the page.
func TestRevisionIgnoresScorePage(t *testing.T) {
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
	if err := os.Mkdir(filepath.Join(root, "docs"), 0o700); err != nil {
		t.Fatal(err)
	}
	write("docs/score.md", "1")
	write("core.go", "1")
	git("init", "-q")
	git("add", ".")
	git("commit", "-q", "-m", "first")
	clean := harnessRevision(root)
	write("docs/score.md", "2")
	if now := harnessRevision(root); now != clean {
		t.Errorf("with another page the harness is %s, want %s", now, clean)
	}
	write("core.go", "2")
	if now := harnessRevision(root); now != clean+"-dirty" {
		t.Errorf("with another core the harness is %s, want %s-dirty", now, clean)
	}
}
