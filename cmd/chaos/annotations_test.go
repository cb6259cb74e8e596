package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// lineOf returns the number of the line, from 1, in which part begins in text.
func lineOf(t *testing.T, text, part string) int {
	t.Helper()
	before, _, found := strings.Cut(text, part)
	if !found {
		t.Fatalf("no %q in\n%s", part, text)
	}
	return strings.Count(before, "\n") + 1
}

func TestFailureIsAnnotatedAtItsLine(t *testing.T) {
	text := strings.Replace(hopeless, "calm", "hopeless", 1)
	path := writeFile(t, "hopeless.yaml", text)
	args := []string{"run", path, "--profile", "hardened", "--seeds", "2", "--varied=never", "--quiet", "--out", t.TempDir()}
	t.Setenv("GITHUB_ACTIONS", "true")
	t.Setenv("GITHUB_WORKSPACE", filepath.Dir(path))
	want := fmt.Sprintf("\n::error file=hopeless.yaml,line=%d,title=hopeless (hardened)%%3A expectation::0 of 5 executions ended as failed; "+
		"the scenario expects failed: ", lineOf(t, text, "failed:"))
	s := runChaos(t, args...)
	s.expectOutput(t, 1, want, "2 of 2 seeds fail%0Areproduce: bin/chaos replay ")
	if n := strings.Count(s.out+s.err, "::error"); n != 1 {
		t.Errorf("%d annotations, want 1:\n%s%s", n, s.out, s.err)
	}
	// A run with a planted mutant is expected to fail, so it gets no annotation.
	s = runChaos(t, append(args, "--mutant", "same-name-orphans")...)
	if strings.Contains(s.out+s.err, "::error") {
		t.Errorf("a planted mutant is annotated:\n%s", s.out)
	}
	t.Setenv("GITHUB_ACTIONS", "")
	if s := runChaos(t, args...); strings.Contains(s.out+s.err, "::error") {
		t.Errorf("annotations outside of GitHub Actions:\n%s", s.out)
	}
}

func TestAnnotationsGoToRequestedFile(t *testing.T) {
	t.Setenv("GITHUB_ACTIONS", "")
	path := writeFile(t, "hopeless.yaml", strings.Replace(hopeless, "calm", "hopeless", 1))
	file := filepath.Join(t.TempDir(), "new", "annotations.txt")
	args := []string{"run", path, "--profile", "hardened", "--seed", "1", "--out", t.TempDir(), "--annotations"}
	runChaos(t, append(args, file)...).expectOutput(t, 1)
	written, err := os.ReadFile(file)
	if err != nil || !strings.HasPrefix(string(written), "::error file=") || strings.Count(string(written), "\n") != 1 {
		t.Errorf("%v, %s", err, written)
	}
	if s := runChaos(t, append(args, "-")...); s.out != string(written) || s.code != 1 {
		t.Errorf("standard output holds\n%s, want\n%s", s.out, written)
	}
	runChaos(t, append(args, "-", "--json", "-")...).expectOutput(t, 2, "--annotations is -, and so is --json or --junit")
}

// A broken invariant is annotated at the scenario's line that demands it, even for scenarios of the library
// and after merging shares.
func TestMergedSharesAreAnnotated(t *testing.T) {
	t.Setenv("GITHUB_ACTIONS", "")
	dir, _ := runShares(t, "run", "network-partition", "--seeds", "14", "--profile", "hardened", "--varied=never", "--mutant", "unguarded-claim", "--quiet")
	text, err := os.ReadFile(filepath.Join("..", "..", "scenarios", "order", "network-partition.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("::error file=scenarios/order/network-partition.yaml,line=%d,title=network-partition (hardened with mutant unguarded-claim)%%3A invariant ",
		lineOf(t, string(text), "invariants: all"))
	s := runChaos(t, "merge", dir, "--out", filepath.Join(t.TempDir(), "merged"), "--annotations", filepath.Join(dir, "a.txt"))
	s.expectOutput(t, 1)
	written, err := os.ReadFile(filepath.Join(dir, "a.txt"))
	if err != nil || !strings.HasPrefix(string(written), want) {
		t.Errorf("%v, %s, want %s", err, written, want)
	}
}
