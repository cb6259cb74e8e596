package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"handoff/chaos/shard"
	"handoff/sim/explore"
)

// runShares runs a command in four shares, and returns their folders.
func runShares(t *testing.T, args ...string) (dir string, folders []string) {
	t.Helper()
	dir = t.TempDir()
	for i := range 4 {
		folder := filepath.Join(dir, fmt.Sprint(i+1))
		folders = append(folders, folder)
		s := runChaos(t, append(args, "--shard", fmt.Sprintf("%d/4", i+1), folderFlag(args), folder)...)
		if s.code != 0 && s.code != 1 {
			t.Fatalf("exit %d\n%s%s", s.code, s.out, s.err)
		}
	}
	return dir, folders
}

// folderFlag returns the flag that sets a command's output folder.
func folderFlag(args []string) string {
	if args[0] == "mutants" {
		return "--report"
	}
	return "--out"
}

// sameFiles compares two reports except for durations.
func sameFiles(t *testing.T, want, got string) {
	t.Helper()
	files := 0
	for _, pair := range [][2]string{{want, got}, {got, want}} {
		err := filepath.WalkDir(pair[0], func(path string, d os.DirEntry, err error) error {
			if err != nil || d.IsDir() || d.Name() == "timing.json" {
				return err
			}
			name, err := filepath.Rel(pair[0], path)
			if err != nil {
				return err
			}
			a, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			b, err := os.ReadFile(filepath.Join(pair[1], name))
			if !bytes.Equal(a, b) {
				t.Errorf("%s of %s and %s differ: %v", name, pair[0], pair[1], err)
			}
			files++
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if files < 8 {
		t.Errorf("%d files were compared", files)
	}
}

// One of the three scenarios fails, so that records are merged too. .ci/shards does this with the whole
// library.
func TestFourSharesMergeByteForByte(t *testing.T) {
	skipInMakeCheck(t)
	args := []string{"run", "ttl-race", "worker-stops-mid-execution", "network-partition", "--mutant", "unguarded-monitor", "--seeds", "8"}
	one := filepath.Join(t.TempDir(), "one")
	whole := runChaos(t, append(args, "--out", one)...)
	whole.expectOutput(t, 1, "FAIL ttl-race (hardened)")
	dir, folders := runShares(t, args...)
	merged := filepath.Join(t.TempDir(), "merged")
	s := runChaos(t, "merge", dir, "--out", merged)
	s.expectOutput(t, 1, "FAIL ttl-race (hardened)", "fail: 54 runs", "with the mutant unguarded-monitor planted", "share 4/4: ")
	sameFiles(t, one, merged)

	// Repeat the second share, and pass the shares in another order, the third one twice.
	again := filepath.Join(t.TempDir(), "again")
	runChaos(t, append(args, "--shard", "2/4", "--out", again)...).expectOutput(t, 1)
	merged = filepath.Join(t.TempDir(), "merged")
	runChaos(t, "merge", again, folders[3], folders[2], folders[1], filepath.Join(folders[2], shard.FileName), folders[0], "--out", merged).expectOutput(t, 1)
	sameFiles(t, one, merged)
}

// With two runs in three shares one share is empty, and merge accepts it.
func TestShareMayBeEmpty(t *testing.T) {
	path := writeFile(t, "calm.yaml", strings.Replace(calm, ", documented", "", 1))
	for i, runs := range []string{"pass: 1 run,", "pass: 1 run,", "pass: 0 runs,"} {
		runChaos(t, "run", path, "--seeds", "2", "--varied=never", "--quiet", "--shard", fmt.Sprintf("%d/3", i+1), "--out", t.TempDir()).expectOutput(t, 0, runs)
	}
}

func TestMissingSharesAreNamed(t *testing.T) {
	dir, folders := runShares(t, "run", writeFile(t, "calm.yaml", calm), "--seeds", "8", "--varied=never", "--quiet")
	out := filepath.Join(t.TempDir(), "merged")
	runChaos(t, "merge", dir, "--out", out).expectOutput(t, 0, "calm      hardened    8 ", "pass: 16 runs")
	for _, folder := range []string{folders[1], folders[3]} {
		if err := os.RemoveAll(folder); err != nil {
			t.Fatal(err)
		}
	}
	runChaos(t, "merge", dir, "--out", out).expectOutput(t, 2, "2 shares are missing of 4: give what 2/4 and 4/4 wrote too, or --partial")
	runChaos(t, "merge", dir, "--out", out, "--partial").expectOutput(t, 3, "inconclusive: 8 runs")
	for _, file := range []string{"summary.md", "index.html"} {
		text, err := os.ReadFile(filepath.Join(out, file))
		if err != nil || !strings.Contains(string(text), "without share 2/4 and 4/4") || !strings.Contains(string(text), "stopped after 4 of 8 seeds") {
			t.Errorf("%s does not name the missing shares: %v", file, err)
		}
	}
	runChaos(t, "merge", dir, "--out", out, "--wait", "10ms").expectOutput(t, 2, "2/4 and 4/4")
	runChaos(t, "merge", dir, "--out", folders[0]).expectOutput(t, 2, "2 shares are missing")
	runChaos(t, "merge", dir, "--partial", "--out", folders[0]).expectOutput(t, 2, "is the folder of a share")
	runChaos(t, "merge").expectOutput(t, 2, "merge needs the folders of the shares")
	runChaos(t, "merge", t.TempDir()).expectOutput(t, 2, "no share in ")
	runChaos(t, "merge", filepath.Join(dir, "7")).expectOutput(t, 2, "no such share: ")
}

// triggerWriter is a writer that calls do once, when a given text is written.
type triggerWriter struct {
	bytes.Buffer
	text string
	do   func()
}

// Write implements io.Writer.
func (t *triggerWriter) Write(p []byte) (int, error) {
	n, err := t.Buffer.Write(p)
	if t.do != nil && strings.Contains(t.String(), t.text) {
		t.do()
		t.do = nil
	}
	return n, err
}

func TestMergeWaitsForTheLastShare(t *testing.T) {
	dir, folders := runShares(t, "run", writeFile(t, "calm.yaml", calm), "--seeds", "4", "--varied=never", "--quiet")
	late := filepath.Join(t.TempDir(), "late")
	if err := os.Rename(folders[2], late); err != nil {
		t.Fatal(err)
	}
	// The last share appears after the other shares were found, and its file is incomplete at first.
	half := filepath.Join(folders[2], shard.FileName)
	stderr := &triggerWriter{text: "share 4/4: ", do: func() {
		if err := os.MkdirAll(folders[2], 0o755); err != nil {
			t.Error(err)
		}
		if err := os.WriteFile(half, []byte(`{"schema":1`), 0o600); err != nil {
			t.Error(err)
		}
	}}
	var out bytes.Buffer
	if code := runArgs(t.Context(), []string{"merge", dir, "--wait", "200ms", "--out", filepath.Join(t.TempDir(), "merged")}, &out, stderr); code != 2 || !strings.Contains(stderr.String(), half+": it has no last line") {
		t.Errorf("exit %d\n%s%s", code, out.String(), stderr.String())
	}
	if err := os.RemoveAll(folders[2]); err != nil {
		t.Fatal(err)
	}
	stderr = &triggerWriter{text: "share 4/4: ", do: func() {
		if err := os.Rename(late, folders[2]); err != nil {
			t.Error(err)
		}
	}}
	if code := runArgs(t.Context(), []string{"merge", dir, "--wait", "10s", "--out", filepath.Join(t.TempDir(), "merged")}, &out, stderr); code != 0 || !strings.Contains(out.String(), "pass: 8 runs") {
		t.Errorf("exit %d\n%s%s", code, out.String(), stderr.String())
	}
}

func TestSharesOfDifferentJobsAreRefused(t *testing.T) {
	path := writeFile(t, "calm.yaml", calm)
	_, folders := runShares(t, "run", path, "--seeds", "4", "--varied=never", "--quiet")
	other := func(args ...string) string {
		out := filepath.Join(t.TempDir(), "other")
		runChaos(t, append([]string{"run", "--quiet", "--shard", "2/4", "--out", out}, args...)...).expectOutput(t, 0)
		return out
	}
	merge := func(with string) commandOutput {
		return runChaos(t, "merge", folders[0], folders[2], folders[3], with, "--out", filepath.Join(t.TempDir(), "merged"))
	}
	merge(other(path, "--seeds", "8", "--varied=never")).expectOutput(t, 2, "are not of one job: --seeds is ", "merge what one commit, one Go and one command line made")
	merge(other(writeFile(t, "calm.yaml", strings.Replace(calm, "count: 5", "count: 6", 1)), "--seeds", "4", "--varied=never")).expectOutput(t, 2, "the digest of the scenarios is ")
	merge(other(path, "--seeds", "4", "--varied=never", "--profile", "hardened")).expectOutput(t, 2, "--profile is ")

	changed := filepath.Join(folders[1], shard.FileName)
	text, err := os.ReadFile(changed)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(changed, bytes.Replace(text, []byte(`"Steps":`), []byte(`"Steps":1`), 1), 0o600); err != nil {
		t.Fatal(err)
	}
	merge(folders[1]).expectOutput(t, 2, "shard.jsonl: its lines are not those that were written")
}

func TestInvalidShardFlagsAreRefused(t *testing.T) {
	out := t.TempDir()
	runChaos(t, "run", "ttl-race", "--shard", "5/4", "--out", out).expectOutput(t, 2, "counted from 1/4 to 4/4")
	runChaos(t, "run", "ttl-race", "--shard", "half", "--out", out).expectOutput(t, 2, "write i/n, as in 2/4")
	runChaos(t, "run", "ttl-race", "--world", "live", "--shard", "1/4", "--out", out).expectOutput(t, 2, "--shard is for the simulated world")
	runChaos(t, "mutants", "--shard", "1/4").expectOutput(t, 2, "--report is needed, the folder that chaos merge reads")
}

// A single share does not judge sweep-wide conditions; merge does.
func TestShareLeavesSweepConditionsToMerge(t *testing.T) {
	dir, folders := runShares(t, "run", writeFile(t, "idle.yaml", idle), "--seeds", "4", "--varied=never", "--quiet")
	runChaos(t, "merge", dir, "--out", filepath.Join(t.TempDir(), "merged")).expectOutput(t, 3, "did not fire in any of 4 runs")
	text, err := os.ReadFile(filepath.Join(folders[0], "summary.md"))
	if err != nil || !strings.Contains(string(text), "This is share 1/4 of the runs.") {
		t.Errorf("%v\n%s", err, text)
	}
}

// A failure is printed during the sweep, so that a reader of the log can begin with it.
func TestFailureIsReportedImmediately(t *testing.T) {
	path := writeFile(t, "hopeless.yaml", strings.Replace(hopeless, "calm", "hopeless", 1))
	args := []string{"run", path, "--profile", "hardened", "--seeds", "2", "--varied=never", "--shard", "2/2", "--out", t.TempDir()}
	line := "FAIL hopeless (hardened) in seed 2, the first to end: expectation; reproduce: bin/chaos replay " + path + " --profile hardened --seed 2\n"
	if s := runChaos(t, args...); !strings.Contains(s.err, line) {
		t.Errorf("no %q in\n%s", line, s.err)
	}
}

func TestSharesOfMutantsMerge(t *testing.T) {
	skipInMakeCheck(t)
	// Some mutants break a rule even in a calm run.
	args := []string{"mutants", "--scenario", writeFile(t, "calm.yaml", strings.Replace(calm, ", documented", "", 1)), "--seeds", "1"}
	one := filepath.Join(t.TempDir(), "one")
	code := runChaos(t, append(args, "--report", one)...).code
	dir, folders := runShares(t, args...)
	merged := filepath.Join(t.TempDir(), "merged")
	s := runChaos(t, "merge", dir, folders[0], "--out", merged)
	s.expectOutput(t, code, "mutants killed by the invariant that is named for them", filepath.Join(merged, "mutants.json"))
	want, err := os.ReadFile(filepath.Join(one, "mutants.json"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(want), `"result": "killed"`) {
		t.Error("nothing was killed: the test compares too little")
	}
	if got, err := os.ReadFile(filepath.Join(merged, "mutants.json")); err != nil || !bytes.Equal(got, want) {
		t.Errorf("mutants.json differs: %v\n%s", err, got)
	}
	if err := os.RemoveAll(folders[2]); err != nil {
		t.Fatal(err)
	}
	runChaos(t, "merge", dir, "--out", merged).expectOutput(t, 2, "1 share is missing of 4: give what 3/4 wrote too")
}

// rewriteShares rewrites shares as if another program had written them.
func rewriteShares(t *testing.T, folders []string, change func(*shard.Header)) {
	t.Helper()
	for _, folder := range folders {
		path := filepath.Join(folder, shard.FileName)
		var items []any
		f, err := shard.Verify(path)
		if err != nil {
			t.Fatal(err)
		}
		var aside any
		if err := shard.Each(f, &aside, func(item map[string]any) error { items = append(items, item); return nil }); err != nil {
			t.Fatal(err)
		}
		h := f.Header
		change(&h)
		var b bytes.Buffer
		if err := shard.Write(&b, h, items, map[string]any{}); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func TestSharesOfAnotherProgramAreRefused(t *testing.T) {
	dir, folders := runShares(t, "run", writeFile(t, "calm.yaml", calm), "--seeds", "4", "--varied=never", "--quiet")
	out := filepath.Join(t.TempDir(), "merged")
	rewriteShares(t, folders[1:2], func(h *shard.Header) { h.Go = "go9" })
	runChaos(t, "merge", dir, "--out", out).expectOutput(t, 2, "are not of one job: the version of Go is go1", "and go9 in the second")
	rewriteShares(t, folders, func(h *shard.Header) { h.Go, h.Commit = "go9", "0123abc" })
	runChaos(t, "merge", dir, "--out", out).expectOutput(t, 2, "is of commit 0123abc, and this program of ", "merge with the program that ran the shares")
	rewriteShares(t, folders, func(h *shard.Header) { h.Commit, h.Kind = explore.Commit(), "dance" })
	runChaos(t, "merge", dir, "--out", out).expectOutput(t, 2, `this program can't merge shares of kind "dance"`)
}

// The share is interrupted when the first failure is printed, after the first run.
func TestInterruptedShareMakesMergeIncomplete(t *testing.T) {
	args := []string{"run", writeFile(t, "hopeless.yaml", strings.Replace(hopeless, "calm", "hopeless", 1)), "--seeds", "40", "--varied=never"}
	dir, folders := runShares(t, args...)
	again := filepath.Join(t.TempDir(), "again")
	ctx, cancel := context.WithCancel(t.Context())
	var out bytes.Buffer
	code := runArgs(ctx, append(args, "--shard", "2/4", "--out", again), &out, &triggerWriter{text: "FAIL ", do: cancel})
	if code != 1 || !strings.Contains(out.String(), "Interrupted") {
		t.Fatalf("exit %d\n%s", code, out.String())
	}
	runChaos(t, "merge", dir, again).expectOutput(t, 2, "are both share 2/4, of the same commit, and say different things: was one of them interrupted or changed?")
	if err := os.RemoveAll(folders[1]); err != nil {
		t.Fatal(err)
	}
	merged := filepath.Join(t.TempDir(), "merged")
	runChaos(t, "merge", dir, again, "--out", merged).expectOutput(t, 1, "Interrupted")
	if text, err := os.ReadFile(filepath.Join(merged, "summary.md")); err != nil || !strings.Contains(string(text), "of 40 seeds") {
		t.Errorf("the requested number of seeds is not mentioned: %v\n%s", err, text)
	}
}
